"""Sliding windows, additive attention scores over windows, and masked steps.

Shapes of additive scores use B (batch), T (time), L (window) and k (units).
"""

import functools

import keras
from keras import ops

from memlm_keras.arguments import shapes_fit
from memlm_keras.gradients import opaque
from memlm_keras.gradients import with_gradient

# Smallest number of steps in a block: small matrix products are slow.
_LEAST_BLOCK = 32
# Number of steps in a block of additive scores. A block computes scores between
# all its steps and all positions that any of them sees, so large blocks waste
# scores, and small blocks need more operations.
_SCORED_BLOCK = 16
# Largest number of elements of a tensor if several must fit in a CPU's cache.
_CACHED = 200_000


def masked_softmax(scores, mask):
    """Computes the softmax over the last axis in float32, where `mask` is true.
    If a row's mask is all false, its result is zeros."""
    weights = softmax_after(scores, penalty_where_false(mask))
    return weights * ops.cast(mask, weights.dtype)


def penalty_where_false(mask):
    """Returns float32 numbers to add to scores: -1e9 where `mask` is false."""
    return 1e9 * (ops.cast(mask, "float32") - 1.0)


def softmax_after(scores, penalties):
    """Computes the softmax of `scores + penalties` over the last axis."""
    if scores.shape[-1] == 1:
        # The softmax of one slot is 1, and Keras would warn about it.
        return 1.0 + 0.0 * scores
    logits = ops.cast(scores, "float32") + penalties
    return ops.cast(ops.softmax(logits, axis=-1), scores.dtype)


class SlidingWindow:
    """A sliding window over the most recent steps, for use in a memory.

    The state has `"window"` `(batch, slots, ...)`, the remembered tensors, most
    recent last, and `"filled"` `(batch,)`, the number of filled slots.

    Args:
        size: integer, number of steps that each step sees.
        shape: tuple of integers, shape of the remembered tensor of one step.
        dtype: string, dtype of the remembered tensors.
        current: whether the `size` steps that a step sees include the step
            itself; if so, the state has `size - 1` slots.
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
            state: the state before the new steps.
            remembered: tensor `(batch, time, ...)` to store, such as keys.
            mask: boolean tensor `(batch, time)`, `True` for the steps to
                remember, which are at the front of each row; `None` for all.

        Returns:
            A tuple of the extended window, `(batch, slots + time, ...)`, in
            which step `t` sees positions `t` to `t + size - 1`; a mask
            `(batch, time, size)`, `True` at filled positions; and the state.
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
        """Returns the window `(batch, slots, ...)` after the new steps."""
        if not self.slots:
            return extended[:, :0]
        if mask is None:
            return extended[:, -self.slots :]
        slots = ops.arange(self.slots, dtype="int32")[None]
        return take_steps(extended, count_valid(mask)[:, None] + slots)

    def before(self, state, extended, positions):
        """Returns the states before the steps `positions`, `(batch, queries)`,
        as one state with `batch * queries` rows. `state` is the argument of
        `slide`, and `extended` its first result."""
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
        """Returns what one slot holds at each step, `(batch, time, ...)`. Slot
        0 is the oldest; `index=self.slots` selects the current steps."""
        return extended[:, index : (index - self.slots) or None]

    def products(self, queries, extended):
        """Computes the inner products of each query with the positions that it
        sees; returns `(batch, time, size)`."""
        return banded_products(queries, extended, self.size)

    def weighted_sum(self, weights, extended):
        """Returns `(batch, time, units)`, the weighted sums of the positions
        that each step sees; `weights` is `(batch, time, size)`."""
        return banded_sum(weights, extended)


def banded_products(queries, values, slots):
    """Computes the inner products of each query `t` with the `slots` values
    from position `t` on; returns `(batch, time, slots)`."""
    queries, values, join = _in_blocks(queries, values, slots)
    products = ops.matmul(queries, ops.transpose(values, (0, 2, 1)))
    return join(by_slot(products, slots))


def banded_sum(weights, values):
    """Computes the weighted sum of values `t` to `t + slots - 1` for each step
    `t`. `weights` is a tensor `(batch, time, slots)`."""
    weights, values, join = _in_blocks(weights, values, weights.shape[-1])
    weights = by_position(weights, ops.shape(values)[1])
    return join(ops.matmul(weights, values))


def _in_blocks(by_step, values, slots):
    """Cuts sequences into blocks of steps, so that the cost is linear in time.
    Returns the blocks of steps, the values that each block reads, and a
    function that joins the results of all blocks."""
    block = max(slots, _LEAST_BLOCK)
    time = by_step.shape[1]
    # When JAX infers shapes, the number of steps may be a symbol.
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
    # Step t reads values t to t + slots - 1, which may be in the next block.
    values = ops.concatenate([pieces[:, :-1], pieces[:, 1:]], axis=2)
    return flat(cut(by_step, count)), flat(values), join


def by_slot(numbers, slots):
    """Selects elements `t` to `t + slots - 1` of row `t` of each matrix in
    `numbers`, `(batch, time, positions)`; returns `(batch, time, slots)`."""
    batch_size, time, positions = ops.shape(numbers)
    # In a flat array, element t of row t is at t * (positions + 1). Rows of
    # `positions + 1` elements therefore begin with element t of the old row t.
    flat = ops.reshape(numbers, (batch_size, time * positions))
    flat = ops.pad(flat, [[0, 0], [0, time]])
    rows = ops.reshape(flat, (batch_size, time, positions + 1))
    return rows[..., :slots]


def by_position(numbers, positions):
    """Inverts `by_slot`; elements that it did not select become zero."""
    batch_size, time, slots = ops.shape(numbers)
    rows = ops.pad(numbers, [[0, 0], [0, 0], [0, positions + 1 - slots]])
    flat = ops.reshape(rows, (batch_size, time * (positions + 1)))
    return ops.reshape(
        flat[:, : time * positions], (batch_size, time, positions)
    )


def as_mask(mask, like):
    """Converts a mask to bool; raises `ValueError` unless its shape is that of
    the first two axes of the tensor `like`."""
    mask = ops.convert_to_tensor(mask, "bool")
    if not shapes_fit(mask.shape, like.shape[:2]):
        raise ValueError(
            "`mask` must be of shape (batch, time), here "
            f"{tuple(like.shape[:2])}. Received: shape {tuple(mask.shape)}"
        )
    return mask


class ValidSteps:
    """Moves the unmasked steps of each row to the front of the row, so that
    masked steps come last. `put_back` restores the original order."""

    def __init__(self, mask):
        self.mask = ops.cast(mask, "bool")
        valid = ops.cast(mask, "int32")
        steps = ops.arange(ops.shape(mask)[1], dtype="int32")[None]
        # All sort keys differ, so even an unstable sort keeps the order.
        self._order = ops.argsort(steps - valid * ops.shape(mask)[1], axis=1)
        self._places = ops.maximum(ops.cumsum(valid, axis=1) - 1, 0)
        # True where results of `to_front` contain a step that is not masked.
        self.front = steps < count_valid(mask)[:, None]

    def to_front(self, tensor):
        """Moves unmasked steps to the front of each row, followed by zeros;
        `None` stays `None`."""
        if tensor is None:
            return None
        return _zero_unless(self.front, take_steps(tensor, self._order))

    def put_back(self, tensor):
        """Inverts `to_front`; masked steps become zero."""
        return _zero_unless(self.mask, take_steps(tensor, self._places))

    def positions(self, positions):
        """Converts indices of steps to indices in results of `to_front`. Also
        returns a function that sets results at masked steps to zero."""
        valid = take_steps(self.mask, positions)
        moved = take_steps(self._places, positions)
        return moved, functools.partial(_zero_unless, valid)


def over_valid_steps(read):
    """Decorates the method `read` of a causal memory. The wrapper moves masked
    steps to the end of each row before `read`, and moves the results back."""

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
    """Counts the true elements in each row of a mask, int32 `(batch,)`."""
    return ops.sum(ops.cast(mask, "int32"), axis=1)


def take_steps(tensor, steps):
    """Gathers the steps with indices `steps`, `(batch, n)`, of each row."""
    return ops.take_along_axis(tensor, _stretch(steps, tensor), axis=1)


def first_occurrences(token_ids):
    """Returns the index at which each token first occurs in its row."""
    time = ops.shape(token_ids)[1]
    same = ops.equal(token_ids[:, :, None], token_ids[:, None, :])
    return ops.min(ops.where(same, ops.arange(time, dtype="int32"), time), -1)


def _zero_unless(mask, tensor):
    return ops.where(_stretch(mask, tensor), tensor, ops.zeros_like(tensor))


def _stretch(by_step, tensor):
    """Appends axes of size 1 until the rank is that of `tensor`."""
    for _ in range(len(tensor.shape) - 2):
        by_step = by_step[..., None]
    return by_step


# === Additive scores ===

# Additive scores cost time and memory in proportion to window times units.
# Storing each tanh for the backward pass would take gigabytes, so the backward
# pass computes each tanh again. On a CPU, with a window of 64, 64 steps and 96
# units, this takes half the time of automatic differentiation.


def additive_scores(keys, queries, kernel, seen):
    """Computes `w . tanh(key + query)` for each query `t` and the `L` keys from
    `t` on; returns `(B, T, L)`, with arbitrary values where `seen` is false."""
    keys, queries, kernel = map(ops.convert_to_tensor, (keys, queries, kernel))
    if (run := scores_in_loop(queries)) is not None:
        return run(keys, queries, kernel, seen)
    return _scores_in_blocks(keys, queries, kernel, seen.shape[-1])


def scores_in_loop(queries):
    """Returns a function that computes scores in a loop over slots; returns
    `None` if computing blocks of scores is faster."""
    if queries.shape[1] == 1:
        # A single step is faster without a loop.
        return None
    if keras.backend.backend() == "torch" and queries.device.type == "cpu":
        return _torch_scores
    if keras.backend.backend() == "jax":
        import jax

        if jax.default_backend() == "cpu":
            return _jax_scores
    return None


def _scores_in_blocks(keys, queries, kernel, window):
    time = queries.shape[1]
    if not isinstance(time, int) or 2 * window <= _SCORED_BLOCK:
        # Cutting a sequence into blocks needs a known number of steps. With a
        # short window, most pairs in a block are too far apart to need a score.
        time = ops.shape(queries)[1]
        scores = [
            ops.matmul(ops.tanh(keys[:, slot : slot + time] + queries), kernel)
            for slot in range(window)
        ]
        return ops.concatenate(scores, axis=-1)
    blocks = []
    for start in range(0, time, _SCORED_BLOCK):
        stop = min(start + _SCORED_BLOCK, time)
        seen = keys[:, None, start : stop + window - 1]
        hidden = ops.tanh(seen + queries[:, start:stop, None])
        blocks.append(by_slot(ops.matmul(hidden, kernel)[..., 0], window))
    return ops.concatenate(blocks, axis=1)


# === Additive scores on PyTorch ===


def _torch_scores(keys, queries, kernel, seen):
    import torch

    time, window = seen.shape[1:]

    def in_parts(*tensors):
        """Yields float32 tensors, groups of rows that fit in a CPU's cache."""
        rows = max(1, _CACHED // max(1, time * tensors[1].shape[-1]))
        for parts in zip(*(tensor.split(rows) for tensor in tensors)):
            yield [part.float() for part in parts]

    def slots(seen):
        """Returns the slots that at least one step sees."""
        return range(int(seen.any(0).any(0).byte().argmax()), window)

    def scores(keys, queries, kernel, seen):
        weights = kernel[:, 0].float()
        parts = []
        for some_keys, some in in_parts(keys, queries):
            scores = some.new_zeros((window, *some.shape[:2]))
            hidden = torch.empty_like(some)
            for slot in slots(seen):
                torch.add(some_keys[:, slot : slot + time], some, out=hidden)
                torch.matmul(hidden.tanh_(), weights, out=scores[slot])
            parts.append(scores.permute(1, 2, 0).to(queries.dtype))
        return (torch.cat(parts),)

    def gradients(keys, queries, kernel, seen, d_scores):
        weights = kernel[:, 0].float()
        d_weights = torch.zeros_like(weights)
        d_keys, d_queries = [], []
        for some_keys, some, d_some in in_parts(keys, queries, d_scores):
            d_slots = d_some.permute(2, 0, 1).contiguous()
            hidden = torch.empty_like(some)
            # The gradient of a key is w (sum d - sum d tanh^2), where d is the
            # gradient of a score, a scalar: `d_seen` needs no axis of units.
            d_seen = some.new_zeros(some_keys.shape[:2])
            squares = torch.zeros_like(some)
            squares_seen = torch.zeros_like(some_keys)
            for slot in slots(seen):
                steps = slice(slot, slot + time)
                d = d_slots[slot]
                torch.add(some_keys[:, steps], some, out=hidden).tanh_()
                d_weights += d.flatten() @ hidden.flatten(0, 1)
                hidden.square_()
                d_seen[:, steps] += d
                squares.addcmul_(d[..., None], hidden)
                squares_seen[:, steps].addcmul_(d[..., None], hidden)
            d_all = d_slots[slots(seen).start :].sum(0)
            d_queries.append(weights * (d_all[..., None] - squares))
            d_keys.append(weights * (d_seen[..., None] - squares_seen))
        return (
            torch.cat(d_keys).to(keys.dtype),
            torch.cat(d_queries).to(queries.dtype),
            d_weights[:, None].to(kernel.dtype),
        )

    def scores_like(keys, queries, kernel, seen):
        return (queries.new_empty(seen.shape),)

    def gradients_like(*tensors):
        return tuple(map(torch.empty_like, tensors[:3]))

    def forward(keys, queries, kernel):
        kept = keys, queries, kernel
        return opaque(scores, scores_like)(*kept, seen)[0], kept

    def backward(kept, d_scores):
        return opaque(gradients, gradients_like)(*kept, seen, d_scores)

    return with_gradient(forward, backward)(keys, queries, kernel)


# === Additive scores on JAX ===


def _jax_scores(keys, queries, kernel, seen):
    import jax
    import jax.numpy as jnp

    time, window = seen.shape[1:]
    # Skip the first slots, which no step sees at the start of a text.
    first = jnp.argmax(jnp.any(seen, axis=(0, 1)))

    def in_loop(keys, queries, first, update, state):
        """Calls `update(state, slot, hidden)` per slot; `hidden` is float32."""
        keys, queries = keys.astype("float32"), queries.astype("float32")

        def step(slot, state):
            seen = jax.lax.dynamic_slice_in_dim(keys, slot, time, axis=1)
            return update(state, slot, jnp.tanh(seen + queries))

        return jax.lax.fori_loop(first, window, step, state)

    def forward(keys, queries, kernel, first):
        weights = kernel[:, 0].astype("float32")

        def update(scores, slot, hidden):
            # A matrix product here would make XLA store `hidden` in memory.
            return scores.at[slot].set(jnp.sum(hidden * weights, axis=-1))

        scores = jnp.zeros((window, *queries.shape[:2]), "float32")
        scores = in_loop(keys, queries, first, update, scores)
        scores = jnp.moveaxis(scores, 0, -1).astype(queries.dtype)
        return scores, (keys, queries, kernel, first)

    def backward(kept, d_scores):
        keys, queries, kernel, first = kept
        d_slots = jnp.moveaxis(d_scores.astype("float32"), -1, 0)
        weights = kernel[:, 0].astype("float32")

        def update(sums, slot, hidden):
            d_keys, d_queries, d_weights = sums
            d = d_slots[slot][..., None]
            # Without a barrier, XLA would compute the tanh again for each sum.
            hidden, d_hidden = jax.lax.optimization_barrier(
                (hidden, d * weights * (1 - hidden**2))
            )
            seen = jax.lax.dynamic_slice_in_dim(d_keys, slot, time, axis=1)
            d_keys = jax.lax.dynamic_update_slice_in_dim(
                d_keys, seen + d_hidden, slot, axis=1
            )
            d_weights = d_weights + jnp.sum(d * hidden, axis=(0, 1))
            return d_keys, d_queries + d_hidden, d_weights

        zeros = tuple(
            jnp.zeros(shape, "float32")
            for shape in (keys.shape, queries.shape, weights.shape)
        )
        d_keys, d_queries, d_weights = in_loop(
            keys, queries, first, update, zeros
        )
        return (
            d_keys.astype(keys.dtype),
            d_queries.astype(queries.dtype),
            d_weights[:, None].astype(kernel.dtype),
            None,
        )

    return with_gradient(forward, backward)(keys, queries, kernel, first)
