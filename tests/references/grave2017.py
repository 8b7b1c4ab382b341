"""Grave et al. (2017), Equations 3 and 4, one row, one step at a time."""

import numpy as np


def neural_cache(
    outputs, token_ids, probabilities, size, theta, weight, history=((), ())
):
    """Runs the neural cache over one sequence.

    Args:
        outputs: float64 `(time, units)`.
        token_ids: int `(time,)`.
        probabilities: float64 `(time, vocabulary)`, from the model without a
            cache.
        size, theta, weight: arguments of the layer.
        history: earlier outputs, and the words read at these steps.

    Returns:
        Probabilities `(time, vocabulary)` and, for each step, the list of
        pairs (steps back of an output, its weight).
    """
    h = [*history[0], *outputs]
    x = [*history[1], *token_ids]
    mixed = np.zeros_like(probabilities)
    attention = []
    for step in range(len(outputs)):
        t = step + len(history[0])
        remembered = [i for i in range(t) if t - i <= size]
        likeness = {i: np.exp(theta * (h[t] @ h[i])) for i in remembered}
        total = sum(likeness.values())
        p_cache = np.zeros(probabilities.shape[1])
        for i in remembered:
            p_cache[x[i + 1]] += likeness[i] / total
        mixed[step] = probabilities[step]
        if remembered:
            mixed[step] = (1 - weight) * probabilities[step] + weight * p_cache
        attention.append([(t - i, likeness[i] / total) for i in remembered])
    return mixed, attention
