"""Sliding windows, softmax over their slots, and masked steps."""

import functools

from keras import ops

# Least number of steps of a block, since small products are slow.
_LEAST_BLOCK = 32


def masked_softmax(scores, mask):
    """Softmax of `(..., L)` in float32 over allowed slots; zero if none is."""
    allowed = ops.cast(mask, "float32")
    if scores.shape[-1] == 1:
        # The softmax of one slot is 1, and Keras warns of computing it.
        return ops.cast(allowed, scores.dtype) + 0.0 * scores
    logits = ops.cast(scores, "float32") - 1e9 * (1.0 - allowed)
    return ops.cast(ops.softmax(logits, axis=-1) * allowed, scores.dtype)


class SlidingWindow:
    """A sliding window over the most recent steps: a part of a memory.

    Its state is `{"window": (batch, slots, ...), "filled": (batch,) int32}`:
    the remembered tensors, the most recent last, and the number of slots that
    are filled.

    Args:
        size: integer, number of steps that each step sees.
        shape: tuple of integers, shape of the remembered tensor of one step.
        dtype: string, dtype of the remembered tensors.
        current: whether a step sees itself as the last of these steps. Then
            one slot less is kept.
    """

    def __init__(self, size, shape=(), dtype="float32", current=False):
        self.size = size
        self.slots = size - 1 if current else size
        self.shape = shape
        self.dtype = dtype

    def initial_state(self, batch_size):
        """Returns the state before the first step."""
        return {
            "window": ops.zeros(
                (batch_size, self.slots, *self.shape), dtype=self.dtype
            ),
            "filled": ops.zeros((batch_size,), dtype="int32"),
        }

    def slide(self, state, remembered, mask=None):
        """Appends the remembered tensors of new steps to the window.

        Args:
            state: the state before.
            remembered: tensor `(batch, time, ...)`.
            mask: boolean tensor `(batch, time)`, `True` for the steps at the
                front of each row that are remembered; `None` for all.

        Returns:
            A tuple of the extended window, `(batch, slots + time, ...)`, in
            which step `t` sees positions `t` to `t + size - 1`; the boolean
            tensor `(batch, time, size)` of filled positions; and the new state.
        """
        time = ops.shape(remembered)[1]
        window = ops.cast(state["window"], remembered.dtype)
        extended = ops.concatenate([window, remembered], axis=1)
        positions = ops.arange(time)[:, None] + ops.arange(self.size)[None]
        first_filled = self.slots - state["filled"]
        seen = positions[None] >= first_filled[:, None, None]
        read = time if mask is None else count_valid(mask)
        new_state = {
            "window": self.last(extended, mask),
            "filled": ops.minimum(state["filled"] + read, self.slots),
        }
        return extended, seen, new_state

    def last(self, extended, mask=None):
        """Contents `(batch, slots, ...)` after the new steps of `slide`."""
        if not self.slots:
            return extended[:, :0]
        if mask is None:
            return extended[:, -self.slots :]
        slots = ops.arange(self.slots, dtype="int32")[None]
        return take_steps(extended, count_valid(mask)[:, None] + slots)

    def before(self, state, extended, positions):
        """The state, of `batch * queries` rows, before each of some steps.

        `positions`, int32 `(batch, queries)`, are the steps; `state` and
        `extended` are the first argument and result of `slide`.
        """
        slots = ops.arange(self.slots, dtype="int32")
        seen = positions[..., None] + slots
        rows, queries = ops.shape(positions)
        window = take_steps(
            extended, ops.reshape(seen, (rows, queries * self.slots))
        )
        filled = ops.minimum(state["filled"][:, None] + positions, self.slots)
        shape = (rows * queries, self.slots, *extended.shape[2:])
        return {
            "window": ops.reshape(window, shape),
            "filled": ops.reshape(filled, (-1,)),
        }

    def slot(self, extended, index):
        """Contents `(batch, time, ...)` of a slot of each step, 0 the oldest.

        Slot `slots` is the step itself.
        """
        return extended[:, index : (index - self.slots) or None]

    def products(self, queries, extended):
        """Products `(batch, time, size)` of steps with those they see."""
        return banded_products(queries, extended, self.size)

    def weighted_sum(self, weights, extended):
        """Sum `(batch, time, units)` by weights `(batch, time, size)`."""
        return banded_sum(weights, extended)


def banded_products(queries, values, slots):
    """Inner products `(batch, time, slots)` of each step `t` of `queries` with
    positions `t` to `t + slots - 1` of `values`."""
    queries, values, join = _in_blocks(queries, values, slots)
    products = ops.matmul(queries, ops.transpose(values, (0, 2, 1)))
    return join(by_slot(products, slots))


def banded_sum(weights, values):
    """Sum of `values`, as for `banded_products`, by `(batch, time, slots)`."""
    weights, values, join = _in_blocks(weights, values, weights.shape[-1])
    weights = by_position(weights, ops.shape(values)[1])
    return join(ops.matmul(weights, values))


def _in_blocks(by_step, values, slots):
    """Moves blocks of steps and the values they see to the batch axis, for
    linear cost; also returns a function that joins results by step."""
    block = max(slots, _LEAST_BLOCK)
    time = by_step.shape[1]
    # JAX infers shapes with symbols, which do not compare with numbers.
    short = not isinstance(time, int) or time <= 2 * block
    if time is not None and short:
        return by_step, values, lambda tensor: tensor
    batch_size, time, *_ = ops.shape(by_step)
    count = (time + block - 1) // block

    def cut(tensor, count):
        missing = count * block - ops.shape(tensor)[1]
        tensor = ops.pad(tensor, [[0, 0], [0, missing], [0, 0]])
        return ops.reshape(tensor, (batch_size, count, block, tensor.shape[-1]))

    def flat(tensor):
        return ops.reshape(tensor, (-1, *tensor.shape[2:]))

    def join(tensor):
        shape = (batch_size, count * block, tensor.shape[-1])
        return ops.reshape(tensor, shape)[:, :time]

    pieces = cut(values, count + 1)
    # The steps of a block see values of this block and of the next.
    values = ops.concatenate([pieces[:, :-1], pieces[:, 1:]], axis=2)
    return flat(cut(by_step, count)), flat(values), join


def by_slot(numbers, slots):
    """Picks positions `t` to `t + slots - 1` in row `t` of `(batch, time,
    positions)`: `(batch, time, slots)`."""
    batch_size, time, positions = ops.shape(numbers)
    # Rows that are longer by one shift row t to the left by t positions.
    flat = ops.reshape(numbers, (batch_size, time * positions))
    flat = ops.pad(flat, [[0, 0], [0, time]])
    rows = ops.reshape(flat, (batch_size, time, positions + 1))
    return rows[..., :slots]


def by_position(numbers, positions):
    """Inverse of `by_slot`, with zeros at positions that are not seen."""
    batch_size, time, slots = ops.shape(numbers)
    rows = ops.pad(numbers, [[0, 0], [0, 0], [0, positions + 1 - slots]])
    flat = ops.reshape(rows, (batch_size, time * (positions + 1)))
    return ops.reshape(
        flat[:, : time * positions], (batch_size, time, positions)
    )


class ValidSteps:
    """Moves the valid steps of each row to its front, before zeros, and back;
    the mask `(batch, time)` may have gaps anywhere."""

    def __init__(self, mask):
        if len(mask.shape) != 2:
            raise ValueError(
                "`mask` must be of shape (batch, time). Received: shape "
                f"{tuple(mask.shape)}"
            )
        self.mask = ops.cast(mask, "bool")
        valid = ops.cast(mask, "int32")
        steps = ops.arange(ops.shape(mask)[1], dtype="int32")[None]
        # All keys differ, so that any sort keeps the order of the steps.
        self._order = ops.argsort(steps - valid * ops.shape(mask)[1], axis=1)
        self._places = ops.maximum(ops.cumsum(valid, axis=1) - 1, 0)
        # The mask of the moved rows.
        self.front = steps < count_valid(mask)[:, None]

    def to_front(self, tensor):
        """Moves the valid steps of `(batch, time, ...)`; `None` stays."""
        if tensor is None:
            return None
        return _zero_unless(self.front, take_steps(tensor, self._order))

    def put_back(self, tensor):
        """Inverse of `to_front`, with zeros at masked steps."""
        return _zero_unless(self.mask, take_steps(tensor, self._places))

    def positions(self, positions):
        """New positions of steps, and a function that zeroes masked ones."""
        valid = take_steps(self.mask, positions)
        moved = take_steps(self._places, positions)
        return moved, functools.partial(_zero_unless, valid)


def over_valid_steps(read):
    """Decorates the `read` of a causal memory to honour masks: it gets rows
    with their valid steps at the front, and the mask of these or `None`."""

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


def first_occurrences(token_ids):
    """Position in its row where each word of `(batch, time)` occurs first."""
    time = ops.shape(token_ids)[1]
    same = ops.equal(token_ids[:, :, None], token_ids[:, None, :])
    return ops.min(ops.where(same, ops.arange(time, dtype="int32"), time), -1)


def _zero_unless(mask, tensor):
    return ops.where(_stretch(mask, tensor), tensor, ops.zeros_like(tensor))


def _stretch(by_step, tensor):
    """Appends axes to `(batch, n)` up to the rank of a tensor."""
    for _ in range(len(tensor.shape) - 2):
        by_step = by_step[..., None]
    return by_step
