"""Naive float64 reference of long short-term memory-networks.

Implements Equations 4 to 14 for one sequence, with lists of all earlier states
and with column vectors.
"""

import numpy as np

from references.daniluk2017 import sigmoid
from references.daniluk2017 import softmax


def attend(pairs, w_key, query, v):
    """Returns the means of pairs `(h, c)`, weighted by attention."""
    if not pairs:
        return 0.0, 0.0
    scores = np.array([v @ np.tanh(w_key @ h + query) for h, _ in pairs])
    return tuple(
        sum(w * pair[part] for w, pair in zip(softmax(scores), pairs))
        for part in (0, 1)
    )


def lstm_network(inputs, weights, window, source=()):
    """Runs one sequence.

    Args:
        inputs: float64 `(time, d)`.
        weights: dict of matrices that multiply from the left: `W`, `W_x`,
            `W_h`, `W_h~`, `v`, `b`, and for fusion `W_g`, `W_y`, `W_g~`, `u`,
            `W_r`.
        window: integer, maximum number of earlier states to attend to.
        source: list of pairs `(gamma_j, alpha_j)`.

    Returns:
        List of pairs `(h_t, c_t)`.
    """
    size = len(weights["W"]) // 4
    read, source_read = np.zeros(size), np.zeros(size)
    pairs = []
    for x in inputs:
        hidden, cell = attend(
            pairs[-window:],
            weights["W_h"],
            weights["W_x"] @ x + weights["W_h~"] @ read,
            weights["v"],
        )
        read = np.zeros(size) + hidden
        gates = weights["W"] @ np.concatenate([x, read]) + weights["b"]
        i, f, g, o = np.split(gates, 4)
        new = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        if "W_g" in weights:
            gamma, alpha = attend(
                source,
                weights["W_g"],
                weights["W_y"] @ x + weights["W_g~"] @ source_read,
                weights["u"],
            )
            source_read = np.zeros(size) + gamma
            gate = weights["W_r"] @ np.concatenate([x, source_read])
            new = new + sigmoid(gate) * alpha
        pairs.append((sigmoid(o) * np.tanh(new), new))
    return pairs
