"""Naive float64 reference of `DeltaRule`, one step at a time.

`weights` is a dict from the symbols of the class to matrices, which multiply
column vectors from the left; `state` holds `associations` `(B, N, K, V)` and,
if outputs before the current one are read, `window` `(B, slots, k)`. With
permutations `P`, all numbers are complex: the second half of a vector or of a
matrix of associations contains the imaginary parts.
"""

import numpy as np

from references.daniluk2017 import sigmoid


def unit(x):
    """Divides a vector by its length, unless the length is zero."""
    length = np.sqrt(np.sum(abs(x) ** 2))
    return x / length if length else x


def complex_of(x):
    """Makes complex numbers from an array of all real and imaginary parts."""
    re, im = np.split(x, 2)
    return re + 1j * im


def reals(x):
    """Inverts `complex_of`; does not change real numbers."""
    return np.concatenate([x.real, x.imag]) if np.iscomplexobj(x) else x


def key_of_head(vector, n, heads, permutations):
    """Returns head n's key of length one: a part of the vector, or the n-th
    number of each permuted copy."""
    if permutations is None:
        return unit(np.split(vector, heads)[n])
    r = complex_of(vector)
    r = np.array([unit(number[None])[0] for number in r])
    copies = [r[permutation][n] for permutation in permutations]
    return np.array(copies) / np.sqrt(len(permutations))


def change_of(S, key, value, rate):
    """Returns the matrix that a write adds to the associations."""
    missing = value - key.conj() @ S
    if np.iscomplexobj(rate):
        written = rate.real * missing.real + 1j * (rate.imag * missing.imag)
    else:
        written = rate * missing
    return np.outer(key, written)


def convolved(recent, taps):
    """Computes the convolution, a weighted sum of the last outputs."""
    if taps is None:
        return recent[-1]
    return np.sum(np.asarray(recent[-len(taps) :]) * taps, axis=0)


def delta_rule(
    outputs, weights, state, negative_eigenvalues=False, previous_keys=False
):
    """Returns the outputs `h*`, `(B, T, k)`, and the state after the last
    step."""
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
