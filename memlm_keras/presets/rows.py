"""Rows of the papers' tables: plain values, of which models are built late."""

import abc
import dataclasses
import functools
import importlib
import inspect
import random
from typing import ClassVar

import numpy as np


def serialized(path, /, **config):
    """A Keras object as `keras.saving` serializes it, without making it.

    Args:
        path: string, the public name of its class, such as
            `"keras.layers.LSTM"`.
        **config: its arguments.
    """
    module, _, class_name = path.rpartition(".")
    package = module.partition(".")[0]
    return {
        "module": module,
        "class_name": class_name,
        "config": config,
        "registered_name": (
            None if package == "keras" else f"{package}>{class_name}"
        ),
    }


def uniform(limit):
    """An initializer of weights from U(-limit, limit)."""
    return serialized(
        "keras.initializers.RandomUniform", minval=-limit, maxval=limit
    )


def drawn(initializer):
    """Arguments of a recurrent layer with one initializer for all weights."""
    return {
        "kernel_initializer": initializer,
        "recurrent_initializer": initializer,
        "bias_initializer": initializer,
    }


def lstms(number, units, weights, **config):
    """LSTM layers with one initializer for all weights."""
    layer = serialized(
        "keras.layers.LSTM", units=units, **{**drawn(weights), **config}
    )
    return [layer] * number


def projected_rnn(path, /, **config):
    """A layer of a cell of `memlm_keras.cells`."""
    return serialized(
        "memlm_keras.cells.ProjectedRNN", cell=serialized(path, **config)
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row(abc.ABC):
    """One row of a paper's table: a model, and how it is trained.

    A subclass has the numbers that distinguish the rows of a paper as fields of
    its own; its `model` returns arguments of the class that `kind` names. Where
    a row has such a field, the user of a preset may set `window`;
    `initial_range`, the r of weights drawn from U(-r, r); `embedding_range`,
    that of embeddings alone; the `key` of an associative memory; the weight of
    an `l2`; and `output_bias`.

    Args:
        units: integer, of the recurrent layers.
        embedding_dim: integer; `None` is as many as `units`.
        units_divisor: integer that `units` must be divisible by.
        parameters: pair of integers, the parameters of the model without a
            vocabulary and those that each word adds, or `None`: then they are
            counted in a model.
        where: string, place in the paper, or `None`.
        published: tuple of `Published` numbers, first those of the row's own
            text.
        batch_size: integer.
        segment_length: integer, steps of back-propagation.
        epochs: integer, the most epochs of training, or `None`.
        halve_after: integer, epochs at the initial learning rate, or `None`.
        factor: float, on the learning rate at each later epoch, or `None`.
        patience: integer, epochs without a better result before training ends,
            or `None`.
        selected_by: string, the criterion of the best epoch.

    Example: see `memlm_keras.presets.register`.
    """

    kind: ClassVar[str] = "LanguageModel"

    units: int
    embedding_dim: int | None = None
    units_divisor: int = 1
    parameters: tuple | None = None
    where: str | None = None
    published: tuple = ()
    batch_size: int = 20
    segment_length: int = 35
    epochs: int | None = 20
    halve_after: int | None = None
    factor: float | None = None
    patience: int | None = None
    selected_by: str = "validation perplexity"

    # === Methods that subclasses define ===

    @abc.abstractmethod
    def model(self):
        """Returns the arguments of the model except the vocabulary size.

        Returns:
            A dict of plain values and Keras objects, serialized or not.
        """

    def optimizer(self):
        """Returns the Keras optimizer, serialized or not."""
        return serialized(
            "keras.optimizers.Adam", learning_rate=0.001, global_clipnorm=5.0
        )

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
        """Returns the length of training, a dict of plain values."""
        keys = ("epochs", "halve_after", "factor", "patience", "selected_by")
        values = {key: getattr(self, key) for key in keys}
        return {k: value for k, value in values.items() if value is not None}

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

    # === Methods that the registry calls ===

    def resized(
        self, name, scale=1.0, units=None, embedding_dim=None, **fields
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
        changes = {
            "units": units or _scaled(self.units, scale, self.units_divisor),
            "embedding_dim": embedding_dim,
            **{k: value for k, value in fields.items() if value is not None},
        }
        for size, value in changes.items():
            if size in fields and getattr(self, size, None) is None:
                raise ValueError(
                    f"`{size}` contradicts the preset {name}, which has none. "
                    f"Received: {size}={value}"
                )
        resized = dataclasses.replace(self, **changes)
        if resized == self:
            return self
        return dataclasses.replace(resized, parameters=None)

    def scaled_embedding_dim(self, scale):
        """Returns the `embedding_dim` of a scaled row."""
        if self.embedding_dim is None:
            return None
        return _scaled(self.embedding_dim, scale)

    def preset(self):
        """Returns all of the row as plain values of the caller's own."""
        # A Keras object draws a seed, and to print a preset changes nothing.
        state = random.getstate()
        try:
            loss = self.loss()
            return plain(
                {
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
            )
        finally:
            random.setstate(state)

    def published_numbers(self):
        """Returns `published`, and `also_published` of a second text."""
        keys = ("published", "also_published")
        return {
            "published": {"corpus": None},
            **{
                key: {"corpus": published.corpus, **published.numbers}
                for key, published in zip(keys, self.published)
            },
        }


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
        return serialized("memlm_keras.training.SentenceCrossEntropy")

    def optimizer(self):
        return serialized(
            "keras.optimizers.SGD",
            learning_rate=1.0,
            global_clipnorm=self.clipnorm,
        )


def _scaled(size, scale, divisor=1):
    return max(1, round(size * scale / divisor)) * divisor


# === Keras objects in rows of other packages ===


def plain(value):
    """A copy of a value with all Keras objects in it serialized, without names,
    the global dtype policy and arguments that are the defaults."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    import keras

    return _concise(keras.saving.serialize_keras_object(value))


def _concise(value):
    """A serialized value without the arguments that `plain` leaves out."""
    if isinstance(value, (list, tuple)):
        return [_concise(item) for item in value]
    if not isinstance(value, dict) or value.get("class_name") == "DTypePolicy":
        return value
    if "class_name" not in value:
        return {key: _concise(item) for key, item in value.items()}
    import keras

    class_ = keras.saving.get_registered_object(value.get("registered_name"))
    if class_ is None:
        module = importlib.import_module(value["module"])
        class_ = getattr(module, value["class_name"])
    policy = keras.dtype_policies.serialize(keras.config.dtype_policy())
    defaults = {**_defaults(class_), "name": value["config"].get("name")}
    if value["config"].get("dtype") in (policy, keras.config.floatx()):
        defaults["dtype"] = value["config"]["dtype"]
    config = {
        key: item
        for key, item in _concise(value["config"]).items()
        if key not in defaults or item != defaults[key]
    }
    rate = config.get("learning_rate")
    if isinstance(rate, float):
        # The number that the optimizer was given, which it has in float32.
        config["learning_rate"] = float(str(np.float32(rate)))
    return {**value, "config": config}


@functools.cache
def _defaults(class_):
    """Default arguments of a class and its bases, as their configuration."""
    import keras

    defaults = {}
    # The last to have an argument is the first in the method resolution order.
    for base in reversed(inspect.getmro(class_)):
        if "__init__" not in vars(base):
            continue
        for key, argument in inspect.signature(
            base.__init__
        ).parameters.items():
            defaults[key] = argument.default
            if key.endswith("initializer") and isinstance(
                argument.default, str
            ):
                defaults[key] = plain(keras.initializers.get(argument.default))
    return defaults
