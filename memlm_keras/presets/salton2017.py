"""Rows of Salton, Ross and Kelleher (2017), Tables 1 and 2.

docs/papers/salton2017.md lists the paper's errata and our choices.
"""

import dataclasses

from memlm_keras.presets.rows import SummedLossRow
from memlm_keras.presets.rows import serialized
from memlm_keras.presets.table import PERPLEXITIES
from memlm_keras.presets.table import Measure
from memlm_keras.presets.table import Table
from memlm_keras.presets.table import perplexities
from memlm_keras.presets.table import table_rows
from memlm_keras.registry import Paper


@dataclasses.dataclass(frozen=True, kw_only=True)
class SaltonRow(SummedLossRow):
    """Two LSTM layers, with or without a memory of their outputs."""

    where: str = "Tables 1 and 2"
    layers: int = 2
    score: str | None = None
    # Whether a layer `tanh(W h + b)` replaces the memory.
    projected: bool = False
    # As in the paper, the memory contains the whole sentence. The longest one
    # has 83 tokens in Penn Treebank, and 215 in WikiText-2. `score="single"`
    # reads all outputs, and the window only limits the returned weights.
    window: int | None = None
    # As in Zaremba et al. (2014), embeddings and layer outputs have dropout.
    dropout: float
    batch_size: int = 32
    longest: int = 35
    # `patience` is from the paper, and `epochs` from the authors' code.
    epochs: int | None = 100
    patience: int | None = 10

    def model(self):
        memory = None
        if self.projected:
            memory = serialized(
                "memlm_keras.memory.Projection",
                use_bias=True,
                kernel_initializer=self.weights,
            )
        if self.score is not None:
            memory = serialized(
                "memlm_keras.memory.Attentive",
                score=self.score,
                window=self.window,
                kernel_initializer=self.weights,
            )
        layers = self.lstms(
            self.layers, bias_initializer="zeros", unit_forget_bias=False
        )
        return self.language_model(
            layers,
            memory,
            dropout=self.dropout,
            tie_embeddings=True,
            head=serialized(
                "memlm_keras.heads.TiedProjection", bias_initializer="zeros"
            ),
        )

    def data(self):
        return {
            "batch_size": self.batch_size,
            "sentences": True,
            "longest": self.longest,
            "equal_lengths": False,
        }


PTB, WIKITEXT2 = "Penn Treebank", "WikiText-2"
_ON = {
    PTB: SaltonRow(
        units=650, window=100, dropout=0.5, halve_after=12, factor=0.5
    ),
    WIKITEXT2: SaltonRow(
        units=1000, window=250, dropout=0.65, halve_after=14, factor=1 / 1.15
    ),
}


def _row(
    corpus, score, parameters, validation=None, test=None, projected=False
):
    row = _ON[corpus]
    return dataclasses.replace(
        row,
        parameters=(parameters, row.units + 1),
        score=score,
        projected=projected,
        window=score and row.window,
        published=(perplexities(corpus, validation, test),),
    )


# The published numbers may not be perplexities per predicted token: see the
# protocol salton2017 in `memlm_keras.evaluation.perplexity`.
ROWS = {
    "ptb_single": _row(PTB, "single", 8_034_000, 71.7, 70.1),
    "ptb_combined": _row(PTB, "combined", 8_456_500, 72.6, 70.7),
    "wikitext2_single": _row(WIKITEXT2, "single", 19_010_000, 73.7, 69.7),
    "wikitext2_combined": _row(WIKITEXT2, "combined", 20_010_000, 74.3, 70.8),
    # The paper lacks these rows: the same models without a memory, and models
    # with a layer `tanh(W h + b)` in place of the memory.
    "ptb_lstm": _row(PTB, None, 6_765_200),
    "ptb_projected": _row(PTB, None, 7_188_350, projected=True),
    "wikitext2_lstm": _row(WIKITEXT2, None, 16_008_000),
    "wikitext2_projected": _row(WIKITEXT2, None, 17_009_000, projected=True),
}

MEASURES = (
    *PERPLEXITIES,
    Measure("test by their protocol", ("test", "salton2017", "perplexity")),
)

TABLES = tuple(
    Table(
        name=name,
        title=f"{title}, {corpus}",
        rows=table_rows("salton2017", ROWS, corpus=corpus),
        measures=MEASURES,
        dataset=dataset,
    )
    for name, title, corpus, dataset in (
        ("ptb", "Table 1", PTB, "ptb"),
        ("wikitext2", "Table 2", WIKITEXT2, "wikitext-2"),
    )
)

PAPER = Paper(
    name="salton2017",
    title="Attentive Language Models",
    authors=("Salton", "Ross", "Kelleher"),
    year=2017,
    where="IJCNLP",
    rows=ROWS,
    tables=TABLES,
)
