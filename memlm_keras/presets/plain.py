"""Values with Keras objects in them as plain, printable values."""

import concurrent.futures
import functools
import importlib
import inspect
import random
import sys

import keras
import numpy as np

_REQUIRED = inspect.Parameter.empty


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
    if value["class_name"] == "DTypePolicy":
        return value
    defaults = _defaults(_class_of(value))
    config = {
        key: item
        for key, item in _concise(value["config"]).items()
        if key != "name" and (key not in defaults or item != defaults[key])
    }
    policy = keras.dtype_policies.serialize(keras.config.dtype_policy())
    if config.get("dtype") in (policy, keras.config.floatx()):
        del config["dtype"]
    if "learning_rate" in config:
        # The optimizer has it in float32, of which this is the number meant.
        config["learning_rate"] = float(
            str(np.float32(config["learning_rate"]))
        )
    return {**value, "config": config}


def _class_of(value):
    """The class of a serialized value, which may be of a script's own."""
    found = keras.saving.get_registered_object(value.get("registered_name"))
    if found is not None:
        return found
    # Who imports a module that is being imported waits for it.
    module = sys.modules.get(value["module"])
    module = module or importlib.import_module(value["module"])
    return getattr(module, value["class_name"])


@functools.cache
def _defaults(class_):
    """Arguments of a class that need not be said, a dict of plain values."""
    defaults = {}
    # The last that has an argument is the first that Python asks.
    for base in reversed(inspect.getmro(class_)):
        if "__init__" not in vars(base):
            continue
        of_keras = base.__module__.startswith("keras.")
        arguments = inspect.signature(base.__init__).parameters
        for key, default in ((key, a.default) for key, a in arguments.items()):
            # Switches and names among Keras' own arguments, which are many.
            silent = default is None or (
                of_keras and isinstance(default, (bool, str))
            )
            if key.endswith("initializer") and default is not _REQUIRED:
                default = plain(keras.initializers.get(default))
                # Ranges are told, as papers do.
                silent = not default or default["class_name"] != "RandomUniform"
            defaults[key] = default if silent else _REQUIRED
    return defaults
