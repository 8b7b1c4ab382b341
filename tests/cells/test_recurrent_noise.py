"""Tests zoneout and recurrent dropout."""

import keras
import numpy as np
import pytest
from hypothesis import strategies as st
from layers import arrays
from layers import assert_cell_gradients
from layers import assert_close
from layers import given_sizes
from layers import initializers
from layers import layer_of

from memlm_keras import LanguageModel
from memlm_keras.cells import ProjectedRNN
from memlm_keras.cells import RecurrentDropoutGRUCell
from memlm_keras.cells import RecurrentDropoutLSTMCell
from memlm_keras.cells import ZoneoutLSTMCell
from memlm_keras.data import SentenceBatches
from references import recurrent_noise as reference

pytestmark = pytest.mark.backend

LSTM, GRU = keras.layers.LSTM, keras.layers.GRU
RATES = (0.4, 0.25)
RATE = {"rate": RATES[0]}
ZONEOUT = {"cell_zoneout": RATES[0], "hidden_zoneout": RATES[1]}
CELLS = {
    "zoneout": (ZoneoutLSTMCell, ZONEOUT, LSTM),
    "recurrent_dropout_lstm": (RecurrentDropoutLSTMCell, RATE, LSTM),
    "recurrent_dropout_gru": (RecurrentDropoutGRUCell, RATE, GRU),
}
every_cell = pytest.mark.parametrize("name", CELLS)


def make(name, units, input_dim=None, **arguments):
    """Returns a cell whose weights are large and differ from each other."""
    kind, rates, _ = CELLS[name]
    cell = kind(units, **{**initializers(), **rates, **arguments})
    if input_dim:
        cell.build((None, input_dim))
    return cell


def random_arrays(name, seed, batch_size, time, input_dim, units):
    """Draws inputs, states and noise that the cell itself could draw."""
    random = np.random.default_rng(seed)
    states = 1 if "gru" in name else 2
    noise_units = 2 * units if name == "zoneout" else units
    noise = random.integers(2, size=(batch_size, time, noise_units))
    scale = 1.0 if name == "zoneout" else 1 / 0.6
    return (
        random.normal(size=(batch_size, time, input_dim)).astype("float32"),
        [
            random.uniform(-1, 1, size=(batch_size, units)).astype("float32")
            for _ in range(states)
        ],
        (scale * noise).astype("float32"),
    )


@every_cell
@pytest.mark.parametrize("training", [False, True])
@given_sizes(input_dim=st.integers(1, 4), units=st.integers(1, 4))
def test_it_equals_the_reference(
    name, training, compiled, batch_size, time, input_dim, units, seed
):
    cell = make(name, units, input_dim)
    inputs, states, noise = random_arrays(
        name, seed, batch_size, time, input_dim, units
    )
    cell.noise = lambda inputs: keras.ops.convert_to_tensor(noise)
    layer = layer_of(cell)
    read = compiled(
        lambda x, states: layer(x, initial_state=states, training=training)
    )
    outputs, *found_states = arrays(read(inputs, states))
    expected, expected_states = getattr(reference, name)(
        inputs.astype("float64"),
        [weight.astype("float64") for weight in cell.get_weights()],
        states,
        noise if training else None,
        RATES,
    )
    assert_close((outputs, found_states), (expected, expected_states))


@pytest.mark.backend(one_in=2)
@every_cell
def test_without_noise_it_is_the_layer_of_keras(name, random):
    kind, rates, keras_layer = CELLS[name]
    arguments = {"reset_after": False} if "gru" in name else {}
    theirs = keras_layer(5, **arguments)
    theirs.build((None, None, 4))
    ours = ProjectedRNN(kind(5, **dict.fromkeys(rates, 0.0)))
    ours.build((None, None, 4))
    # The initial bias of the forget gate is 1.
    own, other = (arrays(each.weights[-1]) for each in (ours, theirs))
    np.testing.assert_array_equal(own, other)
    ours.set_weights(theirs.get_weights())
    inputs = random.normal(size=(2, 6, 4)).astype("float32")
    found = ours(inputs, training=True)
    assert_close(found, theirs(inputs), rtol=1e-5, atol=1e-6)


@every_cell
def test_a_single_step_is_not_trained(name):
    cell = make(name, 5, 4)
    inputs = np.ones((2, 4), "float32")
    with pytest.raises(ValueError, match="trained inside .*ProjectedRNN"):
        cell(inputs, cell.get_initial_state(2), training=True)


@every_cell
def test_gradients_equal_finite_differences(name, gradients):
    cell = make(name, 2, 3)
    inputs, states, noise = random_arrays(name, 1, 2, 4, 3, 2)
    cell.noise = lambda inputs: keras.ops.convert_to_tensor(noise)

    def expected(inputs, states, weights):
        run = getattr(reference, name)
        return run(inputs, weights, states, noise, RATES)[0]

    assert_cell_gradients(
        gradients, cell, inputs, states, expected, training=True
    )


def test_each_unit_is_kept_with_its_probability():
    cell = make("zoneout", 50)
    noise = arrays(cell.noise(np.zeros((40, 30, 3), "float32")))
    assert noise.shape == (40, 30, 100)
    assert set(np.unique(noise)) == {0.0, 1.0}
    for part, rate in zip(np.split(noise, 2, axis=-1), RATES):
        np.testing.assert_allclose(part.mean(), rate, atol=0.02)
        # The cell draws other noise for each row and each step.
        for axis in (0, 1):
            assert (part != np.roll(part, 1, axis)).mean() > rate
    assert (noise[..., :50] != noise[..., 50:]).any()


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("masks", ["step", "sequence"])
def test_masks_of_recurrent_dropout(kind, masks):
    cell = make(f"recurrent_dropout_{kind}", 50, masks=masks)
    noise = arrays(cell.noise(np.zeros((40, 30, 3), "float32")))
    assert noise.shape == (40, 30, 50)
    np.testing.assert_allclose(np.unique(noise), [0, 1 / 0.6], rtol=1e-6)
    np.testing.assert_allclose(noise.mean(), 1.0, atol=0.1)
    np.testing.assert_allclose(noise.var(), 0.4 / 0.6, rtol=0.1)
    assert (noise[0] != noise[1]).any()
    same = (noise == noise[:, :1]).all()
    assert same == (masks == "sequence")


@pytest.mark.backend(one_in=3)
@every_cell
def test_noise_is_drawn_anew_for_each_batch(name):
    model = LanguageModel(11, 4, [make(name, 6), make(name, 5)])
    model.compile(keras.optimizers.SGD(0.0))
    tokens = np.random.default_rng(0).integers(1, 11, size=60).astype("int32")
    tokens[9::10] = 0
    # TensorFlow reads batches of sentences with an unknown time.
    batches = SentenceBatches(tokens, batch_size=2)
    history = model.fit(batches, epochs=3, verbose=0).history
    assert len(set(history["loss"])) == 3


@every_cell
def test_masked_steps_in_training(name, random):
    layer = layer_of(make(name, 5, 4))
    inputs = random.normal(size=(1, 4, 4)).astype("float32")
    mask = np.array([[True, False, True, False]])
    outputs, *_ = arrays(layer(inputs, mask=mask, training=True))
    np.testing.assert_array_equal(outputs[:, ::2], outputs[:, 1::2])
    assert (outputs[:, 1] != outputs[:, 2]).any()


@pytest.mark.backend("torch")
@pytest.mark.parametrize(
    "name, arguments, message",
    [
        ("zoneout", {"cell_zoneout": 1.0}, "`cell_zoneout` must be at least 0"),
        ("zoneout", {"hidden_zoneout": -0.1}, "`hidden_zoneout` must be at"),
        ("recurrent_dropout_lstm", {"rate": 1.0}, "`rate` must be at least 0"),
        ("recurrent_dropout_gru", {"masks": "all"}, "`masks` must be one of"),
        (
            "zoneout",
            {"dropout": 0.1},
            "`dropout` is not supported by Zoneout.*`LanguageModel.dropout="
            r"\.\.\.\)`",
        ),
        (
            "recurrent_dropout_gru",
            {"recurrent_dropout": 0.1},
            "`recurrent_dropout` is not supp.*recurrent_dropout=0.1",
        ),
    ],
)
def test_wrong_arguments(name, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(name, 4, **arguments)
