"""Rows of Gal and Ghahramani (2016), Table 1, as configurations.

The models of Zaremba et al. (2014) with variational dropout: a mask for a whole
sequence, of its own for each gate ("untied weights"), of what each layer reads
(0.5) and of its own last output (0.3); of the words (0.3), and of what the
projection reads (0.5). `memlm_keras.evaluation.monte_carlo_perplexity` takes
the average over masks.

The rates are those of the authors' code, for the large model; so are the ten
epochs before its learning rate is divided by 1.15. Choices: the same rates for
the medium model, trained as that of Zaremba et al. is otherwise; and a weight
decay that shrinks with the learning rate, where the code's stays 1e-7. For the
average the code drops no words, while here they are dropped as in training.
"""

from memlm_keras.presets.one_stream import given_or_scaled
from memlm_keras.presets.one_stream import one_stream
from memlm_keras.presets.serialized import lstm
from memlm_keras.presets.serialized import refuse_window
from memlm_keras.presets.serialized import sgd
from memlm_keras.presets.serialized import uniform

TITLE = (
    "A Theoretically Grounded Application of Dropout in Recurrent Neural "
    "Networks"
)

LAYERS = 2

# One row: units, limit of the initial weights, clipping norm, epochs, epochs at
# the initial learning rate, factor at each later one, and published validation
# and test perplexity, and that of the Monte Carlo average.
ROWS = {
    "medium": (650, 0.05, 5.0, 39, 6, 0.8, 81.9, 79.7, 78.6),
    "large": (1500, 0.04, 10.0, 55, 10, 1 / 1.15, 77.9, 75.2, 73.4),
}


def variational(units, embedding_dim, limit):
    """Arguments of a model with the dropout of this paper.

    Args:
        units: integer, of each layer.
        embedding_dim: integer.
        limit: float, of the initial weights.
    """
    rates = {"dropout": 0.5, "recurrent_dropout": 0.3}
    return {
        "embedding_dim": embedding_dim,
        "recurrent": [
            lstm(units, uniform(limit), unit_forget_bias=False, **rates)
            for _ in range(LAYERS)
        ],
        "output_dropout": 0.5,
        "variational_dropout": True,
        "word_dropout": 0.3,
        "initializer": uniform(limit),
    }


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
    refuse_window(f"gal2016/{row}", window)
    paper_units, limit, norm, epochs, kept_epochs, factor, *published = ROWS[
        row
    ]
    sizes = given_or_scaled(paper_units, scale, units, embedding_dim)
    *perplexities, monte_carlo = published
    value = one_stream(
        f"gal2016/{row}",
        f"Gal and Ghahramani (2016), {TITLE}, Table 1",
        model=variational(*sizes, limit),
        data=(20, 35),
        optimizer=sgd(norm, weight_decay=1e-7),
        schedule={
            "epochs": epochs,
            "halve_after": kept_epochs,
            "factor": factor,
        },
        published=("Penn Treebank", *perplexities),
    )
    value["published"]["monte_carlo_test_perplexity"] = monte_carlo
    return value
