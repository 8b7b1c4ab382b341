"""The package's own rows, for texts of three sizes.

docs/results/defaults.md has measurements of the smallest.
"""

import dataclasses

from memlm_keras.presets.rows import UniformRow
from memlm_keras.presets.rows import serialized
from memlm_keras.registry import Paper


@dataclasses.dataclass(frozen=True, kw_only=True)
class MemlmRow(UniformRow):
    """LSTM layers with tied embeddings, and a projection if sizes differ."""

    layers: int = 1
    dropout: float = 0.5
    learning_rate: float = 0.003
    initial_range: float = 0.3
    # 0 for all words.
    num_sampled: int = 0
    batch_size: int = 20
    segment_length: int = 35
    epochs: int | None = 40
    patience: int | None = 3

    def model(self):
        return self.language_model(
            self.lstms(self.layers),
            memory=self.projection,
            dropout=self.dropout,
            tie_embeddings=True,
            head=self.head if self.num_sampled else None,
        )

    @property
    def sizes_are_one(self):
        """`False`: outputs are projected."""
        return False

    @property
    def projection(self):
        """The projection to the size of the embeddings, or `None`."""
        if self.embedding_size == self.units:
            return None
        return serialized(
            "memlm_keras.memory.Projection",
            kernel_initializer=self.weights,
            activation=None,
            units=self.embedding_size,
        )

    @property
    def head(self):
        """A head that compares a target with a sample of the words."""
        return serialized(
            "memlm_keras.heads.TiedProjection",
            name="head",
            bias_initializer=self.weights,
            num_sampled=self.num_sampled,
        )

    def optimizer(self):
        return serialized(
            "memlm_keras.training.FusedAdam",
            learning_rate=self.learning_rate,
            global_clipnorm=5.0,
        )

    def schedule(self):
        """Returns a schedule that halves the learning rate after an epoch
        without a better perplexity."""
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
            # After each epoch. Validation compares with all words, so a token
            # may take several times as long as in training.
            "validation_tokens": 50_000,
            # Few values, so that choosing takes less time than training.
            "cache": {"size": 500, "thetas": [0.1, 0.3, 0.5, 0.7, 0.9]},
            # For texts of at most `most_tokens` tokens. On one novel, the
            # perplexity was within 1% of that with slower choices, and on two
            # texts within 0.3% of that with 15 training segments.
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
            units=650,
            layers=2,
            initial_range=0.1,
            parameters=(6_765_200, 651),
        ),
    },
)
