"""Naive float64 reference of `InductionAttention`, written from its equations.

The arguments are those of `references.daniluk2017`; `window["slots"]` holds
normalised outputs.
"""

import numpy as np

from references.daniluk2017 import empty_like
from references.daniluk2017 import history
from references.daniluk2017 import keep
from references.daniluk2017 import softmax
from references.delta_rule import unit


def normalized(h):
    return unit(h) * np.sqrt(len(h))


def induction(outputs, weights, window):
    """Computes attention; the key of each value is the output before the
    value."""
    batch_size, time, k = outputs.shape
    length = window["slots"].shape[1]
    predictions = np.zeros((batch_size, time, k))
    attention = np.zeros((batch_size, time, length))
    new_window = empty_like(window)
    for row in range(batch_size):
        past = history(window, row)
        for step in range(time):
            h = outputs[row, step]
            past = past + [normalized(h)]
            query = weights["W^q"] @ past[-1]
            values = range(1, len(past))
            alpha = softmax(
                np.array([past[i - 1] @ query / np.sqrt(k) for i in values])
            )
            r = np.zeros(k)
            for i, weight in zip(values, alpha):
                r = r + weight * past[i]
            predictions[row, step] = np.tanh(
                weights["W^r"] @ r + weights["W^x"] @ h
            )
            attention[row, step, length - len(values) :] = alpha
            past = past[-length:]
        keep(new_window, row, past)
    return predictions, new_window, attention
