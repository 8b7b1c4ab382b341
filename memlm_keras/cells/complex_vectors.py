"""Complex vectors as pairs of their real and imaginary parts.

Weissenborn (2016), Section 3.1, after Plate (1995) and Danihelka et al. (2016).
A vector `r = [r_re; r_im]` of H real numbers, H even, represents H / 2 complex
numbers. The states of layers contain the real vector `r`. The functions below
take pairs `(r_re, r_im)`, so that a step of a loop need not join the halves;
`(x)` is the element-wise complex product.

Shapes use B (batch), H (units) and N_c (copies of the memory).
"""

import keras
import numpy as np
from keras import ops

from memlm_keras.gradients import UNIT
from memlm_keras.gradients import divide_by_length
from memlm_keras.gradients import divide_by_length_gradient
from memlm_keras.gradients import length_of

# For each `key`, lower bounds of the divisors in `normalize` and its gradient.
KEYS = {"bound": (1.0, 1.0), "unit": UNIT}


def split(vector, axis=-1):
    """Splits a vector into a pair of halves, along the last or first axis."""
    numbers = vector.shape[axis] // 2
    if axis:
        return vector[..., :numbers], vector[..., numbers:]
    return vector[:numbers], vector[numbers:]


def join(pair, axis=-1):
    """Joins the halves of a vector."""
    return ops.concatenate(pair, axis=axis)


def encode(key, value):
    """Multiplies complex vectors; Weissenborn (2016), Equation 1."""
    return (
        key[0] * value[0] - key[1] * value[1],
        key[0] * value[1] + key[1] * value[0],
    )


def normalize(vector, key="bound"):
    """Divides each complex number z by the larger of |z| and `KEYS[key][0]`;
    Weissenborn (2016), Equations 9, 10."""
    return divide_by_length(vector, KEYS[key])


def normalize_gradient(vector, upstream, key="bound"):
    """Returns the gradient of `vector`, given the gradient of the result."""
    return divide_by_length_gradient(
        normalize(vector, key), length_of(vector), upstream, KEYS[key]
    )


def permutations_from(seed):
    """Returns an initializer that draws permutations `(N_c, H / 2)`; the first
    one is the identity."""

    def draw(shape, dtype):
        copies, numbers = shape
        random = np.random.default_rng(seed)
        drawn = [random.permutation(numbers) for _ in range(copies - 1)]
        return ops.convert_to_tensor(
            np.array([np.arange(numbers), *drawn]), dtype=dtype
        )

    return draw


def matrix_of(permutations, dtype):
    """Returns permutations `(N_c, H / 2)` as a matrix `(H / 2, N_c H / 2)`."""
    # In a loop over time, the gradient of a look-up would be a scatter, which
    # is several times as slow as a product with zeros and ones.
    positions = ops.reshape(permutations, (-1,))
    one_hot = ops.one_hot(positions, permutations.shape[1], dtype=dtype)
    return ops.transpose(one_hot)


def permute(vector, matrix):
    """Permutes a pair by a result of `matrix_of`, to `(..., N_c, H / 2)`."""
    numbers, columns = matrix.shape

    def permuted(part):
        shape = (*ops.shape(part)[:-1], columns // numbers, numbers)
        return ops.reshape(ops.matmul(part, matrix), shape)

    return tuple(permuted(part) for part in vector)


def read(keys, memory):
    """Reads a memory m with the permuted copies `P_s r` of a key: `1 / N_c
    sum_s (P_s conj(r)) (x) m_s`; Weissenborn (2016), Equation 5."""
    return (
        ops.mean(keys[0] * memory[0] + keys[1] * memory[1], axis=-2),
        ops.mean(keys[0] * memory[1] - keys[1] * memory[0], axis=-2),
    )


def write(keys, value, memory):
    """Adds a value v to a memory m with the permuted copies `P_s r` of a key:
    `m_s + (P_s r) (x) v`; Weissenborn (2016), Equation 4."""
    re, im = encode(keys, [ops.expand_dims(part, -2) for part in value])
    return memory[0] + re, memory[1] + im


# === With the batch as the last axis ===


def take(tensor, positions):
    """Returns the rows of a tensor at valid positions."""
    if keras.backend.backend() == "jax":
        import jax.numpy as jnp

        # By default, JAX would test each number for an invalid position.
        return jnp.take(tensor, positions, axis=0, mode="clip")
    return ops.take(tensor, positions, axis=0)


def look_up(key, positions):
    """Permutes a key, a pair of `(H / 2, B)`, by permutations `(H / 2, N_c)`;
    returns a pair of `(H / 2, N_c, B)`."""
    return tuple(take(part, positions) for part in key)


def reverse_axes(memory):
    """Moves the batch axis of a memory's two tensors to the end, or back."""
    return tuple(ops.transpose(part, (2, 1, 0)) for part in memory)
