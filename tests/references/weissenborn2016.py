"""Naive float64 references of the cells with an associative memory.

Complex vectors are NumPy arrays of complex numbers. A memory is a list with one
complex vector per copy. Matrices multiply column vectors from the left.
"""

import numpy as np

from references.daniluk2017 import sigmoid
from references.delta_rule import complex_of
from references.delta_rule import reals
from references.delta_rule import unit


def normalize(vector, key):
    if key == "unit":
        return np.array([unit(r[None])[0] for r in vector])
    return np.array([r / max(1.0, abs(r)) for r in vector])


def read(key, memory, permutations):
    """Reads the memory: 1 / N_c sum_s (P_s conj(r)) (x) m_s."""
    total = 0
    for permutation, copy in zip(permutations, memory):
        total = total + key.conj()[permutation] * copy
    return total / len(memory)


def write(key, value, memory, permutations):
    """Writes `x` to the memory: m_s + (P_s r) (x) x."""
    return [
        copy + key[permutation] * value
        for permutation, copy in zip(permutations, memory)
    ]


def am_rnn(inputs, w_key, cell, state, permutations, source, w_source, key):
    """Runs one sequence by Equations 8, 11, 12 and 13.

    Args:
        inputs: float64 `(time, input_dim)`.
        w_key: `W_r`, `(H, input_dim + k)`.
        cell: function of `x`, `h`, the read value, the remainder and the value
            of the source (or `None`) that returns `c_t, h_t, remainder`.
        state: `(memory, h, remainder)`; the memory is a list of complex
            vectors.
        permutations: integer `(N_c, H / 2)`.
        source: memory of the source sequence, or `None`.
        w_source: `W_r'`, or `None` if the key is shared.
        key: `"bound"`, Equations 9 and 10, or `"unit"`.

    Returns:
        Outputs `(time, k)`, the new state, and the values read from the source.
    """
    memory, h, remainder = state
    outputs, retrieved = [], []
    for x in inputs:
        joined = np.concatenate([x, h])
        r = normalize(complex_of(w_key @ joined), key)
        value = reals(read(r, memory, permutations))
        phi = None
        if source is not None:
            other = r
            if w_source is not None:
                other = normalize(complex_of(w_source @ joined), key)
            phi = reals(read(other, source, permutations))
            retrieved.append(phi)
        c, h, remainder = cell(x, h, value, remainder, phi)
        memory = write(r, complex_of(c - value), memory, permutations)
        outputs.append(h)
    return np.array(outputs), (memory, h, remainder), np.array(retrieved)


def gru(weights):
    """Returns the paper's GRU with `W`, `W'`, `b`, `b'`, and optionally `V`,
    `V'`."""

    def cell(x, h, s, remainder, phi):
        gates = weights["W"] @ np.concatenate([x, h, s]) + weights["b"]
        if phi is not None:
            gates = gates + weights["V"] @ phi
        update, reset = np.split(sigmoid(gates), 2)
        total = weights["W'"] @ np.concatenate([x, h, reset * s])
        total = total + weights["b'"]
        if phi is not None:
            total = total + weights["V'"] @ phi
        state = s + update * (np.tanh(total) - s)
        return state, state, remainder

    return cell


def lstm(kernel, recurrent_kernel, bias):
    """Keras' LSTM. The memory does not store `n`, the cell's last output."""

    def cell(x, h, c, remainder, phi):
        parts = [x, h] if phi is None else [x, h, phi]
        total = kernel.T @ np.concatenate(parts)
        total = total + recurrent_kernel.T @ remainder + bias
        i, f, candidate, o = np.split(total, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(candidate)
        h = sigmoid(o) * np.tanh(c)
        return c, h, h

    return cell


def simple_rnn(kernel, recurrent_kernel, bias):
    """Keras' simple RNN, whose whole state is in the memory."""

    def cell(x, h, c, remainder, phi):
        parts = [x, h] if phi is None else [x, h, phi]
        total = kernel.T @ np.concatenate(parts) + bias
        c = np.tanh(total + recurrent_kernel.T @ c)
        return c, c, remainder

    return cell
