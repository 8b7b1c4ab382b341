"""Losses and metrics of tokens."""

import keras
from keras import ops

from memlm_keras.heads import token_losses
from memlm_keras.training import distribution


class TokenLoss(keras.losses.Loss):
    """Base class of what is made of the losses of single tokens.

    A `memlm_keras.LanguageModel` that is handed the targets gives the loss of
    each token, `(batch, time)`; whoever holds logits may give those instead.

    Call arguments:
        y_true: int32 tensor `(batch, time)`.
        y_pred: logits `(batch, time, vocabulary)`, or the losses of the tokens
            `(batch, time)`.
        sample_weight: optional float tensor `(batch, time)`.

    Returns:
        A scalar.
    """

    def call(self, y_true, y_pred):
        return _losses(y_true, y_pred)

    def get_config(self):
        return {"name": self.name}


@keras.saving.register_keras_serializable(package="memlm_keras")
class TokenCrossEntropy(TokenLoss):
    """Cross-entropy in nats, averaged over what is predicted.

    Call arguments and result as of `TokenLoss`.

    Example:

    >>> lm.compile("adam", loss=memlm_keras.training.TokenCrossEntropy())
    """

    def __init__(self, name="token_cross_entropy", dtype=None):
        super().__init__(
            name=name, reduction="mean_with_sample_weight", dtype=dtype
        )


@keras.saving.register_keras_serializable(package="memlm_keras")
class SentenceCrossEntropy(TokenLoss):
    """Cross-entropy summed over a sentence and averaged over the batch.

    Tran et al. (2016) do not divide by the length of the sentence, which is
    what makes their learning rate of 1 and their clipping at a norm of 5 right.
    The rows of a batch are all counted, also the empty ones that fill up
    `memlm_keras.data.SentenceBatches`: so each sentence weighs the same.

    Call arguments and result as of `TokenLoss`.

    Example:

    >>> lm.compile(
    ...     keras.optimizers.SGD(1.0, global_clipnorm=5.0),
    ...     loss=memlm_keras.training.SentenceCrossEntropy(),
    ... )
    """

    def __init__(self, name="sentence_cross_entropy", dtype=None):
        super().__init__(name=name, reduction="sum", dtype=dtype)

    def call(self, y_true, y_pred):
        losses = super().call(y_true, y_pred)
        rows = ops.shape(y_true)[0] * distribution.num_replicas()
        return losses / ops.cast(rows, losses.dtype)


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
        """Adds a batch; arguments as of `TokenLoss`."""
        losses = ops.reshape(_losses(y_true, y_pred), (-1,))
        if sample_weight is not None:
            sample_weight = ops.reshape(sample_weight, (-1,))
        super().update_state(losses, sample_weight)


@keras.saving.register_keras_serializable(package="memlm_keras")
class Perplexity(Nats):
    """`exp(nats)`: the perplexity of all tokens.

    As `keras_nlp.metrics.Perplexity` has it, which takes logits only.

    Args:
        name: string.
        dtype: dtype of the result.
    """

    def __init__(self, name="perplexity", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def result(self):
        """Returns the perplexity of all that was added, a scalar."""
        return ops.exp(super().result())


def _losses(y_true, y_pred):
    if len(y_pred.shape) == len(y_true.shape):
        return y_pred
    return token_losses(y_pred, ops.cast(y_true, "int32"))
