"""Arguments of constructors as plain values, and back."""

import keras


def serialize(value):
    """Returns a layer, a list of layers or `None` as plain values."""
    if isinstance(value, (list, tuple)):
        return [serialize(part) for part in value]
    return keras.saving.serialize_keras_object(value)


def config_of(layer, *names):
    """Returns attributes of a layer as plain values, a dict by name."""
    return {name: serialize(getattr(layer, name)) for name in names}


def deserialize(config, custom_objects=None):
    """Returns a config with objects for serialized ones, in lists too."""

    def revive(value):
        if isinstance(value, (list, tuple)):
            return [revive(part) for part in value]
        if isinstance(value, dict) and {"class_name", "config"} <= set(value):
            return keras.saving.deserialize_keras_object(
                value, custom_objects=custom_objects
            )
        return value

    return {name: revive(value) for name, value in config.items()}
