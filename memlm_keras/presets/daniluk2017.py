"""Rows of Daniluk et al. (2017), Figure 2, as configurations.

Sizes are Figure 2's (b) and (c). All models have embeddings of 300 units, an
untied output projection with bias, and weights drawn from U(-0.1, 0.1) except
a forget-gate bias of 1 (Section 4).
"""

from memlm_keras.presets.serialized import from_keras
from memlm_keras.presets.serialized import from_memlm_keras
from memlm_keras.presets.serialized import lstm
from memlm_keras.presets.serialized import recurrent_arguments
from memlm_keras.presets.serialized import refuse_window
from memlm_keras.presets.serialized import uniform

TITLE = "Frustratingly Short Attention Spans in Neural Language Modeling"

EMBEDDING_DIM = 300
_LIMIT = 0.1

# One row: recurrent layer or cell, its units, the parts that an output is
# split in, memory, its window or order, published validation and test
# perplexity (Wikipedia).
# The text prints 834 units for key_value_predict, which by the paper's own
# equations is 25.6M parameters without embeddings; 786 units are 23.9M, the
# size of all other rows.
ROWS = {
    "rnn": ("SimpleRNN", 307, 1, None, {}, 121.7, 125.7),
    "lstm": ("LSTM", 300, 1, None, {}, 83.2, 85.2),
    "fofe_hornn": ("FOFEHORNNCell", 303, 1, "Projection", {}, 116.7, 120.5),
    "gated_hornn": ("GatedHORNNCell", 297, 1, "Projection", {}, 93.9, 97.1),
    "rm_tm_gated": ("LSTM", 300, 1, "MemoryBlock", {"window": 15}, 78.2, 80.1),
    "attention": ("LSTM", 296, 1, "Attention", {"window": 10}, 80.6, 82.0),
    "key_value": ("LSTM", 560, 2, "KeyValue", {"window": 10}, 77.1, 78.2),
    "key_value_predict": (
        *("LSTM", 834, 3, "KeyValuePredict", {"window": 5}),
        *(74.2, 75.8),
    ),
    "key_value_predict_786": (
        *("LSTM", 786, 3, "KeyValuePredict", {"window": 5}),
        *(None, None),
    ),
    "ngram_2": ("LSTM", 564, 2, "NGram", {"order": 2}, 76.0, 77.1),
    "ngram_3": ("LSTM", 786, 3, "NGram", {"order": 3}, 74.9, 75.9),
    "ngram_4": ("LSTM", 968, 4, "NGram", {"order": 4}, 74.8, 75.9),
    "ngram_5": ("LSTM", 1120, 5, "NGram", {"order": 5}, 76.0, 77.3),
}

# "The hidden size of all models was adjusted so that they have roughly the same
# number of parameters": of all but this one, which has twice as many.
UNMATCHED = ("rm_tm_gated",)

# Published test perplexity by attention window, Figure 2 (a).
PUBLISHED_BY_WINDOW = {
    "rm_tm_gated": {1: 83.5, 5: 80.5, 10: 80.3, 15: 80.1},
    "attention": {1: 82.2, 5: 82.2, 10: 82.0, 15: 82.8},
    "key_value": {1: 78.7, 5: 79.0, 10: 78.2, 15: 78.9},
    "key_value_predict": {1: 76.1, 5: 75.8, 10: 76.0, 15: 75.8},
}

# Published accuracy on the Children's Book Test, Figure 2 (d): named entities,
# common nouns, verbs, prepositions.
PUBLISHED_CLOZE = {
    "fofe_hornn": {"NE": 0.465, "CN": 0.497, "V": 0.774, "P": 0.741},
    "gated_hornn": {"NE": 0.508, "CN": 0.547, "V": 0.790, "P": 0.774},
    "rm_tm_gated": {"NE": 0.525, "CN": 0.597, "V": 0.817, "P": 0.797},
    "lstm": {"NE": 0.523, "CN": 0.604, "V": 0.819, "P": 0.786},
    "attention": {"NE": 0.538, "CN": 0.595, "V": 0.826, "P": 0.803},
    "key_value": {"NE": 0.528, "CN": 0.601, "V": 0.822, "P": 0.813},
    "key_value_predict": {"NE": 0.528, "CN": 0.599, "V": 0.829, "P": 0.803},
    "ngram_4": {"NE": 0.532, "CN": 0.598, "V": 0.815, "P": 0.800},
}


def preset(row, scale=1.0, units=None, embedding_dim=None, window=None):
    """Makes the configuration of one row.

    Args:
        row: string, key of `ROWS`.
        scale: float, factor on the paper's `units` and `embedding_dim`.
        units: integer, units of the recurrent layer instead of the paper's.
        embedding_dim: integer, likewise.
        window: integer, attention window instead of the paper's.

    Returns:
        A dict of plain values.

    Raises:
        ValueError: for `window` in a row without attention.
    """
    layer, paper_units, parts, memory, span, validation, test = ROWS[row]
    if "window" not in span:
        refuse_window(f"daniluk2017/{row}", window)
    elif window is not None:
        span = {"window": window}
    if units is None:
        units = max(1, round(paper_units * scale / parts)) * parts
    if embedding_dim is None:
        embedding_dim = max(1, round(EMBEDDING_DIM * scale))
    return {
        "name": f"daniluk2017/{row}",
        "source": f"Daniluk et al. (2017), {TITLE}, Figure 2",
        "model": {
            "embedding_dim": embedding_dim,
            "recurrent": [_recurrent(layer, units)],
            "memory": _memory(memory, span),
            "initializer": uniform(_LIMIT),
        },
        "units": units,
        "units_divisor": parts,
        "data": {"batch_size": 64, "segment_length": 20, "documents": True},
        "optimizer": from_keras(
            "optimizers",
            "Adam",
            {"learning_rate": 0.001, "global_clipnorm": 5.0},
        ),
        "schedule": {"selected_by": "validation perplexity"},
        "published": {
            "corpus": "Wikipedia, 7,500 articles, vocabulary 77,003",
            "validation_perplexity": validation,
            "test_perplexity": test,
        },
    }


def _recurrent(layer, units):
    if layer == "LSTM":
        return lstm(units, uniform(_LIMIT))
    config = recurrent_arguments(units, uniform(_LIMIT))
    if layer == "SimpleRNN":
        return from_keras("layers", layer, config)
    cell = from_memlm_keras("cells.soltani2016", layer, {**config, "order": 3})
    return from_memlm_keras(
        "cells.projected_rnn", "ProjectedRNN", {"cell": cell}
    )


def _memory(memory, span):
    if memory is None:
        return None
    config = {**span, "kernel_initializer": uniform(_LIMIT)}
    modules = {"MemoryBlock": "tran2016", "Projection": "projection"}
    module = modules.get(memory, "daniluk2017")
    return from_memlm_keras(f"memory.{module}", memory, config)
