"""Means over the tokens of a whole text."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="memlm_keras")
class Nats(keras.metrics.Mean):
    """Cross-entropy of a token, in nats, in the mean over all tokens.

    Keras' `SparseCategoricalCrossentropy` takes the mean over time in each row
    before it sums, so that a token of a long batch counts less than one of a
    short batch.

    Args:
        name: string.
        dtype: dtype of the result.
    """

    def __init__(self, name="nats", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch.

        Args:
            y_true: int32 tensor `(batch, time)`.
            y_pred: logits `(batch, time, vocabulary)`.
            sample_weight: optional float tensor `(batch, time)`.
        """
        losses = ops.sparse_categorical_crossentropy(
            y_true, y_pred, from_logits=True
        )
        if sample_weight is not None:
            sample_weight = ops.reshape(sample_weight, [-1])
        super().update_state(ops.reshape(losses, [-1]), sample_weight)


def mean_cross_entropy():
    """The cross-entropy of logits, in nats, averaged over what is predicted."""
    return keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )


def mean_over_tokens(losses, sample_weight=None):
    """Mean of losses `(batch, time)`, weighted; returns a scalar."""
    if sample_weight is None:
        return ops.mean(losses)
    weights = ops.cast(sample_weight, losses.dtype)
    # Keras' own losses are zero, too, where there is nothing to predict.
    return ops.divide_no_nan(ops.sum(losses * weights), ops.sum(weights))
