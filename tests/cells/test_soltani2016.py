import keras
import numpy as np
import pytest
from hypothesis import strategies as st
from layers import arrays
from layers import assert_cell_gradients
from layers import assert_close
from layers import assert_weights_differ
from layers import given_sizes
from layers import initializers
from layers import layer_of

import memlm_keras
from memlm_keras.cells import FOFEHORNNCell
from memlm_keras.cells import GatedHORNNCell
from memlm_keras.cells import ProjectedRNN
from references import hornn as reference

pytestmark = pytest.mark.backend

CELLS = {"fofe": FOFEHORNNCell, "gated": GatedHORNNCell}
every_cell = pytest.mark.parametrize("name", CELLS)


def make(name, input_dim, units, order=3, **arguments):
    """Returns a built cell whose weights are large and all different."""
    cell = CELLS[name](units, order, **arguments, **initializers())
    cell.build((None, input_dim))
    return cell


def symbols(cell, weights=None):
    """Returns a dict from the equations' symbols to transposed weights."""
    if weights is None:
        weights = [weight.astype("float64") for weight in cell.get_weights()]
    kernel, *recurrent_kernels, bias = weights

    def turned(kernel, parts, axis):
        return [part.T for part in np.split(kernel, parts, axis)]

    n = cell.order
    if isinstance(cell, FOFEHORNNCell):
        u = turned(recurrent_kernels[0], n, 0)
        alpha = cell.forgetting_factor
        return {"W": kernel.T, "U": u, "b": bias, "alpha": alpha}
    w, *a = turned(kernel, 1 + n, 1)
    u, b = zip(*(turned(pair, 2, 1) for pair in recurrent_kernels))
    return {"W": w, "A": a, "U": u, "B": b, "b": bias}


def random_arrays(seed, shape, state_shape, order):
    random = np.random.default_rng(seed)
    inputs = random.normal(size=shape).astype("float32")
    history = [
        random.uniform(-1, 1, state_shape).astype("float32")
        for _ in range(order)
    ]
    return inputs, history


@every_cell
@given_sizes(
    input_dim=st.integers(1, 4),
    units=st.integers(1, 4),
    order=st.integers(1, 4),
)
def test_outputs_and_states_equal_the_reference(
    name, compiled, batch_size, time, input_dim, units, order, seed
):
    cell = make(name, input_dim, units, order)
    inputs, history = random_arrays(
        seed, (batch_size, time, input_dim), (batch_size, units), order
    )
    expected, expected_history = getattr(reference, name)(
        inputs.astype("float64"),
        symbols(cell),
        [state.astype("float64") for state in history],
    )
    layer = layer_of(cell)
    read = compiled(lambda x, states: layer(x, initial_state=states))
    outputs, *states = arrays(read(inputs, history))
    assert len(states) == order
    assert_close((outputs, states), (expected, expected_history))
    for state in cell.get_initial_state(batch_size):
        np.testing.assert_array_equal(arrays(state), 0.0)


@every_cell
def test_gradients_equal_finite_differences(name, gradients):
    cell = make(name, 3, 2, order=2)
    inputs, history = random_arrays(3, (2, 4, 3), (2, 2), 2)

    def expected(inputs, history, weights):
        run = getattr(reference, name)
        return run(inputs, symbols(cell, weights), history)[0]

    assert_cell_gradients(gradients, cell, inputs, history, expected)


@pytest.mark.backend("torch")
@every_cell
def test_inputs_are_projected_once_for_a_whole_sequence(name, random):
    cell = make(name, 4, 5)
    shapes = []
    project = cell.project_inputs

    def spy(inputs):
        shapes.append(tuple(inputs.shape))
        return project(inputs)

    cell.project_inputs = spy
    ProjectedRNN(cell)(random.normal(size=(2, 6, 4)).astype("float32"))
    assert shapes == [(2, 6, 4)]


@pytest.mark.backend("torch")
@every_cell
def test_weights_of_one_initializer_differ(name):
    initializer = keras.initializers.RandomUniform(-1, 1, seed=7)
    cell = CELLS[name](
        4, kernel_initializer=initializer, recurrent_initializer=initializer
    )
    cell.build((None, 5))
    assert_weights_differ(cell.weights)


@pytest.mark.parametrize("value", [0, -0.5, 1.5])
def test_wrong_forgetting_factor(value):
    with pytest.raises(ValueError, match="`forgetting_factor`.*Received: "):
        FOFEHORNNCell(4, forgetting_factor=value)


def test_the_precision_is_that_of_the_cell():
    cell = FOFEHORNNCell(5, dtype="mixed_bfloat16")
    model = memlm_keras.LanguageModel(11, 4, [cell])
    assert model.recurrent[0].compute_dtype == "bfloat16"
    with pytest.raises(ValueError, match="`dtype`.*'float32'.*'float16'"):
        ProjectedRNN(FOFEHORNNCell(5), dtype="float16")


def test_cells_that_cannot_be_projected():
    with pytest.raises(ValueError, match="`cell`.*project_inputs.*LSTMCell"):
        ProjectedRNN(keras.layers.LSTMCell(4))
