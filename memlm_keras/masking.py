"""Softmax over what there is."""

from keras import ops


def masked_softmax(scores, mask):
    """Softmax over the slots that `mask` allows; all zero where it allows none.

    Args:
        scores: float tensor `(..., L)`.
        mask: boolean tensor of that shape, or one that goes with it.

    Returns:
        Tensor like `scores`, computed in float32.
    """
    allowed = ops.cast(mask, "float32")
    if scores.shape[-1] == 1:
        # The softmax of one slot is 1, and Keras warns of computing it.
        return ops.cast(allowed, scores.dtype) + 0.0 * scores
    logits = ops.cast(scores, "float32") - 1e9 * (1.0 - allowed)
    return ops.cast(ops.softmax(logits, axis=-1) * allowed, scores.dtype)
