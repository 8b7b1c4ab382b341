import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layers import arrays
from layers import assert_cell_gradients
from layers import assert_close
from layers import initializers
from layers import layer_of
from layers import uniform

from memlm_keras.cells import AssociativeGRUCell
from memlm_keras.cells import AssociativeMemoryCell
from memlm_keras.cells import DualAssociativeGRUCell
from memlm_keras.cells import DualAssociativeMemoryCell
from memlm_keras.cells import ProjectedRNN
from memlm_keras.cells import ZoneoutLSTMCell
from memlm_keras.cells.complex_vectors import KEYS
from references import weissenborn2016 as reference

pytestmark = pytest.mark.backend

INNER = {
    "lstm": keras.layers.LSTMCell,
    "simple_rnn": keras.layers.SimpleRNNCell,
}
KINDS = ["gru", "lstm", "simple_rnn"]
SOURCES = [None, "shared", "separate"]
every_kind = pytest.mark.parametrize("kind", KINDS)
every_source = pytest.mark.parametrize("source_key", SOURCES)


def make(kind, source_key, units=4, num_copies=3, input_dim=3, **arguments):
    """Returns a built cell whose weights are large and all different."""
    arguments["num_copies"] = num_copies
    arguments["kernel_initializer"] = uniform()
    dual = source_key is not None
    if dual:
        arguments["source_key"] = source_key
    if kind == "gru":
        cell = (DualAssociativeGRUCell if dual else AssociativeGRUCell)(
            units, **arguments
        )
    else:
        inner = INNER[kind](
            units,
            **initializers(),
            **({"unit_forget_bias": False} if kind == "lstm" else {}),
        )
        cell = (DualAssociativeMemoryCell if dual else AssociativeMemoryCell)(
            inner, **arguments
        )
    cell.build((None, input_dim))
    if kind == "gru":
        values = np.random.default_rng(5).uniform(-1, 1, cell.bias.shape)
        cell.bias.assign(values)
    return cell


def run_reference(kind, cell, inputs, states, weights=None):
    """Runs the reference; returns outputs and a list of new float64 states."""
    if weights is None:
        weights = {
            weight.path: keras.ops.convert_to_numpy(weight).astype("float64")
            for weight in cell.trainable_variables
        }
    named = {path.rpartition("/")[2]: value for path, value in weights.items()}
    permutations = keras.ops.convert_to_numpy(cell.permutations)
    h = cell.memory_units
    separate = cell.source_key == "separate"
    if kind == "gru":
        joined = np.concatenate([named["kernel"], named["recurrent_kernel"]])
        keys, rest = np.split(joined.T, [cell.num_keys * h])
        of_s = named["memory_kernel"].T
        bias = named["bias"]
        symbols = {
            "W": np.concatenate([rest[: 2 * h], of_s[: 2 * h]], axis=1),
            "W'": np.concatenate([rest[2 * h :], of_s[2 * h :]], axis=1),
            "b": bias[: 2 * h],
            "b'": bias[2 * h :],
        }
        if cell.source_key is not None:
            symbols["V"], symbols["V'"] = np.split(
                named["source_kernel"].T, [2 * h]
            )
        inner = reference.gru(symbols)
    else:
        own = cell.kernel.path, cell.recurrent_kernel.path
        keys = np.concatenate([weights[path] for path in own]).T
        inner = getattr(reference, kind)(
            *(
                weights[getattr(cell.cell, name).path]
                for name in ("kernel", "recurrent_kernel", "bias")
            )
        )
    outputs, new_states = [], []
    for row in range(len(inputs)):
        output, memory, *others = (state[row] for state in states)
        source = None
        if cell.source_key is not None:
            *others, source = others
            source = unflatten(source, h)
        found, (memory, output, remainder), _ = reference.am_rnn(
            inputs[row],
            keys[:h],
            inner,
            (unflatten(memory, h), output, others[0] if others else None),
            permutations,
            source,
            keys[h:] if separate else None,
            cell.key,
        )
        outputs.append(found)
        new = [output, flatten(memory)]
        new += [] if remainder is None else [remainder]
        new += [] if source is None else [flatten(source)]
        new_states.append(new)
    return np.array(outputs), [np.array(state) for state in zip(*new_states)]


def unflatten(memory, h):
    return [
        reference.complex_of(copy)
        for copy in np.split(memory, len(memory) // h)
    ]


def flatten(memory):
    return np.concatenate([reference.reals(copy) for copy in memory])


def random_arrays(random, cell, batch_size, time, input_dim=3):
    inputs = random.normal(size=(batch_size, time, input_dim))
    states = [
        random.uniform(-1, 1, (batch_size, size)) for size in cell.state_size
    ]
    return inputs.astype("float32"), [s.astype("float32") for s in states]


@every_kind
@every_source
@given(
    key=st.sampled_from(sorted(KEYS)),
    batch_size=st.integers(1, 3),
    time=st.integers(1, 4),
    half=st.integers(1, 3),
    num_copies=st.integers(1, 4),
    seed=st.integers(0, 2**16),
)
def test_outputs_and_states_equal_the_reference(
    kind, source_key, compiled, key, batch_size, time, half, num_copies, seed
):
    cell = make(kind, source_key, 2 * half, num_copies, key=key)
    random = np.random.default_rng(seed)
    inputs, states = random_arrays(random, cell, batch_size, time)
    expected = run_reference(kind, cell, inputs.astype("float64"), states)
    layer = layer_of(cell)
    read = compiled(lambda x, states: layer(x, initial_state=states))
    outputs, *new_states = arrays(read(inputs, states))
    assert_close((outputs, new_states), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "kind, source_key, key",
    [
        ("gru", None, "bound"),
        ("gru", "shared", "bound"),
        ("gru", "separate", "unit"),
        ("lstm", "shared", "unit"),
    ],
)
def test_gradients_equal_finite_differences(kind, source_key, key, gradients):
    cell = make(kind, source_key, units=2, num_copies=2, input_dim=2, key=key)
    inputs, states = random_arrays(np.random.default_rng(3), cell, 2, 3, 2)

    def expected(inputs, states, values):
        paths = (weight.path for weight in cell.trainable_variables)
        weights = dict(zip(paths, values))
        return run_reference(kind, cell, inputs, states, weights)[0]

    assert_cell_gradients(gradients, cell, inputs, states, expected)


def test_permutations_are_of_a_seed_and_saved(reloaded):
    first, other = make("gru", None, 40), make("lstm", "shared", 40)
    permutations, same, of_another_seed = (
        arrays(cell.permutations)
        for cell in (first, other, make("gru", None, 40, seed=1))
    )
    np.testing.assert_array_equal(permutations, same)
    assert (permutations != of_another_seed).any()
    np.testing.assert_array_equal(permutations[0], range(20))
    np.testing.assert_array_equal(np.sort(permutations), [range(20)] * 3)
    assert "permutations" not in [w.name for w in first.trainable_variables]
    first.permutations.assign(permutations[:, ::-1])
    model = keras.Sequential([keras.Input((5, 3)), ProjectedRNN(first)])
    np.testing.assert_array_equal(
        arrays(reloaded(model).layers[0].cell.permutations),
        permutations[:, ::-1],
    )


def test_where_the_biases_begin():
    for update_bias in (1.0, -1.0):
        cell = AssociativeGRUCell(4, update_bias=update_bias)
        cell.build((None, 3))
        np.testing.assert_array_equal(
            arrays(cell.bias), [update_bias] * 4 + [1.0] * 4 + [0.0] * 4
        )


@pytest.mark.parametrize(
    "make_cell, message",
    [
        (lambda: AssociativeGRUCell(5), "must be even.*units=5"),
        (
            lambda: AssociativeGRUCell(4, key="short"),
            "`key` must be one of 'bound', 'unit'. Received: key='short'",
        ),
        (
            lambda: DualAssociativeGRUCell(4, source_key="own"),
            "`source_key` must be one of .*source_key='own'",
        ),
        (
            lambda: AssociativeMemoryCell(keras.layers.GRUCell(3)),
            "must be even.*units=3",
        ),
        *(
            (
                lambda cell=cell: AssociativeMemoryCell(cell),
                "`cell` must have no dropout or zoneout.*Received: cell=<",
            )
            for cell in (
                keras.layers.LSTMCell(4, recurrent_dropout=0.5),
                ZoneoutLSTMCell(4),
            )
        ),
        (
            lambda: AssociativeMemoryCell(make("gru", None)).build((None, 3)),
            "must read inputs of size 7.*built for size 3",
        ),
    ],
)
def test_wrong_arguments(make_cell, message):
    with pytest.raises(ValueError, match=message):
        make_cell()
