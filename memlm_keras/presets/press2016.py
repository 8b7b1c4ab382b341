"""Rows of Press and Wolf (2016), Section 4, as configurations.

The models of Zaremba et al. (2014) with the embedding for the matrix of the
output projection, which keeps its bias (weight tying, `wt`); with a projection
of the last outputs, `P h + b_P`, and a penalty on P (projection regularization,
`pr`), where nothing is dropped; and with the dropout of Gal and Ghahramani
(2016; `bd`), without weight decay.

The penalty is that of the authors' code, `||P||^2 / 2` divided by 6.5 times the
batch size of 20 rows, beside a loss that is a mean over them; the paper prints
0.15. It is not of another batch size, where one is asked for. In a model of
`wt` the embedding is drawn as all weights are.
"""

from memlm_keras.presets import gal2016
from memlm_keras.presets import zaremba2014
from memlm_keras.presets.one_stream import perplexities
from memlm_keras.presets.serialized import from_keras
from memlm_keras.presets.serialized import from_memlm_keras
from memlm_keras.presets.serialized import refuse_window
from memlm_keras.presets.serialized import tied_units

TITLE = "Using the Output Embedding to Improve Language Models"

# One row: the model that it is made of, what is added, and published validation
# and test perplexity.
ROWS = {
    "small_wt": (zaremba2014, "small", ("wt",), None, None),
    "small_pr": (zaremba2014, "small", ("pr",), None, None),
    "small_wt_pr": (zaremba2014, "small", ("wt", "pr"), None, None),
    "large_wt": (zaremba2014, "large", ("wt",), None, None),
    "large_wt_bd": (gal2016, "large", ("wt",), 75.8, 73.2),
}


def preset(row, scale=1.0, units=None, embedding_dim=None, window=None):
    """Makes the configuration of one row.

    Args:
        row: string, key of `ROWS`.
        scale: float, factor on the paper's units.
        units: integer, units of all layers instead of the paper's.
        embedding_dim: integer, of a row of `wt` another name of the same.
        window: must be `None`.

    Returns:
        A dict of plain values.

    Raises:
        ValueError: for a `window`, and for `units` that contradict
            `embedding_dim` in a row of `wt`.
    """
    name = f"press2016/{row}"
    refuse_window(name, window)
    paper, base, added, *published = ROWS[row]
    if "wt" in added:
        paper_units = paper.ROWS[base][0]
        units = embedding_dim = tied_units(
            name, paper_units, scale, units, embedding_dim
        )
    value = paper.preset(base, scale, units, embedding_dim)
    # The published rows of variational dropout have no weight decay.
    value["optimizer"]["config"].pop("weight_decay", None)
    model = {**value["model"], "tie_embeddings": "wt" in added}
    if "pr" in added:
        model["memory"] = _projection(
            model["initializer"], value["data"]["batch_size"]
        )
    return {
        **value,
        "name": name,
        "source": f"Press and Wolf (2016), {TITLE}, Section 4",
        "model": model,
        "published": perplexities("Penn Treebank", *published),
    }


def _projection(weights, batch_size):
    penalty = 1 / (6.5 * batch_size)
    return from_memlm_keras(
        "memory.projection",
        "Projection",
        {
            "kernel_initializer": weights,
            "activation": "linear",
            "use_bias": True,
            "bias_initializer": weights,
            "kernel_regularizer": from_keras(
                "regularizers", "L2", {"l2": penalty / 2}
            ),
        },
    )
