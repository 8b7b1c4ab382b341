"""Values with Keras objects in them as plain, printable values."""

import concurrent.futures
import importlib
import inspect
import random

import keras
import numpy as np


def plain(value):
    """Returns a value with all Keras objects in it serialized.

    Left out is what says nothing: names that Keras gives, the global dtype
    policy, and arguments that are switched off, or on, by default in Keras.

    Args:
        value: plain value, Keras object, or dict or list of such.

    Returns:
        A plain value, with objects as `keras.saving.serialize_keras_object`
        has them.
    """
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return _concise(keras.saving.serialize_keras_object(value))


def built(make):
    """Builds Keras objects aside, and returns them as plain values.

    Args:
        make: function without arguments, of a value as for `plain`.

    Returns:
        What `plain` makes of it.
    """
    return aside(lambda: plain(make()))


def aside(function):
    """Calls a function where what Keras does leaves no trace.

    To look at a preset must change nothing. Keras' names, the precision,
    variables without values and whatever the caller traces belong to a thread,
    so there is one for this; and Python's random state, of which Keras takes a
    seed for each object, is put back.

    Args:
        function: function without arguments.

    Returns:
        Its result.
    """
    state = random.getstate()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        try:
            return pool.submit(function).result()
        finally:
            random.setstate(state)


def _concise(value):
    """A serialized value without what is left out."""
    if isinstance(value, (list, tuple)):
        return [_concise(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "class_name" not in value:
        return {key: _concise(item) for key, item in value.items()}
    module = importlib.import_module(value["module"])
    class_ = getattr(module, value["class_name"])
    config = {
        key: _concise(item)
        for key, item in value["config"].items()
        if not _says_nothing(class_, key, item)
    }
    if "learning_rate" in config:
        # The optimizer has it in float32, of which this is the number meant.
        config["learning_rate"] = float(
            str(np.float32(config["learning_rate"]))
        )
    return {**value, "config": config}


def _says_nothing(class_, key, value):
    if key == "name" or (key, value) == ("trainable", True):
        return True
    if key == "dtype":
        policy = keras.dtype_policies.serialize(keras.config.dtype_policy())
        return value in (None, policy, keras.config.floatx())
    owner, default = _default(class_, key)
    if key.endswith("initializer"):
        # Ranges are told, as papers do, and all else that is not the default.
        told = value is not None and value["class_name"] == "RandomUniform"
        return not told and _concise(value) == plain(
            keras.initializers.get(default)
        )
    if value is None or default is None:
        return value is default
    # Switches and names among Keras' own arguments, which are many.
    of_keras = owner is not None and owner.__module__.startswith("keras.")
    return of_keras and value == default and isinstance(default, (bool, str))


def _default(class_, key):
    """The class that has an argument, and its default there."""
    for base in inspect.getmro(class_):
        if "__init__" in vars(base):
            parameter = inspect.signature(base.__init__).parameters.get(key)
            if parameter is not None:
                return base, parameter.default
    return None, inspect.Parameter.empty
