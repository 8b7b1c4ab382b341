import dataclasses
from collections.abc import Callable

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layers import arrays
from layers import assert_close
from layers import assert_memory_gradients
from layers import assert_window_gradients
from layers import everything
from layers import given_sizes
from layers import normal
from layers import tensor
from layers import uniform

from memlm_keras import masking
from memlm_keras import memory as memories
from references import daniluk2017 as reference
from references.induction import induction

pytestmark = pytest.mark.backend


@dataclasses.dataclass
class Case:
    """A memory, its reference, and functions that return the numbers of parts
    of an output, given the number of slots."""

    layer: type
    reference: Callable
    span: str
    parts: Callable
    remembered_parts: Callable
    weights: dict

    def make(self, slots, k, initializer=None):
        """Returns a built memory with random weights, and its number of
        units."""
        span = slots + 1 if self.span == "order" else slots
        layer = self.layer(
            **{self.span: span}, kernel_initializer=initializer or uniform()
        )
        units = k * self.parts(slots)
        layer.build((None, None, units))
        return layer, units

    def state(self, random, slots, k, filled):
        """Draws a state with random numbers and `filled` slots in each row."""
        shape = (len(filled), slots, k * self.remembered_parts(slots))
        return {
            "window": random.normal(size=shape).astype("float32"),
            "filled": np.array(filled, "int32"),
        }

    def of(self, layer):
        """Returns a dict from the paper's symbols to a layer's weights."""
        values = {
            symbol: getattr(layer, name).numpy()
            for symbol, name in self.weights.items()
        }
        return self.symbols(values.values())

    def symbols(self, values):
        """Returns a dict from the paper's symbols to transposed weights."""
        turned = [np.asarray(value, "float64").T for value in values]
        weights = dict(zip(self.weights, turned))
        if "w" in weights:
            weights["w"] = weights["w"][0]
        return weights


def attending(layer, reference, parts):
    """Returns a `Case` for a memory that attends to stored parts of outputs."""
    return Case(
        layer,
        reference,
        "window",
        parts=lambda slots: parts,
        remembered_parts=lambda slots: min(parts, 2),
        weights={
            "W^Y": "memory_kernel",
            "W^h": "query_kernel",
            "w": "score_kernel",
            "W^r": "context_kernel",
            "W^x": "output_kernel",
        },
    )


CASES = {
    "attention": attending(memories.Attention, reference.attention, 1),
    "key_value": attending(memories.KeyValue, reference.key_value, 2),
    "key_value_predict": attending(
        memories.KeyValuePredict, reference.key_value_predict, 3
    ),
    "ngram": Case(
        memories.NGram,
        reference.ngram,
        "order",
        parts=lambda slots: slots + 1,
        remembered_parts=lambda slots: slots + 1,
        weights={"W^N": "output_kernel"},
    ),
    "induction": Case(
        memories.InductionAttention,
        induction,
        "window",
        parts=lambda slots: 1,
        remembered_parts=lambda slots: 1,
        weights={
            "W^q": "query_kernel",
            "W^r": "context_kernel",
            "W^x": "output_kernel",
        },
    ),
}

every_memory = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def as_window(state):
    """Converts a layer's state to the reference's state."""
    return {
        "slots": np.asarray(state["window"], "float64"),
        "filled": np.asarray(state["filled"]),
    }


def assert_same_state(found, expected):
    """Compares the filled slots of two states."""
    np.testing.assert_array_equal(found["filled"], expected["filled"])
    slots = expected["slots"].shape[1]
    for row, filled in enumerate(expected["filled"]):
        np.testing.assert_allclose(
            found["window"][row, slots - filled :],
            expected["slots"][row, slots - filled :],
            rtol=1e-6,
        )


@st.composite
def shapes(draw):
    """Draws batch size, time, slots and k, which all differ, and the number of
    filled slots of each row."""
    batch, time, slots, k = draw(
        st.lists(st.integers(1, 6), min_size=4, max_size=4, unique=True)
    )
    level = st.integers(0, slots)
    filled = draw(
        st.one_of(
            st.none(),
            st.lists(level, min_size=batch, max_size=batch),
            st.just([slots] * batch),
        )
    )
    return batch, time, slots, k, filled


# === Against the references ===


def assert_equals_the_reference(case, compiled, shape, seed, size=1):
    """Compares a memory with its reference on random outputs, which `size`
    scales."""
    batch, time, slots, k, filled = shape
    random = np.random.default_rng(seed)
    layer, units = case.make(slots, k)
    outputs = size * random.normal(size=(batch, time, units)).astype("float32")
    if filled is None:
        found = compiled(lambda outputs: everything(layer)(outputs))(outputs)
        window = as_window(arrays(layer.initial_state(batch)))
    else:
        state = case.state(random, slots, k, filled)
        found = compiled(
            lambda outputs, state: everything(layer)(outputs, state=state)
        )(outputs, keras.tree.map_structure(tensor, state))
        window = as_window(state)
    predictions, new_state, attention = arrays(found)

    expected, new_window, alpha = case.reference(
        outputs.astype("float64"), case.of(layer), window
    )
    if filled is None:
        # All outputs are small: compare with their size.
        predictions, expected = predictions / size, expected / size
    assert_close((predictions, attention), (expected, alpha))
    assert_same_state(new_state, new_window)


@every_memory
@given(
    shape=shapes(),
    seed=st.integers(0, 1000),
    # Small outputs also test the precision of attention.
    size=st.sampled_from([1, 1e-9]),
)
def test_equals_the_reference(case, compiled, shape, seed, size):
    assert_equals_the_reference(case, compiled, shape, seed, size)


@pytest.mark.parametrize("name", ["induction", "attention"])
@pytest.mark.parametrize("time, window", [(1, 40), (130, 40), (130, 500)])
def test_long_windows_and_blocks_of_time(name, time, window, compiled):
    shape = 2, time, window, 4, [0, window]
    assert_equals_the_reference(CASES[name], compiled, shape, 1)


@every_memory
@pytest.mark.parametrize("slots", [4, 2])
def test_gradients_equal_finite_differences(
    case, slots, gradients, random, monkeypatch
):
    # The steps are computed in three blocks of two, or without blocks.
    monkeypatch.setattr(masking, "_LEAST_BLOCK", 1)
    time, k = 5, 3 if case.span == "window" else 2
    filled = (0, 1, slots - 1, slots)
    layer, units = case.make(slots, k)
    outputs = random.normal(size=(len(filled), time, units)).astype("float32")
    state = case.state(random, slots, k, filled)

    def expected(outputs, window, kernels):
        window = {"slots": window, "filled": state["filled"]}
        return case.reference(outputs, case.symbols(kernels), window)[::2]

    assert_window_gradients(gradients, layer, outputs, state, expected)


def test_float16_holds_scores_of_many_units():
    layer = memories.InductionAttention(8, uniform(2), dtype="float16")
    outputs = 50 * normal(1, 2, 20, 1500)
    read, _, weights = everything(layer)(outputs)
    for found in (read, weights):
        assert np.all(np.isfinite(arrays(keras.ops.cast(found, "float32"))))


# === Errors ===


@pytest.mark.parametrize("name", ["key_value", "key_value_predict", "ngram"])
def test_units_that_cannot_be_divided(name):
    case = CASES[name]
    layer = case.layer(**{case.span: 4})
    parts = case.parts(4 if case.span == "window" else 3)
    with pytest.raises(ValueError, match=f"divisible by {parts}.*units=13"):
        layer.build((None, None, 13))
    with pytest.raises(ValueError, match=f"as {parts} or {2 * parts}.*=1"):
        layer.build((None, None, 1))


# === The output projection without a memory ===

FORMS = {
    "daniluk2017": ({}, np.tanh),
    "press2016": ({"activation": "linear", "use_bias": True}, lambda x: x),
    "of another size": ({"units": 2}, np.tanh),
}
every_form = pytest.mark.parametrize("form", FORMS)


def make_projection(form, units):
    layer = memories.Projection(
        kernel_initializer=uniform(3),
        bias_initializer=uniform(3),
        **FORMS[form][0],
    )
    layer.build((None, None, units))
    return layer


def projected(form, outputs, kernel, bias=0.0):
    """Returns P h + b_P or its tanh, computed step by step."""
    results = np.zeros((*outputs.shape[:2], kernel.shape[1]))
    for row in np.ndindex(outputs.shape[:2]):
        results[row] = FORMS[form][1](kernel.T @ outputs[row] + bias)
    return results


@every_form
@given_sizes(units=st.integers(1, 5))
def test_a_projection_equals_the_reference(form, batch_size, time, units, seed):
    random = np.random.default_rng(seed)
    outputs = random.normal(size=(batch_size, time, units))
    layer = make_projection(form, units)
    found, state, attention = everything(layer)(outputs.astype("float32"))
    expected = projected(form, outputs, *layer.get_weights())
    assert_close(found, expected)
    assert state == {} == layer.initial_state(batch_size)
    assert tuple(attention.shape) == (batch_size, time, 0)
    assert layer.losses == []


@every_form
def test_gradients_of_a_projection(form, gradients, random):
    outputs = random.normal(size=(2, 4, 3)).astype("float32")
    assert_memory_gradients(
        *(gradients, make_projection(form, 3), outputs),
        lambda outputs, weights: projected(form, outputs, *weights),
    )
