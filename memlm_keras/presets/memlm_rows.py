"""Presets of this package for small, medium and large texts.

docs/results/defaults.md contains measurements of the preset `memlm/small`.
"""

import dataclasses
from typing import ClassVar

from memlm_keras.presets.rows import UniformRow
from memlm_keras.presets.rows import serialized
from memlm_keras.registry import Paper


@dataclasses.dataclass(frozen=True, kw_only=True)
class MemlmRow(UniformRow):
    """LSTM layers with tied embeddings. If `units` is not `embedding_dim`, a
    `Projection` converts the LSTM outputs to vectors of that size."""

    # The `Projection` allows units and embedding size to differ.
    sizes_are_one: ClassVar[bool] = False

    layers: int = 1
    dropout: float = 0.5
    learning_rate: float = 0.003
    initial_range: float = 0.3
    # Number of words in the sampled softmax of training; 0 for a full softmax.
    num_sampled: int = 0
    batch_size: int = 20
    segment_length: int = 35
    epochs: int | None = 40
    patience: int | None = 3

    def model(self):
        memory = head = None
        if self.embedding_size != self.units:
            memory = serialized(
                "memlm_keras.memory.Projection",
                kernel_initializer=self.weights,
                activation=None,
                units=self.embedding_size,
            )
        if self.num_sampled:
            head = serialized(
                "memlm_keras.heads.TiedProjection",
                name="head",
                bias_initializer=self.weights,
                num_sampled=self.num_sampled,
            )
        return self.language_model(
            self.lstms(self.layers),
            memory=memory,
            dropout=self.dropout,
            tie_embeddings=True,
            head=head,
        )

    def optimizer(self):
        return serialized(
            "memlm_keras.training.FusedAdam",
            learning_rate=self.learning_rate,
            global_clipnorm=5.0,
        )

    def schedule(self):
        """Returns a schedule that halves the learning rate after each epoch,
        unless the validation perplexity falls by at least 0.5."""
        plateau = {
            "monitor": "val_perplexity",
            "mode": "min",
            "factor": 0.5,
            "patience": 0,
            "min_delta": 0.5,
        }
        return {**super().schedule(), "reduce_on_plateau": plateau}

    def more(self):
        return {
            # Number of validation tokens to score after each epoch. Since only
            # training samples words, a validation token may take several times
            # as long as a training token.
            "validation_tokens": 50_000,
            # Trying five values of theta takes less time than training.
            "cache": {"size": 500, "thetas": [0.1, 0.3, 0.5, 0.7, 0.9]},
            # Dynamic evaluation is for texts up to `most_tokens` tokens.
            # Slower settings lowered a novel's perplexity by at most another
            # 1%. With 15 instead of 6 training segments, the perplexities of
            # two texts changed by at most 0.3%.
            "dynamic": {
                "steps": 40,
                "segments": 50,
                "training_segments": 6,
                "splits": ["test"],
                "most_tokens": 200_000,
            },
        }


PAPER = Paper(
    name="memlm",
    title="Rows for your own text",
    rows={
        "small": MemlmRow(units=200, parameters=(320_800, 201)),
        "medium": MemlmRow(
            units=400, initial_range=0.2, parameters=(1_281_600, 401)
        ),
        "large": MemlmRow(
            units=650, layers=2, initial_range=0.1, parameters=(6_765_200, 651)
        ),
    },
)
