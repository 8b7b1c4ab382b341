"""Rows of Weissenborn (2016), Table 1, as configurations.

Pairs of sentences are classified by the three rows of the paper's own kind and
the GRU that it compares with: the architecture in the first layer, a GRU on
top, and two rectifier layers; and by LSTMs of Rocktaeschel et al. (2016), which
end with the last output of the hypothesis. Words are GloVe vectors of 300
numbers, kept as they are in the first epoch (Section 5.1).

Choices, where the paper is silent: matrices and biases as Keras draws them, up
to 20 epochs, the vectors of GloVe 840B.
"""

from memlm_keras.presets.serialized import from_keras
from memlm_keras.presets.serialized import from_memlm_keras
from memlm_keras.presets.serialized import refuse_window

TITLE = "Neural Associative Memory for Dual-Sequence Modeling"

KIND = "EntailmentClassifier"
EMBEDDING_DIM = 300
COPIES = 8

# One row: layer that reads, whether both sentences share it, whether there is a
# top layer, units, dropout, learning rate, published accuracy.
ROWS = {
    "gru_shared": ("GRU", True, True, 126, 0.1, 1e-3, 81.9),
    "am_gru_shared": ("AM-GRU", True, True, 108, 0.1, 1e-3, 82.9),
    "dual_am_gru_shared": ("Dual AM-GRU", True, True, 100, 0.1, 1e-3, 84.4),
    "dual_am_gru_shared_large": (
        *("Dual AM-GRU", True, True, 500, 0.2, 1e-4, 85.4),
    ),
    "lstm": ("LSTM", False, False, 116, 0.1, 1e-3, 80.9),
    "lstm_shared": ("LSTM", True, False, 159, 0.1, 1e-3, 81.4),
    "lstm_attention": ("LSTM", False, False, 100, 0.1, 1e-3, 83.5),
}


def preset(row, scale=1.0, units=None, embedding_dim=None, window=None):
    """Makes the configuration of one row.

    Args:
        row: string, key of `ROWS`.
        scale: float, factor on the paper's units; embeddings keep theirs, as
            they are given.
        units: integer, units of all layers instead of the paper's.
        embedding_dim: integer, size of the vectors of words.
        window: must be `None`.

    Returns:
        A dict of plain values.

    Raises:
        ValueError: for a `window`.
    """
    refuse_window(f"weissenborn2016/{row}", window)
    kind, shared, has_top, paper_units, dropout, rate, accuracy = ROWS[row]
    # Complex numbers are two real ones.
    divisor = 2 if "AM" in kind else 1
    if units is None:
        units = max(1, round(paper_units * scale / divisor)) * divisor
    return {
        "name": f"weissenborn2016/{row}",
        "source": f"Weissenborn (2016), {TITLE}, Section 5.1 and Table 1",
        "model": {
            "embedding_dim": embedding_dim or EMBEDDING_DIM,
            "recurrent": _reader(kind, units),
            "recurrent_hypothesis": None if shared else _reader(kind, units),
            "conditioning": "source" if kind == "Dual AM-GRU" else "memory",
            "memory": (
                from_memlm_keras(
                    "memory.rocktaschel2016", "WordByWordAttention", {}
                )
                if row == "lstm_attention"
                else None
            ),
            "top": _gru(units) if has_top else None,
            "classifier_units": [units, units] if has_top else [],
            "projection": None if has_top else units,
            "dropout": dropout,
        },
        "units": units,
        "units_divisor": divisor,
        "data": {"batch_size": 50, "vectors": "GloVe"},
        "optimizer": from_keras(
            "optimizers",
            "Adam",
            {"learning_rate": rate, "beta_1": 0.0, "beta_2": 0.999},
        ),
        "schedule": {
            "epochs": 20,
            "batches_between_checks": 1000,
            "halve_when": "validation accuracy falls over an epoch",
            "epochs_of_fixed_vectors": 1,
            "selected_by": "validation accuracy",
        },
        "published": {"corpus": "SNLI", "test_accuracy": accuracy},
    }


def _reader(kind, units):
    if kind == "GRU":
        return _gru(units)
    if kind == "LSTM":
        return from_keras("layers", "LSTM", {"units": units})
    name = "DualAssociativeGRUCell" if "Dual" in kind else "AssociativeGRUCell"
    cell = from_memlm_keras(
        "cells.associative_gru", name, {"units": units, "num_copies": COPIES}
    )
    return from_memlm_keras(
        "cells.projected_rnn", "ProjectedRNN", {"cell": cell}
    )


def _gru(units):
    # With one bias a gate, as the paper counts.
    return from_keras("layers", "GRU", {"units": units, "reset_after": False})
