"""Mix-ins for layers: int8 matrices, and one initializer for all matrices."""

import keras
import numpy as np
from keras import ops

from memlm_keras.arguments import Configured
from memlm_keras.arguments import distinct


class Int8Kernels(Configured):
    """Mix-in for layers whose matrices `quantize("int8")` converts to int8.

    `quantize` stores int8 values and a float32 scale for each column. The
    attribute of a matrix, such as `kernel`, then returns the int8 values
    divided by the scales. List the mix-in before a Keras base class.
    """

    def quantize(self, mode=None, type_check=True, config=None):
        """Quantizes the matrices as Keras quantizes the kernel of `Dense`."""
        if mode != "int8":
            raise NotImplementedError(
                f'A {type(self).__name__} can only be quantized to "int8". '
                f"Received: mode={mode!r}"
            )
        if (quantizer := getattr(config, "weight_quantizer", None)) is None:
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
        """Returns a dict from attribute names to trainable matrices."""
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
        # A layer saved after quantization has int8 weights in its file.
        if self.quantization_mode == "int8":
            self._replace_matrices()
        super()._post_build()

    def __getattr__(self, name):
        if (kept := vars(self).get(f"{name}_int8")) is not None:
            scale = getattr(self, f"{name}_scale")
            return ops.cast(kept, self.compute_dtype) / scale
        # Keras layers have the method `__getattr__` only on PyTorch.
        if (parent := getattr(super(), "__getattr__", None)) is not None:
            return parent(name)
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}"
        )


def expanded(layer):
    """Returns a copy of a layer or cell whose int8 matrices are floats, so that
    a loop need not convert them. May return `layer` if no matrix is int8."""
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
    # `copy.copy` of a Keras layer would save and load the layer.
    other = object.__new__(type(layer))
    vars(other).update(vars(layer), **new)
    return other


class DistinctKernels(Int8Kernels):
    """Mix-in for layers with one `kernel_initializer` for all matrices."""

    def __init__(self, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def add_kernel(self, name, shape):
        """Adds a weight whose random values differ from other weights'."""
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=distinct(self.kernel_initializer, len(self.weights)),
        )

    def add_bias(self, values, units):
        """Adds a bias with `units` copies of each of `values`."""
        return self.add_weight(
            name="bias",
            shape=(len(values) * units,),
            initializer=lambda shape, dtype: ops.convert_to_tensor(
                np.repeat(values, units), dtype
            ),
        )
