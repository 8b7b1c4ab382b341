"""An embedding whose rows are drawn while training, and means afterwards."""

import keras
from keras import ops

from memlm_keras.embeddings.lookup import Embedding
from memlm_keras.embeddings.lookup import look_up


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
    >>> embedding = memlm_keras.embeddings.SmoothedEmbedding(100, 16, smoothing)
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
        """As of `Embedding`, which knows nothing of samples."""
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
