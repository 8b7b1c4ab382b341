import keras
import numpy as np
import pytest

from memlm_keras.cells import complex_vectors


def arrays(nest):
    return keras.tree.map_structure(keras.ops.convert_to_numpy, nest)


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


def phases(random, *shape):
    return np.exp(2j * np.pi * random.uniform(size=shape))


def test_complex_arithmetic_is_numpys(random):
    a, b = complex_numbers(random, 3, 5), complex_numbers(random, 3, 5)
    permutations = [random.permutation(5) for _ in range(4)]
    for found, expected in (
        (complex_vectors.encode(pair(a), pair(b)), a * b),
        (complex_vectors.bound(pair(a)), a / np.maximum(1, np.abs(a))),
        (
            permuted(pair(a), permutations),
            np.stack([a[:, p] for p in permutations], axis=1),
        ),
    ):
        np.testing.assert_allclose(
            complex_of(found), expected, rtol=1e-5, atol=1e-6
        )


def test_the_gradient_of_a_key_of_zeros_is_finite(gradients):
    def loss(tensors):
        key = complex_vectors.split(tensors[0])
        return keras.ops.sum(complex_vectors.join(complex_vectors.bound(key)))

    (found,) = gradients(loss, [np.zeros((2, 4), "float32")])
    np.testing.assert_allclose(found, 1.0)


def test_what_is_written_under_a_key_is_read_under_it(random):
    """Alone in the memory and with a modulus of one, exactly."""
    value = pair(complex_numbers(random, 2, 6))
    permutations = [random.permutation(6) for _ in range(8)]
    keys = permuted(pair(phases(random, 2, 6)), permutations)
    empty = pair(np.zeros((2, 8, 6), "complex64"))
    memory = complex_vectors.write(keys, value, empty)
    np.testing.assert_allclose(
        complex_of(complex_vectors.read(keys, memory)),
        complex_of(value),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("num_copies", [1, 4, 16])
@pytest.mark.parametrize("items", [2, 10, 50])
def test_retrieval_error_of_the_theory(num_copies, items):
    """E||x~ - x||^2 / E||x||^2 = (N - 1) / N_c, with random phases."""
    random = np.random.default_rng(7)
    numbers, trials = 256, 20
    permutations = [np.arange(numbers)]
    permutations += [random.permutation(numbers) for _ in range(num_copies - 1)]
    keys = permuted(pair(phases(random, trials, items, numbers)), permutations)
    value = pair(complex_numbers(random, trials, items, numbers))
    empty = pair(np.zeros((trials, items, num_copies, numbers), "complex64"))
    each = complex_vectors.write(keys, value, empty)
    memory = [keras.ops.sum(part, axis=1, keepdims=True) for part in each]
    error = complex_of(complex_vectors.read(keys, memory)) - complex_of(value)
    ratio = np.square(np.abs(error)).sum()
    ratio /= np.square(np.abs(complex_of(value))).sum()
    assert ratio == pytest.approx((items - 1) / num_copies, rel=0.1)
