"""Rows of Zaremba, Sutskever and Vinyals (2014), Table 1, as configurations.

Two LSTM layers of as many units as the embeddings have, an untied projection,
weights drawn from a uniform distribution, dropout on the non-recurrent
connections, and one stream of text whose state is carried on (Section 4.1).
The small model, which the authors' code calls non-regularized, has none.
"""

from memlm_keras.presets.one_stream import given_or_scaled
from memlm_keras.presets.one_stream import one_stream
from memlm_keras.presets.serialized import lstm
from memlm_keras.presets.serialized import refuse_window
from memlm_keras.presets.serialized import sgd
from memlm_keras.presets.serialized import uniform

TITLE = "Recurrent Neural Network Regularization"

# One row: units, limit of the initial weights, dropout, steps of
# back-propagation, clipping norm, epochs, epochs at the initial learning rate,
# factor at each later one, and published validation and test perplexity.
ROWS = {
    "small": (200, 0.1, 0.0, 20, 5.0, 13, 4, 0.5, None, None),
    "medium": (650, 0.05, 0.5, 35, 5.0, 39, 6, 0.8, 86.2, 82.7),
    "large": (1500, 0.04, 0.65, 35, 10.0, 55, 14, 1 / 1.15, 82.2, 78.4),
}
LAYERS = 2


def preset(row, scale=1.0, units=None, embedding_dim=None, window=None):
    """Makes the configuration of one row.

    Args:
        row: string, key of `ROWS`.
        scale: float, factor on the paper's units.
        units: integer, units of the recurrent layers instead of the paper's.
        embedding_dim: integer, likewise.
        window: must be `None`.

    Returns:
        A dict of plain values.

    Raises:
        ValueError: for a `window`.
    """
    refuse_window(f"zaremba2014/{row}", window)
    paper_units, limit, dropout, steps, norm, *training = ROWS[row]
    epochs, kept_epochs, factor, *perplexities = training
    units, embedding_dim = given_or_scaled(
        paper_units, scale, units, embedding_dim
    )
    return one_stream(
        f"zaremba2014/{row}",
        f"Zaremba et al. (2014), {TITLE}, Section 4.1 and Table 1",
        model={
            "embedding_dim": embedding_dim,
            "recurrent": [
                lstm(units, uniform(limit), unit_forget_bias=False)
                for _ in range(LAYERS)
            ],
            "dropout": dropout,
            "initializer": uniform(limit),
        },
        data=(20, steps),
        optimizer=sgd(norm),
        schedule={
            "epochs": epochs,
            "halve_after": kept_epochs,
            "factor": factor,
        },
        published=("Penn Treebank", *perplexities),
    )
