"""Rows of the papers' tables: named numbers that build Keras objects."""

import abc
import copy
import dataclasses
import functools
from typing import ClassVar

import keras

from memlm_keras.presets.plain import built
from memlm_keras.training.losses import SentenceCrossEntropy


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row(abc.ABC):
    """One row of a paper's table: a model, and how it is trained.

    A subclass has the numbers that tell the rows of a paper apart as fields of
    its own, and makes real objects of them: `model` returns arguments of the
    class that `kind` names. A field `window` can be set by who asks for the
    preset, and so can `initial_range`, the r of weights drawn from U(-r, r),
    `embedding_range`, that of embeddings alone, the `key` of an associative
    memory, and the weight of an `l2`.

    Args:
        units: integer, of the recurrent layers.
        embedding_dim: integer; `None` is as many as `units`.
        units_divisor: integer that `units` must be divisible by.
        where: string, place in the paper, or `None`.
        published: tuple of `Published` numbers, the first of the text that the
            row is of.
        batch_size: integer.
        segment_length: integer, steps of back-propagation.
        epochs: integer, the most to train for, or `None`.
        halve_after: integer, epochs at the initial learning rate, or `None`.
        factor: float, on the learning rate at each later epoch, or `None`.
        patience: integer, epochs without a better result that training goes on
            for, or `None`.
        selected_by: string, what tells the best epoch.

    Example: see `memlm_keras.presets.register`.
    """

    kind: ClassVar[str] = "LanguageModel"

    units: int
    embedding_dim: int | None = None
    units_divisor: int = 1
    where: str | None = None
    published: tuple = ()
    batch_size: int = 20
    segment_length: int = 35
    epochs: int | None = 20
    halve_after: int | None = None
    factor: float | None = None
    patience: int | None = None
    selected_by: str = "validation perplexity"

    # === What subclasses say ===

    @abc.abstractmethod
    def model(self):
        """Returns the arguments of the model but the vocabulary size.

        Returns:
            A dict of plain values and Keras objects.
        """

    def optimizer(self):
        """Returns the Keras optimizer."""
        return keras.optimizers.Adam(0.001, global_clipnorm=5.0)

    def loss(self):
        """Returns the Keras loss; `None` is the mean over tokens."""
        return None

    def data(self):
        """Returns how the text is read, a dict of plain values."""
        return {
            "batch_size": self.batch_size,
            "segment_length": self.segment_length,
        }

    def schedule(self):
        """Returns how long it is trained, a dict of plain values."""
        keys = ("epochs", "halve_after", "factor", "patience", "selected_by")
        known = {key: getattr(self, key) for key in keys}
        return {key: said for key, said in known.items() if said is not None}

    def more(self):
        """Returns further keys of the preset, a dict of plain values."""
        return {}

    @property
    def embedding_size(self):
        """Size of the embedding vectors."""
        return self.embedding_dim or self.units

    @property
    def sizes_are_one(self):
        """Whether `units` and `embedding_dim` must be the same number."""
        return self.embedding_dim is None

    # === What the registry asks for ===

    def resized(
        self,
        name,
        scale=1.0,
        units=None,
        embedding_dim=None,
        **fields,
    ):
        """Returns this row with other sizes.

        Args:
            name: string, of the preset, for errors.
            scale: float, factor on the sizes that are not given.
            units: integer, or `None`.
            embedding_dim: integer, or `None`.
            **fields: `window`, `initial_range`, `embedding_range`, `key`, `l2`
                or `output_bias`, of rows that have a field of that name.

        Returns:
            A row of the same class.

        Raises:
            ValueError: for a size that the row does not have, and `units` and
                `embedding_dim` that must be the same number and are not.
        """
        if self.sizes_are_one:
            if None not in (units, embedding_dim) and units != embedding_dim:
                raise ValueError(
                    f"The preset {name} has tied embeddings, or no recurrent "
                    "layer: `units` and `embedding_dim` are one number. "
                    f"Received: units={units}, embedding_dim={embedding_dim}"
                )
            units = units or embedding_dim
            embedding_dim = None
        elif embedding_dim is None:
            embedding_dim = self.scaled_embedding_dim(scale)
        changed = {
            "units": units or _scaled(self.units, scale, self.units_divisor),
            "embedding_dim": embedding_dim,
        }
        lacks = {
            "window": f"The preset {name} has no memory with a window, so "
            "`window` contradicts it",
            "initial_range": f"The weights of {name!r} are not drawn from a "
            "range",
            "embedding_range": f"The embeddings of {name!r} are not drawn from "
            "a range of their own",
            "l2": f"Nothing of the preset {name} has an l2",
            "output_bias": f"The output bias of the preset {name} is fixed",
            "key": f"The preset {name} has no associative memory, so `key` "
            "contradicts it",
        }
        for size, value in fields.items():
            if value is None:
                continue
            if getattr(self, size, None) is None:
                raise ValueError(f"{lacks[size]}. Received: {size}={value}")
            changed[size] = value
        return dataclasses.replace(self, **changed)

    def scaled_embedding_dim(self, scale):
        """Returns the `embedding_dim` of a scaled row."""
        if self.embedding_dim is None:
            return None
        return _scaled(self.embedding_dim, scale)

    def preset(self):
        """Returns all that the row says as plain values of the caller's own."""
        return copy.deepcopy(self._plain)

    @functools.cached_property
    def _plain(self):
        return built(self._preset)

    def _preset(self):
        loss = self.loss()
        return {
            "model": self.model(),
            "units": self.units,
            "units_divisor": self.units_divisor,
            "data": self.data(),
            "optimizer": self.optimizer(),
            **({} if loss is None else {"loss": loss}),
            "schedule": self.schedule(),
            **self.published_numbers(),
            **self.more(),
        }

    def published_numbers(self):
        """Returns `published`, and `also_published` of a second text."""
        keys = ("published", "also_published")
        found = {
            key: {"corpus": published.corpus, **published.numbers}
            for key, published in zip(keys, self.published)
        }
        return {"published": {"corpus": None}, **found}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SummedLossRow(Row):
    """A row whose loss is summed over time, and averaged over rows.

    Zaremba et al. (2014) train so, and others after them: with SGD at a
    learning rate of 1, which is kept for some epochs and then multiplied by a
    factor at each one.

    Args:
        initial_range: float r, weights are drawn from U(-r, r).
        clipnorm: float, the norm that all gradients together are clipped at.
    """

    initial_range: float = 0.05
    clipnorm: float = 5.0

    def loss(self):
        return SentenceCrossEntropy()

    def optimizer(self):
        return keras.optimizers.SGD(1.0, global_clipnorm=self.clipnorm)


def uniform(limit):
    """Returns an initializer of weights from U(-limit, limit)."""
    return keras.initializers.RandomUniform(-limit, limit)


def drawn(initializer):
    """Arguments of a recurrent layer with one initializer for all weights."""
    return {
        "kernel_initializer": initializer,
        "recurrent_initializer": initializer,
        "bias_initializer": initializer,
    }


def lstms(number, units, weights, **arguments):
    """Returns so many LSTM layers with one initializer for all weights."""
    return [
        keras.layers.LSTM(units, **{**drawn(weights), **arguments})
        for _ in range(number)
    ]


def _scaled(size, scale, divisor=1):
    return max(1, round(size * scale / divisor)) * divisor
