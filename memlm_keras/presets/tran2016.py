"""Rows of Tran et al. (2016), Tables 2 and 4.

All models have as many units everywhere, and weights drawn from U(-0.05, 0.05)
except a forget-gate bias of 1 (Section 4). Those of Table 2 have 128 units and
a memory of 15 words. Those of Table 4, for the Sentence Completion Challenge,
have three LSTM layers, below the memory, and "dropout after each LSTM layer"
(Section 6): on its outputs, and not on the embeddings.
"""

import dataclasses

from memlm_keras.heads import OutputProjection
from memlm_keras.memory import BidirectionalMemoryBlock
from memlm_keras.memory import MemoryBlock
from memlm_keras.memory import MemoryNetwork
from memlm_keras.presets.rows import SummedLossRow
from memlm_keras.presets.rows import lstms
from memlm_keras.presets.rows import uniform
from memlm_keras.presets.table import Measure
from memlm_keras.presets.table import Published
from memlm_keras.presets.table import Table
from memlm_keras.presets.table import TableRow
from memlm_keras.presets.table import table_rows
from memlm_keras.registry import Paper

# The texts of Table 2, by the keys of what is published.
TEXTS = {
    "german": "German, 22M training words",
    "italian": "Italian, 29M training words",
    "english": "English, 26M training words",
    "penn_treebank": "Penn Treebank",
}
NOVELS = (
    "522 novels of Project Gutenberg, 47M training tokens, "
    "vocabulary of about 64,000; Sentence Completion Challenge"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row(SummedLossRow):
    """LSTM layers, a memory of words or none, and LSTM layers above it.

    Args:
        below: integer, LSTM layers that the memory reads.
        memory: class of the memory, or `None`.
        temporal, composition: of a memory block.
        window: integer, words in the memory, of one.
        above: integer, LSTM layers that read what the memory hands on.
    """

    where: str = "Table 2"
    units: int = 128
    embedding_dim: int | None = 128
    below: int = 1
    memory: type | None = None
    temporal: bool | None = None
    composition: str | None = None
    window: int | None = None
    above: int = 0
    dropout: tuple = ()
    epochs: int | None = 15
    halve_after: int | None = 4

    def model(self):
        weights = uniform(self.initial_range)
        model = {
            "embedding_dim": self.embedding_size,
            "recurrent": lstms(self.below, self.units, weights),
            "memory": self._memory(weights),
            "recurrent_above": lstms(self.above, self.units, weights),
            "dropout": dict(self.dropout),
            "initializer": weights,
        }
        if self.memory is MemoryNetwork:
            model["head"] = OutputProjection(
                use_bias=False, kernel_initializer=weights
            )
        return model

    def _memory(self, weights):
        if self.memory is None:
            return None
        block = {"temporal": self.temporal, "composition": self.composition}
        return self.memory(
            window=self.window,
            **(block if self.composition else {}),
            kernel_initializer=weights,
        )

    def data(self):
        return {"batch_size": self.batch_size, "sentences": True}

    def published_numbers(self):
        numbers = {
            f"{text}_test_perplexity": published.numbers["test_perplexity"]
            for text, published in zip(TEXTS, self.published)
        }
        corpus = (
            "German 22M, Italian 29M, English 26M training words; Penn Treebank"
        )
        return {"published": {"corpus": corpus, **numbers}}


def _tests(german, italian, english, penn_treebank=None):
    values = (german, italian, english, penn_treebank)
    return tuple(
        Published(corpus, {"test_perplexity": value})
        for corpus, value in zip(TEXTS.values(), values)
    )


def _block(temporal, composition, above, *published):
    return Row(
        memory=MemoryBlock,
        temporal=temporal,
        composition=composition,
        window=15,
        above=above,
        published=_tests(*published),
    )


PERPLEXITY_ROWS = {
    "memn": Row(
        # There is no recurrent layer: all units are those of the embeddings.
        embedding_dim=None,
        below=0,
        memory=MemoryNetwork,
        window=15,
        published=_tests(169.3, 127.5, 188.2),
    ),
    "lstm_1": Row(below=1, published=_tests(135.8, 108.0, 145.1)),
    "lstm_2": Row(below=2, published=_tests(128.6, 105.9, 139.7)),
    "lstm_3": Row(below=3, published=_tests(125.1, 106.5, 136.6, 126.1)),
    "rmr_tm_linear": _block(True, "linear", 1, 127.5, 109.9, 133.3),
    "rmr_notm_linear": _block(False, "linear", 1, 126.4, 106.1, 134.5),
    "rmr_tm_gated": _block(True, "gated", 1, 126.2, 99.5, 135.2),
    "rmr_notm_gated": _block(False, "gated", 1, 122.0, 98.6, 131.2),
    "rm_tm_linear": _block(True, "linear", 0, 121.5, 92.4, 127.2),
    "rm_notm_linear": _block(False, "linear", 0, 122.9, 94.0, 130.4),
    "rm_tm_gated": _block(True, "gated", 0, 118.6, 88.9, 128.8, 123.5),
    "rm_notm_gated": _block(False, "gated", 0, 129.7, 96.6, 135.7),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompletionRow(Row):
    """A row of Table 4: three LSTM layers below the memory, with dropout."""

    where: str = "Table 4"
    below: int = 3
    temporal: bool | None = True
    composition: str | None = "gated"
    dropout: tuple = (("between", 0.3), ("outputs", 0.3))

    def published_numbers(self):
        return super(SummedLossRow, self).published_numbers()


def _completion(units, memory, window, accuracy):
    return CompletionRow(
        units=units,
        embedding_dim=units,
        memory=memory,
        window=window,
        published=(Published(NOVELS, {"completion_accuracy": accuracy}),),
    )


COMPLETION_ROWS = {
    "completion_lstm_256": _completion(256, None, None, 0.560),
    "completion_rm_256": _completion(256, MemoryBlock, 15, 0.643),
    "completion_rm_512": _completion(512, MemoryBlock, 15, 0.692),
    "completion_birm_256": _completion(256, BidirectionalMemoryBlock, 7, 0.596),
    "completion_birm_512": _completion(
        512, BidirectionalMemoryBlock, 10, 0.670
    ),
}

ROWS = {**PERPLEXITY_ROWS, **COMPLETION_ROWS}

# Rows without a neural network.
KNESER_NEY = (
    TableRow(
        label="kneser_ney_5",
        ngrams={"order": 5, "cache": False},
        details={"preset": "kneser_ney_5", "layers": "", "window": ""},
        published=tuple(
            published.by_measure({"test_perplexity": "test"})
            for published in _tests(225.8, 167.5, 219.0)
        ),
    ),
    TableRow(
        label="kneser_ney_5_cache",
        ngrams={"order": 5, "cache": True},
        details={"preset": "kneser_ney_5_cache", "layers": "", "window": ""},
    ),
)


def _table_rows(rows, measures):
    for name, row in rows.items():
        (made,) = table_rows("tran2016", {name: row}, measures)
        details = {
            "preset": name,
            "layers": row.below + row.above,
            "window": row.window or "",
        }
        yield dataclasses.replace(made, label=name, details=details)


TABLES = (
    Table(
        name="perplexity",
        title="Table 2, perplexity",
        rows=(
            *KNESER_NEY,
            *_table_rows(PERPLEXITY_ROWS, {"test_perplexity": "test"}),
        ),
        dataset="ptb",
    ),
    Table(
        name="completion",
        title="Table 4, accuracy in sentence completion",
        rows=tuple(
            _table_rows(COMPLETION_ROWS, {"completion_accuracy": "accuracy"})
        ),
        measures=(Measure("accuracy", ("completion", "accuracy"), digits=3),),
    ),
)

PAPER = Paper(
    name="tran2016",
    title="Recurrent Memory Networks for Language Modeling",
    authors=("Tran", "Bisazza", "Monz"),
    year=2016,
    where="NAACL; arXiv:1601.01272",
    rows=ROWS,
    tables=TABLES,
)
