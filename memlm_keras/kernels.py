"""Layers whose weights have distinct initial values, and int8 matrices."""

import keras
import numpy as np
from keras import ops

from memlm_keras.arguments import config_of


class Int8Kernels:
    """Mix-in for layers whose matrices `quantize("int8")` makes int8.

    Each trainable matrix becomes an int8 weight and a float32 scale for each
    column, and its attribute their quotient, so that equations stay as they
    are. The mix-in precedes a Keras layer among the bases of a class.
    """

    def quantize(self, mode=None, type_check=True, config=None):
        """Quantizes the matrices, as `keras.layers.Dense` does its kernel."""
        if mode != "int8":
            raise NotImplementedError(
                f'A {type(self).__name__} is quantized to "int8". Received: '
                f"mode={mode!r}"
            )
        quantizer = getattr(config, "weight_quantizer", None)
        if quantizer is None:
            quantizer = keras.quantizers.AbsMaxQuantizer(axis=0)
        quantized = {
            name: quantizer(matrix, axis=0, to_numpy=True)
            for name, matrix in self._matrices().items()
        }
        self._replace_matrices()
        for name, (value, scale) in quantized.items():
            getattr(self, f"{name}_int8").assign(value)
            getattr(self, f"{name}_scale").assign(scale)
        self.dtype_policy = f"int8_from_{self.dtype_policy.name}"

    def quantized_call(self, *args, **kwargs):
        return self.call(*args, **kwargs)

    def _matrices(self):
        """Dict of trainable matrices by the attribute that holds them."""
        trainable = {id(weight) for weight in self.trainable_weights}
        return {
            name: value
            for name, value in vars(self).items()
            if id(value) in trainable and len(value.shape) == 2
        }

    def _replace_matrices(self):
        """Replaces the matrices by int8 weights and their scales."""
        for name, matrix in self._matrices().items():
            shape = matrix.shape
            delattr(self, name)
            weight = self.add_weight(
                shape, "zeros", "int8", trainable=False, name=name
            )
            setattr(self, f"{name}_int8", weight)
            scale = self.add_weight(
                (1, shape[1]), "ones", trainable=False, name=f"{name}_scale"
            )
            setattr(self, f"{name}_scale", scale)
        self._is_quantized = True

    def _post_build(self):
        # A layer that was saved quantized is built quantized.
        if self.quantization_mode == "int8":
            self._replace_matrices()
        super()._post_build()

    def __getattr__(self, name):
        kept = vars(self).get(f"{name}_int8")
        if kept is not None:
            scale = getattr(self, f"{name}_scale")
            return ops.cast(kept, self.compute_dtype) / scale
        # PyTorch modules have one; other layers have none.
        parent = getattr(super(), "__getattr__", None)
        if parent is not None:
            return parent(name)
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}"
        )


def expanded(layer):
    """A layer for a loop over time, by a cell whose int8 matrices are expanded
    once; or a cell so; without such matrices the same object."""
    new = {}
    if hasattr(layer, "cell"):
        new = {"cell": expanded(layer.cell)}
    elif hasattr(layer, "cells"):
        new = {"cells": [expanded(cell) for cell in layer.cells]}
    elif isinstance(layer, Int8Kernels):
        kept = [name for name in vars(layer) if name.endswith("_int8")]
        names = [name.removesuffix("_int8") for name in kept]
        new = {name: getattr(layer, name) for name in names}
    if not new:
        return layer
    # `copy.copy` would write a layer of Keras to a file in memory.
    other = object.__new__(type(layer))
    vars(other).update(vars(layer), **new)
    return other


class DistinctKernels(Int8Kernels):
    """Mix-in for layers with one `kernel_initializer` for all matrices."""

    def __init__(self, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def add_kernel(self, name, shape):
        """Adds a trainable weight with initial values of its own."""
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=distinct(self.kernel_initializer, len(self.weights)),
        )

    def add_bias(self, values, units):
        """Adds a bias that begins with `units` times each of some values."""
        return self.add_weight(
            name="bias",
            shape=(len(values) * units,),
            initializer=lambda shape, dtype: ops.convert_to_tensor(
                np.repeat(values, units), dtype
            ),
        )

    def get_config(self):
        return super().get_config() | config_of(self, "kernel_initializer")


def distinct(initializer, index):
    """Returns an initializer whose values differ for each `index`."""
    # Otherwise an initializer with a seed draws the same values at each call.
    config = initializer.get_config()
    if isinstance(config.get("seed"), int):
        config["seed"] += index
    return type(initializer).from_config(config)
