import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layers import arrays
from layers import assert_close
from layers import assert_window_gradients
from layers import everything
from layers import normal
from layers import tensor
from layers import uniform

from memlm_keras.memory import InductionAttention
from references import induction as reference

pytestmark = pytest.mark.backend

SYMBOLS = ("W^q", "W^r", "W^x")


def make(window, units):
    layer = InductionAttention(window, uniform())
    layer.build((None, None, units))
    return layer


def state_of(seed, window, units, filled):
    """A window full of numbers, of which `filled` mean anything."""
    return {
        "window": normal(seed, len(filled), window, units),
        "filled": np.array(filled, "int32"),
    }


def expected_of(outputs, kernels, state):
    """Predictions, state and attention by the reference."""
    weights = {
        symbol: np.asarray(kernel, "float64").T
        for symbol, kernel in zip(SYMBOLS, kernels, strict=True)
    }
    window = {
        "slots": np.asarray(state["window"], "float64"),
        "filled": np.asarray(state["filled"]),
    }
    return reference.induction(outputs.astype("float64"), weights, window)


@st.composite
def shapes(draw):
    """Batch, time, window and units, all different, and filled slots."""
    sizes = st.lists(st.integers(1, 6), min_size=4, max_size=4, unique=True)
    batch, time, window, units = draw(sizes)
    level = st.integers(0, window)
    filled = draw(st.lists(level, min_size=batch, max_size=batch))
    return batch, time, window, units, filled


def assert_equals_the_reference(layer, outputs, state, read):
    predictions, new_state, attention = arrays(
        read(outputs, keras.tree.map_structure(tensor, state))
    )
    expected, window, alpha = expected_of(outputs, layer.get_weights(), state)
    assert_close((predictions, attention), (expected, alpha))
    np.testing.assert_array_equal(new_state["filled"], window["filled"])
    for row, filled in enumerate(window["filled"]):
        found = new_state["window"][row, layer.window - filled :]
        slots = window["slots"][row, layer.window - filled :]
        np.testing.assert_allclose(found, slots, rtol=1e-5, atol=1e-6)


def reader(layer, compiled):
    return compiled(
        lambda outputs, state: everything(layer)(outputs, state=state)
    )


@given(
    shape=shapes(),
    seed=st.integers(0, 1000),
    # Also the attention between small outputs.
    size=st.sampled_from([np.float32(1), np.float32(1e-9)]),
)
def test_equals_the_reference(compiled, shape, seed, size):
    batch, time, window, units, filled = shape
    layer = make(window, units)
    assert_equals_the_reference(
        layer,
        size * normal(seed, batch, time, units),
        state_of(seed + 1, window, units, filled),
        reader(layer, compiled),
    )


@pytest.mark.parametrize("window", [1, 40, 500])
@pytest.mark.parametrize("time", [1, 130])
def test_long_windows_and_blocks_of_time(compiled, window, time):
    layer = make(window, 4)
    assert_equals_the_reference(
        layer,
        normal(1, 2, time, 4),
        state_of(2, window, 4, [0, window]),
        reader(layer, compiled),
    )


def test_gradients_equal_finite_differences(gradients):
    state = state_of(2, 4, 3, [0, 1, 3, 4])

    def expected(outputs, window, kernels):
        return expected_of(outputs, kernels, {**state, "window": window})[::2]

    assert_window_gradients(
        gradients, make(4, 3), normal(1, 4, 5, 3), state, expected
    )


def test_float16_holds_scores_of_many_units():
    layer = InductionAttention(8, uniform(2), dtype="float16")
    outputs = 50 * normal(1, 2, 20, 1500)
    read, _, weights = everything(layer)(outputs)
    for found in (read, weights):
        assert np.all(np.isfinite(arrays(keras.ops.cast(found, "float32"))))
