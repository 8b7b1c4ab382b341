"""Quantization of a model's layers, with a report."""

import functools
import warnings
from typing import NamedTuple

import keras

# Keras' `summary` counts by it; it has no public name.
from keras.src.utils.summary_utils import weight_memory_size


class Quantized(NamedTuple):
    """Result of quantization for one layer."""

    layer: str  # its place in the model
    kind: str  # its class
    what: str  # "int8", or why the layer was not changed
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
    smoothed = [n for n in layers if getattr(layers[n], "draws", False)]
    if smoothed:
        raise ValueError(
            "`quantize` needs a model that is not smoothed. Received: one "
            f"whose {smoothed[0]} is. Quantize `with_fixed_matrices()`"
        )
    before = _sizes(layers)
    with warnings.catch_warnings():
        # Of layers that Keras does not change; the report lists them.
        warnings.filterwarnings("ignore", ".*does not have a `quantize")
        keras.Model.quantize(
            model, mode, config=config, filters=filters, **kwargs
        )
    forget_compiled(model)
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
        rows += [(*row[:3], *map("{:,}".format, row[3:])) for row in report]
        rows.append((*total[:3], *map("{:,}".format, total[3:])))
        widths = [max(map(len, column)) for column in zip(*rows)]
        for row in rows:
            cells = [
                cell.ljust(width) if index < 3 else cell.rjust(width)
                for index, (cell, width) in enumerate(zip(row, widths))
            ]
            print("  ".join(cells).rstrip())
    return report


def _sizes(layers):
    """Bytes of the weights of each layer; a shared one counts once."""
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
    """Discards compiled functions that captured replaced weights."""
    for kind in type(model).__mro__:
        for name, value in vars(kind).items():
            if isinstance(value, functools.cached_property):
                vars(model).pop(name, None)
