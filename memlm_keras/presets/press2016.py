"""Rows of Press and Wolf (2016), Section 4.

The models of Zaremba et al. (2014) with the embedding for the matrix of the
output projection, which keeps its bias (weight tying, `wt`); with a projection
of the last outputs, `P h + b_P`, and a penalty on P (projection regularization,
`pr`), where nothing is dropped; and with the dropout of Gal and Ghahramani
(2016; `bd`), without weight decay.

The penalty is that of the authors' code, `||P||^2 / 2` divided by 6.5 times the
batch size of 20 rows, beside a loss that is a mean over them; the paper prints
0.15. It is not of another batch size, where one is asked for. In a model of
`wt` the embedding is drawn as all weights are.
"""

import dataclasses

import keras

from memlm_keras.memory import Projection
from memlm_keras.presets import gal2016
from memlm_keras.presets import zaremba2014
from memlm_keras.presets.rows import uniform
from memlm_keras.presets.table import perplexities
from memlm_keras.registry import Paper


class _TiedOrProjected:
    """Tying and projection, added to a row of another paper."""

    def model(self):
        model = {**super().model(), "tie_embeddings": self.tied}
        if self.penalized:
            weights = uniform(self.initial_range)
            model["memory"] = Projection(
                kernel_initializer=weights,
                activation="linear",
                use_bias=True,
                bias_initializer=weights,
                kernel_regularizer=keras.regularizers.L2(
                    0.5 / (6.5 * self.batch_size)
                ),
            )
        return model


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row(_TiedOrProjected, zaremba2014.Row):
    """A row of Zaremba et al. (2014), tied or with a penalized projection."""

    where: str = "Section 4"
    tied: bool = False
    penalized: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class VariationalRow(_TiedOrProjected, gal2016.Row):
    """A row of Gal and Ghahramani (2016), tied."""

    where: str = "Section 4"
    tied: bool = True
    penalized: bool = False
    weight_decay: float | None = None


def _changed(row, row_class, numbers=(), **changed):
    """A row of another paper as one of this one.

    Tied embeddings have no size of their own.
    """
    tied = changed.get("tied", row_class.tied)
    kept = {
        field.name: getattr(row, field.name)
        for field in dataclasses.fields(row)
        if field.name not in ("where", "weight_decay")
    }
    kept["embedding_dim"] = None if tied else row.embedding_dim
    kept["published"] = (perplexities("Penn Treebank", *numbers),)
    return row_class(**kept, **changed)


_SMALL, _LARGE = zaremba2014.ROWS["small"], zaremba2014.ROWS["large"]
_VARIATIONAL = gal2016.ROWS["large"]
ROWS = {
    "small_wt": _changed(_SMALL, Row, tied=True),
    "small_pr": _changed(_SMALL, Row, penalized=True),
    "small_wt_pr": _changed(_SMALL, Row, tied=True, penalized=True),
    "large_wt": _changed(_LARGE, Row, tied=True),
    "large_wt_bd": _changed(_VARIATIONAL, VariationalRow, (75.8, 73.2)),
}

PAPER = Paper(
    name="press2016",
    title="Using the Output Embedding to Improve Language Models",
    authors=("Press", "Wolf"),
    year=2016,
    where="EACL 2017; arXiv:1608.05859",
    rows=ROWS,
)
