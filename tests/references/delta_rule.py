"""Naive float64 reference of `DeltaRule`, one step at a time.

`weights` are matrices by the symbols of the class, vectors as columns of the
right side; `state` holds `associations` `(B, N, K, V)` and, if outputs before
the current one are read, `window` `(B, slots, k)`.
"""

import numpy as np

# What Keras adds to the mean square.
EPSILON = 1e-7


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def unit(x):
    """A vector of length one, but for Keras' epsilon."""
    return x / np.sqrt(np.sum(x**2) + EPSILON * len(x))


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
    heads, key_dim, value_dim = associations.shape[1:]
    window = np.asarray(
        state.get("window", np.zeros((batch_size, 0, k))), "float64"
    )
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
                keys = slice(n * key_dim, (n + 1) * key_dim)
                k_n = unit(key[keys])
                v_n = v[n * value_dim : (n + 1) * value_dim]
                S = alpha[n] * associations[row, n]
                S = S + beta[n] * np.outer(k_n, v_n - S.T @ k_n)
                associations[row, n] = S
                read.append(S.T @ unit(q[keys]))
            predictions[row, step] = np.tanh(
                weights["W^r"] @ np.concatenate(read) + weights["W^x"] @ h
            )
        if window.shape[1]:
            windows[row] = recent[-window.shape[1] :]
    new_state = {"associations": associations}
    if "window" in state:
        new_state["window"] = windows
    return predictions, new_state
