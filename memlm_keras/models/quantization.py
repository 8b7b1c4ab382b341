"""Quantization with a report, and int8 versions of Keras' recurrent layers."""

import functools
import warnings
from typing import NamedTuple

import keras

from memlm_keras.keras_private import should_quantize_layer
from memlm_keras.keras_private import weight_memory_size
from memlm_keras.kernels import Int8Kernels
from memlm_keras.kernels import expanded


class Quantized(NamedTuple):
    """The result of quantizing one layer."""

    layer: str  # Name of the layer, such as "recurrent_0".
    kind: str  # Class of the layer.
    what: str  # "int8", or the reason why the layer is not quantized.
    bytes_before: int
    bytes_after: int


def quantize(model, mode, config, filters, verbose, **kwargs):
    """Quantizes a `StreamingModel`; returns a list of `Quantized`."""
    if hasattr(model, "models"):
        layers = {
            f"model_{index}_{name}": layer
            for index, one in enumerate(model.models)
            for name, layer in one.backbone.layers().items()
        }
    else:
        layers = model.backbone.layers()
    if smoothed := [n for n in layers if getattr(layers[n], "draws", False)]:
        raise ValueError(
            "`quantize` needs a model that is not smoothed. Received: a "
            f"smoothed {smoothed[0]}. Quantize the copy that "
            "`model.with_fixed_matrices()` returns"
        )
    before = _sizes(layers)
    if "int8" in (mode, config, getattr(config, "mode", None)):
        for layer in layers.values():
            _prepare(layer, lambda cell: should_quantize_layer(cell, filters))
    with warnings.catch_warnings():
        # Keras warns of layers that it cannot quantize; the report lists them.
        warnings.filterwarnings("ignore", ".*does not have a `quantize")
        keras.Model.quantize(
            model, mode, config=config, filters=filters, **kwargs
        )
    for each in (model, *getattr(model, "models", ())):
        forget_compiled(each)
        each.test_function = each.predict_function = None
    after = _sizes(layers)
    report = [
        Quantized(
            name,
            type(layer).__name__,
            _what(layer, before[name], after[name]),
            before[name],
            after[name],
        )
        for name, layer in layers.items()
    ]
    if verbose:
        total = ("all", "", "", sum(before.values()), sum(after.values()))
        rows = [("layer", "kind", "what", "bytes before", "bytes after")]
        for row in (*report, total):
            rows.append((*row[:3], *map("{:,}".format, row[3:])))
        widths = [max(map(len, column)) for column in zip(*rows)]
        for row in rows:
            cells = [
                cell.ljust(width) if index < 3 else cell.rjust(width)
                for index, (cell, width) in enumerate(zip(row, widths))
            ]
            print("  ".join(cells).rstrip())
    return report


def _sizes(layers):
    """Returns the bytes of each layer's weights; counts shared weights once."""
    sizes, seen = {}, set()
    for name, layer in layers.items():
        own = [w for w in layer.weights if id(w) not in seen]
        seen |= {id(weight) for weight in own}
        sizes[name] = int(weight_memory_size(own))
    return sizes


def _what(layer, before, after):
    modes = {part.quantization_mode for part in layer._flatten_layers()}
    modes -= {None}
    if after < before:
        return " and ".join(sorted(modes))
    if modes:
        return "shares its matrix"
    if not before:
        return "has no weights"
    return "left in " + layer.variable_dtype


def forget_compiled(model):
    """Discards compiled functions, which would use the old weights."""
    for kind in type(model).__mro__:
        for name, value in vars(kind).items():
            if isinstance(value, functools.cached_property):
                vars(model).pop(name, None)


# === Recurrent layers of Keras ===


class Int8KernelsOfKeras(Int8Kernels):
    """`Int8Kernels` for the two matrices of a Keras recurrent cell."""

    def quantize(self, mode=None, type_check=True, config=None):
        # Keras wraps the `quantize` of each new layer: the wrapper checks the
        # arguments and unlocks the tracker. `_prepare` deletes the wrapper,
        # which would call the method of the cell's original class.
        self._check_quantize_args(mode, self.compute_dtype)
        self._tracker.unlock()
        try:
            super().quantize(mode, type_check, config)
        finally:
            self._tracker.lock()

    def _matrices(self):
        # A GRU's bias also has two axes, but is not a kernel.
        matrices = super()._matrices()
        return {name: matrices[name] for name in matrices if name != "bias"}


@keras.saving.register_keras_serializable(package="memlm_keras")
class Int8LSTMCell(Int8KernelsOfKeras, keras.layers.LSTMCell):
    """`keras.layers.LSTMCell` after `quantize`."""


@keras.saving.register_keras_serializable(package="memlm_keras")
class Int8GRUCell(Int8KernelsOfKeras, keras.layers.GRUCell):
    """`keras.layers.GRUCell` after `quantize`."""


@keras.saving.register_keras_serializable(package="memlm_keras")
class Int8SimpleRNNCell(Int8KernelsOfKeras, keras.layers.SimpleRNNCell):
    """`keras.layers.SimpleRNNCell` after `quantize`."""


@keras.saving.register_keras_serializable(package="memlm_keras")
class Int8RNN(keras.layers.RNN):
    """`keras.layers.RNN`, `LSTM`, `GRU` or `SimpleRNN` after `quantize`."""

    def inner_loop(self, sequences, initial_state, mask, training=False):
        return keras.layers.RNN.inner_loop(
            expanded(self), sequences, initial_state, mask, training
        )


_CELLS = {
    keras.layers.LSTMCell: Int8LSTMCell,
    keras.layers.GRUCell: Int8GRUCell,
    keras.layers.SimpleRNNCell: Int8SimpleRNNCell,
}
_LAYERS = (
    keras.layers.RNN,
    keras.layers.LSTM,
    keras.layers.GRU,
    keras.layers.SimpleRNN,
)


def _prepare(layer, chosen):
    """Converts the cells of a Keras recurrent layer to int8 cells. Skips
    subclasses of Keras' cells, and cells for which `chosen` is false."""
    if type(layer) not in _LAYERS:
        return
    cells = getattr(layer.cell, "cells", [layer.cell])
    for cell in cells:
        if type(cell) in _CELLS and chosen(cell):
            cell.__class__ = _CELLS[type(cell)]
            del vars(cell)["quantize"]
            layer.__class__ = Int8RNN
