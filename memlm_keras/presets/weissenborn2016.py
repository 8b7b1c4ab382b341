"""Rows of Weissenborn (2016), Table 1, and other uses of its cells.

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
tape holds 64 states. Without vectors, and of words that have none, embeddings
of all rows begin as U(-0.5, 0.5), which is the size of GloVe's: shorter ones
make keys under which nothing is read. What is compared begins alike.
"""

import dataclasses
from typing import ClassVar

import keras

from memlm_keras.cells import AssociativeGRUCell
from memlm_keras.cells import AssociativeMemoryCell
from memlm_keras.cells import DualAssociativeGRUCell
from memlm_keras.cells import LSTMNetworkCell
from memlm_keras.cells import ProjectedRNN
from memlm_keras.embeddings import Embedding
from memlm_keras.memory import WordByWordAttention
from memlm_keras.presets.rows import Row as BaseRow
from memlm_keras.presets.rows import uniform
from memlm_keras.presets.table import Measure
from memlm_keras.presets.table import Published
from memlm_keras.presets.table import Table
from memlm_keras.presets.table import perplexities
from memlm_keras.presets.table import table_rows
from memlm_keras.registry import Paper

COPIES = 8
WINDOW = 64


def _gru(units):
    # With one bias a gate, as the paper counts.
    return keras.layers.GRU(units, reset_after=False)


def _am_gru(units, key):
    return ProjectedRNN(AssociativeGRUCell(units, num_copies=COPIES, key=key))


def _dual_am_gru(units, key):
    return ProjectedRNN(
        DualAssociativeGRUCell(units, num_copies=COPIES, key=key)
    )


def _am_lstm(units, key):
    cell = keras.layers.LSTMCell(units)
    return ProjectedRNN(AssociativeMemoryCell(cell, num_copies=COPIES, key=key))


def _lstm_network(units):
    return ProjectedRNN(LSTMNetworkCell(units, window=WINDOW, fusion=True))


# Layers that read, by name: what makes one of so many units, and of a key where
# there is an associative memory.
READERS = {
    "GRU": _gru,
    "LSTM": keras.layers.LSTM,
    "AM-GRU": _am_gru,
    "Dual AM-GRU": _dual_am_gru,
    "AM-LSTM": _am_lstm,
    "LSTMN": _lstm_network,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ReadingRow(BaseRow):
    """A row of layers among `READERS`.

    Args:
        embedding_range: float r, embeddings begin as U(-r, r).
        key: `"bound"` or `"unit"`, of an associative memory, or `None`.
    """

    embedding_range: float = 0.5
    key: str | None = None

    def reads_by(self, name):
        """Makes a layer of the row's units."""
        of_memory = {"key": self.key} if "AM-" in name else {}
        return READERS[name](self.units, **of_memory)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EntailmentRow(_ReadingRow):
    """A classifier of sentence pairs.

    Args:
        reader: string, key of `READERS`.
        shared: whether both sentences have the same reader.
        on_top: whether a GRU and rectifiers read what it makes of them.
        attends: whether the hypothesis attends to the premise, word by word.
        pooling: string, how rectifiers read the outputs without a GRU on top.
        learning_rate: float, of Adam.
    """

    kind: ClassVar[str] = "EntailmentClassifier"

    where: str = "Section 5.1 and Table 1"
    embedding_dim: int | None = 300
    reader: str
    shared: bool = True
    on_top: bool = False
    attends: bool = False
    reads_source: bool = False
    pooling: str | None = None
    dropout: float = 0.1
    learning_rate: float = 1e-3
    batch_size: int = 50
    selected_by: str = "validation accuracy"

    def scaled_embedding_dim(self, scale):
        # Vectors of words are given, whatever the size of the layers.
        return self.embedding_dim

    def model(self):
        rectifies = self.on_top or self.pooling is not None
        return {
            "embedding_dim": self.embedding_size,
            "embeddings_initializer": uniform(self.embedding_range),
            "recurrent": self.reads_by(self.reader),
            "recurrent_hypothesis": (
                None if self.shared else self.reads_by(self.reader)
            ),
            "conditioning": "source" if self.reads_source else "memory",
            "memory": WordByWordAttention() if self.attends else None,
            "top": _gru(self.units) if self.on_top else None,
            "pooling": self.pooling,
            "classifier_units": [self.units, self.units] if rectifies else [],
            "projection": None if rectifies else self.units,
            "dropout": self.dropout,
        }

    def data(self):
        return {"batch_size": self.batch_size, "vectors": "GloVe"}

    def optimizer(self):
        return keras.optimizers.Adam(
            self.learning_rate, beta_1=0.0, beta_2=0.999
        )

    def schedule(self):
        return {
            **super().schedule(),
            "batches_between_checks": 1000,
            "halve_when": "validation accuracy falls over an epoch",
            "epochs_of_fixed_vectors": 1,
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class _FreeSizes(_ReadingRow):
    """A row whose embeddings have as many units, but for another number."""

    # Complex numbers are two real ones.
    units_divisor: int = 2
    learning_rate: float = 1e-3

    @property
    def sizes_are_one(self):
        return False

    def optimizer(self):
        return keras.optimizers.Adam(self.learning_rate, global_clipnorm=5.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AutoencoderRow(_FreeSizes):
    """An autoencoder of sentences."""

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
            "encoder": self.reads_by(self.encoder),
            "decoder": self.reads_by(self.decoder),
            "conditioning": self.conditioning,
        }

    def data(self):
        return {"batch_size": self.batch_size, "longest": self.longest}


@dataclasses.dataclass(frozen=True, kw_only=True)
class LanguageModelRow(_FreeSizes):
    """A language model of one layer, with a memory in its cell or without."""

    where: str = "Section 3.2; the use is ours"
    units: int = 200
    reader: str
    dropout: float = 0.2
    patience: int | None = 2
    published: tuple = (perplexities("Penn Treebank"),)

    def model(self):
        return {
            "embedding_dim": self.embedding_size,
            "embedding": Embedding(
                embeddings_initializer=uniform(self.embedding_range)
            ),
            "recurrent": [self.reads_by(self.reader)],
            "memory": None,
            "dropout": self.dropout,
        }


def _snli(accuracy):
    return (Published("SNLI", {"test_accuracy": accuracy}),)


ROWS = {
    "gru_shared": EntailmentRow(
        reader="GRU",
        on_top=True,
        units=126,
        published=_snli(81.9),
    ),
    "am_gru_shared": EntailmentRow(
        reader="AM-GRU",
        key="bound",
        on_top=True,
        units=108,
        units_divisor=2,
        published=_snli(82.9),
    ),
    "dual_am_gru_shared": EntailmentRow(
        reader="Dual AM-GRU",
        key="bound",
        reads_source=True,
        on_top=True,
        units=100,
        units_divisor=2,
        published=_snli(84.4),
    ),
    "dual_am_gru_shared_large": EntailmentRow(
        reader="Dual AM-GRU",
        key="bound",
        reads_source=True,
        on_top=True,
        units=500,
        units_divisor=2,
        dropout=0.2,
        learning_rate=1e-4,
        published=_snli(85.4),
    ),
    "lstm": EntailmentRow(
        reader="LSTM",
        shared=False,
        units=116,
        published=_snli(80.9),
    ),
    "lstm_shared": EntailmentRow(
        reader="LSTM",
        units=159,
        published=_snli(81.4),
    ),
    "lstm_attention": EntailmentRow(
        reader="LSTM",
        shared=False,
        attends=True,
        units=100,
        published=_snli(83.5),
    ),
    "lstm_network": EntailmentRow(
        reader="LSTMN",
        reads_source=True,
        pooling="mean",
        units=450,
        published=_snli(86.3),
    ),
    "gru_autoencoder": AutoencoderRow(
        encoder="GRU",
        decoder="GRU",
        conditioning="memory",
    ),
    "dual_am_gru_autoencoder": AutoencoderRow(
        encoder="AM-GRU",
        decoder="Dual AM-GRU",
        key="bound",
        conditioning="source",
    ),
    "gru_language_model": LanguageModelRow(reader="GRU"),
    "am_gru_language_model": LanguageModelRow(reader="AM-GRU", key="bound"),
    "am_lstm_language_model": LanguageModelRow(reader="AM-LSTM", key="bound"),
}


def _table_rows(row_class):
    rows = {n: row for n, row in ROWS.items() if isinstance(row, row_class)}
    return table_rows("weissenborn2016", rows, {"test_accuracy": "test"})


# In percent, as the paper has them.
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
