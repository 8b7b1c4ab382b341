"""Rows of Tran et al. (2016), Tables 2 and 4, as configurations.

All models have as many units everywhere, and weights drawn from U(-0.05, 0.05)
except a forget-gate bias of 1 (Section 4). Those of Table 2 have 128 units and
a memory of 15 words. Those of Table 4, for the Sentence Completion Challenge,
have three LSTM layers, below the memory, and "dropout after each LSTM layer"
(Section 6): on its outputs, and not on the embeddings.
"""

from memlm_keras.presets.serialized import from_memlm_keras
from memlm_keras.presets.serialized import lstm
from memlm_keras.presets.serialized import refuse_window
from memlm_keras.presets.serialized import sgd
from memlm_keras.presets.serialized import summed_over_time
from memlm_keras.presets.serialized import uniform

TITLE = "Recurrent Memory Networks for Language Modeling"

UNITS = 128
_LIMIT = 0.05


def _memory_block(temporal, composition, class_name="MemoryBlock", window=15):
    arguments = {"temporal": temporal, "composition": composition}
    return class_name, {"window": window, **arguments}


def _bidirectional(window):
    return _memory_block(True, "gated", "BidirectionalMemoryBlock", window)


# One row of Table 2: LSTM layers below the memory, memory, LSTM layers above
# it, published test perplexity in German, Italian and English, and of Penn
# Treebank where it was measured.
PERPLEXITY_ROWS = {
    "memn": (
        *(0, ("MemoryNetwork", {"window": 15}), 0),
        (169.3, 127.5, 188.2, None),
    ),
    "lstm_1": (1, None, 0, (135.8, 108.0, 145.1, None)),
    "lstm_2": (2, None, 0, (128.6, 105.9, 139.7, None)),
    "lstm_3": (3, None, 0, (125.1, 106.5, 136.6, 126.1)),
    "rmr_tm_linear": (
        *(1, _memory_block(True, "linear"), 1),
        (127.5, 109.9, 133.3, None),
    ),
    "rmr_notm_linear": (
        *(1, _memory_block(False, "linear"), 1),
        (126.4, 106.1, 134.5, None),
    ),
    "rmr_tm_gated": (
        *(1, _memory_block(True, "gated"), 1),
        (126.2, 99.5, 135.2, None),
    ),
    "rmr_notm_gated": (
        *(1, _memory_block(False, "gated"), 1),
        (122.0, 98.6, 131.2, None),
    ),
    "rm_tm_linear": (
        *(1, _memory_block(True, "linear"), 0),
        (121.5, 92.4, 127.2, None),
    ),
    "rm_notm_linear": (
        *(1, _memory_block(False, "linear"), 0),
        (122.9, 94.0, 130.4, None),
    ),
    "rm_tm_gated": (
        *(1, _memory_block(True, "gated"), 0),
        (118.6, 88.9, 128.8, 123.5),
    ),
    "rm_notm_gated": (
        *(1, _memory_block(False, "gated"), 0),
        (129.7, 96.6, 135.7, None),
    ),
}

# One row of Table 4: units, memory, published accuracy on the 1,040 questions.
COMPLETION_ROWS = {
    "completion_lstm_256": (256, None, 0.560),
    "completion_rm_256": (256, _memory_block(True, "gated"), 0.643),
    "completion_rm_512": (512, _memory_block(True, "gated"), 0.692),
    "completion_birm_256": (256, _bidirectional(7), 0.596),
    "completion_birm_512": (512, _bidirectional(10), 0.670),
}

ROWS = {**PERPLEXITY_ROWS, **COMPLETION_ROWS}


def preset(row, scale=1.0, units=None, embedding_dim=None, window=None):
    """Makes the configuration of one row.

    Args:
        row: string, key of `ROWS`.
        scale: float, factor on the paper's units.
        units: integer, units of the recurrent layers instead of the paper's;
            those of the memory are the same.
        embedding_dim: integer, likewise; `memn` has no units but these.
        window: integer, words in the memory instead of the paper's.

    Returns:
        A dict of plain values.

    Raises:
        ValueError: for `window` in a row without memory, and for `units` that
            contradict `embedding_dim` in a row without recurrent layer.
    """
    if row in COMPLETION_ROWS:
        paper_units, memory, accuracy = COMPLETION_ROWS[row]
        below, above, table = 3, 0, "Table 4"
        dropouts = {"dropout": 0.3, "embedding_dropout": 0.0}
        published = {
            "corpus": "522 novels of Project Gutenberg, 47M training tokens, "
            "vocabulary of about 64,000; Sentence Completion Challenge",
            "completion_accuracy": accuracy,
        }
    else:
        below, memory, above, perplexities = PERPLEXITY_ROWS[row]
        paper_units, table, dropouts = UNITS, "Table 2", {}
        names = ("german", "italian", "english", "penn_treebank")
        published = {
            "corpus": "German 22M, Italian 29M, English 26M training words; "
            "Penn Treebank",
            **{
                f"{name}_test_perplexity": value
                for name, value in zip(names, perplexities)
            },
        }
    if memory is None:
        refuse_window(f"tran2016/{row}", window)
    scaled = max(1, round(paper_units * scale))
    if not below:
        if None not in (units, embedding_dim) and units != embedding_dim:
            raise ValueError(
                f"The preset tran2016/{row} has no recurrent layer, so `units` "
                "are those of its embeddings. Received: "
                f"units={units}, embedding_dim={embedding_dim}"
            )
        units = embedding_dim = units or embedding_dim or scaled
    units = units or scaled
    model = {
        "embedding_dim": embedding_dim or scaled,
        "recurrent": [lstm(units, uniform(_LIMIT)) for _ in range(below)],
        "memory": _memory(memory, window),
        "recurrent_above": [lstm(units, uniform(_LIMIT)) for _ in range(above)],
        "initializer": uniform(_LIMIT),
        "output_bias": row != "memn",
        **dropouts,
    }
    return {
        "name": f"tran2016/{row}",
        "source": f"Tran et al. (2016), {TITLE}, {table}",
        "model": model,
        "units": units,
        "units_divisor": 1,
        "data": {"batch_size": 20, "sentences": True},
        "optimizer": sgd(5.0),
        "loss": summed_over_time(),
        "schedule": {
            "epochs": 15,
            "halve_after": 4,
            "selected_by": "validation perplexity",
        },
        "published": published,
    }


def _memory(memory, window):
    if memory is None:
        return None
    class_name, arguments = memory
    module = {
        "MemoryBlock": "tran2016",
        "BidirectionalMemoryBlock": "tran2016",
        "MemoryNetwork": "sukhbaatar2015",
    }
    arguments = {**arguments, "kernel_initializer": uniform(_LIMIT)}
    if window is not None:
        arguments["window"] = window
    return from_memlm_keras(
        f"memory.{module[class_name]}", class_name, arguments
    )
