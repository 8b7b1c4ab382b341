"""Rows of Gal and Ghahramani (2016), Table 1.

The models of Zaremba et al. (2014) with variational dropout: a mask for a whole
sequence, of its own for each gate ("untied weights"), of what each layer reads
(0.5) and of its own last output (0.3); of the words (0.3), and of what the
projection reads (0.5). `memlm_keras.evaluation.monte_carlo_perplexity` takes
the average over masks.

The rates are those of the authors' code, for the large model; so are the ten
epochs before its learning rate is divided by 1.15. Choices: the same rates for
the medium model, trained as that of Zaremba et al. is otherwise; and a weight
decay that shrinks with the learning rate, where the code's stays 1e-7. For the
average the code drops no words, while here they are dropped as in training.
"""

import dataclasses

import keras

from memlm_keras.embeddings import Embedding
from memlm_keras.presets.rows import SummedLossRow
from memlm_keras.presets.rows import lstms
from memlm_keras.presets.rows import uniform
from memlm_keras.presets.table import perplexities
from memlm_keras.registry import Paper


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row(SummedLossRow):
    """Two LSTM layers with variational dropout."""

    where: str = "Table 1"
    layers: int = 2
    input_dropout: float = 0.5
    recurrent_dropout: float = 0.3
    word_dropout: float = 0.3
    output_dropout: float = 0.5
    weight_decay: float | None = 1e-7

    def model(self):
        weights = uniform(self.initial_range)
        return {
            "embedding_dim": self.embedding_size,
            "recurrent": lstms(
                self.layers,
                self.units,
                weights,
                unit_forget_bias=False,
                dropout=self.input_dropout,
                recurrent_dropout=self.recurrent_dropout,
            ),
            "memory": None,
            "dropout": {"outputs": self.output_dropout, "variational": True},
            "embedding": Embedding(
                word_dropout=self.word_dropout, embeddings_initializer=weights
            ),
            "initializer": weights,
        }

    def optimizer(self):
        return keras.optimizers.SGD(
            1.0, global_clipnorm=self.clipnorm, weight_decay=self.weight_decay
        )


ROWS = {
    "medium": Row(
        units=650,
        embedding_dim=650,
        epochs=39,
        halve_after=6,
        factor=0.8,
        published=(
            perplexities(
                "Penn Treebank", 81.9, 79.7, monte_carlo_test_perplexity=78.6
            ),
        ),
    ),
    "large": Row(
        units=1500,
        embedding_dim=1500,
        initial_range=0.04,
        clipnorm=10.0,
        epochs=55,
        halve_after=10,
        factor=1 / 1.15,
        published=(
            perplexities(
                "Penn Treebank", 77.9, 75.2, monte_carlo_test_perplexity=73.4
            ),
        ),
    ),
}

PAPER = Paper(
    name="gal2016",
    title=(
        "A Theoretically Grounded Application of Dropout in Recurrent Neural "
        "Networks"
    ),
    authors=("Gal", "Ghahramani"),
    year=2016,
    where="NIPS; arXiv:1512.05287",
    rows=ROWS,
)
