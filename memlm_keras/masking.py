"""Softmax over what there is, and steps that a mask leaves out."""

import functools

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


class ValidSteps:
    """The steps of each row that a mask allows, moved to the row's front.

    What is causal needs to know no more of a mask: behind its valid steps a row
    holds zeros, which no valid step sees.

    Args:
        mask: boolean tensor `(batch, time)`, `True` at valid steps, with gaps
            anywhere.

    Attributes:
        front: boolean tensor `(batch, time)`, the mask of the moved rows.

    Raises:
        ValueError: if the mask is not `(batch, time)`.
    """

    def __init__(self, mask):
        if len(mask.shape) != 2:
            raise ValueError(
                "`mask` must be of shape (batch, time). Received: shape "
                f"{tuple(mask.shape)}"
            )
        self.mask = ops.cast(mask, "bool")
        valid = ops.cast(mask, "int32")
        steps = ops.arange(ops.shape(mask)[1], dtype="int32")[None]
        # Keys that all differ, so that any sort keeps the order of the steps.
        self._order = ops.argsort(steps - valid * ops.shape(mask)[1], axis=1)
        self._places = ops.maximum(ops.cumsum(valid, axis=1) - 1, 0)
        self.front = steps < count_valid(mask)[:, None]

    def to_front(self, tensor):
        """Moves the valid steps of `(batch, time, ...)`; `None` stays."""
        if tensor is None:
            return None
        moved = take_steps(tensor, self._order)
        return _zero_unless(self.front, moved)

    def put_back(self, tensor):
        """The way back of `to_front`, with zeros at masked steps."""
        moved = take_steps(tensor, self._places)
        return _zero_unless(self.mask, moved)


def over_valid_steps(read):
    """Decorates the `read` of a memory that is causal, so that masks count.

    The decorated method is given rows whose valid steps stand at the front and
    the mask that says how many there are, `None` where no mask was given. It
    has to return the state after the last valid step, as
    `memlm_keras.memory.SlidingWindow.slide` does. At masked steps outputs and
    weights are zero.
    """

    @functools.wraps(read)
    def masked(self, outputs, state, token_ids=None, mask=None):
        if mask is None:
            return read(self, outputs, state, token_ids)
        steps = ValidSteps(mask)
        outputs, state, weights = read(
            self,
            steps.to_front(outputs),
            state,
            steps.to_front(token_ids),
            steps.front,
        )
        return steps.put_back(outputs), state, steps.put_back(weights)

    return masked


def count_valid(mask):
    """Counts the steps of each row that a mask allows, int32 `(batch,)`."""
    return ops.sum(ops.cast(mask, "int32"), axis=1)


def take_steps(tensor, steps):
    """Picks steps of each row: `(batch, n, ...)` of int32 `(batch, n)`."""
    return ops.take_along_axis(tensor, _stretch(steps, tensor), axis=1)


def _zero_unless(mask, tensor):
    return ops.where(_stretch(mask, tensor), tensor, ops.zeros_like(tensor))


def _stretch(by_step, tensor):
    """Gives `(batch, n)` as many axes as a tensor has."""
    for _ in range(len(tensor.shape) - 2):
        by_step = by_step[..., None]
    return by_step
