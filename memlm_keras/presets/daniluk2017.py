"""Rows of Daniluk et al. (2017), Figure 2; sizes are from parts (b) and (c).

docs/papers/daniluk2017.md lists the paper's errata and our choices.
"""

import dataclasses

from memlm_keras.presets.rows import UniformRow
from memlm_keras.presets.rows import projected_rnn
from memlm_keras.presets.rows import serialized
from memlm_keras.presets.table import Measure
from memlm_keras.presets.table import Published
from memlm_keras.presets.table import Table
from memlm_keras.presets.table import perplexities
from memlm_keras.presets.table import table_rows
from memlm_keras.registry import Paper

WIKIPEDIA = "Wikipedia, 7,500 articles, vocabulary 77,003"
CBT = "Children's Book Test"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DanilukRow(UniformRow):
    """One recurrent layer, with or without a memory of its outputs."""

    where: str = "Figure 2"
    # Name of a Keras layer, or of a cell in `memlm_keras.cells`.
    layer: str = "LSTM"
    memory: str | None = None
    window: int | None = None
    order: int | None = None
    embedding_dim: int | None = 300
    initial_range: float = 0.1
    batch_size: int = 64
    segment_length: int = 20
    epochs: int | None = None

    def model(self):
        sizes = {"units": self.units, **self.drawn}
        if self.layer.endswith("Cell"):
            cell = f"memlm_keras.cells.{self.layer}"
            layer = projected_rnn(cell, order=3, **sizes)
        else:
            layer = serialized(f"keras.layers.{self.layer}", **sizes)
        memory = None
        if self.memory is not None:
            spans = {"window": self.window, "order": self.order}
            if self.memory == "Projection" and self.units_divisor > 1:
                spans["units"] = self.units // self.units_divisor
            memory = serialized(
                f"memlm_keras.memory.{self.memory}",
                **{k: span for k, span in spans.items() if span is not None},
                kernel_initializer=self.weights,
            )
        return self.language_model([layer], memory)

    def data(self):
        return {**super().data(), "documents": True}


def _row(units, parameters, validation, test, memory=None, parts=1, **fields):
    """Returns a row whose memory splits each output into `parts` parts."""
    return DanilukRow(
        units=units,
        units_divisor=parts,
        parameters=parameters,
        memory=memory,
        published=(perplexities(WIKIPEDIA, validation, test),),
        **fields,
    )


# Columns: units, parameters, validation and test perplexity, memory, parts.
ROWS = {
    "rnn": _row(307, (186_656, 608), 121.7, 125.7, layer="SimpleRNN"),
    "lstm": _row(300, (721_200, 601), 83.2, 85.2),
    "fofe_hornn": _row(
        303, (458_439, 604), 116.7, 120.5, "Projection", layer="FOFEHORNNCell"
    ),
    "gated_hornn": _row(
        297, (974_160, 598), 93.9, 97.1, "Projection", layer="GatedHORNNCell"
    ),
    "rm_tm_gated": _row(
        300, (1_265_700, 1201), 78.2, 80.1, "MemoryBlock", window=15
    ),
    "attention": _row(
        296, (1_057_608, 597), 80.6, 82.0, "Attention", window=10
    ),
    "key_value": _row(
        560, (2_242_520, 581), 77.1, 78.2, "KeyValue", 2, window=10
    ),
    # Without input embeddings, the equations give 25.6M parameters for this
    # model. With 786 units, it has 23.9M parameters, like the other rows.
    "key_value_predict": _row(
        834, (4_095_774, 579), 74.2, 75.8, "KeyValuePredict", 3, window=5
    ),
    "key_value_predict_786": _row(
        786, (3_692_366, 563), None, None, "KeyValuePredict", 3, window=5
    ),
    # A control without a memory, which is not in the paper.
    "lstm_projected": _row(786, (3_623_460, 563), None, None, "Projection", 3),
    "ngram_2": _row(564, (2_110_488, 583), 76.0, 77.1, "NGram", 2, order=2),
    "ngram_3": _row(786, (3_623_460, 563), 74.9, 75.9, "NGram", 3, order=3),
    "ngram_4": _row(968, (5_147_824, 543), 74.8, 75.9, "NGram", 4, order=4),
    "ngram_5": _row(1120, (6_616_960, 525), 76.0, 77.3, "NGram", 5, order=5),
}

# Figure 2 (a) shows test perplexity by attention window.
BY_WINDOW = {
    "rm_tm_gated": {1: 83.5, 5: 80.5, 10: 80.3, 15: 80.1},
    "attention": {1: 82.2, 5: 82.2, 10: 82.0, 15: 82.8},
    "key_value": {1: 78.7, 5: 79.0, 10: 78.2, 15: 78.9},
    "key_value_predict": {1: 76.1, 5: 75.8, 10: 76.0, 15: 75.8},
}

# Figure 2 (d): accuracy for named entities, common nouns, verbs, prepositions.
CLOZE = {
    "lstm": {"NE": 0.523, "CN": 0.604, "V": 0.819, "P": 0.786},
    "fofe_hornn": {"NE": 0.465, "CN": 0.497, "V": 0.774, "P": 0.741},
    "gated_hornn": {"NE": 0.508, "CN": 0.547, "V": 0.790, "P": 0.774},
    "rm_tm_gated": {"NE": 0.525, "CN": 0.597, "V": 0.817, "P": 0.797},
    "attention": {"NE": 0.538, "CN": 0.595, "V": 0.826, "P": 0.803},
    "key_value": {"NE": 0.528, "CN": 0.601, "V": 0.822, "P": 0.813},
    "key_value_predict": {"NE": 0.528, "CN": 0.599, "V": 0.829, "P": 0.803},
    "ngram_4": {"NE": 0.532, "CN": 0.598, "V": 0.815, "P": 0.800},
}
WORD_TYPES = ("NE", "CN", "V", "P")


def _table_rows(names):
    for row in table_rows(
        "daniluk2017",
        {name: ROWS[name] for name in names},
        details=lambda row: {"window": row.window or ""},
    ):
        if row.label == "key_value_predict_786":
            row = dataclasses.replace(
                row, same_but_for_units="key_value_predict"
            )
        yield row


def _by_window():
    for row in _table_rows(BY_WINDOW):
        for window, test in BY_WINDOW[row.label].items():
            changes = {
                "label": f"{row.label}, window {window}",
                "details": {**row.details, "window": window},
            }
            # The preset's own window needs no changes.
            if window != row.details["window"]:
                changes |= {
                    "changes": {"window": window},
                    "published": (Published(WIKIPEDIA, {"test": test}),),
                }
            yield dataclasses.replace(row, **changes)


TABLES = (
    Table(
        name="windows",
        title="Figure 2 (a), perplexity by attention window",
        rows=tuple(_by_window()),
        lines=("window", "test"),
    ),
    Table(
        name="ngrams",
        title="Figure 2 (b), N-gram RNNs",
        rows=tuple(_table_rows([n for n, row in ROWS.items() if row.order])),
    ),
    Table(
        name="models",
        title="Figure 2 (c), all models",
        rows=tuple(_table_rows(ROWS)),
    ),
    Table(
        name="cbt",
        title="Figure 2 (d), accuracy on the Children's Book Test",
        rows=tuple(
            dataclasses.replace(
                row, published=(Published(CBT, CLOZE[row.label]),)
            )
            for row in _table_rows(CLOZE)
        ),
        measures=tuple(
            Measure(word_type, ("cbt", word_type, "accuracy"), digits=3)
            for word_type in WORD_TYPES
        ),
        dataset="cbt",
        only_dataset=True,
    ),
)

# "We adjusted the hidden size of all models to have roughly the same total
# number of model parameters" (Section 5.1). The model in `unmatched` is an
# exception: it has twice as many parameters as the others.
PAPER = Paper(
    name="daniluk2017",
    title="Frustratingly Short Attention Spans in Neural Language Modeling",
    authors=("Daniluk", "Rocktaeschel", "Welbl", "Riedel"),
    year=2017,
    where="ICLR; arXiv:1702.04521",
    rows=ROWS,
    tables=TABLES,
    matched_to="lstm",
    unmatched=("rm_tm_gated",),
)
