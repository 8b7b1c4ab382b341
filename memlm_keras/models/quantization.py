"""Quantization of a model's layers, and an account of it."""

import warnings
from typing import NamedTuple

import keras

# What `summary` counts by; it has no public name.
from keras.src.utils.summary_utils import weight_memory_size

from memlm_keras.models.inference import forget_compiled


class Quantized(NamedTuple):
    """Result of quantization for one layer.

    Attributes:
        layer: string, the place of the layer in the model.
        kind: string, the class of the layer.
        what: string, `"int8"`, or why it was left as it is.
        bytes_before, bytes_after: integers, what its weights take.
    """

    layer: str
    kind: str
    what: str
    bytes_before: int
    bytes_after: int


class QuantizableModel(keras.Model):
    """Base of models that tell what `quantize` made of their layers.

    Attributes:
        quantized_layers: sequence of `Quantized`, what the last call of
            `quantize` made of each layer with weights: `layer`, `kind`, `what`,
            `bytes_before` and `bytes_after`.
    """

    quantized_layers = ()

    def quantize(
        self, mode=None, config=None, filters=None, verbose=True, **kwargs
    ):
        """Quantizes the weights in place, and tells of each layer what it did.

        In `"int8"` an embedding, a projection, tied or not, a memory, a mixture
        and the cells of this package take a quarter of what they took; Keras'
        own recurrent layers stay as they are. Embedding and projection are
        quantized by Keras; of the others each matrix is, with a scale for each
        column, and what they compute is computed in floating point. The model
        is then for inference alone: it reads, scores, streams, is saved,
        loaded and exported as a SavedModel.

        Args:
            mode, config, filters: as of `keras.Model.quantize`.
            verbose: whether to print the account, which is in
                `quantized_layers` as well.
            **kwargs: other arguments of `keras.Model.quantize`.

        Raises:
            ValueError: for a model that is smoothed, of which
                `with_fixed_matrices` makes one that is not, and for one that is
                quantized already.

        Example:

        >>> small = lm.with_mixture(None)
        >>> small.quantize("int8", verbose=False)
        >>> [one.what for one in small.quantized_layers if one.layer == "head"]
        ['int8']
        """
        layers = _places(self)
        smoothed = [n for n in layers if getattr(layers[n], "draws", False)]
        if smoothed:
            raise ValueError(
                "`quantize` needs a model that is not smoothed. Received: one "
                f"whose {smoothed[0]} is. Quantize `with_fixed_matrices()`"
            )
        before = _sizes(layers)
        with warnings.catch_warnings():
            # Of layers that it leaves as they are; so does the account.
            warnings.filterwarnings("ignore", ".*does not have a `quantize")
            super().quantize(mode, config=config, filters=filters, **kwargs)
        forget_compiled(self)
        after = _sizes(layers)
        # Keras returns nothing of it, and is not to track it.
        vars(self)["quantized_layers"] = [
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
            print("\n".join(table(self.quantized_layers)))


def table(found):
    """Lines of text that tell what was quantized.

    Args:
        found: list of `Quantized`.
    """
    total = Quantized(
        "all",
        "",
        "",
        sum(one.bytes_before for one in found),
        sum(one.bytes_after for one in found),
    )
    rows = [("layer", "kind", "what", "bytes before", "bytes after")]
    for one in (*found, total):
        rows.append((*one[:3], f"{one[3]:,}", f"{one[4]:,}"))
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(
            cell.ljust(width) if index < 3 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]


def require_trainable(model):
    """Raises `ValueError` for a model of which a layer is quantized.

    Args:
        model: Keras model.
    """
    for layer in model._flatten_layers():
        if layer.quantization_mode is not None:
            raise ValueError(
                "A quantized model is not trained: weights of eight bits have "
                f"no gradient. Received: a model whose layer {layer.name!r} is "
                f"in {layer.quantization_mode}. Train before `quantize`"
            )


def _places(model):
    """Dict of the layers with weights, of a model or of all of an ensemble."""
    if not hasattr(model, "models"):
        return model.backbone.layers()
    return {
        f"model_{index}_{name}": layer
        for index, one in enumerate(model.models)
        for name, layer in one.backbone.layers().items()
    }


def _sizes(layers):
    """Bytes of the weights of each layer; a shared one counts once."""
    sizes, seen = {}, set()
    for name, layer in layers.items():
        own = [w for w in layer.weights if id(w) not in seen]
        seen |= {id(weight) for weight in own}
        sizes[name] = int(weight_memory_size(own))
    return sizes


def _what(layer, before, after):
    parts = list(layer._flatten_layers())
    modes = {part.quantization_mode for part in parts} - {None}
    if after < before:
        return " and ".join(sorted(modes))
    if modes:
        return "shares its matrix"
    if not before:
        return "has no weights"
    return "left in " + layer.variable_dtype
