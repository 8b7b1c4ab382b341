"""Copies of a language model with changed layers or weights."""

import numpy as np
from keras import ops

from memlm_keras.arguments import deserialize
from memlm_keras.arguments import serialize
from memlm_keras.embeddings import Embedding
from memlm_keras.heads import OutputProjection
from memlm_keras.heads import TiedProjection
from memlm_keras.models import layers


def copy_weights(model, copy, but=()):
    """Copies the weights of all layers except those with names in `but`."""
    copied = copy.backbone.layers()
    for name, layer in model.backbone.layers().items():
        if name not in but:
            copied[name].set_weights(layer.get_weights())


def with_mixture(model, mixture):
    """Implements `LanguageModel.with_mixture`."""
    layers.require_mixture(mixture)
    config = {**model.get_config(), "mixture": mixture}
    copy = type(model).from_config(config)
    copy_weights(model, copy, but=["mixture"])
    return copy


def with_prediction(model, prediction):
    """Implements `LanguageModel.with_prediction`."""
    if model.smoothing is None:
        raise ValueError(
            "`with_prediction` needs a smoothed model. Received: a model with "
            f"smoothing=None, and prediction={prediction!r}"
        )
    smoothing = type(model.smoothing)(
        **{**model.smoothing.get_config(), "prediction": prediction}
    )
    config = model.get_config()
    config["embedding"]["config"]["smoothing"] = serialize(smoothing)
    copy = type(model).from_config(config)
    copy_weights(model, copy)
    return copy


def with_fixed_dropout(model, seed, into=None):
    """Implements `LanguageModel.with_fixed_dropout`."""
    model = model.with_fixed_matrices()
    require_masks(model)
    masks = draw_masks(model, seed)
    if into is None:
        config = _replaced(model.get_config(), _RATES, 0.0)
        into = type(model).from_config(_with_own_matrices(config, tied=False))
    copy_weights(model, into, but=["embedding", "head"])
    embeddings = ops.convert_to_numpy(model.embedding.embeddings)
    into.embedding.embeddings.assign(
        embeddings * masks["words"][:, None] * masks["inputs"][0]
    )
    read = dict(zip(_readers(model), masks["inputs"]))
    read[_readers(model)[0]] = np.ones(1, "float32")
    for index, layer in enumerate(_recurrent(model)):
        copy = _recurrent(into)[index].cell
        rows = masks["kernels"][index] * read.get(layer, 1.0)
        _mask_rows(layer.cell, copy, "kernel", rows)
        rows = masks["recurrent_kernels"][index]
        _mask_rows(layer.cell, copy, "recurrent_kernel", rows)
    kernel = (
        embeddings.T
        if model.tie_embeddings
        else ops.convert_to_numpy(model.head.kernel)
    )
    rows = read.get(model.head, np.ones(1, "float32"))
    into.head.kernel.assign(kernel * rows[:, None])
    if model.head.use_bias:
        into.head.bias.assign(ops.convert_to_numpy(model.head.bias))
    return into


def draw_masks(model, seed):
    """Returns a dict of random float32 masks for words, inputs and recurrent
    layers, with 0 for dropped units, and `1 / (1 - rate)` for kept units."""
    random = np.random.default_rng(seed)

    def mask(rate, *shape):
        kept = random.random(shape) >= rate
        return (kept / (1.0 - rate)).astype("float32")

    cells = [layer.cell for layer in _recurrent(model)]
    units = [model.embedding_dim, *(cell.output_size for cell in cells)]
    rates = [dropout.rate for dropout in model.backbone.dropouts]
    word_dropout = getattr(model.embedding, "word_dropout", 0.0)
    masks = {
        "words": mask(word_dropout, model.vocabulary_size),
        "inputs": [mask(rate, size) for rate, size in zip(rates, units)],
        "kernels": [],
        "recurrent_kernels": [],
    }
    for cell in cells:
        gates = getattr(cell, "dropout_mask_count", None) or 1
        for name, argument in (
            ("kernel", "dropout"),
            ("recurrent_kernel", "recurrent_dropout"),
        ):
            rate = getattr(cell, argument, 0.0)
            shape = (gates, getattr(cell, name).shape[0]) if rate else (1, 1)
            masks[f"{name}s"].append(mask(rate, *shape))
    return masks


def _recurrent(model):
    return [*model.recurrent, *model.recurrent_above]


def _readers(model):
    """Returns the layers that read the outputs of the dropout layers."""
    if model.memory is None:
        return [*_recurrent(model), model.head]
    above = [*model.recurrent_above, model.head]
    # Dropout does not apply to the outputs of the memory.
    return [*model.recurrent, model.memory, *above[1:]]


def _mask_rows(cell, copy, name, rows):
    """Copies a kernel to `copy`, with each gate's rows multiplied by a mask."""
    if np.all(rows == 1.0):
        return
    gates = np.split(
        ops.convert_to_numpy(getattr(cell, name)), len(rows), axis=1
    )
    masked = [gate * mask[:, None] for gate, mask in zip(gates, rows)]
    getattr(copy, name).assign(np.concatenate(masked, axis=1))


_RATES = ("dropout", "recurrent_dropout", "word_dropout")


def _replaced(config, keys, value):
    """Returns a config in which all `keys`, at any depth, map to `value`."""
    if isinstance(config, list):
        return [_replaced(part, keys, value) for part in config]
    if not isinstance(config, dict):
        return config
    return {
        key: value if key in keys else _replaced(part, keys, value)
        for key, part in config.items()
    }


def require_masks(model):
    """Raises `ValueError` for dropout on inputs that no kernel multiplies."""
    readers = _readers(model)
    # The first dropout mask needs no kernel: the embedding matrix is masked.
    for reader, dropout in list(zip(readers, model.backbone.dropouts))[1:]:
        if not dropout.rate:
            continue
        if reader is model.head:
            reader = model.mixture or reader
        if reader is model.memory or reader is model.mixture:
            _refuse(f"a {type(reader).__name__} with dropped inputs")
        cell = getattr(reader, "cell", None)
        if cell is not None and not hasattr(cell, "kernel"):
            _refuse(f"a {type(cell).__name__} without a kernel for its inputs")
    for layer in _recurrent(model):
        if any(
            getattr(cell, "dropout", 0) or getattr(cell, "recurrent_dropout", 0)
            for cell in getattr(layer.cell, "cells", ())
        ):
            _refuse("stacked cells with dropout")


def drops(model):
    """Returns whether any dropout rate is not zero."""
    rates = [getattr(model.embedding, "word_dropout", 0.0)]
    rates += [dropout.rate for dropout in model.backbone.dropouts]
    for layer in _recurrent(model):
        for cell in (layer.cell, *getattr(layer.cell, "cells", ())):
            rates.append(getattr(cell, "dropout", 0.0))
            rates.append(getattr(cell, "recurrent_dropout", 0.0))
    return any(rates)


def _refuse(received):
    raise ValueError(
        "`with_fixed_dropout` sets rows of kernels to zero, so it can drop "
        "only inputs of layers with a kernel, such as `keras.layers.LSTM` or "
        f"the head. Set other dropout rates to 0. Received: {received}"
    )


def in_float32(model):
    """Returns a float32 copy, or the model if it computes in float32."""
    if not any(
        layers.computes_in(model, dtype) for dtype in ("float16", "bfloat16")
    ):
        return model
    config = _replaced(model.get_config(), ("dtype",), "float32")
    copy = type(model).from_config(config)
    copy_weights(model, copy)
    return copy


def with_fixed_matrices(model):
    """Implements `LanguageModel.with_fixed_matrices`."""
    if (smoothing := model.smoothing) is None:
        return model
    every_word = ops.arange(model.vocabulary_size, dtype="int32")

    def fixed(table):
        if smoothing.prediction == "mean":
            table = smoothing.mean_rows(table, every_word)
        return ops.convert_to_numpy(table)

    still_tied = model.tie_embeddings and smoothing.smooths_output
    config = _with_own_matrices(model.get_config(), still_tied)
    copy = type(model).from_config(config)
    copy_weights(model, copy, but=["embedding", "head"])
    copy.embedding.embeddings.assign(fixed(model.embedding.embeddings))
    if model.head.use_bias:
        copy.head.bias.assign(model.head.bias)
    if still_tied:
        return copy
    # If only the embedding of tied embeddings is smoothed, untie the head.
    if smoothing.smooths_output:
        kernel = fixed(model.head.kernel).T
    elif model.tie_embeddings:
        kernel = ops.transpose(model.embedding.embeddings)
    else:
        kernel = model.head.kernel
    copy.head.kernel.assign(kernel)
    return copy


def _with_own_matrices(config, tied):
    """Returns a config without smoothing; `tied` is `tie_embeddings`."""
    embedding = config["embedding"]["config"]
    head = config["head"]["config"]
    capped = config["tie_embeddings"] and (
        embedding.get("logit_soft_cap") or not embedding.get("tie_weights", 1)
    )
    linear = head.get("activation") in (None, "linear")
    if capped or not linear or "use_bias" not in head:
        raise ValueError(
            "A copy with its own matrices needs a `head` with `use_bias` and "
            "without activation and, if it is tied, an `embedding` without "
            "`logit_soft_cap` and `tie_weights=False`. Received: "
            f"embedding={embedding} and head={head}"
        )
    plain = {key: head[key] for key in ("name", "dtype", "use_bias")}
    head = TiedProjection if tied else OutputProjection
    return {
        **config,
        "tie_embeddings": tied,
        "embedding": Embedding(
            name=embedding["name"],
            dtype=_policy(embedding["dtype"]),
            word_dropout=embedding.get("word_dropout", 0.0),
        ),
        "head": head(**{**plain, "dtype": _policy(plain["dtype"])}),
    }


def _policy(config):
    return deserialize({"dtype": config})["dtype"]
