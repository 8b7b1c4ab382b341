"""What presets are made of: Keras objects as plain, serialized values."""


def from_keras(module, class_name, config):
    """Serialized form of an object of Keras, such as of `keras.layers`."""
    return _serialized(f"keras.{module}", class_name, config, None)


def from_memlm_keras(module, class_name, config):
    """Serialized form of an object of a module of this package."""
    return _serialized(
        f"memlm_keras.{module}",
        class_name,
        config,
        f"memlm_keras>{class_name}",
    )


def uniform(limit):
    """Serialized initializer of weights from U(-limit, limit)."""
    return from_keras(
        "initializers", "RandomUniform", {"minval": -limit, "maxval": limit}
    )


def with_range(value, limit):
    """Copy of a serialized value whose uniform weights have another range."""
    if isinstance(value, list):
        return [with_range(item, limit) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("class_name") == "RandomUniform":
        return uniform(limit)
    return {key: with_range(item, limit) for key, item in value.items()}


def recurrent_arguments(units, initializer):
    """Arguments of a recurrent layer with one initializer for all weights."""
    return {
        "units": units,
        "kernel_initializer": initializer,
        "recurrent_initializer": initializer,
        "bias_initializer": initializer,
    }


def lstm(
    units, initializer, unit_forget_bias=True, zero_biases=False, **arguments
):
    """Serialized LSTM.

    Args:
        units: integer.
        initializer: serialized initializer of all weights.
        unit_forget_bias: whether the forget-gate bias is 1 all the same.
        zero_biases: whether the biases are zero all the same.
        **arguments: other arguments of `keras.layers.LSTM`.
    """
    config = {**recurrent_arguments(units, initializer), **arguments}
    if zero_biases:
        config["bias_initializer"] = from_keras("initializers", "Zeros", {})
    config["unit_forget_bias"] = unit_forget_bias
    return from_keras("layers", "LSTM", config)


def sgd(norm, **arguments):
    """Serialized SGD at a learning rate of 1, clipped by global norm."""
    return from_keras(
        "optimizers",
        "SGD",
        {"learning_rate": 1.0, "global_clipnorm": norm, **arguments},
    )


def summed_over_time():
    """Serialized loss that sums over time and averages over rows."""
    return from_memlm_keras("training.losses", "SentenceCrossEntropy", {})


def tied_units(name, paper_units, scale, units, embedding_dim):
    """Units of layers that are as large as the tied embeddings.

    Args:
        name: string, of the preset.
        paper_units: integer.
        scale: float, factor on the paper's.
        units: integer or `None`, in place of it.
        embedding_dim: integer or `None`, another name of the same.

    Raises:
        ValueError: for `units` that contradict `embedding_dim`.
    """
    if None not in (units, embedding_dim) and units != embedding_dim:
        raise ValueError(
            f"The preset {name} has tied embeddings, of as many units as its "
            f"layers. Received: units={units}, embedding_dim={embedding_dim}"
        )
    return units or embedding_dim or max(1, round(paper_units * scale))


def refuse_window(name, window):
    """Raises `ValueError` where a window is given to a row without one."""
    if window is not None:
        raise ValueError(
            f"The preset {name} has no memory with a window, so `window` "
            f"contradicts it. Received: window={window}"
        )


def _serialized(module, class_name, config, registered_name):
    return {
        "module": module,
        "class_name": class_name,
        "config": config,
        "registered_name": registered_name,
    }
