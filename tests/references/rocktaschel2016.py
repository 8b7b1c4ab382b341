"""Naive float64 reference of the word-by-word attention."""

import numpy as np

from references.daniluk2017 import softmax

# Names of the layer's weights, in the order of the arguments.
WEIGHTS = """
    premise_kernel query_kernel read_kernel score_kernel transition_kernel
    final_read_kernel final_output_kernel
""".split()


def word_by_word(outputs, premise, w_y, w_h, w_r, w, w_t, w_p, w_x):
    """Runs the attention over the outputs `(time, k)` of one pair, word by
    word.

    Weights are in the layer's layout, and multiply row vectors from the right.

    Returns:
        `h*`, `(k,)`, and the weights `(time, time of the premise)`.
    """
    read, rows = np.zeros(premise.shape[-1]), []
    for output in outputs:
        scores = np.array(
            [
                np.tanh(y @ w_y + output @ w_h + read @ w_r) @ w[:, 0]
                for y in premise
            ]
        )
        rows.append(softmax(scores))
        read = premise.T @ rows[-1] + np.tanh(read @ w_t)
    return np.tanh(read @ w_p + outputs[-1] @ w_x), np.array(rows)
