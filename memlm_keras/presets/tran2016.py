"""Rows of Tran et al. (2016), Tables 2 and 4.

docs/papers/tran2016.md lists the paper's errata and our choices.
"""

import dataclasses

from memlm_keras.presets.rows import Row
from memlm_keras.presets.rows import SummedLossRow
from memlm_keras.presets.rows import serialized
from memlm_keras.presets.table import Measure
from memlm_keras.presets.table import Published
from memlm_keras.presets.table import Table
from memlm_keras.presets.table import TableRow
from memlm_keras.presets.table import table_rows
from memlm_keras.registry import Paper

# The texts of Table 2, as descriptions for `Published.corpus`.
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
class TranRow(SummedLossRow):
    """A model of `below` LSTM layers, an optional memory, and `above` LSTMs."""

    where: str = "Table 2"
    units: int = 128
    embedding_dim: int | None = 128
    below: int = 1
    memory: str | None = None
    temporal: bool | None = None
    composition: str | None = None
    window: int | None = None
    above: int = 0
    dropout: tuple = ()
    epochs: int | None = 15
    halve_after: int | None = 4

    def model(self):
        memory = head = None
        if self.memory is not None:
            block = {"temporal": self.temporal, "composition": self.composition}
            memory = serialized(
                f"memlm_keras.memory.{self.memory}",
                window=self.window,
                **(block if self.composition else {}),
                kernel_initializer=self.weights,
            )
        if self.memory == "MemoryNetwork":
            head = serialized(
                "memlm_keras.heads.OutputProjection",
                use_bias=False,
                kernel_initializer=self.weights,
            )
        return self.language_model(
            self.lstms(self.below),
            memory,
            recurrent_above=self.lstms(self.above),
            dropout=dict(self.dropout),
            head=head,
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


def _block(temporal, composition, above, parameters, *published):
    return TranRow(
        parameters=(parameters, 513),
        memory="MemoryBlock",
        temporal=temporal,
        composition=composition,
        window=15,
        above=above,
        published=_tests(*published),
    )


def _lstms(layers, *published):
    return TranRow(
        below=layers,
        parameters=(131_584 * layers, 257),
        published=_tests(*published),
    )


PERPLEXITY_ROWS = {
    "memn": TranRow(
        # Without a recurrent layer, `units` is the size of the embeddings.
        embedding_dim=None,
        parameters=(20_224, 384),
        below=0,
        memory="MemoryNetwork",
        window=15,
        published=_tests(169.3, 127.5, 188.2),
    ),
    "lstm_1": _lstms(1, 135.8, 108.0, 145.1),
    "lstm_2": _lstms(2, 128.6, 105.9, 139.7),
    "lstm_3": _lstms(3, 125.1, 106.5, 136.6, 126.1),
    # Columns: temporal matrix, composition, LSTMs above, parameters, results.
    "rmr_tm_linear": _block(True, "linear", 1, 265_088, 127.5, 109.9, 133.3),
    "rmr_notm_linear": _block(False, "linear", 1, 263_168, 126.4, 106.1, 134.5),
    "rmr_tm_gated": _block(True, "gated", 1, 363_392, 126.2, 99.5, 135.2),
    "rmr_notm_gated": _block(False, "gated", 1, 361_472, 122.0, 98.6, 131.2),
    "rm_tm_linear": _block(True, "linear", 0, 133_504, 121.5, 92.4, 127.2),
    "rm_notm_linear": _block(False, "linear", 0, 131_584, 122.9, 94.0, 130.4),
    "rm_tm_gated": _block(True, "gated", 0, 231_808, 118.6, 88.9, 128.8, 123.5),
    "rm_notm_gated": _block(False, "gated", 0, 229_888, 129.7, 96.6, 135.7),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompletionRow(TranRow):
    """A row of Table 4: three LSTM layers below the memory, with dropout."""

    where: str = "Table 4"
    below: int = 3
    temporal: bool | None = True
    composition: str | None = "gated"
    # Dropout is applied "after each LSTM layer" (Section 6), not to embeddings.
    dropout: tuple = (("between", 0.3), ("outputs", 0.3))

    def published_numbers(self):
        return Row.published_numbers(self)


def _completion(units, memory, window, parameters, accuracy):
    return CompletionRow(
        units=units,
        embedding_dim=units,
        parameters=parameters,
        memory=memory,
        window=window,
        published=(Published(NOVELS, {"completion_accuracy": accuracy}),),
    )


COMPLETION_ROWS = {
    "completion_lstm_256": _completion(
        256, None, None, (1_575_936, 513), 0.560
    ),
    "completion_rm_256": _completion(
        256, "MemoryBlock", 15, (1_972_992, 1025), 0.643
    ),
    "completion_rm_512": _completion(
        512, "MemoryBlock", 15, (7_878_144, 2049), 0.692
    ),
    "completion_birm_256": _completion(
        256, "BidirectionalMemoryBlock", 7, (1_972_736, 1025), 0.596
    ),
    "completion_birm_512": _completion(
        512, "BidirectionalMemoryBlock", 10, (7_880_704, 2049), 0.670
    ),
}

ROWS = {**PERPLEXITY_ROWS, **COMPLETION_ROWS}

# N-gram models are rows of the table, but not presets.
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
    def details(row):
        return {"layers": row.below + row.above, "window": row.window or ""}

    return table_rows("tran2016", rows, measures, details=details)


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
        rows=_table_rows(COMPLETION_ROWS, {"completion_accuracy": "accuracy"}),
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
