import keras
import numpy as np
import pytest
from layers import arrays

from memlm_keras.cells import complex_vectors

pytestmark = pytest.mark.backend


def pair(numbers):
    """Real and imaginary parts of complex numbers."""
    return tuple(
        keras.ops.convert_to_tensor(part, "float32")
        for part in (numbers.real, numbers.imag)
    )


def complex_of(found):
    re, im = arrays(found)
    return re + 1j * im


def permuted(vector, permutations):
    indices = keras.ops.convert_to_tensor(np.array(permutations), "int32")
    return complex_vectors.permute(
        vector, complex_vectors.matrix_of(indices, "float32")
    )


def complex_numbers(random, *shape):
    return random.normal(size=(*shape, 2)) @ [1, 1j]


def test_complex_arithmetic_is_numpys(random):
    a, b = complex_numbers(random, 3, 5), complex_numbers(random, 3, 5)
    permutations = [random.permutation(5) for _ in range(4)]
    for found, expected in (
        (complex_vectors.encode(pair(a), pair(b)), a * b),
        (complex_vectors.normalize(pair(a)), a / np.maximum(1, np.abs(a))),
        (complex_vectors.normalize(pair(a), "unit"), a / np.abs(a)),
        (
            permuted(pair(a), permutations),
            np.stack([a[:, p] for p in permutations], axis=1),
        ),
    ):
        np.testing.assert_allclose(
            complex_of(found), expected, rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("key, expected", [("bound", 1.0), ("unit", 1024.0)])
def test_the_gradient_of_a_key_of_zeros_is_finite(key, expected, gradients):
    def loss(tensors):
        made = complex_vectors.normalize(complex_vectors.split(tensors[0]), key)
        return keras.ops.sum(complex_vectors.join(made))

    (found,) = gradients(loss, [np.zeros((2, 4), "float32")])
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("key", complex_vectors.KEYS)
def test_the_gradient_of_a_key_by_hand(key, gradients, random):
    # Below and above both of the moduli that are divided by.
    vector = random.normal(size=(5, 8)) * np.logspace(-5, 1, 5)[:, None]
    upstream = random.normal(size=(5, 8)).astype("float32")

    def loss(tensors):
        made = complex_vectors.normalize(complex_vectors.split(tensors[0]), key)
        made = complex_vectors.join(made)
        return keras.ops.sum(keras.ops.multiply(made, upstream))

    vector = vector.astype("float32")
    (expected,) = gradients(loss, [vector])
    found = complex_vectors.normalize_gradient(
        *(
            complex_vectors.split(keras.ops.convert_to_tensor(part))
            for part in (vector, upstream)
        ),
        key,
    )
    np.testing.assert_allclose(
        arrays(complex_vectors.join(found)), expected, rtol=1e-3, atol=1e-4
    )


def test_a_write_is_the_delta_rule(random):
    """With the matrix that a memory of one copy stands for, diagonal here.

    m + r (x) u (c - read(conj r, m)) is (1 - u |r|^2) m + u r (x) c: what of m
    is in the direction of r is replaced.
    """
    r, memory, value = (complex_numbers(random, 2, 6) for _ in range(3))
    update = random.uniform(size=(2, 6))
    keys = permuted(pair(r), [np.arange(6)])
    old = complex_vectors.read(keys, pair(memory[:, None]))
    written = pair(update * (value - complex_of(old)))
    found = complex_vectors.write(keys, written, pair(memory[:, None]))
    expected = (1 - update * np.abs(r) ** 2) * memory + update * r * value
    np.testing.assert_allclose(
        complex_of(found)[:, 0], expected, rtol=1e-4, atol=1e-5
    )
