"""Gal and Ghahramani (2016): LSTM layers with fixed dropout, step by step.

Masks multiply the input vectors of the gates, with one mask per gate.
"""

import numpy as np

from references.daniluk2017 import sigmoid
from references.daniluk2017 import softmax


def probabilities_with_masks(token_ids, weights, masks):
    """Computes the next word's probabilities at each step of one sequence, from
    an empty context.

    Args:
        token_ids: integers `(time,)`.
        weights: dict of `E`, `(V, d)`; `layers`, a list of `(W, U, b)` with
            gates i, f, g, o side by side; and `head`, a matrix and a bias.
        masks: dict of `words`, `(V,)`; `inputs`, one vector for the embeddings
            and one for the outputs of each layer; and `kernels` and
            `recurrent_kernels`, for each layer one mask, or one mask per gate.

    Returns:
        float64 array `(time, V)`.
    """
    sizes = [len(u) for _, u, _ in weights["layers"]]
    h = [np.zeros(size) for size in sizes]
    c = [np.zeros(size) for size in sizes]
    probabilities = []
    for word in token_ids:
        x = weights["E"][word] * masks["words"][word] * masks["inputs"][0]
        for layer, (kernel, recurrent, bias) in enumerate(weights["layers"]):
            gates = []
            for gate in range(4):
                of_gate = slice(gate * sizes[layer], (gate + 1) * sizes[layer])
                of_x, of_h = (
                    masks[name][layer][gate % len(masks[name][layer])]
                    for name in ("kernels", "recurrent_kernels")
                )
                gates.append(
                    (x * of_x) @ kernel[:, of_gate]
                    + (h[layer] * of_h) @ recurrent[:, of_gate]
                    + bias[of_gate]
                )
            i, f, g, o = gates
            c[layer] = sigmoid(f) * c[layer] + sigmoid(i) * np.tanh(g)
            h[layer] = sigmoid(o) * np.tanh(c[layer])
            x = h[layer] * masks["inputs"][layer + 1]
        matrix, bias = weights["head"]
        probabilities.append(softmax(x @ matrix + bias))
    return np.stack(probabilities)
