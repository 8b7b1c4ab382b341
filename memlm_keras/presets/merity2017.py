"""Rows of Merity, Xiong, Bradbury and Socher (2017), Tables 2 and 3.

A medium LSTM, two layers of 650 units with embeddings of as many, an untied
projection with bias and weights drawn from U(-0.05, 0.05), is regularized by
zoneout (Krueger et al., 2016) and by variational dropout of 0.5 of what each
layer and the projection read; and with it, the pointer sentinel. SGD at a
learning rate of 1, halved when the validation perplexity is no better,
back-propagation through 100 steps, as many as the pointer's window has, and
clipping at a norm of 1.

Choices, where no more is known of the paper: a batch size of 32, no offset of
the forget-gate bias, the loss summed over time, at most 64 epochs and an end
after three without a better perplexity; and the rates of zoneout, 0.5 of c and
0.05 of h, which are those of Krueger et al. for characters.

`wikitext2_variational_lstm` is, by choice, `gal2016/medium` on WikiText-2.

The paper prints 20M parameters, and 21M with a pointer. By its equations they
are 19.8M and 20.2M on Penn Treebank and, as the vocabulary is larger, 50.1M and
50.5M on WikiText-2.
"""

import dataclasses

from memlm_keras.cells import ProjectedRNN
from memlm_keras.cells import ZoneoutLSTMCell
from memlm_keras.mixtures import PointerSentinel
from memlm_keras.presets import gal2016
from memlm_keras.presets.rows import SummedLossRow
from memlm_keras.presets.rows import drawn
from memlm_keras.presets.rows import uniform
from memlm_keras.presets.table import perplexities
from memlm_keras.registry import Paper

_WHERE = "Tables 2 and 3"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row(SummedLossRow):
    """Two LSTM layers with zoneout, and a pointer over a window or none."""

    where: str = _WHERE
    units: int = 650
    embedding_dim: int | None = 650
    layers: int = 2
    window: int | None = None
    dropout: float = 0.5
    cell_zoneout: float = 0.5
    hidden_zoneout: float = 0.05
    batch_size: int = 32
    segment_length: int = 100
    clipnorm: float = 1.0
    epochs: int | None = 64
    patience: int | None = 3

    def model(self):
        weights = uniform(self.initial_range)
        model = {
            "embedding_dim": self.embedding_size,
            "recurrent": [
                ProjectedRNN(
                    ZoneoutLSTMCell(
                        self.units,
                        **drawn(weights),
                        unit_forget_bias=False,
                        cell_zoneout=self.cell_zoneout,
                        hidden_zoneout=self.hidden_zoneout,
                    )
                )
                for _ in range(self.layers)
            ],
            "memory": None,
            "dropout": {
                "embeddings": self.dropout,
                "between": self.dropout,
                "outputs": self.dropout,
                "variational": True,
            },
            "initializer": weights,
        }
        if self.window is not None:
            model["mixture"] = PointerSentinel(
                self.window, kernel_initializer=weights
            )
        return model

    def schedule(self):
        # Arguments of `keras.callbacks.ReduceLROnPlateau`.
        halving = {
            "monitor": "val_nats",
            "mode": "min",
            "factor": 0.5,
            "patience": 0,
        }
        return {**super().schedule(), "reduce_on_plateau": halving}


ROWS = {
    "ptb_zoneout_variational": Row(
        published=(perplexities("Penn Treebank", 84.4, 80.6),)
    ),
    "ptb_pointer_sentinel": Row(
        window=100,
        published=(perplexities("Penn Treebank", 72.4, 70.9),),
    ),
    "wikitext2_variational_lstm": dataclasses.replace(
        gal2016.ROWS["medium"],
        where=_WHERE,
        published=(perplexities("WikiText-2", 101.7, 96.3),),
    ),
    "wikitext2_zoneout_variational": Row(
        published=(perplexities("WikiText-2", 108.7, 100.9),)
    ),
    "wikitext2_pointer_sentinel": Row(
        window=100,
        published=(perplexities("WikiText-2", 84.8, 80.8),),
    ),
}

PAPER = Paper(
    name="merity2017",
    title="Pointer Sentinel Mixture Models",
    authors=("Merity", "Xiong", "Bradbury", "Socher"),
    year=2017,
    where="ICLR; arXiv:1609.07843",
    rows=ROWS,
)
