"""Rows of Zaremba, Sutskever and Vinyals (2014), Table 1.

Two LSTM layers of as many units as the embeddings have, an untied projection,
weights drawn from a uniform distribution, dropout on the non-recurrent
connections, and continuous text whose state is carried on (Section 4.1). The
small model, which the authors' code calls non-regularized, has none.
"""

import dataclasses

from memlm_keras.presets.rows import SummedLossRow
from memlm_keras.presets.rows import lstms
from memlm_keras.presets.rows import uniform
from memlm_keras.presets.table import perplexities
from memlm_keras.registry import Paper


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row(SummedLossRow):
    """Two LSTM layers with dropout between them."""

    where: str = "Section 4.1 and Table 1"
    layers: int = 2
    dropout: float = 0.0

    def model(self):
        weights = uniform(self.initial_range)
        return {
            "embedding_dim": self.embedding_size,
            "recurrent": lstms(
                self.layers, self.units, weights, unit_forget_bias=False
            ),
            "memory": None,
            "dropout": self.dropout,
            "initializer": weights,
        }


ROWS = {
    "small": Row(
        units=200,
        embedding_dim=200,
        initial_range=0.1,
        segment_length=20,
        epochs=13,
        halve_after=4,
        factor=0.5,
        published=(perplexities("Penn Treebank"),),
    ),
    "medium": Row(
        units=650,
        embedding_dim=650,
        dropout=0.5,
        epochs=39,
        halve_after=6,
        factor=0.8,
        published=(perplexities("Penn Treebank", 86.2, 82.7),),
    ),
    "large": Row(
        units=1500,
        embedding_dim=1500,
        initial_range=0.04,
        dropout=0.65,
        clipnorm=10.0,
        epochs=55,
        halve_after=14,
        factor=1 / 1.15,
        published=(perplexities("Penn Treebank", 82.2, 78.4),),
    ),
}

PAPER = Paper(
    name="zaremba2014",
    title="Recurrent Neural Network Regularization",
    authors=("Zaremba", "Sutskever", "Vinyals"),
    year=2014,
    where="arXiv:1409.2329",
    rows=ROWS,
)
