"""Embedding and output projection of smoothed matrices (Kong et al., 2019)."""

import keras
from keras import ops

# What variables are cast to in a layer's call; it has no public name.
from keras.src.backend.common.variables import AutocastScope

from memlm_keras.embeddings import Embedding
from memlm_keras.embeddings import look_up
from memlm_keras.heads.tied import build_tied
from memlm_keras.serialization import deserialize
from memlm_keras.serialization import serialize
from memlm_keras.smoothing.kong2019 import VariationalSmoothing


@keras.saving.register_keras_serializable(package="memlm_keras")
class SmoothedEmbedding(Embedding):
    """An `Embedding` with variational smoothing (Kong et al., 2019).

    A language model that it is the `embedding` of draws the rows of each batch
    in training, and learns by the divergence as well, if the smoothing has an
    `l2`.

    Args:
        input_dim: integer, size of the vocabulary; `None` is that of the
            language model whose `embedding` this is.
        output_dim: integer, size of the vectors; `None` likewise.
        smoothing: `memlm_keras.smoothing.VariationalSmoothing` of this
            vocabulary.
        **kwargs: arguments of `Embedding`.

    Call arguments:
        inputs: int32 tensor `(batch, time)` of token ids; or, with `reverse`,
            vectors `(batch, time, output_dim)` to be multiplied with the
            matrix, which is not smoothed then.
        reverse: bool.
        training: optional bool, whether words are dropped.
        drawn: a sample of the rows for these inputs, as `draw` returns it;
            `None` is the mean, or the mode if the smoothing predicts by it.

    Returns:
        Float tensor `(batch, time, output_dim)`.

    Raises:
        ValueError: if `smoothing` is none, or of another vocabulary.

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

    draws = True

    def __init__(
        self, input_dim=None, output_dim=None, smoothing=None, **kwargs
    ):
        require_smoothing(smoothing)
        super().__init__(input_dim, output_dim, **kwargs)
        self.smoothing = smoothing

    def build(self, input_shape=None):
        super().build(input_shape)
        self.smoothing.build_for(self.input_dim)

    def draw(self, token_ids, units=0):
        """Draws the rows that a batch reads.

        Args:
            token_ids: int32 tensor `(batch, time)`.
            units: integer, size of another matrix that they are drawn for.

        Returns:
            A sample as `call` takes it, and `SmoothedProjection`.
        """
        return self.smoothing.draw(token_ids, max(units, self.output_dim))

    def add_divergence(self):
        """Adds the divergence of the matrix to the losses, as `add_loss`."""
        _add_divergence(self, self.smoothing, lambda: self.embeddings)

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
        return self._finish(vectors, token_ids, training)

    def compute_output_spec(
        self, inputs, reverse=False, training=None, drawn=None
    ):
        """Shape and dtype of `Embedding`, which knows nothing of samples."""
        return super().compute_output_spec(inputs, reverse=reverse)

    def get_config(self):
        return {**super().get_config(), "smoothing": serialize(self.smoothing)}

    @classmethod
    def from_config(cls, config):
        return cls(**deserialize(config))


@keras.saving.register_keras_serializable(package="memlm_keras")
class SmoothedProjection(keras.layers.Layer):
    """Logits from a matrix with variational smoothing (Kong et al., 2019).

    `logits = mean h + b`, with `mean` the mean of the distribution over
    matrices (Section 4.2), or its mode if the smoothing predicts by it. In
    training, a language model that it is the `head` of draws the rows of the
    targets, and learns by the divergence as well, if the smoothing has an `l2`.
    The bias is not smoothed.

    Args:
        smoothing: `memlm_keras.smoothing.VariationalSmoothing` with the scheme
            `kneser_ney`; `None` is that of the language model whose `head`
            this is.
        embedding: the `memlm_keras.smoothing.SmoothedEmbedding` whose matrix
            this is too; `None` for a matrix of its own. A model with
            `tie_embeddings` sets its own.
        use_bias: whether there is a bias, `b`.
        kernel_initializer: initializer of a matrix of its own.
        bias_initializer: initializer of `b`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(batch, time, units)`.
        targets: optional int32 tensor `(batch, time)`, whose rows are drawn.
        drawn: a sample as `SmoothedEmbedding.draw` returns it, for the words
            read; `None` for none. With it, the rows of words that are no
            targets are what the smoothing's `other_words` says, whatever it
            predicts by. Without targets, so are all rows.

    Returns:
        Float tensor `(batch, time, vocabulary)`.

    Raises:
        ValueError: if the size of the inputs is not that of the embedding, or
            the smoothing is none or of the input matrix only.

    Example:

    >>> smoothing = memlm_keras.smoothing.VariationalSmoothing(
    ...     "kneser_ney", rate=0.2, vocabulary_size=100
    ... )
    >>> smoothing.build()
    >>> head = memlm_keras.smoothing.SmoothedProjection(smoothing)
    >>> keras.ops.shape(head(np.ones((2, 7, 16), "float32")))
    (2, 7, 100)
    """

    draws = True

    def __init__(
        self,
        smoothing=None,
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
        require_smoothing(self.smoothing)
        if not self.smoothing.smooths_output:
            raise ValueError(
                "`smoothing` must be of the output matrix as well, with the "
                "scheme 'kneser_ney'. Received: scheme="
                f"{self.smoothing.scheme!r}"
            )
        units = input_shape[-1]
        if self.embedding is None:
            # A row for each word, as rows are what is drawn.
            self.kernel = self.add_weight(
                name="kernel",
                shape=(self.smoothing.vocabulary_size, units),
                initializer=self.kernel_initializer,
            )
        else:
            build_tied(self.embedding, units)
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

    def add_divergence(self):
        """Adds the divergence of the matrix to the losses, as `add_loss`."""
        _add_divergence(self, self.smoothing, lambda: self.matrix)

    def call(self, inputs, targets=None, drawn=None):
        smoothing = self.smoothing
        matrix = ops.cast(self.matrix, self.compute_dtype)
        if drawn is not None and drawn.other_rows is not None:
            matrix = smoothing.drawn_rows(matrix, drawn.other_rows)
        logits = ops.matmul(inputs, ops.transpose(matrix))
        by = smoothing.prediction if drawn is None else smoothing.other_words
        if by == "mean":
            logits = smoothing.mean_logits(logits, inputs, matrix)
        if self.use_bias:
            logits = logits + self.bias
        if drawn is None or targets is None:
            return logits
        return self._with_targets(logits, inputs, targets, drawn)

    def _with_targets(self, logits, inputs, targets, drawn):
        """Logits in which the rows of the targets are drawn."""
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
            "smoothing": serialize(self.smoothing),
            "embedding": serialize(self.embedding),
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
        return cls(**deserialize(config))


def require_smoothing(smoothing):
    """Raises `ValueError` unless an object is a smoothing."""
    if not isinstance(smoothing, VariationalSmoothing):
        raise ValueError(
            "`smoothing` must be a `memlm_keras.smoothing.VariationalSmoothing`"
            f". Received: smoothing={smoothing!r}"
        )


def _add_divergence(layer, smoothing, matrix):
    """Adds the divergence of a matrix to the losses of a layer."""
    if smoothing.l2:
        # Sums over a whole matrix want float32, whatever the layer computes in.
        with AutocastScope(None):
            layer.add_loss(smoothing.divergence(matrix()))
