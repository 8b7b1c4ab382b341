"""Embedding and output projection of smoothed matrices (Kong et al., 2019)."""

import keras
from keras import ops

from memlm_keras.embeddings import Embedding
from memlm_keras.embeddings import look_up
from memlm_keras.heads.tied import require_tied_size


@keras.saving.register_keras_serializable(package="memlm_keras")
class SmoothedEmbedding(Embedding):
    """An `Embedding` with variational smoothing (Kong et al., 2019).

    Args:
        input_dim: integer, size of the vocabulary.
        output_dim: integer, size of the vectors.
        smoothing: `memlm_keras.smoothing.VariationalSmoothing` of this
            vocabulary.
        **kwargs: arguments of `Embedding`.

    Call arguments:
        inputs: int32 tensor `(batch, time)` of token ids; or, with `reverse`,
            vectors `(batch, time, output_dim)` to be multiplied with the
            matrix, which is not smoothed then.
        reverse: bool.
        training: optional bool, whether words are dropped.
        drawn: what `smoothing.draw` drew for these inputs; `None` is the mean,
            or the mode if the smoothing predicts by it.

    Returns:
        Float tensor `(batch, time, output_dim)`.

    Example:

    >>> smoothing = memlm_keras.smoothing.VariationalSmoothing(
    ...     "linear_interpolation", rate=0.2
    ... )
    >>> smoothing.adapt(
    ...     memlm_keras.smoothing.StreamStatistics.count(np.arange(100), 100)
    ... )
    >>> embedding = memlm_keras.smoothing.SmoothedEmbedding(100, 16, smoothing)
    >>> tokens = np.array([[3, 7, 7]], "int32")
    >>> means = embedding(tokens)
    >>> sample = embedding(tokens, drawn=smoothing.draw(tokens, units=16))
    >>> keras.ops.shape(sample)
    (1, 3, 16)
    """

    def __init__(self, input_dim, output_dim, smoothing, **kwargs):
        super().__init__(input_dim, output_dim, **kwargs)
        self.smoothing = smoothing

    def call(self, inputs, reverse=False, training=None, drawn=None):
        if reverse:
            return super().call(inputs, reverse=True)
        token_ids, table = ops.cast(inputs, "int32"), self.embeddings
        if drawn is not None:
            vectors = self.smoothing.drawn_rows(table, drawn.input_rows)
        elif self.smoothing.prediction == "mode":
            vectors = look_up(table, token_ids)
        else:
            vectors = self.smoothing.mean_rows(table, token_ids)
        return self._drop_words(vectors, token_ids, training)

    def compute_output_spec(
        self, inputs, reverse=False, training=None, drawn=None
    ):
        """Shape and dtype of `Embedding`, which knows nothing of samples."""
        return super().compute_output_spec(inputs, reverse=reverse)

    def get_config(self):
        smoothing = keras.saving.serialize_keras_object(self.smoothing)
        return {**super().get_config(), "smoothing": smoothing}

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        config["smoothing"] = keras.saving.deserialize_keras_object(
            config["smoothing"]
        )
        return super().from_config(config)


@keras.saving.register_keras_serializable(package="memlm_keras")
class SmoothedProjection(keras.layers.Layer):
    """Logits from a matrix with variational smoothing (Kong et al., 2019).

    `logits = mean h + b`, with `mean` the mean of the distribution over
    matrices (Section 4.2), or its mode if the smoothing predicts by it. While
    training, `with_targets` puts drawn rows in the place of those of the
    targets. The bias is not smoothed.

    Args:
        smoothing: `memlm_keras.smoothing.VariationalSmoothing`.
        embedding: the `memlm_keras.smoothing.SmoothedEmbedding` whose matrix
            this is too; `None` for a matrix of its own.
        use_bias: whether there is a bias, `b`.
        kernel_initializer: initializer of a matrix of its own.
        bias_initializer: initializer of `b`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(batch, time, units)`.
        sampled: whether targets will be drawn: then the others are what the
            smoothing's `other_words` says, whatever it predicts by.

    Returns:
        Float tensor `(batch, time, vocabulary)`.

    Raises:
        ValueError: if the size of the inputs is not that of the embedding.

    Example:

    >>> smoothing = memlm_keras.smoothing.VariationalSmoothing(
    ...     "kneser_ney", rate=0.2, vocabulary_size=100
    ... )
    >>> smoothing.build()
    >>> head = memlm_keras.smoothing.SmoothedProjection(smoothing)
    >>> keras.ops.shape(head(np.ones((2, 7, 16), "float32")))
    (2, 7, 100)
    """

    def __init__(
        self,
        smoothing,
        embedding=None,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.smoothing = smoothing
        self.embedding = embedding
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, input_shape):
        units = input_shape[-1]
        if self.embedding is None:
            # A row for each word, as rows are what is drawn.
            self.kernel = self.add_weight(
                name="kernel",
                shape=(self.smoothing.vocabulary_size, units),
                initializer=self.kernel_initializer,
            )
        else:
            require_tied_size(self.embedding, units)
            if not self.embedding.built:
                self.embedding.build()
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias",
                shape=(self.smoothing.vocabulary_size,),
                initializer=self.bias_initializer,
            )

    @property
    def matrix(self):
        """The variable `(vocabulary, units)`."""
        if self.embedding is None:
            return self.kernel
        return self.embedding.embeddings

    def call(self, inputs, sampled=False):
        matrix = ops.cast(self.matrix, self.compute_dtype)
        logits = ops.matmul(inputs, ops.transpose(matrix))
        smoothing = self.smoothing
        by = smoothing.other_words if sampled else smoothing.prediction
        if by == "mean":
            logits = smoothing.mean_logits(logits, inputs, matrix)
        return logits + self.bias if self.use_bias else logits

    def with_targets(self, logits, inputs, targets, drawn):
        """Logits in which the rows of the targets are drawn.

        Args:
            logits: `(batch, time, vocabulary)`, of a call with the inputs.
            inputs: `(batch, time, units)`.
            targets: int32 tensor `(batch, time)`.
            drawn: what `smoothing.draw` drew for the words read.

        Returns:
            Tensor like `logits`.
        """
        rows = targets[..., None] if self.smoothing.element_wise else targets
        rows = ops.where(drawn.replaced, drawn.output_rows, rows)
        vectors = self.smoothing.drawn_rows(self.matrix, rows)
        scores = ops.sum(inputs * ops.cast(vectors, inputs.dtype), axis=-1)
        if self.use_bias:
            bias = ops.take(self.bias, targets, axis=0)
            scores = scores + ops.cast(bias, scores.dtype)
        words = ops.arange(self.smoothing.vocabulary_size, dtype="int32")
        is_target = ops.equal(words, targets[..., None])
        scores = ops.cast(scores, logits.dtype)
        return ops.where(is_target, scores[..., None], logits)

    def get_config(self):
        return {
            **super().get_config(),
            "smoothing": keras.saving.serialize_keras_object(self.smoothing),
            "embedding": keras.saving.serialize_keras_object(self.embedding),
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(
                self.kernel_initializer
            ),
            "bias_initializer": keras.initializers.serialize(
                self.bias_initializer
            ),
        }

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        for key in ("smoothing", "embedding"):
            config[key] = keras.saving.deserialize_keras_object(config[key])
        return cls(**config)
