"""Naive float64 reference of `DeltaRule`, one step at a time.

`weights` are matrices by the symbols of the class, vectors as columns of the
right side; `state` holds `associations` `(B, N, K, V)` and, if outputs before
the current one are read, `window` `(B, slots, k)`. With permutations `P`, all
numbers are complex, and the last or second half of a vector or of a matrix of
associations has the imaginary parts.
"""

import numpy as np

from references.daniluk2017 import sigmoid


def unit(x):
    """A vector of length one; zeros stay."""
    length = np.sqrt(np.sum(abs(x) ** 2))
    return x / length if length else x


def complex_of(x):
    """Complex numbers from real parts and imaginary parts."""
    re, im = np.split(x, 2)
    return re + 1j * im


def reals(x):
    """Inverse of `complex_of`; real numbers stay."""
    return np.concatenate([x.real, x.imag]) if np.iscomplexobj(x) else x


def key_of_head(vector, n, heads, permutations):
    """A key of length one: a part of the vector, or one of each copy."""
    if permutations is None:
        return unit(np.split(vector, heads)[n])
    r = complex_of(vector)
    r = np.array([unit(number[None])[0] for number in r])
    copies = [r[permutation][n] for permutation in permutations]
    return np.array(copies) / np.sqrt(len(permutations))


def change_of(S, key, value, rate):
    """The matrix that a write adds."""
    missing = value - key.conj() @ S
    if np.iscomplexobj(rate):
        written = rate.real * missing.real + 1j * (rate.imag * missing.imag)
    else:
        written = rate * missing
    return np.outer(key, written)


def convolved(recent, taps):
    """Weighted sum of the last outputs, the most recent last."""
    if taps is None:
        return recent[-1]
    return np.sum(np.asarray(recent[-len(taps) :]) * taps, axis=0)


def delta_rule(
    outputs, weights, state, negative_eigenvalues=False, previous_keys=False
):
    """Predictions `(B, T, k)`, and the state after the last step."""
    batch_size, time, k = outputs.shape
    associations = np.array(state["associations"], "float64")
    permutations = weights.get("P")
    numbers = np.array if permutations is None else complex_of
    heads = associations.shape[1]
    window = state.get("window", np.zeros((batch_size, 0, k)))
    window = np.asarray(window, "float64")
    predictions = np.zeros((batch_size, time, k))
    windows = np.zeros_like(window)
    taps = weights.get("convolution")
    taps = [None] * 3 if taps is None else np.split(taps, 3, axis=1)
    for row in range(batch_size):
        recent = list(window[row])
        for step in range(time):
            h = outputs[row, step]
            recent.append(h)
            before = recent[:-1] if previous_keys else recent
            q = weights["W^q"] @ convolved(recent, taps[0])
            key = weights["W^k"] @ convolved(before, taps[1])
            v = weights["W^v"] @ convolved(recent, taps[2])
            beta = sigmoid(weights["w^b"] @ h + weights["b^b"])
            if negative_eigenvalues:
                beta = 2.0 * beta
            alpha = np.ones(heads)
            if "w^a" in weights:
                alpha = sigmoid(weights["w^a"] @ h + weights["b^a"])
            read = []
            for n in range(heads):
                S = alpha[n] * numbers(associations[row, n])
                S = S + change_of(
                    S,
                    key_of_head(key, n, heads, permutations),
                    np.split(numbers(v), heads)[n],
                    numbers(beta)[n],
                )
                q_n = key_of_head(q, n, heads, permutations)
                read.append(q_n.conj() @ S)
                associations[row, n] = reals(S)
            read = weights["W^r"] @ reals(np.concatenate(read))
            predictions[row, step] = (
                np.tanh(read + weights["W^x"] @ h)
                if "W^x" in weights
                else h + read
            )
        if window.shape[1]:
            windows[row] = recent[-window.shape[1] :]
    new_state = {"associations": associations}
    if "window" in state:
        new_state["window"] = windows
    return predictions, new_state
