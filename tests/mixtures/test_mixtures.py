"""Tests the mixtures: the neural cache and the pointer sentinel."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layers import arrays
from layers import assert_arguments_survive
from layers import assert_close
from layers import normal
from layers import uniform
from scipy.special import softmax

from memlm_keras.keras_private import get_keras_mask
from memlm_keras.mixtures import NeuralCache
from memlm_keras.mixtures import PointerSentinel
from references.finite_differences import assert_derivatives
from references.grave2017 import neural_cache
from references.merity2017 import pointer_sentinel

pytestmark = pytest.mark.backend

V = 7
THETA, WEIGHT = 0.7, 0.3
every_mixture = pytest.mark.parametrize("kind", [NeuralCache, PointerSentinel])


def make(kind, units, slots):
    if kind is NeuralCache:
        layer = NeuralCache(slots, THETA, WEIGHT)
    else:
        layer = PointerSentinel(slots + 1, uniform())
    layer.build((None, None, units))
    return layer


def reference(kind, outputs, token_ids, logits, weights, slots, before=0):
    """Computes one row's probabilities and attention after `before` steps."""
    outputs = outputs.astype("float64")
    probabilities = softmax(logits.astype("float64"), axis=-1)
    history = outputs[:before], token_ids[:before]
    row = outputs[before:], token_ids[before:], probabilities[before:]
    if kind is NeuralCache:
        return neural_cache(*row, slots, THETA, WEIGHT, history)
    kernel, bias, sentinel = weights
    symbols = {"W": kernel.T, "b": bias, "s": sentinel}
    return pointer_sentinel(*row, symbols, slots + 1, history)[:2]


def inputs_of(seed, batch_size, time, units):
    random = np.random.default_rng(seed)
    outputs = random.normal(size=(batch_size, time, units)).astype("float32")
    token_ids = random.integers(V, size=(batch_size, time)).astype("int32")
    logits = random.normal(size=(batch_size, time, V)).astype("float32")
    return outputs, token_ids, logits


@every_mixture
@given(
    batch_size=st.integers(1, 3),
    time=st.integers(1, 6),
    units=st.integers(1, 5),
    slots=st.integers(1, 8),
    before=st.integers(0, 5),
    seed=st.integers(0, 2**32 - 1),
)
def test_equals_the_reference(
    compiled, kind, batch_size, time, units, slots, before, seed
):
    layer = make(kind, units, slots)
    outputs, token_ids, logits = inputs_of(
        seed, batch_size, before + time, units
    )

    def run(outputs, token_ids, logits):
        state = None
        if before:
            _, state, _, _ = layer(outputs[:, :before], token_ids[:, :before])
        logits = logits[:, before:]
        *found, copies = layer(
            outputs[:, before:], token_ids[:, before:], logits, state
        )
        # The targets are the words that the model reads.
        targets = token_ids[:, before:]
        scores = keras.ops.log_softmax(logits)
        scores = keras.ops.take_along_axis(scores, targets[..., None], axis=-1)
        alone = layer.log_probability(copies, targets, scores[..., 0])
        return *found, alone

    log_probabilities, state, weights, alone = arrays(
        compiled(run)(outputs, token_ids, logits)
    )
    at_words = np.take_along_axis(
        log_probabilities, token_ids[:, before:, None], axis=-1
    )
    np.testing.assert_allclose(alone, at_words[..., 0], rtol=1e-5, atol=1e-6)
    symbols = [w.astype("float64") for w in layer.get_weights()]
    for row, inputs in enumerate(zip(outputs, token_ids, logits)):
        mixed, attention = reference(kind, *inputs, symbols, slots, before)
        np.testing.assert_allclose(
            np.exp(log_probabilities[row]), mixed, rtol=1e-4, atol=1e-6
        )
        expected = np.zeros((time, slots + (kind is PointerSentinel)))
        for step, pairs in enumerate(attention):
            for steps_back, weight in pairs:
                expected[step, slots - steps_back] = weight
        np.testing.assert_allclose(weights[row], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        np.exp(log_probabilities).sum(axis=-1), 1.0, rtol=1e-5
    )
    np.testing.assert_array_equal(state["filled"], min(slots, before + time))


@every_mixture
def test_gradients_equal_finite_differences(kind, gradients):
    layer = make(kind, 3, 3)
    outputs, token_ids, logits = inputs_of(2, 2, 5, 3)
    direction = normal(3, 2, 5, V)

    def loss(tensors):
        outputs, logits, *weights = tensors
        (found, _, _, _), _ = layer.stateless_call(
            weights, [], outputs, token_ids, logits=logits
        )
        return keras.ops.sum(keras.ops.multiply(found, direction))

    def reference_loss(values):
        outputs, logits, *weights = values
        total = 0.0
        for row, inputs in enumerate(zip(outputs, token_ids, logits)):
            mixed, _ = reference(kind, *inputs, weights, 3)
            total += np.sum(np.log(mixed) * direction[row])
        return total

    values = [outputs, logits, *layer.get_weights()]
    assert_derivatives(gradients, loss, reference_loss, values)


@pytest.mark.backend("torch")
@every_mixture
def test_masked_steps_are_never_remembered(kind):
    mask = np.array([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1], [1, 0, 1, 0, 1]], "bool")
    layer = make(kind, 3, 2)
    state = layer(*inputs_of(6, 3, 4, 3)[:2])[1]
    outputs, token_ids, logits = inputs_of(7, 3, 5, 3)
    dirty = np.where(mask[..., None], outputs, np.nan).astype("float32")
    words = np.where(mask, token_ids, -1).astype("int32")
    found = layer(dirty, words, logits, state, mask)
    np.testing.assert_array_equal(arrays(get_keras_mask(found[0])), mask)
    mixed, after, weights, _ = arrays(found)
    *inputs, valid, valid_weights = (
        value[mask].reshape(3, 3, *value.shape[2:])
        for value in (outputs, token_ids, logits, mixed, weights)
    )
    expected, after_valid, expected_weights, valid_copies = layer(
        *inputs, state
    )
    assert_close(
        (valid, valid_weights, after), (expected, expected_weights, after_valid)
    )
    np.testing.assert_array_equal(mixed[~mask], 0.0)
    np.testing.assert_array_equal(weights[~mask], 0.0)
    if kind is PointerSentinel:
        score = layer.pointer_log_probability
        found = arrays(score(found[3], token_ids, mask))
        expected = score(valid_copies, inputs[1])
        assert_close(found[mask].reshape(3, 3), expected)
        np.testing.assert_array_equal(found[~mask], 0.0)
    with pytest.raises(ValueError, match="`mask` must be of shape"):
        layer(outputs, token_ids, logits, mask=mask[:, :4])


@pytest.mark.backend("torch")
@every_mixture
def test_positions_are_rows_of_the_full_read(kind):
    mask = np.array([[1, 1, 0, 1, 1], [0, 1, 1, 0, 1]], "bool")
    positions = np.array([[4, 0, 2], [1, 1, 3]], "int32")
    rows = np.arange(2)[:, None]
    layer = make(kind, 3, 4)
    outputs, token_ids, logits = inputs_of(10, 2, 5, 3)
    mixed, state, weights, _ = arrays(
        layer(outputs, token_ids, logits, mask=mask)
    )
    *found, _ = layer(
        outputs,
        token_ids,
        logits[rows, positions],
        mask=mask,
        positions=positions,
    )
    expected = mixed[rows, positions], state, weights[rows, positions]
    assert_close(found, expected)


@pytest.mark.parametrize(
    "kind, arguments",
    [
        (NeuralCache, {"size": 4, "theta": 0.2, "weight": 0.4}),
        (PointerSentinel, {"window": 4, "kernel_initializer": uniform(2)}),
    ],
)
def test_every_argument_survives_its_configuration(kind, arguments):
    _, revived = assert_arguments_survive(kind, arguments)
    for name in set(arguments) - {"kernel_initializer"}:
        assert getattr(revived, name) == arguments[name]


@pytest.mark.backend("torch")
@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"size": 0}, "`size` must be an integer of at least 1"),
        ({"theta": -0.1}, "`theta` must be at least 0. Received: theta=-0.1"),
        ({"weight": 1.0}, "`weight` must be at least 0 and less than 1"),
    ],
)
def test_bad_arguments_of_a_cache(arguments, message):
    with pytest.raises(ValueError, match=message):
        NeuralCache(**arguments)
