"""Rows of Salton, Ross and Kelleher (2017), Tables 1 and 2, as configurations.

All models have two LSTM layers of as many units as the embeddings have, the
attentive memory, and a projection tied to the embedding, with a bias. Weights
are drawn from U(-0.05, 0.05) and all biases are zero (Sections 4.1 and 4.2).

The dropout on "the non-recurrent connections" is that of Zaremba et al. (2014)
here: on the embeddings and on what each layer hands on, and so on what is
remembered. The authors' code drops the memory's outputs in place of its inputs,
and clips at 10 on WikiText-2, where the paper says 5.
"""

from memlm_keras.presets.serialized import from_keras
from memlm_keras.presets.serialized import from_memlm_keras
from memlm_keras.presets.serialized import lstm
from memlm_keras.presets.serialized import refuse_window
from memlm_keras.presets.serialized import sgd
from memlm_keras.presets.serialized import summed_over_time
from memlm_keras.presets.serialized import tied_units
from memlm_keras.presets.serialized import uniform

TITLE = "Attentive Language Models"

LAYERS = 2
_LIMIT = 0.05

# One corpus: its name, units, dropout, epochs at the initial learning rate,
# factor at each later one, and the window: as long as no sentence is, so that
# the memory of a combined score is all of it, as the paper's. The longest have
# 83 tokens on Penn Treebank, 215 on WikiText-2.
CORPORA = {
    "ptb": ("Penn Treebank", 650, 0.5, 12, 0.5, 100),
    "wikitext2": ("WikiText-2", 1000, 0.65, 14, 1 / 1.15, 250),
}

# One row: corpus, score, published validation and test perplexity. Whether they
# are per predicted token is not known: see the protocol salton2017 of
# `memlm_keras.evaluation.perplexity`.
ROWS = {
    "ptb_single": ("ptb", "single", 71.7, 70.1),
    "ptb_combined": ("ptb", "combined", 72.6, 70.7),
    "wikitext2_single": ("wikitext2", "single", 73.7, 69.7),
    "wikitext2_combined": ("wikitext2", "combined", 74.3, 70.8),
    # No rows of the paper: all else being equal, no memory.
    "ptb_lstm": ("ptb", None, None, None),
    "wikitext2_lstm": ("wikitext2", None, None, None),
}


def preset(row, scale=1.0, units=None, embedding_dim=None, window=None):
    """Makes the configuration of one row.

    Args:
        row: string, key of `ROWS`.
        scale: float, factor on the paper's units.
        units: integer, units of all layers instead of the paper's.
        embedding_dim: integer, another name of the same, as they are tied.
        window: integer, of the memory: how many outputs a combined score
            attends over, and a single score reports; not for a row without a
            memory.

    Returns:
        A dict of plain values.

    Raises:
        ValueError: for `units` that contradict `embedding_dim`, and a `window`
            in a row without a memory.
    """
    corpus, score, validation, test = ROWS[row]
    if score is None:
        refuse_window(f"salton2017/{row}", window)
    name, paper_units, dropout, kept_epochs, factor, paper_window = CORPORA[
        corpus
    ]
    units = tied_units(
        f"salton2017/{row}", paper_units, scale, units, embedding_dim
    )
    weights = uniform(_LIMIT)
    return {
        "name": f"salton2017/{row}",
        "source": f"Salton et al. (2017), {TITLE}, Tables 1 and 2",
        "model": {
            "embedding_dim": units,
            "recurrent": [
                lstm(units, weights, unit_forget_bias=False, zero_biases=True)
                for _ in range(LAYERS)
            ],
            "memory": score
            and from_memlm_keras(
                "memory.salton2017",
                "Attentive",
                {
                    "score": score,
                    "window": paper_window if window is None else window,
                    "kernel_initializer": weights,
                },
            ),
            "dropout": dropout,
            "tie_embeddings": True,
            "initializer": weights,
            "output_bias_initializer": from_keras("initializers", "Zeros", {}),
        },
        "units": units,
        "units_divisor": 1,
        "data": {
            "batch_size": 32,
            "sentences": True,
            "longest": 35,
            "equal_lengths": False,
        },
        "optimizer": sgd(5.0),
        "loss": summed_over_time(),
        "schedule": {
            # The most that the authors' code trains; the paper names none.
            "epochs": 100,
            "halve_after": kept_epochs,
            "factor": factor,
            "patience": 10,
            "selected_by": "validation perplexity",
        },
        "published": {
            "corpus": name,
            "validation_perplexity": validation,
            "test_perplexity": test,
        },
    }
