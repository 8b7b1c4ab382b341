"""Naive float64 reference of Salton et al. (2017), written from the paper.

`weights` maps the paper's symbols to matrices as printed, which multiply column
vectors from the left. The loops over batch, time and memory are never
optimized.
"""

import numpy as np

from references.daniluk2017 import softmax


def attentive(outputs, weights, window, before):
    """Computes Eq. 3, 4 and 7, with Eq. 10 if `weights` has `W_q`, or else 9.

    Args:
        outputs: float64 `(batch, time, k)`.
        weights: dict of arrays `W_s`, `v_s`, `W_c`, `b_t` and perhaps `W_q`.
        window: integer, number of outputs whose weights are returned; with
            `W_q`, also the number of outputs to attend to.
        before: list of each row's earlier outputs, the latest last.

    Returns:
        `(outputs, attention)`, attention `(batch, time, window)`.
    """
    merged = np.zeros_like(outputs)
    attention = np.zeros((*outputs.shape[:2], window))
    for row, (sequence, past) in enumerate(zip(outputs, before)):
        memory = list(past)
        for step, h in enumerate(sequence):
            if "W_q" in weights:
                memory = memory[-window:]
            a = softmax(np.array([score(h_i, h, weights) for h_i in memory]))
            c = np.zeros_like(h)
            for a_i, h_i in zip(a, memory):
                c = c + a_i * h_i
            merged[row, step] = np.tanh(
                weights["W_c"] @ np.concatenate([h, c]) + weights["b_t"]
            )
            reported = a[-window:]
            attention[row, step, window - len(reported) :] = reported
            memory.append(h)
    return merged, attention


def score(h_i, h_t, weights):
    """Eq. 9 or 10."""
    hidden = weights["W_s"] @ h_i
    if "W_q" in weights:
        hidden = hidden + weights["W_q"] @ h_t
    return weights["v_s"] @ np.tanh(hidden)
