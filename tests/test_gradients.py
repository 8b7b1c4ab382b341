"""Tests division of vectors by their length, for any length and precision."""

import keras
import numpy as np
import pytest
from layers import arrays
from layers import dtype_of
from layers import tensor

from memlm_keras.gradients import UNIT
from memlm_keras.gradients import divide_by_length
from references.delta_rule import unit

pytestmark = pytest.mark.backend

SIZES = np.array([0, 1e-14, 1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 1, 1e9])
# Real vectors, and complex numbers in parts with two smallest divisors.
pairs = pytest.mark.parametrize(
    "in_pair, least", [(False, UNIT), (True, UNIT), (True, (1.5, 1.5))]
)


def divide(vectors, in_pair, least=UNIT):
    """Divides vectors `(S, N)` by their lengths, as N parts or as one
    tensor."""
    if not in_pair:
        return divide_by_length((vectors,), least, axis=-1)[0]
    parts = [vectors[:, i] for i in range(vectors.shape[1])]
    return keras.ops.stack(divide_by_length(tuple(parts), least), axis=-1)


@pairs
def test_lengths_are_at_most_one_to_rounding(in_pair, least, random):
    vectors = random.normal(size=(len(SIZES), 5)) * SIZES[:, None]
    vectors = vectors.astype("float32")
    found = arrays(divide(tensor(vectors), in_pair, least))
    lengths = np.linalg.norm(vectors.astype("float64"), axis=1, keepdims=True)
    expected = vectors / np.maximum(lengths, least[0])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pairs
def test_gradients_are_derivatives(in_pair, least, random, gradients):
    vectors = random.normal(size=(len(SIZES), 5))
    vectors *= SIZES[:, None] / np.linalg.norm(vectors, axis=1)[:, None]
    upstream = random.normal(size=vectors.shape)

    def loss(tensors):
        made = divide(tensors[0], in_pair, least)
        return keras.ops.sum(made * tensor(upstream.astype("float32")))

    (found,) = gradients(loss, [vectors.astype("float32")])
    for size, vector, up, gradient in zip(SIZES, vectors, upstream, found):
        direction = unit(vector) if size > least[0] else 0 * vector
        expected = up - direction * (direction @ up)
        expected /= max(size, least[1])
        np.testing.assert_allclose(
            gradient, expected, rtol=1e-4, atol=1e-5 * abs(expected).max()
        )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_low_precision(dtype):
    """Numbers whose squares are zero in float16 are divided exactly."""
    found = divide(keras.ops.full((1, 4), 2.0**-14, dtype), False)
    assert dtype_of(found) == dtype
    np.testing.assert_array_equal(keras.ops.cast(found, "float32"), 0.5)
