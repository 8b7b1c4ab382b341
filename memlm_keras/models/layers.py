"""Checks the layers that a user passes to a model, and makes missing ones."""

import keras

from memlm_keras.arguments import distinct
from memlm_keras.arguments import require_instance
from memlm_keras.arguments import require_rate
from memlm_keras.cells.projected_rnn import ProjectedRNN
from memlm_keras.cells.projected_rnn import projects_inputs
from memlm_keras.data.vocabulary import Vocabulary
from memlm_keras.embeddings import Embedding
from memlm_keras.heads import OutputProjection
from memlm_keras.heads import TiedProjection
from memlm_keras.memory.base import Memory
from memlm_keras.mixtures.base import Mixture
from memlm_keras.smoothing import SmoothedProjection

# Keys of the rates in a dict `dropout`.
_PLACES = ("embeddings", "between", "outputs")


# === Layers given by a user ===


def size_of(vocabulary_size, vocabulary):
    """Returns `vocabulary_size`, or if it is `None`, the vocabulary's size."""
    if vocabulary is None and vocabulary_size is not None:
        return vocabulary_size
    what = "a `memlm_keras.data.Vocabulary`, or None with a `vocabulary_size`"
    require_instance("vocabulary", vocabulary, Vocabulary, what)
    return len(vocabulary) if vocabulary_size is None else vocabulary_size


def as_recurrent_layers(name, layers, at_least=1):
    """Applies `as_recurrent_layer` to each layer of a list."""
    if not isinstance(layers, (list, tuple)) or len(layers) < at_least:
        some = (
            "at least one recurrent layer" if at_least else "recurrent layers"
        )
        raise ValueError(
            f"`{name}` must be a list of {some}, such as "
            f"`[keras.layers.LSTM(300)]`. Received: {name}={layers!r}"
        )
    return [as_recurrent_layer(name, layer) for layer in layers]


def as_recurrent_layer(name, layer):
    """Makes a recurrent layer return sequences and states. Wraps a cell in a
    recurrent layer, and raises `ValueError` for other objects."""
    if isinstance(layer, keras.layers.Bidirectional):
        raise ValueError(
            f"`{name}` must not hold a `Bidirectional` layer, which would read "
            f"words before the model predicts them. Received: {layer!r}. Pass "
            "the wrapped layer instead"
        )
    if not isinstance(layer, keras.layers.RNN):
        if not (hasattr(layer, "state_size") and callable(layer)):
            raise ValueError(
                f"`{name}` must hold Keras recurrent layers (LSTM, GRU, "
                "SimpleRNN, RNN) or cells with a `state_size`. Received: "
                f"{layer!r}"
            )
        projected = projects_inputs(layer)
        layer = (ProjectedRNN if projected else keras.layers.RNN)(layer)
    for flag in ("stateful", "go_backwards", "time_major"):
        if getattr(layer, flag, False):
            raise ValueError(
                f"`{name}` must not hold a layer with {flag}=True: the model "
                "itself carries the state, and reads forward in time. "
                f"Received: {layer!r}"
            )
    layer.return_sequences = True
    layer.return_state = True
    return layer


def require_different(layers):
    """Raises `ValueError` if a recurrent layer or cell occurs twice."""
    parts = [getattr(layer, "cell", layer) for layer in layers]
    twice = [part for part in parts if sum(one is part for one in parts) > 1]
    if twice:
        raise ValueError(
            "`recurrent` and `recurrent_above` must hold different layers, "
            f"each with its own weights. Received twice: {twice[0]!r}"
        )


def require_memory(memory, vocabulary_size, recurrent):
    """Checks the memory, if any, and sets its `vocabulary_size`."""
    what = "a layer of `memlm_keras.memory`, or None"
    require_instance("memory", memory, (Memory, type(None)), what)
    if memory is None:
        return
    if type(memory).embed_state is not Memory.embed_state and recurrent:
        raise ValueError(
            "`recurrent` must be empty, because the memory must read the word "
            f"embeddings. Received: memory={memory} and recurrent={recurrent}"
        )
    if not hasattr(memory, "vocabulary_size"):
        return
    if memory.vocabulary_size is None:
        memory.vocabulary_size = vocabulary_size
    if memory.vocabulary_size != vocabulary_size:
        raise ValueError(
            "`memory` must have the model's "
            f"vocabulary_size={vocabulary_size}. Received: "
            f"vocabulary_size={memory.vocabulary_size}"
        )


def require_mixture(mixture):
    """Raises `ValueError` unless `mixture` is a `Mixture` or `None`."""
    what = "a `memlm_keras.mixtures.Mixture`, or None"
    require_instance("mixture", mixture, (Mixture, type(None)), what)


def require_causal_end(memory, **layers):
    """Raises `ValueError` if a layer reads a memory that is not causal.
    `layers` maps names of arguments to layers that read the memory."""
    if memory is None or memory.causal:
        return
    for name, layer in layers.items():
        if layer:
            raise ValueError(
                f"`{name}` cannot follow a memory that is not causal: later "
                "words would reach the steps that predict them. Received: "
                f"memory={memory} and {name}={layer}"
            )


# === Default layers ===


def initializer_of(initializer, index, default):
    """Returns `distinct(initializer, index)`, or `default` for `None`."""
    return default if initializer is None else distinct(initializer, index)


def embeddings_start(readers):
    """Returns an embedding's default initializer, given its `readers`."""
    for layer in readers:
        limit = getattr(getattr(layer, "cell", None), "embedding_range", None)
        if limit is not None:
            return keras.initializers.RandomUniform(-limit, limit)
    return "uniform"


def make_embedding(embedding, sizes, initializer, start, dtype):
    """Returns `embedding` with its missing sizes set. If `None`, creates an
    `Embedding` with `initializer` or, if that is `None` too, with `start`."""
    if embedding is None:
        embedding = Embedding(
            embeddings_initializer=initializer_of(initializer, 0, start),
            dtype=dtype,
            name="embedding",
        )
    kind = keras.layers.ReversibleEmbedding
    what = "a `keras.layers.ReversibleEmbedding`, or None"
    require_instance("embedding", embedding, kind, what)
    if embedding.mask_zero:
        raise ValueError(
            "`embedding` must not mask the id 0, which is a token like others. "
            f"Received: {embedding!r} with mask_zero=True"
        )
    names = {"input_dim": "vocabulary_size", "output_dim": "embedding_dim"}
    for attribute, name in names.items():
        size = sizes[name]
        if getattr(embedding, attribute) is None:
            setattr(embedding, attribute, size)
        if size is not None and getattr(embedding, attribute) != size:
            raise ValueError(
                f"`embedding` must have the model's {name}={size}. Received: "
                f"{attribute}={getattr(embedding, attribute)}"
            )
    return embedding


def make_head(head, embedding, tie_embeddings, initializer, dtype):
    """Returns `head`, or a default head, with the vocabulary's size."""
    smoothing = getattr(embedding, "smoothing", None)
    smooths = smoothing is not None and smoothing.smooths_output
    arguments = {
        "bias_initializer": initializer_of(initializer, 1, "zeros"),
        "dtype": dtype,
        "name": "head",
    }
    kernel_initializer = initializer_of(initializer, 2, "glorot_uniform")
    if head is None and tie_embeddings and not smooths:
        head = TiedProjection(**arguments)
    elif head is None:
        kind = SmoothedProjection if smooths else OutputProjection
        head = kind(kernel_initializer=kernel_initializer, **arguments)
    what = "a layer from outputs to logits, or None"
    require_instance("head", head, keras.layers.Layer, what)
    if smooths != getattr(head, "draws", False):
        raise ValueError(
            "`head` must be a `memlm_keras.smoothing.SmoothedProjection` if "
            "the embedding's smoothing has the scheme 'kneser_ney', and only "
            f"then. Received: embedding={embedding!r} and head={head!r}"
        )
    if smooths:
        head.smoothing = smoothing
    if tie_embeddings:
        if not hasattr(head, "embedding"):
            raise ValueError(
                "`tie_embeddings=True` needs a head that can share the matrix "
                "of the embedding, such as `memlm_keras.heads.TiedProjection()`"
                f". Received: head={head!r}"
            )
        head.embedding = embedding
    if getattr(head, "units", 0) is None:
        head.units = embedding.input_dim
    if getattr(head, "units", embedding.input_dim) != embedding.input_dim:
        raise ValueError(
            f"`head` must have the model's vocabulary_size="
            f"{embedding.input_dim}. Received: units={head.units}"
        )
    return head


def make_dropouts(dropout, count, dtype):
    """Returns dropout layers: for embeddings, then for recurrent layers."""
    if not isinstance(dropout, dict):
        require_rate("dropout", dropout)
        dropout = dict.fromkeys(_PLACES, dropout)
    if unknown := sorted(set(dropout) - {*_PLACES, "variational"}):
        raise ValueError(
            f"`dropout` must be a rate, or a dict with keys from {_PLACES} and "
            f'"variational". Received: dropout with the keys {unknown}'
        )
    embeddings, between, outputs = (
        dropout.get(place, 0.0) for place in _PLACES
    )
    rates = [embeddings, *[between] * (count - 1), outputs][: count + 1]
    if not count:
        rates = [embeddings or outputs]
    for place, rate in zip(_PLACES, (embeddings, between, outputs)):
        require_rate(f"dropout[{place!r}]", rate)
    kind = keras.layers.Dropout
    if dropout.get("variational", False):
        kind = keras.layers.SpatialDropout1D
    return [
        kind(rate, dtype=dtype, name=f"dropout_{index}")
        for index, rate in enumerate(rates)
    ]


# === Precision ===


def computes_in(model, dtype):
    """Returns whether any layer of `model` computes in `dtype`."""
    return any(layer.compute_dtype == dtype for layer in model.layers)
