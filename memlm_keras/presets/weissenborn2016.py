"""Models of Weissenborn (2016), Table 1, and other models with its cells.

docs/papers/weissenborn2016.md lists the paper's errors and omissions.
"""

import dataclasses
from typing import ClassVar

from memlm_keras.presets.rows import Row
from memlm_keras.presets.rows import projected_rnn
from memlm_keras.presets.rows import serialized
from memlm_keras.presets.rows import uniform
from memlm_keras.presets.table import Measure
from memlm_keras.presets.table import Published
from memlm_keras.presets.table import Table
from memlm_keras.presets.table import perplexities
from memlm_keras.presets.table import table_rows
from memlm_keras.registry import Paper

COPIES = 8
WINDOW = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ReadingRow(Row):
    """A model with embeddings from U(-r, r), where r is `embedding_range`."""

    # About GloVe's range. Smaller embeddings make keys and reads near zero.
    embedding_range: float = 0.5
    key: str | None = None

    def layer(self, name):
        """Returns the layer for a short name, such as "AM-GRU"."""
        if name == "GRU":
            # The paper's numbers of parameters imply one bias per gate.
            return serialized(
                "keras.layers.GRU", units=self.units, reset_after=False
            )
        if name == "LSTM":
            return serialized("keras.layers.LSTM", units=self.units)
        if name == "LSTMN":
            return projected_rnn(
                "memlm_keras.cells.LSTMNetworkCell",
                units=self.units,
                window=WINDOW,
                fusion=True,
            )
        memory = {"num_copies": COPIES, "key": self.key}
        if name == "AM-LSTM":
            return projected_rnn(
                "memlm_keras.cells.AssociativeMemoryCell",
                cell=serialized("keras.layers.LSTMCell", units=self.units),
                **memory,
            )
        cell = {"AM-GRU": "Associative", "Dual AM-GRU": "DualAssociative"}[name]
        return projected_rnn(
            f"memlm_keras.cells.{cell}GRUCell", units=self.units, **memory
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class EntailmentRow(_ReadingRow):
    """A classifier of sentence pairs."""

    kind: ClassVar[str] = "EntailmentClassifier"

    where: str = "Section 5.1 and Table 1"
    embedding_dim: int | None = 300
    reader: str
    # Whether one recurrent layer, the reader, reads both sentences.
    shared: bool = True
    # Whether a GRU and then ReLU layers process the outputs of `reader`.
    on_top: bool = False
    attends: bool = False
    reads_source: bool = False
    # With "mean", ReLU layers get the mean of the outputs of `reader`.
    pooling: str | None = None
    dropout: float = 0.1
    learning_rate: float = 1e-3
    batch_size: int = 50
    selected_by: str = "validation accuracy"

    def scaled_embedding_dim(self, scale):
        # Pretrained word vectors have a fixed size.
        return self.embedding_dim

    def model(self):
        rectifies = self.on_top or self.pooling is not None
        return {
            "embedding_dim": self.embedding_size,
            "embeddings_initializer": uniform(self.embedding_range),
            "recurrent": self.layer(self.reader),
            "recurrent_hypothesis": (
                None if self.shared else self.layer(self.reader)
            ),
            "conditioning": "source" if self.reads_source else "memory",
            "memory": (
                serialized("memlm_keras.memory.WordByWordAttention")
                if self.attends
                else None
            ),
            "top": self.layer("GRU") if self.on_top else None,
            "pooling": self.pooling,
            "classifier_units": [self.units, self.units] if rectifies else [],
            "projection": None if rectifies else self.units,
            "dropout": self.dropout,
        }

    def data(self):
        return {"batch_size": self.batch_size, "vectors": "GloVe"}

    def optimizer(self):
        return serialized(
            "keras.optimizers.Adam",
            learning_rate=self.learning_rate,
            # From the paper; Rocktaeschel et al. and Cheng et al. use 0.9.
            beta_1=0.0,
            beta_2=0.999,
        )

    def schedule(self):
        return {
            **super().schedule(),
            "batches_between_checks": 1000,
            "halve_when": "validation accuracy falls over an epoch",
            # See Section 5.1. Rocktaeschel et al. never train the vectors.
            "epochs_of_fixed_vectors": 1,
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class _FreeSizes(_ReadingRow):
    """A model whose embeddings and layers may differ in size."""

    sizes_are_one: ClassVar[bool] = False

    # The number of units is even, since two units form a complex number.
    units_divisor: int = 2
    learning_rate: float = 1e-3

    def optimizer(self):
        return serialized(
            "keras.optimizers.Adam",
            learning_rate=self.learning_rate,
            global_clipnorm=5.0,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class AutoencoderRow(_FreeSizes):
    """An autoencoder of sentences, with sizes that the paper does not state."""

    kind: ClassVar[str] = "SequenceAutoencoder"

    where: str = "Section 5.3"
    units: int = 128
    encoder: str
    decoder: str
    conditioning: str
    batch_size: int = 50
    longest: int = 30
    patience: int | None = 3
    selected_by: str = "validation accuracy"
    published: tuple = (Published(None, {"test_accuracy": None}),)

    def model(self):
        return {
            "embedding_dim": self.embedding_size,
            "embeddings_initializer": uniform(self.embedding_range),
            "encoder": self.layer(self.encoder),
            "decoder": self.layer(self.decoder),
            "conditioning": self.conditioning,
        }

    def data(self):
        return {"batch_size": self.batch_size, "longest": self.longest}


@dataclasses.dataclass(frozen=True, kw_only=True)
class LanguageModelRow(_FreeSizes):
    """A language model with one recurrent layer, with or without a memory."""

    where: str = "Section 3.2; not as a language model"
    units: int = 200
    reader: str
    dropout: float = 0.2
    patience: int | None = 2
    published: tuple = (perplexities("Penn Treebank"),)

    def model(self):
        return {
            "embedding_dim": self.embedding_size,
            "embedding": serialized(
                "memlm_keras.embeddings.Embedding",
                embeddings_initializer=uniform(self.embedding_range),
            ),
            "recurrent": [self.layer(self.reader)],
            "memory": None,
            "dropout": self.dropout,
        }


def _classifier(reader, units, parameters, accuracy, **settings):
    return EntailmentRow(
        reader=reader,
        units=units,
        parameters=(parameters, 300),
        key="bound" if "AM-" in reader else None,
        units_divisor=2 if "AM-" in reader else 1,
        reads_source=reader in ("Dual AM-GRU", "LSTMN"),
        published=(Published("SNLI", {"test_accuracy": accuracy}),),
        **settings,
    )


# Arguments: reader, units, parameters without embeddings, published accuracy.
ROWS = {
    "gru_shared": _classifier("GRU", 126, 321_177, 81.9, on_top=True),
    "am_gru_shared": _classifier("AM-GRU", 108, 329_079, 82.9, on_top=True),
    "dual_am_gru_shared": _classifier(
        "Dual AM-GRU", 100, 321_103, 84.4, on_top=True
    ),
    "dual_am_gru_shared_large": _classifier(
        "Dual AM-GRU",
        500,
        5_605_503,
        85.4,
        on_top=True,
        dropout=0.2,
        learning_rate=1e-4,
    ),
    "lstm": _classifier("LSTM", 116, 251_491, 80.9, shared=False),
    "lstm_shared": _classifier("LSTM", 159, 251_223, 81.4),
    "lstm_attention": _classifier(
        "LSTM", 100, 251_303, 83.5, shared=False, attends=True
    ),
    "lstm_network": _classifier("LSTMN", 450, 3_379_953, 86.3, pooling="mean"),
    "gru_autoencoder": AutoencoderRow(
        encoder="GRU",
        decoder="GRU",
        conditioning="memory",
        parameters=(197_376, 257),
    ),
    "dual_am_gru_autoencoder": AutoencoderRow(
        encoder="AM-GRU",
        decoder="Dual AM-GRU",
        key="bound",
        conditioning="source",
        parameters=(410_368, 257),
    ),
    "gru_language_model": LanguageModelRow(
        reader="GRU", parameters=(240_600, 401)
    ),
    "am_gru_language_model": LanguageModelRow(
        reader="AM-GRU", key="bound", parameters=(440_600, 401)
    ),
    "am_lstm_language_model": LanguageModelRow(
        reader="AM-LSTM", key="bound", parameters=(560_800, 401)
    ),
}


def _table_rows(row_class):
    rows = {n: row for n, row in ROWS.items() if isinstance(row, row_class)}
    return table_rows("weissenborn2016", rows, {"test_accuracy": "test"})


# Accuracies are percentages, as in the paper.
TABLES = (
    Table(
        name="entailment",
        title="Table 1",
        rows=_table_rows(EntailmentRow),
        measures=(
            Measure("dev", ("validation", "accuracy")),
            Measure("test", ("test", "accuracy")),
        ),
        dataset="snli",
    ),
    Table(
        name="autoencoding",
        title="Section 5.3",
        rows=_table_rows(AutoencoderRow),
        measures=(
            Measure("dev tokens", ("validation", "token_accuracy")),
            Measure("test tokens", ("test", "token_accuracy")),
            Measure("test sequences", ("test", "sequence_accuracy")),
            Measure(
                "test sequences, beams",
                ("test_by_beams", "sequence_accuracy"),
                optional=True,
            ),
        ),
    ),
)

PAPER = Paper(
    name="weissenborn2016",
    title="Neural Associative Memory for Dual-Sequence Modeling",
    authors=("Weissenborn",),
    year=2016,
    where="arXiv:1606.03864",
    rows=ROWS,
    tables=TABLES,
)
