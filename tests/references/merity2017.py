"""Merity et al. (2017), Section 2, one row, one step at a time."""

import numpy as np

from references.daniluk2017 import softmax


def pointer_sentinel(
    outputs, token_ids, probabilities, weights, window, history=((), ())
):
    """Runs the pointer sentinel over one sequence.

    Args:
        outputs: float64 `(time, units)`.
        token_ids: int `(time,)`.
        probabilities: float64 `(time, vocabulary)`, from the head without a
            pointer.
        weights: dict of `W`, `b` and `s`.
        window: L.
        history: earlier outputs, and the words read at these steps.

    Returns:
        Probabilities `(time, vocabulary)`; for each step, the list of pairs
        (steps back, weight); and `g + sum_{i: w_i = w} a_i` for every word,
        `(time, vocabulary)`.
    """
    h = [*history[0], *outputs]
    words = [*history[1], *token_ids]
    mixed = np.zeros_like(probabilities)
    pointed = np.zeros_like(probabilities)
    attention = []
    for step in range(len(outputs)):
        t = step + len(history[0])
        seen = [i for i in range(t + 1) if t - i < window]
        q = np.tanh(weights["W"] @ h[t] + weights["b"])
        z = np.array([q @ h[i] for i in seen] + [q @ weights["s"]])
        a = softmax(z)
        pointed[step] = gate = a[-1]
        mixed[step] = gate * probabilities[step]
        for i, weight in zip(seen, a):
            mixed[step, words[i]] += weight
            pointed[step, words[i]] += weight
        attention.append([(t - i, weight) for i, weight in zip(seen, a)])
    return mixed, attention, pointed
