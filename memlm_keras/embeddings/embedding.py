"""Looking rows of a table up, with the same gradient on every backend."""

import keras
from keras import ops

# Neither has a public name: the mask that Keras attaches to a tensor, and the
# dtype that variables are cast to in a layer's call.
from keras.src.backend import set_keras_mask
from keras.src.backend.common.variables import AutocastScope

from memlm_keras.arguments import require_rate


def look_up(table, token_ids):
    """Rows of a table.

    On TensorFlow the gradient of a lookup is a list of rows in which a token
    that occurs twice stands twice, and Keras' optimizers square the entries of
    that list: Adam's second moment and the norm that is clipped by would not be
    those of the gradient. Here it is the sum over all occurrences, as on the
    other backends.

    Args:
        table: variable or tensor `(rows, units)`.
        token_ids: integer tensor of any shape.

    Returns:
        Tensor of that shape with `units` behind.

    Example:

    >>> table = np.arange(6.0).reshape(3, 2)
    >>> keras.ops.shape(memlm_keras.embeddings.look_up(table, [[0, 2], [2, 1]]))
    (2, 2, 2)
    """
    if keras.backend.backend() == "tensorflow":
        table = _with_dense_gradient(table)
    return ops.take(table, token_ids, axis=0)


def _with_dense_gradient(table):
    import tensorflow as tf

    @tf.custom_gradient
    def unchanged(table):
        return tf.identity(table), tf.convert_to_tensor

    # A tensor, since TensorFlow keeps variables out of such functions.
    return unchanged(tf.convert_to_tensor(table))


@keras.saving.register_keras_serializable(package="memlm_keras")
class Embedding(keras.layers.ReversibleEmbedding):
    """A `keras.layers.ReversibleEmbedding` that trains alike on all backends.

    Weights are those of Keras' layer; see `look_up` for what differs on
    TensorFlow. Besides, words can be dropped while training (Gal and
    Ghahramani, 2016, Section 4.2): a word that is dropped from a row of a batch
    is dropped wherever it occurs in that row, and the others are scaled by
    `1 / (1 - word_dropout)`.

    Args:
        input_dim: integer, number of tokens; `None` is that of the language
            model whose `embedding` this is.
        output_dim: integer, size of the vectors; `None` likewise.
        word_dropout: float in [0, 1), probability that a word is dropped.
        seed: integer or `None`, of the words that are dropped.
        **kwargs: other arguments of `keras.layers.ReversibleEmbedding`.

    Call arguments:
        inputs: integer tensor `(batch, time)`; with `reverse`, float tensor
            `(..., output_dim)`.
        reverse: whether to project to logits.
        training: optional bool, whether words are dropped.

    Raises:
        ValueError: if `word_dropout` is not in [0, 1), or it is built without
            a size.

    Example:

    >>> embedding = memlm_keras.embeddings.Embedding(100, 16)
    >>> keras.ops.shape(embedding(np.array([[3, 7, 7]])))
    (1, 3, 16)
    """

    def __init__(
        self,
        input_dim=None,
        output_dim=None,
        word_dropout=0.0,
        seed=None,
        **kwargs,
    ):
        require_rate("word_dropout", word_dropout)
        # Keras' layer takes no `None`.
        super().__init__(
            1 if input_dim is None else input_dim,
            1 if output_dim is None else output_dim,
            **kwargs,
        )
        self.input_dim = input_dim
        self.output_dim = output_dim
        self.word_dropout = word_dropout
        self.seed = seed
        if word_dropout:
            self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, input_shape=None):
        if None in (self.input_dim, self.output_dim):
            raise ValueError(
                "`input_dim` and `output_dim` must be given, unless the layer "
                "is the `embedding` of a `memlm_keras.LanguageModel`. "
                f"Received: input_dim={self.input_dim} and output_dim="
                f"{self.output_dim}"
            )
        super().build(input_shape)

    def call(self, inputs, reverse=False, training=None):
        if reverse:
            # Keras' layer multiplies by the matrix as it is stored.
            dtype = self.reverse_dtype or self.compute_dtype
            with AutocastScope(dtype):
                return super().call(ops.cast(inputs, dtype), reverse=True)
        token_ids = ops.cast(inputs, "int32")
        outputs = look_up(self.embeddings, token_ids)
        return self._finish(outputs, token_ids, training)

    def quantize(self, mode=None, type_check=True, config=None):
        """Quantizes the matrix as `keras.layers.ReversibleEmbedding` does."""
        return super().quantize(mode, type_check=False, config=config)

    def quantized_call(self, inputs, reverse=False, training=None):
        """The call of Keras' layer; the model is not trained."""
        return super().quantized_call(inputs, reverse=reverse)

    def compute_output_spec(self, inputs, reverse=False, training=None):
        """Shape and dtype of Keras' layer, which knows no `training`."""
        return super().compute_output_spec(inputs, reverse=reverse)

    def _finish(self, outputs, token_ids, training):
        """Drops words, and attaches a mask as Keras' layer does."""
        if training and self.word_dropout:
            words = ops.ones((ops.shape(token_ids)[0], self.input_dim))
            kept = keras.random.dropout(
                words, self.word_dropout, seed=self.seed_generator
            )
            kept = ops.take_along_axis(kept, token_ids, axis=1)[..., None]
            outputs = outputs * ops.cast(kept, outputs.dtype)
        outputs = ops.cast(outputs, self.compute_dtype)
        if self.mask_zero:
            set_keras_mask(outputs, ops.not_equal(token_ids, 0))
        return outputs

    def get_config(self):
        return {
            **super().get_config(),
            "word_dropout": self.word_dropout,
            "seed": self.seed,
        }
