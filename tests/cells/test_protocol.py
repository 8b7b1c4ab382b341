"""Tests all cells inside Keras' layers, files and models."""

import json
from functools import partial

import keras
import numpy as np
import pytest
from language_models import stepped
from layers import arrays
from layers import assert_arguments_survive
from layers import assert_close
from layers import dtype_of
from layers import initializers
from layers import layer_of
from layers import revived
from layers import uniform

from memlm_keras import LanguageModel
from memlm_keras import cells
from memlm_keras.cells import ProjectedRNN

pytestmark = pytest.mark.backend

UNITS, INPUTS = 4, 3
LARGE = initializers()
MEMORY = {"num_copies": 3, "kernel_initializer": uniform()}


def wrapping(kind, inner):
    """Returns a function that wraps a Keras cell in a cell with a memory."""
    return lambda **given: kind(inner(UNITS, **LARGE, **given), **MEMORY)


NETWORK = partial(cells.LSTMNetworkCell, UNITS, 3, kernel_initializer=uniform())
CELLS = {
    "zoneout": partial(cells.ZoneoutLSTMCell, UNITS, 0.4, 0.25, **LARGE),
    "dropout_lstm": partial(
        cells.RecurrentDropoutLSTMCell, UNITS, 0.4, **LARGE
    ),
    "dropout_gru": partial(cells.RecurrentDropoutGRUCell, UNITS, 0.4, **LARGE),
    "fofe": partial(cells.FOFEHORNNCell, UNITS, **LARGE),
    "gated": partial(cells.GatedHORNNCell, UNITS, **LARGE),
    "memory_gru": partial(cells.AssociativeGRUCell, UNITS, **MEMORY),
    "dual_gru": partial(
        cells.DualAssociativeGRUCell, UNITS, source_key="separate", **MEMORY
    ),
    "memory_lstm": wrapping(cells.AssociativeMemoryCell, keras.layers.LSTMCell),
    "dual_simple": wrapping(
        cells.DualAssociativeMemoryCell, keras.layers.SimpleRNNCell
    ),
    "network": NETWORK,
    "fusion": partial(NETWORK, fusion=True),
}
every_cell = pytest.mark.parametrize("name", CELLS)

# Each row has three valid steps: at the front, or with gaps.
MASKS = np.array([[1, 1, 1, 0, 0], [0, 1, 0, 1, 1]], "bool")


@pytest.fixture
def inputs(random):
    return random.normal(size=(2, 5, INPUTS)).astype("float32")


@pytest.mark.backend(one_in=5)
@every_cell
@pytest.mark.parametrize("go_backwards", [False, True])
def test_keras_rnn_gives_the_same(name, go_backwards, inputs, random):
    cell = CELLS[name]()
    sizes = keras.tree.flatten(cell.state_size)
    states = [
        random.uniform(-1, 1, size=(2, size)).astype("float32")
        for size in sizes
    ]
    found, expected = (
        layer_of(cell, kind, go_backwards=go_backwards)(
            inputs, initial_state=states, mask=MASKS if go_backwards else None
        )
        for kind in (ProjectedRNN, keras.layers.RNN)
    )
    assert_close(found, expected, atol=1e-5)


def test_zeros_at_masked_steps(inputs):
    cell = CELLS["fofe"]()
    found, expected = (
        layer_of(cell, kind, zero_output_for_mask=True)(inputs, mask=MASKS)
        for kind in (ProjectedRNN, keras.layers.RNN)
    )
    np.testing.assert_array_equal(arrays(found[0])[~MASKS], 0.0)
    assert_close(found, expected)


@pytest.mark.backend(one_in=3)
@every_cell
def test_masked_steps_are_passed_over(name, inputs):
    layer = layer_of(CELLS[name]())
    outputs, *states = arrays(layer(inputs, mask=MASKS))
    alone, *expected = arrays(layer(inputs[MASKS].reshape(2, 3, INPUTS)))
    assert_close(outputs[MASKS].reshape(2, 3, -1), alone)
    assert_close(states, expected)
    # At a masked step, a layer repeats the output of the previous step.
    np.testing.assert_array_equal(outputs[0, 2:4], outputs[0, 3:])
    np.testing.assert_array_equal(outputs[1, 1], outputs[1, 2])


@pytest.mark.backend(one_in=3)
@every_cell
def test_files(name, inputs, reloaded):
    layer = ProjectedRNN(CELLS[name](), name="layer")
    assert type(revived(layer).cell) is type(layer.cell)
    model = keras.Sequential([keras.Input((5, INPUTS)), layer])
    loaded = reloaded(model)
    assert_close(loaded(inputs), model(inputs), rtol=0, atol=1e-6)
    found, expected = (
        json.dumps(each.cell.get_config()) for each in (loaded.layers[0], layer)
    )
    assert found == expected


@pytest.mark.backend(one_in=3)
@every_cell
def test_a_language_model_streams(name, random):
    model = LanguageModel(11, 4, [CELLS[name]()])
    tokens = random.integers(11, size=(2, 6)).astype("int32")
    whole = arrays(model(tokens))
    assert_close(stepped(model, tokens)[0], whole)


@pytest.mark.backend(one_in=5)
@every_cell
@pytest.mark.parametrize("dtype", ["float16", "mixed_bfloat16"])
def test_lower_precision(name, dtype, inputs):
    layer = layer_of(CELLS[name](dtype=dtype))
    outputs, *_ = layer(inputs, training=dtype != "float16")
    assert dtype_of(outputs) == layer.compute_dtype
    assert np.all(np.isfinite(arrays(keras.ops.cast(outputs, "float32"))))


INITIALIZERS = initializers(0.3)
OF_MEMORY = {"num_copies": 2, "seed": 11, "key": "unit"}
OF_MEMORY["kernel_initializer"] = uniform(1, 0.3)
OF_DUAL = {"source_key": "separate", **OF_MEMORY}


@pytest.mark.backend("torch")
@pytest.mark.parametrize(
    "kind, arguments",
    [
        (cells.ZoneoutLSTMCell, {"cell_zoneout": 0.3, "hidden_zoneout": 0.2}),
        (cells.RecurrentDropoutLSTMCell, {"rate": 0.3, "masks": "sequence"}),
        (cells.RecurrentDropoutGRUCell, {"rate": 0.3, "masks": "sequence"}),
        (
            cells.FOFEHORNNCell,
            {"order": 2, "forgetting_factor": 0.4, **INITIALIZERS},
        ),
        (cells.GatedHORNNCell, {"order": 2, **INITIALIZERS}),
        (cells.AssociativeGRUCell, {"update_bias": -1.0, **OF_MEMORY}),
        (cells.DualAssociativeGRUCell, {"update_bias": -1.0, **OF_DUAL}),
        (cells.AssociativeMemoryCell, OF_MEMORY),
        (cells.DualAssociativeMemoryCell, OF_DUAL),
        (
            cells.LSTMNetworkCell,
            {
                "window": 2,
                "fusion": True,
                "kernel_initializer": uniform(1, 0.3),
            },
        ),
    ],
)
def test_every_argument_survives_its_configuration(kind, arguments):
    wraps = kind.__name__.endswith("AssociativeMemoryCell")
    size = {"cell": keras.layers.GRUCell(6)} if wraps else {"units": 6}
    arguments = {**size, **arguments}
    _, other = assert_arguments_survive(kind, arguments, name="cell")
    assert other.name == "cell"
    for name, value in arguments.items():
        if isinstance(value, (int, float, str)):
            assert getattr(other, name) == value


@pytest.mark.backend("torch")
@pytest.mark.parametrize(
    "kind, other",
    [
        (cells.FOFEHORNNCell, "order"),
        (cells.GatedHORNNCell, "order"),
        (cells.AssociativeGRUCell, "num_copies"),
        (cells.LSTMNetworkCell, "window"),
    ],
)
def test_sizes_are_integers(kind, other):
    for argument in ("units", other):
        for wrong in (0, -1, 2.0, "3", None):
            with pytest.raises(
                ValueError, match=f"`{argument}` must be an integer.*Received: "
            ):
                kind(**{"units": 4, argument: wrong})
