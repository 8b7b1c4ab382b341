"""Losses, metrics and an optimizer: the arguments of `compile`."""

import keras
from keras import ops

from memlm_keras.heads import token_losses
from memlm_keras.training import distribution


class TokenLoss(keras.losses.Loss):
    """Base class for losses that reduce token losses to a scalar.

    A `memlm_keras.LanguageModel` that gets targets as inputs returns the loss
    of each token, `(batch, time)`; a `TokenLoss` accepts logits, too.

    Call arguments:
        y_true: int32 tensor `(batch, time)`.
        y_pred: Logits `(batch, time, vocabulary)`, or token losses
            `(batch, time)`.
        sample_weight: Optional float tensor `(batch, time)`, or `(batch,)` with
            one weight per row.

    Returns:
        A scalar.
    """

    def __call__(self, y_true, y_pred, sample_weight=None):
        weights = weights_of_tokens(sample_weight, y_true)
        return super().__call__(y_true, y_pred, weights)

    def call(self, y_true, y_pred):
        return _losses(y_true, y_pred)

    def get_config(self):
        return {"name": self.name}


@keras.saving.register_keras_serializable(package="memlm_keras")
class TokenCrossEntropy(TokenLoss):
    """Cross-entropy in nats, averaged over the predicted tokens.

    Example:

    >>> lm.compile("adam", loss=memlm_keras.training.TokenCrossEntropy())
    """

    def __init__(self, name="token_cross_entropy", dtype=None):
        super().__init__(
            name=name, reduction="mean_with_sample_weight", dtype=dtype
        )


@keras.saving.register_keras_serializable(package="memlm_keras")
class SentenceCrossEntropy(TokenLoss):
    """Cross-entropy summed over each sentence and averaged over the batch.

    Tran et al. (2016) do not divide a sentence's loss by its length; their
    learning rate of 1 and clipping norm of 5 suit sums, not means. Rows of
    `memlm_keras.data.SentenceBatches` without a sentence count in the average,
    so a sentence has the same weight in any batch.

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
    """Mean cross-entropy over all tokens, in nats.

    Keras' `SparseCategoricalCrossentropy` first averages each row over time, so
    tokens in long rows count less.
    """

    def __init__(self, name="nats", dtype=None):
        super().__init__(name=name, dtype=dtype)
        self._direction = "down"  # for callbacks with `monitor="val_nats"`

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch; see `TokenLoss` for the arguments."""
        losses = ops.reshape(_losses(y_true, y_pred), (-1,))
        weights = weights_of_tokens(sample_weight, y_true)
        if weights is not None:
            weights = ops.reshape(weights, (-1,))
        super().update_state(losses, weights)


@keras.saving.register_keras_serializable(package="memlm_keras")
class Perplexity(Nats):
    """Perplexity over all tokens, `exp(nats)`.

    Equals `keras_nlp.metrics.Perplexity`, which does not accept token losses.
    """

    def __init__(self, name="perplexity", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def result(self):
        """Returns the perplexity over all added batches, a scalar."""
        return ops.exp(super().result())


def _losses(y_true, y_pred):
    if len(y_pred.shape) == len(y_true.shape):
        return y_pred
    return token_losses(y_pred, ops.cast(y_true, "int32"))


def weights_of_tokens(sample_weight, targets):
    """Broadcasts weights of rows or tokens to `(batch, time)`; keeps `None`."""
    if sample_weight is None:
        return None
    weights = ops.cast(sample_weight, "float32")
    if len(weights.shape) > len(targets.shape) or any(
        one not in (None, 1, other) and other is not None
        for one, other in zip(weights.shape, targets.shape)
    ):
        raise ValueError(
            "`sample_weight` must have the shape (batch,) or (batch, time) of "
            f"the targets, {tuple(targets.shape)}. Received: shape "
            f"{tuple(weights.shape)}"
        )
    if tuple(weights.shape) == tuple(targets.shape):
        return weights
    if len(weights.shape) < len(targets.shape):
        weights = weights[:, None]
    return weights * ops.ones_like(targets, dtype="float32")


# === Optimizer ===


@keras.saving.register_keras_serializable(package="memlm_keras")
class FusedAdam(keras.optimizers.Adam):
    """`keras.optimizers.Adam` that uses PyTorch's fused kernel on PyTorch.

    Equations, arguments and variables are the same as in Keras' Adam, so
    training can continue with either optimizer. Keras' update consists of many
    operations, each over all weights, which take as long as the rest of the
    step if the vocabulary is large. On TensorFlow and JAX, this is Keras' Adam.

    Example:

    >>> optimizer = memlm_keras.training.FusedAdam(0.25, global_clipnorm=5.0)
    >>> float(optimizer.learning_rate)
    0.25
    """

    _clip_gradients = distribution.clip_in_place

    def _backend_update_step(self, grads, variables, learning_rate):
        if keras.backend.backend() != "torch":
            return super()._backend_update_step(grads, variables, learning_rate)
        import torch
        from torch.optim.adam import adam

        def values(kept):
            return [kept[place].value for place in places]

        places = [*map(self._get_variable_index, variables)]
        # Keras puts the bias correction into the rate, and adds epsilon to the
        # uncorrected root. The step 1e9 turns PyTorch's own correction off. The
        # rate stays a tensor to avoid synchronizing the GPU.
        step = ops.cast(self.iterations, "float32") + 1.0
        rate = learning_rate * ops.sqrt(1.0 - self.beta_2**step)
        rate = rate / (1.0 - self.beta_1**step)
        with torch.no_grad():
            adam(
                [variable.value for variable in variables],
                [g.to(v.value.dtype) for g, v in zip(grads, variables)],
                values(self._momentums),
                values(self._velocities),
                values(self._velocity_hats) if self.amsgrad else [],
                [torch.full_like(step, 1e9) for _ in places],
                fused=True,
                amsgrad=self.amsgrad,
                beta1=self.beta_1,
                beta2=self.beta_2,
                lr=rate,
                weight_decay=0.0,
                eps=self.epsilon,
                maximize=False,
            )
