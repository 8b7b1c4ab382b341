"""The loss of logits."""

from keras import ops


def token_losses(logits, targets):
    """Cross-entropy of each target, in nats.

    Args:
        logits: float tensor `(..., vocabulary)`.
        targets: integer tensor `(...)`.

    Returns:
        float32 tensor `(...)`.

    Example:

    >>> keras.ops.shape(
    ...     memlm_keras.heads.token_losses(
    ...         np.zeros((2, 7, 50)), np.ones((2, 7))
    ...     )
    ... )
    (2, 7)
    """
    # All tokens in one row are faster than rows of tokens on every backend.
    flat = ops.reshape(ops.cast(logits, "float32"), (-1, logits.shape[-1]))
    losses = ops.sparse_categorical_crossentropy(
        ops.reshape(targets, (-1,)), flat, from_logits=True
    )
    return ops.reshape(losses, ops.shape(targets))
