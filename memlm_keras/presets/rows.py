"""Base classes for the rows of the papers' tables."""

import abc
import dataclasses
import functools
import importlib
import inspect
import random
from typing import ClassVar


def serialized(path, /, **config):
    """Returns the dict to which Keras would serialize an object."""
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
    """Returns a serialized initializer that draws from U(-limit, limit)."""
    return serialized(
        "keras.initializers.RandomUniform", minval=-limit, maxval=limit
    )


def projected_rnn(path, /, **config):
    """Returns a serialized `ProjectedRNN` with the cell class at `path`."""
    return serialized(
        "memlm_keras.cells.ProjectedRNN", cell=serialized(path, **config)
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row(abc.ABC):
    """One row of a paper's table: a model and its training.

    A subclass adds a field for each value that differs between rows of a table.
    The method `model` returns constructor arguments of the class that `kind`
    names. If a row has one of the fields `window`, `initial_range`, `key`,
    `l2`, `embedding_range`, `output_bias` and `num_sampled`, and its value is
    not `None`, users of the preset can change the value.

    Args:
        units: integer, size of the recurrent layers.
        embedding_dim: integer, size of the embeddings; `None` means `units`.
        units_divisor: integer that divides `units`.
        parameters: pair of integers, the number of parameters without a
            vocabulary, and the number that each word adds; `None` if these
            numbers are unknown, so that `count_params` must build a model.
        where: string, place in the paper, such as a table, or `None`.
        published: tuple of `Published`, one for each text.
        batch_size: integer.
        segment_length: integer, number of steps of back-propagation.
        epochs: integer, largest number of epochs, or `None`.
        halve_after: integer or `None`, epochs at the initial learning rate.
        factor: float or `None`, multiplies the rate in each later epoch.
        patience: integer, number of epochs without a better result after which
            training ends, or `None`.
        selected_by: string, the criterion that selects the best epoch.

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
        """Returns the model's arguments, without the vocabulary size.

        Returns:
            A dict, whose values may be Keras objects or serialized objects.
        """

    def optimizer(self):
        """Returns a Keras optimizer, or a serialized optimizer."""
        return serialized(
            "memlm_keras.training.FusedAdam",
            learning_rate=0.001,
            global_clipnorm=5.0,
        )

    def loss(self):
        """Returns a Keras loss; `None` means the mean over tokens."""
        return None

    def data(self):
        """Returns a dict of arguments for the training batches."""
        return {
            "batch_size": self.batch_size,
            "segment_length": self.segment_length,
        }

    def schedule(self):
        """Returns a dict of the training schedule, such as `epochs`."""
        keys = ("epochs", "halve_after", "factor", "patience", "selected_by")
        values = {key: getattr(self, key) for key in keys}
        return {k: value for k, value in values.items() if value is not None}

    def more(self):
        """Returns a dict of further entries that the preset needs."""
        return {}

    @property
    def embedding_size(self):
        """Size of the embedding vectors."""
        return self.embedding_dim or self.units

    @property
    def sizes_are_one(self):
        """Whether `units` and `embedding_dim` must be equal."""
        return self.embedding_dim is None

    def scaled_embedding_dim(self, scale):
        """Returns `embedding_dim` times `scale`, rounded, or `None`."""
        return self.embedding_dim and _scaled(self.embedding_dim, scale)

    # === Methods that the registry calls ===

    def resized(
        self, name, scale=1.0, units=None, embedding_dim=None, **fields
    ):
        """Returns a copy with other sizes; `name` is for error messages."""
        if self.sizes_are_one:
            if None not in (units, embedding_dim) and units != embedding_dim:
                raise ValueError(
                    f"The preset {name} has tied embeddings, or no recurrent "
                    "layer: `units` and `embedding_dim` must be equal. "
                    f"Received: units={units}, embedding_dim={embedding_dim}"
                )
            units = units or embedding_dim
            embedding_dim = None
        elif embedding_dim is None:
            embedding_dim = self.scaled_embedding_dim(scale)
        fields = {k: value for k, value in fields.items() if value is not None}
        for field, value in fields.items():
            if getattr(self, field, None) is None:
                raise ValueError(
                    f"`{field}` contradicts the preset {name}, which has no "
                    f"such setting. Received: {field}={value}"
                )
        resized = dataclasses.replace(
            self,
            units=units or _scaled(self.units, scale, self.units_divisor),
            embedding_dim=embedding_dim,
            **fields,
        )
        if resized == self:
            return self
        return dataclasses.replace(resized, parameters=None)

    def preset(self):
        """Returns the row as a dict that JSON can store."""
        # A new Keras object draws a seed: keep the random state of the caller.
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
        """Returns a dict of the paper's numbers for one or two texts."""
        keys = ("published", "also_published")
        return {
            "published": {"corpus": None},
            **{
                key: {"corpus": published.corpus, **published.numbers}
                for key, published in zip(keys, self.published)
            },
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class UniformRow(Row):
    """A model with weights from U(-r, r), where r is `initial_range`."""

    initial_range: float = 0.05

    @property
    def weights(self):
        """Initializer of all weights."""
        return uniform(self.initial_range)

    @property
    def drawn(self):
        """Dict of the initializer arguments of a recurrent layer."""
        return {
            "kernel_initializer": self.weights,
            "recurrent_initializer": self.weights,
            "bias_initializer": self.weights,
        }

    def lstms(self, number, **config):
        """Returns a list of `number` serialized LSTM layers of size `units`."""
        config = {"units": self.units, **self.drawn, **config}
        return [serialized("keras.layers.LSTM", **config)] * number

    def language_model(self, recurrent, memory=None, **others):
        """Returns model arguments; drops those in `others` that are `None`."""
        return {
            "embedding_dim": self.embedding_size,
            "recurrent": recurrent,
            "memory": memory,
            **{k: value for k, value in others.items() if value is not None},
            "initializer": self.weights,
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class SummedLossRow(UniformRow):
    """A row with training as in Zaremba et al. (2014): SGD, and a loss that is
    summed over time and averaged over the rows of a batch."""

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
    """Serializes the Keras objects within a value; omits the objects' names,
    default arguments and the global dtype policy."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    import keras

    return _concise(keras.saving.serialize_keras_object(value))


def _concise(value):
    """Removes names, default arguments and the global dtype policy."""
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
        # Optimizers round the rate to float32: write 0.001, not 0.00100000005.
        import numpy as np

        config["learning_rate"] = float(str(np.float32(rate)))
    return {**value, "config": config}


@functools.cache
def _defaults(class_):
    """Returns the default arguments of a class and of its base classes."""
    import keras

    defaults = {}
    # Base classes come first, so that subclasses override their defaults.
    for base in reversed(inspect.getmro(class_)):
        arguments = inspect.signature(base.__init__).parameters
        for key, argument in arguments.items():
            value = argument.default
            if key.endswith("initializer") and isinstance(value, str):
                value = plain(keras.initializers.get(value))
            defaults[key] = value
    return defaults
