"""Losses of the papers."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="memlm_keras")
class SentenceCrossEntropy(keras.losses.Loss):
    """Cross-entropy summed over a sentence and averaged over the batch.

    Tran et al. (2016) do not divide by the length of the sentence, which is
    what makes their learning rate of 1 and their clipping at a norm of 5 right.
    The rows of a batch are all counted, also the empty ones that fill up
    `memlm_keras.data.SentenceBatches`: so each sentence weighs the same.

    Call arguments:
        y_true: int32 tensor `(batch, time)`.
        y_pred: logits `(batch, time, vocabulary)`.
        sample_weight: optional float tensor `(batch, time)`.

    Returns:
        A scalar.

    Example:

    >>> lm.compile(
    ...     keras.optimizers.SGD(1.0, global_clipnorm=5.0),
    ...     loss=memlm_keras.training.SentenceCrossEntropy(),
    ... )
    """

    def __init__(self, name="sentence_cross_entropy", dtype=None):
        super().__init__(name=name, reduction="sum", dtype=dtype)

    def call(self, y_true, y_pred):
        losses = ops.sparse_categorical_crossentropy(
            y_true, y_pred, from_logits=True
        )
        return losses / ops.cast(ops.shape(y_true)[0], losses.dtype)

    def reduced(self, losses, sample_weight=None):
        """Sums losses `(batch, time)` as this loss does; returns a scalar."""
        if sample_weight is not None:
            losses = losses * ops.cast(sample_weight, losses.dtype)
        return ops.sum(losses) / ops.cast(ops.shape(losses)[0], losses.dtype)

    def get_config(self):
        return {"name": self.name}
