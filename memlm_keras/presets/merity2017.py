"""Rows of Merity, Xiong, Bradbury and Socher (2017), Tables 2 and 3.

A medium LSTM, two layers of 650 units with embeddings of as many, an untied
projection with bias and weights drawn from U(-0.05, 0.05), is regularized by
zoneout (Krueger et al., 2016) and by variational dropout of 0.5 of what each
layer and the projection read; and with it, the pointer sentinel. SGD at a
learning rate of 1, halved when the validation perplexity is no better,
back-propagation through 100 steps, as many as the pointer's window has, and
clipping at a norm of 1.

Choices, where no more is known of the paper: a batch size of 32, no offset of
the forget-gate bias, the loss summed over time, at most 64 epochs and an end
after three without a better perplexity; and the rates of zoneout, 0.5 of c and
0.05 of h, which are those of Krueger et al. for characters.

`wikitext2_variational_lstm` is, by choice, `gal2016/medium` on WikiText-2.

The paper prints 20M parameters, and 21M with a pointer. By its equations they
are 19.8M and 20.2M on Penn Treebank and, as the vocabulary is larger, 50.1M and
50.5M on WikiText-2.
"""

from memlm_keras.presets import gal2016
from memlm_keras.presets.one_stream import given_or_scaled
from memlm_keras.presets.one_stream import one_stream
from memlm_keras.presets.one_stream import perplexities
from memlm_keras.presets.serialized import from_memlm_keras
from memlm_keras.presets.serialized import recurrent_arguments
from memlm_keras.presets.serialized import refuse_window
from memlm_keras.presets.serialized import sgd
from memlm_keras.presets.serialized import uniform

TITLE = "Pointer Sentinel Mixture Models"

UNITS = 650
LAYERS = 2
WINDOW = 100
_LIMIT = 0.05

# One row: corpus, published validation and test perplexity.
ROWS = {
    "ptb_zoneout_variational": ("Penn Treebank", 84.4, 80.6),
    "ptb_pointer_sentinel": ("Penn Treebank", 72.4, 70.9),
    "wikitext2_variational_lstm": ("WikiText-2", 101.7, 96.3),
    "wikitext2_zoneout_variational": ("WikiText-2", 108.7, 100.9),
    "wikitext2_pointer_sentinel": ("WikiText-2", 84.8, 80.8),
}


def preset(row, scale=1.0, units=None, embedding_dim=None, window=None):
    """Makes the configuration of one row.

    Args:
        row: string, key of `ROWS`.
        scale: float, factor on the paper's units.
        units: integer, units of the recurrent layers instead of the paper's.
        embedding_dim: integer, likewise.
        window: integer, steps that the pointer sees instead of the paper's.

    Returns:
        A dict of plain values.

    Raises:
        ValueError: for a `window` in a row without a pointer.
    """
    name = f"merity2017/{row}"
    source = f"Merity et al. (2017), {TITLE}, Tables 2 and 3"
    if "pointer" not in row:
        refuse_window(name, window)
    if row == "wikitext2_variational_lstm":
        value = gal2016.preset("medium", scale, units, embedding_dim)
        published = perplexities(*ROWS[row])
        return {**value, "name": name, "source": source, "published": published}
    units, embedding_dim = given_or_scaled(UNITS, scale, units, embedding_dim)
    weights = uniform(_LIMIT)
    model = {
        "embedding_dim": embedding_dim,
        "recurrent": [_zoneout(units, weights) for _ in range(LAYERS)],
        "dropout": 0.5,
        "variational_dropout": True,
        "initializer": weights,
    }
    if "pointer" in row:
        model["mixture"] = from_memlm_keras(
            "mixtures.merity2017",
            "PointerSentinel",
            {
                "window": WINDOW if window is None else window,
                "kernel_initializer": weights,
            },
        )
    return one_stream(
        name,
        source,
        model=model,
        data=(32, 100),
        optimizer=sgd(1.0),
        schedule={
            "epochs": 64,
            # Arguments of `keras.callbacks.ReduceLROnPlateau`.
            "reduce_on_plateau": {
                "monitor": "val_nats",
                "mode": "min",
                "factor": 0.5,
                "patience": 0,
            },
            "patience": 3,
        },
        published=ROWS[row],
    )


def _zoneout(units, weights):
    cell = from_memlm_keras(
        "cells.krueger2017",
        "ZoneoutLSTMCell",
        {
            **recurrent_arguments(units, weights),
            "unit_forget_bias": False,
            "cell_zoneout": 0.5,
            "hidden_zoneout": 0.05,
        },
    )
    return from_memlm_keras(
        "cells.projected_rnn", "ProjectedRNN", {"cell": cell}
    )
