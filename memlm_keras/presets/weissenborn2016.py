"""Rows of Weissenborn (2016), Table 1, as configurations, and other uses.

Pairs of sentences are classified by the three rows of the paper's own kind and
the GRU that it compares with: the architecture in the first layer, a GRU on
top, and two rectifier layers; and by LSTMs of Rocktaeschel et al. (2016), which
end with the last output of the hypothesis. Words are GloVe vectors of 300
numbers, kept as they are in the first epoch (Section 5.1).

Autoencoders (Section 5.3) have no sizes in the paper, and language models are
none of it: their sizes and settings are choices.

Choices, where the paper is silent: matrices and biases as Keras draws them, up
to 20 epochs, the vectors of GloVe 840B; all rows are trained as the paper's
own, also those of Rocktaeschel et al., who keep the vectors fixed, and of Cheng
et al., both of whom have Adam's usual beta_1; and, of `lstm_network`, one cell
with deep fusion for both sentences and rectifiers of its 450 units: with
3,379,953 parameters it is the one of its kind that has the printed 3.4M. Its
tape holds 64 states.
"""

from memlm_keras.presets.one_stream import one_stream
from memlm_keras.presets.serialized import from_keras
from memlm_keras.presets.serialized import from_memlm_keras
from memlm_keras.presets.serialized import refuse_window

TITLE = "Neural Associative Memory for Dual-Sequence Modeling"

EMBEDDING_DIM = 300
COPIES = 8
WINDOW = 64

# One row of the table: layer that reads, whether both sentences share it,
# whether there is a top layer, units, dropout, learning rate, published
# accuracy.
ENTAILMENT = {
    "gru_shared": ("GRU", True, True, 126, 0.1, 1e-3, 81.9),
    "am_gru_shared": ("AM-GRU", True, True, 108, 0.1, 1e-3, 82.9),
    "dual_am_gru_shared": ("Dual AM-GRU", True, True, 100, 0.1, 1e-3, 84.4),
    "dual_am_gru_shared_large": (
        *("Dual AM-GRU", True, True, 500, 0.2, 1e-4, 85.4),
    ),
    "lstm": ("LSTM", False, False, 116, 0.1, 1e-3, 80.9),
    "lstm_shared": ("LSTM", True, False, 159, 0.1, 1e-3, 81.4),
    "lstm_attention": ("LSTM", False, False, 100, 0.1, 1e-3, 83.5),
    "lstm_network": ("LSTMN", True, False, 450, 0.1, 1e-3, 86.3),
}


# One row: encoder and decoder, and how they are joined.
AUTOENCODERS = {
    "gru_autoencoder": ("GRU", "GRU", "memory"),
    "dual_am_gru_autoencoder": ("AM-GRU", "Dual AM-GRU", "source"),
}
# One row: the layer between embeddings and output.
LANGUAGE_MODELS = {
    "gru_language_model": "GRU",
    "am_gru_language_model": "AM-GRU",
    "am_lstm_language_model": "AM-LSTM",
}
ROWS = {**ENTAILMENT, **AUTOENCODERS, **LANGUAGE_MODELS}
KINDS = {
    **dict.fromkeys(ENTAILMENT, "EntailmentClassifier"),
    **dict.fromkeys(AUTOENCODERS, "SequenceAutoencoder"),
    **dict.fromkeys(LANGUAGE_MODELS, "LanguageModel"),
}
UNITS = {"SequenceAutoencoder": 128, "LanguageModel": 200}


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
    if row in ENTAILMENT:
        return _entailment(row, scale, units, embedding_dim)
    # Complex numbers are two real ones.
    units = units or 2 * max(1, round(UNITS[KINDS[row]] * scale / 2))
    value = (
        _autoencoder(row, units, embedding_dim or units)
        if row in AUTOENCODERS
        else _language_model(row, units, embedding_dim or units)
    )
    return {**value, "units": units, "units_divisor": 2}


def _entailment(row, scale, units, embedding_dim):
    kind, shared, has_top, paper_units, dropout, rate, accuracy = ENTAILMENT[
        row
    ]
    divisor = 2 if "AM" in kind else 1
    is_network = kind == "LSTMN"
    rectifies = has_top or is_network
    if units is None:
        units = max(1, round(paper_units * scale / divisor)) * divisor
    return {
        "name": f"weissenborn2016/{row}",
        "source": f"Weissenborn (2016), {TITLE}, Section 5.1 and Table 1",
        "model": {
            "embedding_dim": embedding_dim or EMBEDDING_DIM,
            "recurrent": _reader(kind, units),
            "recurrent_hypothesis": None if shared else _reader(kind, units),
            "conditioning": (
                "source" if kind in ("Dual AM-GRU", "LSTMN") else "memory"
            ),
            "memory": (
                from_memlm_keras(
                    "memory.rocktaschel2016", "WordByWordAttention", {}
                )
                if row == "lstm_attention"
                else None
            ),
            "top": _gru(units) if has_top else None,
            "pooling": "mean" if is_network else None,
            "classifier_units": [units, units] if rectifies else [],
            "projection": None if rectifies else units,
            "dropout": dropout,
        },
        "units": units,
        "units_divisor": divisor,
        "data": {"batch_size": 50, "vectors": "GloVe"},
        "optimizer": _adam(rate, beta_1=0.0, beta_2=0.999),
        "schedule": {
            "epochs": 20,
            "batches_between_checks": 1000,
            "halve_when": "validation accuracy falls over an epoch",
            "epochs_of_fixed_vectors": 1,
            "selected_by": "validation accuracy",
        },
        "published": {"corpus": "SNLI", "test_accuracy": accuracy},
    }


def _autoencoder(row, units, embedding_dim):
    encoder, decoder, conditioning = AUTOENCODERS[row]
    return {
        "name": f"weissenborn2016/{row}",
        "source": f"Weissenborn (2016), {TITLE}, Section 5.3",
        "model": {
            "embedding_dim": embedding_dim,
            "encoder": _reader(encoder, units),
            "decoder": _reader(decoder, units),
            "conditioning": conditioning,
        },
        "data": {"batch_size": 50, "longest": 30},
        "optimizer": _adam(1e-3, global_clipnorm=5.0),
        "schedule": {
            "epochs": 20,
            "patience": 3,
            "selected_by": "validation accuracy",
        },
        "published": {"corpus": None, "test_accuracy": None},
    }


def _language_model(row, units, embedding_dim):
    return one_stream(
        f"weissenborn2016/{row}",
        f"Weissenborn (2016), {TITLE}, Section 3.2; the use is ours",
        model={
            "embedding_dim": embedding_dim,
            "recurrent": [_reader(LANGUAGE_MODELS[row], units)],
            "dropout": 0.2,
        },
        data=(20, 35),
        optimizer=_adam(1e-3, global_clipnorm=5.0),
        schedule={"epochs": 20, "patience": 2},
        published=("Penn Treebank", None, None),
        sum_over_time=False,
    )


def _adam(learning_rate, **others):
    return from_keras(
        "optimizers", "Adam", {"learning_rate": learning_rate, **others}
    )


def _reader(kind, units):
    if kind == "GRU":
        return _gru(units)
    if kind == "LSTM":
        return from_keras("layers", "LSTM", {"units": units})
    if kind == "LSTMN":
        module, name = "cells.cheng2016", "LSTMNetworkCell"
        config = {"units": units, "window": WINDOW, "fusion": True}
    elif kind == "AM-LSTM":
        module, name = "cells.weissenborn2016", "AssociativeMemoryCell"
        lstm = from_keras("layers", "LSTMCell", {"units": units})
        config = {"cell": lstm, "num_copies": COPIES}
    else:
        module, name = "cells.weissenborn2016", "AssociativeGRUCell"
        if kind == "Dual AM-GRU":
            name = "DualAssociativeGRUCell"
        config = {"units": units, "num_copies": COPIES}
    cell = from_memlm_keras(module, name, config)
    return from_memlm_keras(
        "cells.projected_rnn", "ProjectedRNN", {"cell": cell}
    )


def _gru(units):
    # With one bias a gate, as the paper counts.
    return from_keras("layers", "GRU", {"units": units, "reset_after": False})
