"""Complex vectors as their real parts followed by their imaginary ones.

Weissenborn (2016), Section 3.1, after Plate (1995) and Danihelka et al. (2016).
A vector of H real numbers, H even, stands for H / 2 complex ones:
`r = [r_re; r_im]`.
"""

from keras import ops


def encode(key, value):
    """Complex product of a key and a value, element by element.

    Weissenborn (2016), Equation 1:

        r (x) x = [r_re * x_re - r_im * x_im; r_re * x_im + r_im * x_re]

    Args:
        key: float tensor `(..., H)`.
        value: float tensor `(..., H)`, of a shape that goes with it.

    Returns:
        Float tensor `(..., H)`.

    Example:

    >>> from memlm_keras.cells import complex_vectors
    >>> i = np.array([0.0, 1.0])
    >>> keras.ops.convert_to_numpy(complex_vectors.encode(i, i)).tolist()
    [-1.0, 0.0]
    """
    return ops.concatenate(_product(key, value), axis=-1)


def conjugate(vector):
    """Complex conjugate: `[r_re; -r_im]`.

    Args:
        vector: float tensor `(..., H)`.

    Returns:
        Float tensor `(..., H)`.
    """
    re, im = ops.split(vector, 2, axis=-1)
    return ops.concatenate([re, -im], axis=-1)


def bound(vector):
    """Bounds the modulus of each complex number by one.

    Weissenborn (2016), Equations 9 and 10: `r / max(1, |r|)`.

    Args:
        vector: float tensor `(..., H)`.

    Returns:
        Float tensor `(..., H)`.
    """
    re, im = ops.split(vector, 2, axis=-1)
    # The root of the maximum, whose gradient at zero is finite.
    modulus = ops.sqrt(ops.maximum(re * re + im * im, 1.0))
    return ops.concatenate([re / modulus, im / modulus], axis=-1)


def permute(vector, permutations):
    """Permutes the complex numbers of a vector, once for each copy.

    Args:
        vector: float tensor `(..., H)`.
        permutations: int tensor `(N_c, H / 2)`, a permutation in each row.

    Returns:
        Float tensor `(..., N_c, H)`, `P_s r` for each copy s.
    """
    copies, numbers = permutations.shape
    # A product with ones and zeros, as the gradient of a look-up would be a
    # scatter, several times as slow in a loop over time.
    matrix = ops.transpose(
        ops.one_hot(
            ops.reshape(permutations, (-1,)), numbers, dtype=vector.dtype
        )
    )
    shape = (*ops.shape(vector)[:-1], copies, numbers)
    return ops.concatenate(
        [
            ops.reshape(ops.matmul(half, matrix), shape)
            for half in ops.split(vector, 2, axis=-1)
        ],
        axis=-1,
    )


def read(keys, memory):
    """Retrieves what was written to a redundant memory under a key.

    Weissenborn (2016), Equation 5, with `keys` the copies `P_s r` of the key
    that it was written under:

        x~ = 1 / N_c sum_s (P_s conj(r)) (x) m_s

    Args:
        keys: float tensor `(..., N_c, H)`, as of `permute`.
        memory: float tensor `(..., N_c, H)`.

    Returns:
        Float tensor `(..., H)`.
    """
    return ops.concatenate(
        [ops.mean(part, axis=-2) for part in _product(conjugate(keys), memory)],
        axis=-1,
    )


def write(keys, value, memory):
    """Adds a value to all copies of a memory, under a key.

    Weissenborn (2016), Equation 4: `m_s + (P_s r) (x) x`.

    Args:
        keys: float tensor `(..., N_c, H)`, as of `permute`.
        value: float tensor `(..., H)`.
        memory: float tensor `(..., N_c, H)`.

    Returns:
        Float tensor `(..., N_c, H)`.
    """
    return memory + encode(keys, ops.expand_dims(value, -2))


def _product(key, value):
    """Real and imaginary part of the product, each `(..., H / 2)`."""
    key_re, key_im = ops.split(key, 2, axis=-1)
    value_re, value_im = ops.split(value, 2, axis=-1)
    return (
        key_re * value_re - key_im * value_im,
        key_re * value_im + key_im * value_re,
    )
