import keras
import numpy as np
import pytest
from hypothesis import strategies as st
from layers import arrays
from layers import assert_close
from layers import everything
from layers import given_sizes
from layers import normal as outputs_of
from layers import uniform

from memlm_keras.memory import Attentive
from memlm_keras.memory.salton2017 import SCORES
from references import salton2017 as reference
from references.finite_differences import assert_derivatives

pytestmark = pytest.mark.backend

every_score = pytest.mark.parametrize("score", SCORES)


def make(score, k, window=4, limit=1.0, **arguments):
    initializer = uniform(limit=limit)
    layer = Attentive(score, window, initializer, initializer, **arguments)
    layer.build((None, None, k))
    return layer


def symbols(layer, values=None):
    """Returns a dict from the paper's symbols to transposed weights."""
    if values is None:
        values = [value.astype("float64") for value in layer.get_weights()]
    named = {w.name: value for w, value in zip(layer.weights, values)}
    weights = {
        "W_s": named["memory_kernel"].T,
        "v_s": named["score_kernel"][:, 0],
        "W_c": named["output_kernel"].T,
        "b_t": named["bias"],
    }
    if "query_kernel" in named:
        weights["W_q"] = named["query_kernel"].T
    return weights


def reader(layer, compiled):
    """Returns a compiled function that calls the layer with a state."""
    return compiled(
        lambda outputs, state: everything(layer)(outputs, state=state)
    )


# === Against the reference ===


@every_score
@given_sizes(
    k=st.integers(1, 4), window=st.integers(1, 5), history=st.integers(0, 6)
)
def test_equals_the_reference(
    score, compiled, batch_size, time, k, window, history, seed
):
    layer = make(score, k, window)
    before = outputs_of(seed + 1, batch_size, history, k)
    outputs = outputs_of(seed, batch_size, time, k)
    read = reader(layer, compiled)
    state = layer.initial_state(batch_size)
    if history:
        _, state, _ = read(keras.ops.convert_to_tensor(before), state)
    merged, state, weights = arrays(
        read(keras.ops.convert_to_tensor(outputs), state)
    )
    expected, attention = reference.attentive(
        outputs.astype("float64"), symbols(layer), window, list(before)
    )
    assert_close((merged, weights), (expected, attention))
    filled = min(history + time, window)
    np.testing.assert_array_equal(state["filled"], filled)


@every_score
def test_gradients_equal_finite_differences(score, gradients):
    layer = make(score, 3, window=3)
    outputs, toward = outputs_of(5, 2, 7, 3), outputs_of(6, 2, 7, 6)

    def loss(tensors):
        outputs, *weights = tensors
        state, found = layer.initial_state(2), []
        for piece in (outputs[:, :3], outputs[:, 3:]):
            (merged, state, attention), _ = everything(layer.stateless_call)(
                weights, [], piece, state=state
            )
            found.append(keras.ops.concatenate([merged, attention], axis=-1))
        found = keras.ops.concatenate(found, axis=1)
        return keras.ops.sum(keras.ops.multiply(found, toward))

    def reference_loss(values):
        outputs, *weights = values
        both = reference.attentive(
            outputs, symbols(layer, weights), 3, [[], []]
        )
        return np.sum(np.concatenate(both, axis=-1) * toward)

    values = [outputs, *layer.get_weights()]
    assert_derivatives(gradients, loss, reference_loss, values)


# === Streaming ===


@every_score
def test_scores_of_any_size(score, compiled):
    layer = make(score, 4, window=30)
    layer.score_kernel.assign(np.full((4, 1), 125.0))
    outputs = 2 * outputs_of(4, 2, 30, 4)
    expected, _ = reference.attentive(
        outputs.astype("float64"), symbols(layer), 30, [[], []]
    )
    read = reader(layer, compiled)
    for cuts in ([], range(1, 30)):
        state, found = layer.initial_state(2), []
        for piece in np.split(outputs, cuts, axis=1):
            merged, state, _ = read(piece, state)
            found.append(arrays(merged))
        found = np.concatenate(found, axis=1)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)
        assert all(np.isfinite(value).all() for value in arrays(state).values())


def test_an_unknown_score():
    message = "`score` must be one of.*'single'.*score='dot'"
    with pytest.raises(ValueError, match=message):
        Attentive(score="dot")
