"""Rows of Merity, Xiong, Bradbury and Socher (2017), Tables 2 and 3.

The pointer sentinel on the medium model of Zaremba et al. (2014): two LSTM
layers of 650 units, embeddings of as many, an untied projection with bias, and
weights drawn from U(-0.05, 0.05). SGD at a learning rate of 1, halved when the
validation perplexity is no better, back-propagation through 100 steps, as many
as the pointer's window has, and clipping at a norm of 1.

Choices, where no more is known of the paper: a batch size of 32, no offset of
the forget-gate bias, the loss summed over time, at most 64 epochs and an end
after three without a better perplexity.

The paper prints 21M parameters. By its equations they are 20.2M on Penn
Treebank and, as the vocabulary is larger, 50.5M on WikiText-2.
"""

from memlm_keras.presets.one_stream import given_or_scaled
from memlm_keras.presets.one_stream import one_stream
from memlm_keras.presets.serialized import from_memlm_keras
from memlm_keras.presets.serialized import lstm
from memlm_keras.presets.serialized import sgd
from memlm_keras.presets.serialized import uniform

TITLE = "Pointer Sentinel Mixture Models"

UNITS = 650
LAYERS = 2
WINDOW = 100
_LIMIT = 0.05

# One row: corpus, published validation and test perplexity.
ROWS = {
    "ptb_pointer_sentinel": ("Penn Treebank", 72.4, 70.9),
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
    """
    units, embedding_dim = given_or_scaled(UNITS, scale, units, embedding_dim)
    weights = uniform(_LIMIT)
    return one_stream(
        f"merity2017/{row}",
        f"Merity et al. (2017), {TITLE}, Tables 2 and 3",
        model={
            "embedding_dim": embedding_dim,
            "recurrent": [
                lstm(units, weights, unit_forget_bias=False)
                for _ in range(LAYERS)
            ],
            "dropout": 0.5,
            "initializer": weights,
            "mixture": from_memlm_keras(
                "memory.merity2017",
                "PointerSentinel",
                {
                    "window": WINDOW if window is None else window,
                    "kernel_initializer": weights,
                },
            ),
        },
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
