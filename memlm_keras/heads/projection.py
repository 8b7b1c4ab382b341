"""Output projections, with a matrix of their own or the embedding's."""

import keras

from memlm_keras.embeddings.embedding import Embedding
from memlm_keras.heads.losses import BlockLosses
from memlm_keras.serialization import deserialize
from memlm_keras.serialization import serialize

# Calls of embeddings that only multiply by their matrix.
_USUAL_CALLS = (Embedding.call, keras.layers.ReversibleEmbedding.call)


@keras.saving.register_keras_serializable(package="memlm_keras")
class OutputProjection(BlockLosses, keras.layers.Dense):
    """Logits from a matrix of its own: `logits = W h + b`.

    A `keras.layers.Dense` whose size may come from its language model.

    Args:
        units: integer, size of the vocabulary; `None` is that of the model.
        **kwargs: other arguments of `keras.layers.Dense`.

    Call arguments:
        inputs: float tensor `(..., features)`.

    Returns:
        Float tensor `(..., units)`.

    Raises:
        ValueError: if it is built with neither `units` nor a model.

    Example:

    >>> lm = memlm_keras.LanguageModel(
    ...     vocabulary_size=100,
    ...     embedding_dim=16,
    ...     recurrent=[keras.layers.LSTM(30)],
    ...     head=memlm_keras.heads.OutputProjection(use_bias=False),
    ... )
    >>> lm.head.units
    100
    """

    def __init__(self, units=None, **kwargs):
        # Keras' layer does not accept `None`.
        super().__init__(1 if units is None else units, **kwargs)
        self.units = units

    def build(self, input_shape):
        if self.units is None:
            raise ValueError(
                "`units` must be the size of the vocabulary, unless the "
                "projection is the `head` of a `memlm_keras.LanguageModel`. "
                "Received: units=None"
            )
        super().build(input_shape)

    def block_kernel(self):
        usual = (
            type(self).call is keras.layers.Dense.call
            and self.activation is keras.activations.linear
            and self.quantization_mode is None
        )
        return (self.kernel, False) if usual else None

    def quantize(self, mode=None, type_check=True, config=None):
        """Quantizes the matrix like `keras.layers.Dense`."""
        return super().quantize(mode, type_check=False, config=config)


@keras.saving.register_keras_serializable(package="memlm_keras")
class TiedProjection(BlockLosses, keras.layers.Layer):
    """Logits from the embedding matrix and an optional bias.

    `logits = E h + b`, with E the embedding matrix (Press and Wolf, 2016,
    Section 2). `keras.layers.ReversibleEmbedding` projects without a bias; the
    papers reproduced here have one.

    Args:
        embedding: the `keras.layers.ReversibleEmbedding` to share; `None` is
            the embedding of the layer's language model.
        bias_initializer: initializer of `b`.
        use_bias: whether there is a bias.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(..., embedding.output_dim)`.

    Returns:
        Float tensor `(..., embedding.input_dim)`.

    Raises:
        ValueError: if the size of the inputs is not the size of the embedding,
            or the embedding is missing.

    Example:

    >>> embedding = keras.layers.ReversibleEmbedding(100, 16)
    >>> head = memlm_keras.heads.TiedProjection(embedding)
    >>> keras.ops.shape(head(np.ones((2, 7, 16), "float32")))
    (2, 7, 100)
    """

    def __init__(
        self, embedding=None, bias_initializer="zeros", use_bias=True, **kwargs
    ):
        super().__init__(**kwargs)
        self.embedding = embedding
        self.use_bias = use_bias
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, input_shape):
        build_tied(self.embedding, input_shape[-1])
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias",
                shape=(self.embedding.input_dim,),
                initializer=self.bias_initializer,
            )

    def call(self, inputs):
        logits = self.embedding(inputs, reverse=True)
        return logits + self.bias if self.use_bias else logits

    def block_kernel(self):
        embedding = self.embedding
        usual = (
            type(self).call is TiedProjection.call
            and type(embedding).call in _USUAL_CALLS
            and embedding.reverse_dtype in (None, self.compute_dtype)
            and embedding.tie_weights
            and embedding.logit_soft_cap is None
            and embedding.quantization_mode is None
        )
        return (embedding.embeddings, True) if usual else None

    def get_config(self):
        return {
            **super().get_config(),
            "embedding": serialize(self.embedding),
            "bias_initializer": keras.initializers.serialize(
                self.bias_initializer
            ),
            "use_bias": self.use_bias,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**deserialize(config))


def build_tied(embedding, size):
    """Builds the embedding that a projection of this size shares."""
    if embedding is None:
        raise ValueError(
            "`embedding` must be the layer to share the matrix with, unless "
            "the projection is the `head` of a `memlm_keras.LanguageModel`. "
            "Received: embedding=None"
        )
    if size != embedding.output_dim:
        raise ValueError(
            "`tie_embeddings=True` needs outputs of the size of the "
            f"embedding. Received: outputs of size {size} and embedding_dim="
            f"{embedding.output_dim}. Make them equal, or use "
            "`tie_embeddings=False`"
        )
    if not embedding.built:
        embedding.build()
