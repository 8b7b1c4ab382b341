"""Embeddings with the same gradient on every backend."""

import keras
from keras import ops

from memlm_keras.arguments import Configured
from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_rate
from memlm_keras.keras_private import AutocastScope
from memlm_keras.keras_private import set_keras_mask


def look_up(table, token_ids):
    """Looks up rows of a table.

    On TensorFlow, the gradient of a look-up has one row for each occurrence of
    a token. Keras' optimizers would square the rows before they sum the rows of
    a token, but Adam and the clipping norm need the square of the sum. As on
    JAX and PyTorch, `look_up` sums the gradient over all occurrences first.

    Args:
        table: variable or tensor `(rows, units)`.
        token_ids: integer tensor of any shape.

    Returns:
        Tensor `(*token_ids.shape, units)`.

    Example:

    >>> table = np.arange(6.0).reshape(3, 2)
    >>> keras.ops.shape(memlm_keras.embeddings.look_up(table, [[0, 2], [2, 1]]))
    (2, 2, 2)
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        @tf.custom_gradient
        def with_dense_gradient(table):
            return tf.identity(table), tf.convert_to_tensor

        # A `tf.custom_gradient` function does not accept variables.
        table = with_dense_gradient(tf.convert_to_tensor(table))
    return ops.take(table, token_ids, axis=0)


@keras.saving.register_keras_serializable(package="memlm_keras")
class Embedding(Configured, keras.layers.ReversibleEmbedding):
    """A `ReversibleEmbedding` of Keras with equal gradients on all backends.

    The weights are those of Keras' layer; on TensorFlow, the gradient is that
    of `look_up`. Optionally, words are dropped in training (Gal and Ghahramani,
    2016, Section 4.2): all occurrences of a dropped word in a row of the batch
    become zeros, and other vectors are scaled by `1 / (1 - word_dropout)`.

    Args:
        input_dim: integer, vocabulary size; `None` for the language model's.
        output_dim: integer, size of the vectors; `None` for the language
            model's `embedding_dim`.
        word_dropout: float in [0, 1), probability that a word is dropped.
        seed: integer or `None`, seed of the dropped words.
        **kwargs: other arguments of `keras.layers.ReversibleEmbedding`.

    Call arguments:
        inputs: integer tensor `(batch, time)`; with `reverse`, float tensor
            `(..., output_dim)`.
        reverse: whether to compute logits with the transposed matrix.
        training: optional bool, whether words are dropped.

    Raises:
        ValueError: if `word_dropout` is not in [0, 1), or a size is missing
            when the layer is built.

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
        # The constructor of Keras' layer does not accept `None`.
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
            # `AutocastScope` casts the matrix from the variable's dtype.
            dtype = self.reverse_dtype or self.compute_dtype
            with AutocastScope(dtype):
                return super().call(ops.cast(inputs, dtype), reverse=True)
        token_ids = ops.cast(inputs, "int32")
        outputs = look_up(self.embeddings, token_ids)
        return self._finish(outputs, token_ids, training)

    def quantize(self, mode=None, type_check=True, config=None):
        """Quantizes the matrix like `keras.layers.ReversibleEmbedding`."""
        return super().quantize(mode, type_check=False, config=config)

    def quantized_call(self, inputs, reverse=False, training=None):
        """Calls Keras' `quantized_call`, which has no argument `training`."""
        return super().quantized_call(inputs, reverse=reverse)

    def compute_output_spec(self, inputs, reverse=False, training=None):
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


@keras.saving.register_keras_serializable(package="memlm_keras")
class GradientMask(Configured, keras.layers.Layer):
    """Identity layer that masks the gradients of selected words.

    Vectors of frozen words get a gradient of zero. An optimizer with momentum
    or weight decay may still change frozen vectors;
    `memlm_keras.training.FreezeEmbeddings` restores them after each batch.

    The mask is a variable, not a constant of the compiled training step, so a
    change of the mask during `fit` needs no compilation. The mask is not saved:
    a loaded model has no frozen words.

    Args:
        vocabulary_size: integer, V.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(..., units)`.
        token_ids: integer tensor `(...)`, the word of each vector.

    Returns:
        Tensor `(..., units)`.

    Raises:
        ValueError: if `vocabulary_size` is not a positive integer.

    Example:

    >>> mask = memlm_keras.embeddings.GradientMask(5)
    >>> vectors = mask(np.ones((2, 3, 4), "float32"), np.zeros((2, 3), "int32"))
    >>> mask.freeze(np.array([True, False, False, False, False]))
    >>> mask.unfreeze()
    """

    def __init__(self, vocabulary_size, **kwargs):
        require_positive_integer("vocabulary_size", vocabulary_size)
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size

    def build(self, inputs_shape, token_ids_shape=None):
        self.shares = self.add_weight(
            name="shares",
            shape=(self.vocabulary_size,),
            initializer="ones",
            dtype="float32",
            autocast=False,
            trainable=False,
        )

    def freeze(self, words=None):
        """Stops the gradients of the words selected by the boolean array
        `words`, of shape `(V,)`, or of all words if it is `None`. `fit` begins
        and ends with `unfreeze`, so call this method in a callback."""
        shares = ops.zeros((self.vocabulary_size,))
        if words is not None:
            shares = 1.0 - ops.cast(words, "float32")
        self.shares.assign(shares)

    def unfreeze(self):
        """Restores all gradients."""
        self.shares.assign(ops.ones((self.vocabulary_size,)))

    def call(self, inputs, token_ids):
        shares = ops.take(self.shares, ops.cast(token_ids, "int32"), axis=0)
        shares = ops.cast(shares, inputs.dtype)[..., None]
        return shares * inputs + (1 - shares) * ops.stop_gradient(inputs)

    def compute_output_spec(self, inputs, token_ids):
        return keras.KerasTensor(inputs.shape, dtype=inputs.dtype)

    def save_own_variables(self, store):
        pass

    def load_own_variables(self, store):
        self.unfreeze()
