"""Rows of Kong, Melis, Ling, Yu and Yogatama (2019), Table 2.

Two LSTM layers of as many units as the embeddings have, with the recurrent
dropout of Semeniuta et al. (2016), dropout on the embeddings and on what the
projection reads and none in between, and an output projection tied but in the
first row.
Noised rows (`dn`) have in `noise` the arguments of
`memlm_keras.smoothing.NoisedBatches`, and smoothed ones (`vs`) a `smoothing`
that wants the statistics of the training text: `model.smoothing.adapt`.

Learning rate, l2 and gamma_0 were chosen by validation perplexity among those
in `tuned`, for each row; those here are the second or the smaller of them.
Choices, where the paper is silent: no bias of the output projection,
back-propagation through 35 steps, clipping at a norm of 5, a loss summed over
time, beside which the l2 is as it stands, weights from U(-0.05, 0.05) with a
forget-gate bias of 1, at most 100 epochs and an end after 10 without a better
perplexity. Rows where nothing is smoothed have no l2 here; the paper tuned one
for all models: see `plain_l2`.
"""

from memlm_keras.presets.one_stream import one_stream
from memlm_keras.presets.serialized import from_keras
from memlm_keras.presets.serialized import from_memlm_keras
from memlm_keras.presets.serialized import recurrent_arguments
from memlm_keras.presets.serialized import refuse_window
from memlm_keras.presets.serialized import tied_units
from memlm_keras.presets.serialized import uniform

TITLE = "Variational Smoothing in Recurrent Neural Network Language Models"

LAYERS = 2
RATE = 0.2
_LIMIT = 0.05

# Units: dropout of embeddings and outputs.
DROPOUT = {512: 0.5, 1024: 0.7}

# What is tried on validation text.
TUNED = {
    "learning_rate": [0.002, 0.003, 0.004],
    "l2": [1e-4, 1e-3],
    "rate": [0.1, 0.2, 0.3, 0.4],
}

# One row for each number of units: published validation and test perplexity,
# on Penn Treebank and on WikiText-2.
_PUBLISHED = {
    "vanilla_untied_512": (89.6, 84.5, 106.3, 100.8),
    "vanilla_untied_1024": (90.3, 85.5, 97.6, 91.9),
    "vanilla_tied_512": (80.0, 74.0, 90.6, 86.6),
    "vanilla_tied_1024": (75.9, 70.2, 85.2, 81.0),
    "dn_linear_512": (79.4, 73.3, 88.9, 84.6),
    "dn_linear_1024": (75.5, 70.2, 84.3, 80.1),
    "dn_kneser_ney_512": (75.0, 70.7, 86.1, 82.1),
    "dn_kneser_ney_1024": (71.4, 67.3, 81.9, 78.3),
    "vs_linear_512": (76.3, 71.2, 84.0, 79.6),
    "vs_linear_1024": (71.7, 67.8, 80.5, 76.6),
    "vs_kneser_ney_512": (74.5, 70.6, 84.9, 80.9),
    "vs_kneser_ney_1024": (70.8, 66.9, 80.9, 76.7),
    "vs_elementwise_512": (70.5, 66.8, None, None),
    "vs_elementwise_1024": (68.6, 64.5, None, None),
}
_SCHEMES = {
    "linear": "linear_interpolation",
    "kneser_ney": "kneser_ney",
    "elementwise": "kneser_ney",
}

# One row: "vanilla", "dn" or "vs", what follows it in the name, units and
# published perplexities.
ROWS = {
    row: (*row.rpartition("_")[0].split("_", 1), int(row.rpartition("_")[2]), p)
    for row, p in _PUBLISHED.items()
}


def preset(row, scale=1.0, units=None, embedding_dim=None, window=None):
    """Makes the configuration of one row.

    Args:
        row: string, key of `ROWS`.
        scale: float, factor on the paper's units.
        units: integer, units of all layers instead of the paper's.
        embedding_dim: integer, another name of the same.
        window: must be `None`.

    Returns:
        A dict of plain values.

    Raises:
        ValueError: for a `window`, and for `units` that contradict
            `embedding_dim`.
    """
    name = f"kong2019/{row}"
    refuse_window(name, window)
    method, variant, paper_units, published = ROWS[row]
    units = tied_units(name, paper_units, scale, units, embedding_dim)
    weights = uniform(_LIMIT)
    model = {
        "embedding_dim": units,
        "recurrent": [_recurrent(units, weights) for _ in range(LAYERS)],
        "tie_embeddings": variant != "untied",
        "output_bias": False,
        "embedding_dropout": DROPOUT[paper_units],
        "output_dropout": DROPOUT[paper_units],
        "initializer": weights,
    }
    noise = None
    if method == "dn":
        noise = {"scheme": _SCHEMES[variant], "rate": RATE}
    if method == "vs":
        model["smoothing"] = from_memlm_keras(
            "smoothing.kong2019",
            "VariationalSmoothing",
            {
                "scheme": _SCHEMES[variant],
                "rate": RATE,
                "element_wise": variant == "elementwise",
                "l2": TUNED["l2"][0],
            },
        )
    value = one_stream(
        name,
        f"Kong et al. (2019), {TITLE}, Section 5 and Table 2",
        model=model,
        data=(64, 35),
        optimizer=from_keras(
            "optimizers",
            "RMSprop",
            {"learning_rate": 0.003, "global_clipnorm": 5.0},
        ),
        schedule={"epochs": 100, "patience": 10},
        published=("Penn Treebank", *published[:2]),
    )
    beside = {
        "corpus": "WikiText-2",
        "validation_perplexity": published[2],
        "test_perplexity": published[3],
    }
    return {**value, "noise": noise, "tuned": TUNED, "also_published": beside}


def plain_l2(l2):
    """The `smoothing` of a model where nothing is: its divergence is l2 |E|^2.

    E are the embeddings, and the projection where it is tied to them.

    Args:
        l2: float, weight of the sum of squares.

    Returns:
        A dict of plain values, as presets have.
    """
    return from_memlm_keras(
        "smoothing.kong2019",
        "VariationalSmoothing",
        {"scheme": "linear_interpolation", "rate": 0.0, "l2": l2},
    )


def _recurrent(units, weights):
    arguments = recurrent_arguments(units, weights)
    arguments["bias_initializer"] = from_keras("initializers", "Zeros", {})
    cell = from_memlm_keras(
        "cells.semeniuta2016",
        "RecurrentDropoutLSTMCell",
        {**arguments, "rate": 0.2},
    )
    return from_memlm_keras(
        "cells.projected_rnn", "ProjectedRNN", {"cell": cell}
    )
