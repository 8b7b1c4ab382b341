"""Rows of Grave, Joulin and Usunier (2017), Section 5.

One LSTM layer of 1024 units, trained without a cache. The rows with one predict
with a `NeuralCache`, with its own theta and weight until better ones are
chosen: `cache` has the arguments of `memlm_keras.evaluation.choose_cache`, the
size, and the values of which the best for the validation text are chosen once
the model is trained.

As in the paper: weights drawn from U(-0.05, 0.05), Adagrad at a learning rate
of 0.2, clipping at a norm of 0.1, back-propagation through 30 steps, batches of
20 rows and a dropout of 0.65.

Choices, where no more is known: embeddings of as many units, an untied
projection with bias, no offset of the forget-gate bias, the loss averaged over
tokens, up to 100 epochs with an end after ten without a better perplexity, the
values of theta and weight, and sums of squared gradients that begin at zero:
from Keras' 0.1 on, clipped gradients are too small to be told from none.
"""

import dataclasses

import keras

from memlm_keras.mixtures.grave2017 import THETAS
from memlm_keras.mixtures.grave2017 import WEIGHTS
from memlm_keras.mixtures.grave2017 import NeuralCache
from memlm_keras.presets.rows import Row as BaseRow
from memlm_keras.presets.rows import lstms
from memlm_keras.presets.rows import uniform
from memlm_keras.presets.table import perplexities
from memlm_keras.registry import Paper


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row(BaseRow):
    """One LSTM layer, with a cache of so many outputs or without."""

    where: str = "Section 5"
    units: int = 1024
    embedding_dim: int | None = 1024
    initial_range: float = 0.05
    cache_size: int | None = None
    segment_length: int = 30
    epochs: int | None = 100
    patience: int | None = 10

    def model(self):
        weights = uniform(self.initial_range)
        model = {
            "embedding_dim": self.embedding_size,
            "recurrent": lstms(1, self.units, weights, unit_forget_bias=False),
            "memory": None,
            "dropout": 0.65,
            "initializer": weights,
        }
        if self.cache_size is not None:
            model["mixture"] = NeuralCache(self.cache_size)
        return model

    def optimizer(self):
        return keras.optimizers.Adagrad(
            0.2, global_clipnorm=0.1, initial_accumulator_value=0.0
        )

    def more(self):
        if self.cache_size is None:
            return {"cache": None}
        return {
            "cache": {
                "size": self.cache_size,
                "thetas": list(THETAS),
                "weights": list(WEIGHTS),
            }
        }


ROWS = {
    "ptb_lstm": Row(published=(perplexities("Penn Treebank", test=82.3),)),
    "ptb_cache_500": Row(
        cache_size=500,
        published=(perplexities("Penn Treebank", test=72.1),),
    ),
    "wikitext2_lstm": Row(published=(perplexities("WikiText-2", test=99.3),)),
    "wikitext2_cache_100": Row(
        cache_size=100,
        published=(perplexities("WikiText-2", test=81.6),),
    ),
    "wikitext2_cache_2000": Row(
        cache_size=2000,
        published=(perplexities("WikiText-2", test=68.9),),
    ),
}

PAPER = Paper(
    name="grave2017",
    title="Improving Neural Language Models with a Continuous Cache",
    authors=("Grave", "Joulin", "Usunier"),
    year=2017,
    where="ICLR; arXiv:1612.04426",
    rows=ROWS,
)
