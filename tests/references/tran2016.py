"""Naive float64 reference of the memory block of Tran et al. (2016).

`weights` maps the paper's symbols to matrices as printed, which multiply column
vectors from the left. The loops over batch, time and words are never optimized.
"""

import numpy as np

from references.daniluk2017 import sigmoid
from references.daniluk2017 import softmax

# Arguments of the layer `MemoryBlock`.
VARIANTS = {
    "tm_gated": {},
    "notm_gated": {"temporal": False},
    "tm_linear": {"composition": "linear"},
    "notm_linear": {"temporal": False, "composition": "linear"},
    "code_gated": {"temporal_context": True, "gate_bias": True},
    "code_linear": {
        "composition": "linear",
        "temporal_context": True,
        "linear_kernel": True,
    },
}


def symbols(layer, values=None):
    """Returns a layer's weights by the paper's symbols, transposed as printed.

    Args:
        layer: memory block of the package.
        values: list of arrays that replace the layer's weights, or `None`.

    Returns:
        Dict of arrays, the argument `weights` of this module's functions.
    """
    if values is None:
        values = [value.astype("float64") for value in layer.get_weights()]
    named = {w.name: value for w, value in zip(layer.weights, values)}
    weights = {"M": named["input_embeddings"], "C": named["output_embeddings"]}
    tables = {"T": "temporal_kernel", "T_C": "output_temporal_kernel"}
    for symbol, name in tables.items():
        if name in named:
            weights[symbol] = named[name]
    if "hidden_kernel" in named:
        weights["H"] = named["hidden_kernel"].T
    if "context_kernel" in named:
        parts = np.split(named["context_kernel"], 3, axis=1)
        weights |= zip(("W_sz", "W_sr", "W"), (part.T for part in parts))
        parts = np.split(named["gate_kernel"], 2, axis=1)
        weights |= zip(("U_hz", "U_hr"), (part.T for part in parts))
        weights["U"] = named["candidate_kernel"].T
    if "bias" in named:
        weights |= zip(("b_z", "b_r", "b"), np.split(named["bias"], 3))
    return weights


def memory_block(outputs, token_ids, weights, window, before):
    """Eq. 1-7.

    Args:
        outputs: float64 `(batch, time, d)`.
        token_ids: int `(batch, time)`.
        weights: dict of arrays: `M`, `C`; optionally `T`, `T_C`; then either
            `W_sz`, `W_sr`, `W`, `U_hz`, `U_hr`, `U` and optionally `b_z`,
            `b_r`, `b`; or `H`; or none of them.
        window: integer, n.
        before: list of the words that each row has read, the latest last.

    Returns:
        `(outputs, attention)`, attention `(batch, time, n)`.
    """
    composed = np.zeros_like(outputs)
    attention = np.zeros((*token_ids.shape, window))
    for row, (ids, past) in enumerate(zip(token_ids, before)):
        read = list(past)
        for step, word in enumerate(ids):
            read.append(word)
            words = read[-window:]
            places = list(range(window - len(words), window))
            composed[row, step], attention[row, step, places] = remember(
                outputs[row, step], words, places, weights
            )
    return composed, attention


def bidirectional_memory_block(outputs, token_ids, weights, window, end):
    """Computes Eq. 1-7 with words before and after the word to predict (Section
    6).

    Args: outputs, token_ids, weights: see `memory_block`. window: integer, n,
        words on each side. end: integer, the id that ends a sentence.

    Returns:
        `(outputs, attention)`, attention `(batch, time, 2 n)`.
    """
    composed = np.zeros_like(outputs)
    attention = np.zeros((*token_ids.shape, 2 * window))
    for row, ids in enumerate(token_ids.tolist()):
        for step in range(len(ids)):
            words, places = [], []
            predicted = step + 1
            for distance in range(window, 0, -1):
                if predicted - distance >= 0:
                    words.append(ids[predicted - distance])
                    places.append(window - distance)
            for distance in range(1, window + 1):
                if predicted + distance >= len(ids):
                    break
                if ids[predicted + distance] == end:
                    break
                words.append(ids[predicted + distance])
                places.append(window + distance - 1)
            composed[row, step], attention[row, step, places] = remember(
                outputs[row, step], words, places, weights
            )
    return composed, attention


def remember(h, words, places, weights):
    """Computes one step: the composed output, and the attention to each word.

    Args:
        h: float64 `(d,)`.
        words: list of integers.
        places: list of integers, the row of `T` of each word.
        weights: see `memory_block`.
    """
    m, c = weights["M"][words], weights["C"][words]
    if "T" in weights:
        m = m + weights["T"][places]
    if "T_C" in weights:
        c = c + weights["T_C"][places]
    p = softmax(m @ h)
    return compose(c.T @ p, h, weights), p


def compose(s, h, weights):
    """Combines context and output by Eq. 4-7, or adds both."""
    if "W" not in weights:
        return s + weights.get("H", np.eye(len(h))) @ h
    zero = np.zeros_like(h)
    z = sigmoid(
        weights["W_sz"] @ s + weights["U_hz"] @ h + weights.get("b_z", zero)
    )
    r = sigmoid(
        weights["W_sr"] @ s + weights["U_hr"] @ h + weights.get("b_r", zero)
    )
    candidate = np.tanh(
        weights["W"] @ s + weights["U"] @ (r * h) + weights.get("b", zero)
    )
    return (1 - z) * h + z * candidate
