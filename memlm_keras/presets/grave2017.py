"""Rows of Grave, Joulin and Usunier (2017), Section 5, as configurations.

One LSTM layer of 1024 units, trained without a cache. The rows with one have it
as `cache`, the arguments of `memlm_keras.evaluation.choose_cache`: its size,
and the values of theta and weight of which the best for the validation text are
chosen once the model is trained.

As in the paper: weights drawn from U(-0.05, 0.05), Adagrad at a learning rate
of 0.2, clipping at a norm of 0.1, back-propagation through 30 steps, batches of
20 rows and a dropout of 0.65.

Choices, where no more is known: embeddings of as many units, an untied
projection with bias, no offset of the forget-gate bias, the loss averaged over
tokens, up to 100 epochs with an end after ten without a better perplexity, the
values of theta and weight, and sums of squared gradients that begin at zero:
from Keras' 0.1 on, clipped gradients are too small to be told from none.
"""

from memlm_keras.evaluation.neural_cache import THETAS
from memlm_keras.evaluation.neural_cache import WEIGHTS
from memlm_keras.presets.one_stream import given_or_scaled
from memlm_keras.presets.one_stream import one_stream
from memlm_keras.presets.serialized import from_keras
from memlm_keras.presets.serialized import lstm
from memlm_keras.presets.serialized import refuse_window
from memlm_keras.presets.serialized import uniform

TITLE = "Improving Neural Language Models with a Continuous Cache"

UNITS = 1024
_LIMIT = 0.05

# One row: corpus, cache size, published test perplexity.
ROWS = {
    "ptb_lstm": ("Penn Treebank", None, 82.3),
    "ptb_cache_500": ("Penn Treebank", 500, 72.1),
    "wikitext2_lstm": ("WikiText-2", None, 99.3),
    "wikitext2_cache_100": ("WikiText-2", 100, 81.6),
    "wikitext2_cache_2000": ("WikiText-2", 2000, 68.9),
}


def preset(row, scale=1.0, units=None, embedding_dim=None, window=None):
    """Makes the configuration of one row.

    Args:
        row: string, key of `ROWS`.
        scale: float, factor on the paper's units.
        units: integer, units of the recurrent layer instead of the paper's.
        embedding_dim: integer, likewise.
        window: must be `None`; the size of a cache is not trained with.

    Returns:
        A dict of plain values.

    Raises:
        ValueError: for a `window`.
    """
    refuse_window(f"grave2017/{row}", window)
    corpus, size, test = ROWS[row]
    units, embedding_dim = given_or_scaled(UNITS, scale, units, embedding_dim)
    weights = uniform(_LIMIT)
    value = one_stream(
        f"grave2017/{row}",
        f"Grave et al. (2017), {TITLE}, Section 5",
        model={
            "embedding_dim": embedding_dim,
            "recurrent": [lstm(units, weights, unit_forget_bias=False)],
            "dropout": 0.65,
            "initializer": weights,
        },
        data=(20, 30),
        optimizer=from_keras(
            "optimizers",
            "Adagrad",
            {
                "learning_rate": 0.2,
                "global_clipnorm": 0.1,
                "initial_accumulator_value": 0.0,
            },
        ),
        schedule={"epochs": 100, "patience": 10},
        published=(corpus, None, test),
        sum_over_time=False,
    )
    cache = size and {
        "size": size,
        "thetas": list(THETAS),
        "weights": list(WEIGHTS),
    }
    return {**value, "cache": cache}
