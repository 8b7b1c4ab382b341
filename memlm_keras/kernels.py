"""Weights of one initializer, none with the values of another."""

import keras


class DistinctKernels:
    """Mix-in for layers with one `kernel_initializer`.

    It stands before a Keras layer among the bases of a class.

    Args:
        kernel_initializer: Keras initializer of the weights.
        **kwargs: arguments of the layer.
    """

    def __init__(self, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def add_kernel(self, name, shape):
        """Adds a trainable weight whose values are those of no other.

        Args:
            name: string.
            shape: tuple of integers.

        Returns:
            The weight.
        """
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=distinct(self.kernel_initializer, len(self.weights)),
        )

    def get_config(self):
        return {
            **super().get_config(),
            "kernel_initializer": keras.initializers.serialize(
                self.kernel_initializer
            ),
        }


def distinct(initializer, index):
    """Returns an initializer of the same kind with values of its own.

    One initializer gives the same values each time it is asked for the same
    shape, and so do its clones if it has a seed: sharing either would make
    equal matrices.

    Args:
        initializer: Keras initializer.
        index: integer, different for each weight of a layer or model.
    """
    config = initializer.get_config()
    if isinstance(config.get("seed"), int):
        config["seed"] += index
    return type(initializer).from_config(config)
