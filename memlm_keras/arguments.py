"""Checks and serializes the arguments of constructors.

A failed check raises a `ValueError`. Functions import Keras only where they
need it, since some commands use these checks without Keras.
"""

import inspect
import numbers
import operator

import numpy as np


def require_positive_integer(name, value, minimum=1):
    """Raises `ValueError` unless `value` is an integer >= `minimum`."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < minimum:
        raise ValueError(
            f"`{name}` must be an integer of at least {minimum}. "
            f"Received: {name}={value!r}"
        )


def require_number(
    name, value, at_least=None, above=None, at_most=None, below=None
):
    """Raises `ValueError` unless `value` is a number within the limits."""
    limits = (
        ("at least", at_least, operator.ge),
        ("above", above, operator.gt),
        ("at most", at_most, operator.le),
        ("less than", below, operator.lt),
    )
    limits = [each for each in limits if each[1] is not None]
    inside = isinstance(value, numbers.Real) and all(
        holds(value, limit) for _, limit, holds in limits
    )
    if not inside:
        within = " and ".join(f"{words} {limit}" for words, limit, _ in limits)
        raise ValueError(
            f"`{name}` must be {within}. Received: {name}={value!r}"
        )


def require_rate(name, value):
    """Raises `ValueError` unless `value` is a rate in [0, 1)."""
    require_number(name, value, at_least=0, below=1)


def require_one_of(name, value, choices):
    """Raises `ValueError` unless `value` is one of the strings `choices`."""
    if value not in choices:
        raise ValueError(
            f"`{name}` must be one of {', '.join(map(repr, choices))}. "
            f"Received: {name}={value!r}"
        )


def require_instance(name, value, cls, what):
    """Raises `ValueError` unless `value` is a `cls`, described by `what`."""
    if not isinstance(value, cls):
        raise ValueError(f"`{name}` must be {what}. Received: {name}={value!r}")


def require_integers(
    name, values, ndim=1, vocabulary_size=None, minimum_size=1
):
    """Returns the integers of a `Split`, list or array as an array, without
    copying a memory map; raises `ValueError` for other values."""
    values = np.asanyarray(getattr(values, "tokens", values))
    if not values.size and not minimum_size:
        # NumPy converts an empty list to an array of floats.
        values = values.astype("int32")
    whole = np.issubdtype(values.dtype, np.integer)
    if values.ndim != ndim or values.size < minimum_size or not whole:
        empty = ", not empty" if minimum_size else ""
        raise ValueError(
            f"`{name}` must be a {ndim}-D array of integers{empty}. "
            f"Received: shape {values.shape} and dtype {values.dtype}"
        )
    if vocabulary_size is not None and values.size:
        _require_ids_below(name, values, vocabulary_size)
    return values


def require_token_ids(name, ids, vocabulary_size, ndim=2, minimum_time=1):
    """Returns token ids as an int32 array of rank `ndim`, or of any rank if
    `ndim` is `None`; raises `ValueError` for invalid ids."""
    from keras import ops

    form = {1: "(time,)", 2: "(batch, time)", None: "(..., time)"}[ndim]
    if ids is None or isinstance(ids, str):
        raise ValueError(
            f"`{name}` must be integers of shape {form}; a "
            "`memlm_keras.data.Vocabulary` encodes text. Received: "
            f"{name}={ids!r}"
        )
    try:
        ids = ops.convert_to_numpy(ids)
    except ValueError as error:
        raise ValueError(
            f"`{name}` must be of shape {form}, with rows of equal length. "
            f"Received: {name}={ids!r}"
        ) from error
    wrong_rank = not ids.ndim if ndim is None else ids.ndim != ndim
    if wrong_rank or ids.shape[-1] < minimum_time or not ids.size:
        raise ValueError(
            f"`{name}` must be of shape {form}, with time of at least "
            f"{minimum_time}. Received: shape {ids.shape}"
        )
    if not np.issubdtype(ids.dtype, np.integer):
        raise ValueError(
            f"`{name}` must be integers. Received: dtype {ids.dtype}"
        )
    _require_ids_below(name, ids, vocabulary_size)
    return ids.astype("int32")


def _require_ids_below(name, ids, vocabulary_size):
    what = "number of steps" if name == "positions" else "vocabulary size"
    for outside in (int(ids.min()), int(ids.max())):
        if not 0 <= outside < vocabulary_size:
            raise ValueError(
                f"`{name}` must be at least 0 and below the {what} "
                f"{vocabulary_size}. Received: {outside}"
            )


def require_vocabulary(model, vocabulary=None):
    """Returns `vocabulary`, or by default the model's own; raises `ValueError`
    if the vocabulary does not fit the model."""
    own = getattr(model, "vocabulary", None)
    if vocabulary is None and own is None:
        raise ValueError(
            "`vocabulary` must be given: the `memlm_keras.data.Vocabulary` "
            "that the model was trained with, as the model contains none. "
            "Received: vocabulary=None"
        )
    if vocabulary is None:
        return own
    if own is not None and vocabulary != own:
        raise ValueError(
            "`vocabulary` must be the model's own, or be left out. "
            f"Received: {vocabulary!r} with fingerprint "
            f"{vocabulary.fingerprint}, for a model with {own!r} with "
            f"fingerprint {own.fingerprint}"
        )
    if len(vocabulary) != model.vocabulary_size:
        raise ValueError(
            "`vocabulary` must be the vocabulary that the model was trained "
            f"with: vocabulary_size={model.vocabulary_size}. Received: a "
            f"vocabulary of {len(vocabulary)} tokens"
        )
    return vocabulary


def require_streaming(what, model):
    """Raises a `ValueError` that names `what` unless `model` is causal."""
    if not getattr(model, "causal", True):
        raise ValueError(
            f"{what} needs a causal model. Received: a model with a "
            f"{type(model.memory).__name__}, which reads whole sentences in "
            "both directions. This model has `lm(tokens)`, `lm.score(tokens)` "
            "and `lm.attention(tokens)`; for other methods, choose a causal "
            "memory, such as `memlm_keras.memory.MemoryBlock`."
        )


def require_state(received, expected, batch_size):
    """Raises `ValueError` unless a state matches `expected`, a dict from names
    to shapes without the batch axis; `batch_size=None` allows any size."""
    if not isinstance(received, dict) or set(received) != set(expected):
        names = sorted(received) if isinstance(received, dict) else received
        raise ValueError(
            "`state` must be a dict as returned by `initial_state` or `step`, "
            f"with the names {sorted(expected)}. Received: {names!r}"
        )
    for name, value in received.items():
        sizes = (batch_size, *expected[name])
        shape = tuple(value.shape)
        if not shapes_fit(shape, sizes):
            raise ValueError(
                "`state` must have one row for each row of tokens, so "
                f"{name!r} must have the shape {sizes}. "
                f"Received: {name!r} of shape {shape} with "
                f"{shape[0] if shape else 0} rows"
            )


def shapes_fit(one, other):
    """Returns whether two shapes are equal; `None` matches any size."""
    return len(one) == len(other) and all(
        None in sizes or sizes[0] == sizes[1] for sizes in zip(one, other)
    )


def serialize(value):
    """Serializes an object, or each object of a list, to plain values."""
    if isinstance(value, (list, tuple)):
        return [serialize(part) for part in value]
    import keras

    return keras.saving.serialize_keras_object(value)


class Configured:
    """Mix-in for layers whose `get_config` returns constructor arguments, each
    of which is also an attribute of the layer."""

    def get_config(self):
        names = constructor_arguments(type(self))
        return super().get_config() | config_of(self, *names)


def constructor_arguments(cls):
    """Returns a constructor's arguments, except those that Keras defines."""
    names = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("memlm_keras.") and "__init__" in vars(
            base
        ):
            parameters = inspect.signature(base.__init__).parameters.values()
            names |= {p.name: p for p in parameters if "VAR" not in p.kind.name}
    names.pop("self", None)
    return list(names)


def config_of(layer, *names):
    """Returns a dict from names of attributes to serialized values."""
    return {name: serialize(getattr(layer, name)) for name in names}


def deserialize(config, custom_objects=None):
    """Returns a copy of a config with its serialized objects deserialized."""
    import keras

    def revive(value):
        if isinstance(value, (list, tuple)):
            return [revive(part) for part in value]
        if isinstance(value, dict) and {"class_name", "config"} <= set(value):
            return keras.saving.deserialize_keras_object(
                value, custom_objects=custom_objects
            )
        return value

    return {name: revive(value) for name, value in config.items()}


def distinct(initializer, index):
    """Returns an initializer whose random values depend on `index`."""
    # An initializer with a seed draws the same values at each call.
    config = initializer.get_config()
    if isinstance(config.get("seed"), int):
        config["seed"] += index
    return type(initializer).from_config(config)
