"""Complex vectors as pairs of their real and imaginary parts.

Weissenborn (2016), Section 3.1, after Plate (1995) and Danihelka et al. (2016).
A vector of H real numbers, H even, stands for H / 2 complex ones:
`r = [r_re; r_im]`. Layers keep such vectors; what computes with them takes the
two halves apart, as pairs, so that no step of a loop need join them.
"""

from keras import ops

# What becomes of a vector that is to be a key: its numbers are divided by their
# modulus, or by this where that is less.
KEYS = {
    "bound": 1.0,
    # Zero has no phase, and what is next to it would have no gradient to use.
    "unit": 2.0**-10,
}


def split(vector, axis=-1):
    """The pair of halves that a vector is kept as."""
    numbers = vector.shape[axis] // 2
    if axis:
        return vector[..., :numbers], vector[..., numbers:]
    return vector[:numbers], vector[numbers:]


def join(pair, axis=-1):
    """The way back of `split`."""
    return ops.concatenate(pair, axis=axis)


def encode(key, value):
    """Complex product of a key and a value, element by element.

    Weissenborn (2016), Equation 1:

        r (x) x = [r_re * x_re - r_im * x_im; r_re * x_im + r_im * x_re]

    Args:
        key: pair of float tensors `(..., H / 2)`.
        value: pair of float tensors, of a shape that goes with it.

    Returns:
        Pair of float tensors `(..., H / 2)`.

    Example:

    >>> from memlm_keras.cells import complex_vectors
    >>> i = np.array([0.0]), np.array([1.0])
    >>> product = complex_vectors.encode(i, i)
    >>> keras.ops.convert_to_numpy(complex_vectors.join(product)).tolist()
    [-1.0, 0.0]
    """
    return (
        key[0] * value[0] - key[1] * value[1],
        key[0] * value[1] + key[1] * value[0],
    )


def normalize(vector, key="bound"):
    """Makes a key of a vector, number by number.

    * `"bound"`: `r / max(1, |r|)`, Weissenborn (2016), Equations 9 and 10
    * `"unit"`: `r / |r|`, and `r / 2^-10` of what is shorter than that

    Args:
        vector: pair of float tensors `(..., H / 2)`.
        key: string, one of `KEYS`.

    Returns:
        Pair of float tensors `(..., H / 2)`.

    Example:

    >>> from memlm_keras.cells import complex_vectors
    >>> r = np.array([0.3]), np.array([0.4])
    >>> re, im = complex_vectors.normalize(r, "bound")
    >>> round(float(re[0]), 6), round(float(im[0]), 6)
    (0.3, 0.4)
    >>> re, im = complex_vectors.normalize(r, "unit")
    >>> round(float(re[0]), 6), round(float(im[0]), 6)
    (0.6, 0.8)
    """
    modulus = _modulus(vector, key)
    return vector[0] / modulus, vector[1] / modulus


def normalize_gradient(vector, upstream, key="bound"):
    """Gradient with regard to what a key was made of.

    Args:
        vector: pair of float tensors `(..., H / 2)`, as of `normalize`.
        upstream: pair of float tensors, the gradient of the key.
        key: string, one of `KEYS`.

    Returns:
        Pair of float tensors `(..., H / 2)`.
    """
    modulus = _modulus(vector, key)
    re, im = vector[0] / modulus, vector[1] / modulus
    # Where a modulus was divided by, only the phase can change.
    along = re * upstream[0] + im * upstream[1]
    along = ops.where(modulus > KEYS[key], along, ops.zeros_like(along))
    return (
        (upstream[0] - re * along) / modulus,
        (upstream[1] - im * along) / modulus,
    )


def matrix_of(permutations, dtype):
    """The matrix that `permute` multiplies by, `(H / 2, N_c H / 2)`.

    Args:
        permutations: int tensor `(N_c, H / 2)`, a permutation in each row.
        dtype: string, the dtype of keys.
    """
    # A product with ones and zeros, as the gradient of a look-up would be a
    # scatter, several times as slow in a loop over time.
    positions = ops.reshape(permutations, (-1,))
    one_hot = ops.one_hot(positions, permutations.shape[1], dtype=dtype)
    return ops.transpose(one_hot)


def permute(vector, matrix):
    """Permutes the complex numbers of a vector, once for each copy.

    Args:
        vector: pair of float tensors `(..., H / 2)`.
        matrix: float tensor, as of `matrix_of`.

    Returns:
        Pair of float tensors `(..., N_c, H / 2)`, `P_s r` for each copy s.
    """
    numbers, columns = matrix.shape

    def permuted(part):
        shape = (*ops.shape(part)[:-1], columns // numbers, numbers)
        return ops.reshape(ops.matmul(part, matrix), shape)

    return tuple(permuted(part) for part in vector)


def read(keys, memory):
    """Retrieves what was written to a redundant memory under a key.

    Weissenborn (2016), Equation 5, with `keys` the copies `P_s r` of the key
    that it was written under:

        x~ = 1 / N_c sum_s (P_s conj(r)) (x) m_s

    Args:
        keys: pair of float tensors `(..., N_c, H / 2)`, as of `permute`.
        memory: pair of float tensors `(..., N_c, H / 2)`.

    Returns:
        Pair of float tensors `(..., H / 2)`.
    """
    return (
        ops.mean(keys[0] * memory[0] + keys[1] * memory[1], axis=-2),
        ops.mean(keys[0] * memory[1] - keys[1] * memory[0], axis=-2),
    )


def write(keys, value, memory):
    """Adds a value to all copies of a memory, under a key.

    Weissenborn (2016), Equation 4: `m_s + (P_s r) (x) x`.

    Args:
        keys: pair of float tensors `(..., N_c, H / 2)`, as of `permute`.
        value: pair of float tensors `(..., H / 2)`.
        memory: pair of float tensors `(..., N_c, H / 2)`.

    Returns:
        Pair of float tensors `(..., N_c, H / 2)`.
    """
    re, im = encode(keys, [ops.expand_dims(part, -2) for part in value])
    return memory[0] + re, memory[1] + im


def _modulus(vector, key):
    """Moduli, and the least of a key where they are less."""
    square = vector[0] * vector[0] + vector[1] * vector[1]
    # The root of the maximum, whose gradient at zero is finite.
    return ops.sqrt(ops.maximum(square, KEYS[key] ** 2))
