"""The layers of a language model that are Keras' own."""

import keras

from memlm_keras.arguments import distinct
from memlm_keras.embeddings import Embedding
from memlm_keras.heads import TiedProjection
from memlm_keras.smoothing import SmoothedEmbedding
from memlm_keras.smoothing import SmoothedProjection


class Initializers:
    """Initializers of the weights around the recurrent layers and memory.

    Args:
        initializer: Keras initializer of them all, or `None` for Keras' usual.
    """

    def __init__(self, initializer):
        self._initializer = initializer

    def get(self, index, default):
        """Returns the initializer of the weight of an index of its own."""
        if self._initializer is None:
            return default
        return distinct(self._initializer, index)


def embedding(
    vocabulary_size,
    embedding_dim,
    word_dropout,
    smoothing,
    initializers,
    dtype,
):
    """Makes the layer from token ids to vectors.

    Args:
        vocabulary_size, embedding_dim, word_dropout, smoothing: as of
            `memlm_keras.LanguageModel`.
        initializers: `Initializers`.
        dtype: dtype policy.
    """
    sizes = (vocabulary_size, embedding_dim)
    arguments = {
        "word_dropout": word_dropout,
        "embeddings_initializer": initializers.get(0, "uniform"),
        "dtype": dtype,
        "name": "embedding",
    }
    if smoothing is None:
        return Embedding(*sizes, **arguments)
    return SmoothedEmbedding(*sizes, smoothing, **arguments)


def output_projection(
    embedding,
    tie_embeddings,
    use_bias,
    bias_initializer,
    smoothing,
    initializers,
    dtype,
):
    """Makes the layer from the last outputs to logits.

    Args:
        embedding: the `Embedding` of the model.
        tie_embeddings: whether its matrix is shared.
        use_bias: whether there is a bias.
        bias_initializer: Keras initializer, or `None` for that of all.
        smoothing: the `VariationalSmoothing` of the model, or `None`.
        initializers: `Initializers`.
        dtype: dtype policy.
    """
    arguments = {
        "use_bias": use_bias,
        "bias_initializer": bias_initializer or initializers.get(1, "zeros"),
        "dtype": dtype,
        "name": "head",
    }
    of_its_own = {"kernel_initializer": initializers.get(2, "glorot_uniform")}
    if smoothing is not None and smoothing.smooths_output:
        matrix = {"embedding": embedding} if tie_embeddings else of_its_own
        return SmoothedProjection(smoothing, **matrix, **arguments)
    if tie_embeddings:
        return TiedProjection(embedding, **arguments)
    return keras.layers.Dense(embedding.input_dim, **of_its_own, **arguments)


def dropouts(rates, variational, dtype):
    """Makes one dropout layer for each rate.

    Args:
        rates: list of floats.
        variational: whether a mask is the same at all steps of a sequence.
        dtype: dtype policy.
    """
    kind = (
        keras.layers.SpatialDropout1D if variational else keras.layers.Dropout
    )
    return [
        kind(rate, dtype=dtype, name=f"dropout_{index}")
        for index, rate in enumerate(rates)
    ]
