import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layers import arrays
from layers import assert_close
from layers import revived
from layers import uniform

from memlm_keras.memory import WordByWordAttention
from references.finite_differences import assert_derivatives
from references.rocktaschel2016 import WEIGHTS
from references.rocktaschel2016 import word_by_word

pytestmark = pytest.mark.backend


def make(units):
    """Returns a built layer whose weights are large and all different."""
    layer = WordByWordAttention(uniform())
    layer.build((None, None, units))
    return layer


def weights_of(layer):
    return [arrays(getattr(layer, name)).astype("float64") for name in WEIGHTS]


@given(
    time=st.integers(1, 4),
    premise_time=st.integers(1, 5),
    units=st.integers(1, 4),
    seed=st.integers(0, 2**16),
)
def test_outputs_and_weights_equal_the_reference(
    compiled, time, premise_time, units, seed
):
    layer = make(units)
    random = np.random.default_rng(seed)
    outputs = random.normal(size=(3, time, units)).astype("float32")
    premise = random.normal(size=(3, premise_time, units)).astype("float32")
    lengths = random.integers(1, time + 1, 3)
    premise_lengths = random.integers(1, premise_time + 1, 3)
    last = outputs[np.arange(3), lengths - 1]
    final, weights = arrays(
        compiled(layer)(
            outputs,
            last,
            premise,
            np.arange(time) < lengths[:, None],
            np.arange(premise_time) < premise_lengths[:, None],
        )
    )
    for row in range(3):
        words, others = lengths[row], premise_lengths[row]
        expected, expected_weights = word_by_word(
            outputs[row, :words], premise[row, :others], *weights_of(layer)
        )
        found = final[row], weights[row, :words, :others]
        assert_close(found, (expected, expected_weights), rtol=1e-3)
        assert not weights[row, words:].any()
        assert not weights[row, :, others:].any()


def test_gradients_equal_finite_differences(gradients):
    layer = make(2)
    random = np.random.default_rng(3)
    outputs = random.normal(size=(1, 3, 2)).astype("float32")
    premise = random.normal(size=(1, 4, 2)).astype("float32")
    direction = random.normal(size=2).astype("float32")
    variables = [getattr(layer, name) for name in WEIGHTS]
    masks = np.ones((1, 3), "bool"), np.ones((1, 4), "bool")

    def loss(tensors):
        sequence, other, *weights = tensors
        with keras.StatelessScope(state_mapping=list(zip(variables, weights))):
            final, _ = layer(sequence, sequence[:, -1], other, *masks)
        return keras.ops.sum(keras.ops.multiply(final, direction))

    def reference_loss(values):
        sequence, other, *weights = values
        final, _ = word_by_word(sequence[0], other[0], *weights)
        return np.sum(final * direction)

    values = [outputs, premise, *map(arrays, variables)]
    assert_derivatives(gradients, loss, reference_loss, values)


def test_a_premise_without_words_is_not_read():
    outputs, premise = np.ones((1, 2, 3)), np.ones((1, 4, 3))
    words = np.ones((1, 2), "bool"), np.zeros((1, 4), "bool")
    layer = make(3)
    final, weights = layer(outputs, outputs[:, 1], premise, *words)
    expected, _ = layer(outputs, outputs[:, 1], 0 * premise, *words)
    assert not arrays(weights).any()
    assert_close(final, expected)


def test_configurations_round_trip():
    revived(make(3))
