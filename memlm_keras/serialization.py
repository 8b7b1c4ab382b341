"""Arguments of constructors as plain values, and back."""

import keras


def serialize(value):
    """Returns a layer, or a list of layers, as plain values.

    Args:
        value: object that Keras serializes, a list of such, or `None`.
    """
    if isinstance(value, (list, tuple)):
        return [serialize(part) for part in value]
    return keras.saving.serialize_keras_object(value)


def deserialize(config, custom_objects=None):
    """Returns the arguments that a `get_config` was made of.

    Args:
        config: dict by argument. Serialized objects are made anew, in lists as
            well; what is an object or a plain value already stays as it is.
        custom_objects: dict of classes by name, or `None`.

    Returns:
        A dict of the same keys.

    Example:

    >>> arguments = memlm_keras.serialization.deserialize(
    ...     {
    ...         "units": 3,
    ...         "layer": keras.saving.serialize_keras_object(
    ...             keras.layers.LSTM(5)
    ...         ),
    ...     }
    ... )
    >>> arguments["units"], arguments["layer"].units
    (3, 5)
    """

    def revive(value):
        if isinstance(value, (list, tuple)):
            return [revive(part) for part in value]
        if isinstance(value, dict) and {"class_name", "config"} <= set(value):
            return keras.saving.deserialize_keras_object(
                value, custom_objects=custom_objects
            )
        return value

    return {name: revive(value) for name, value in config.items()}
