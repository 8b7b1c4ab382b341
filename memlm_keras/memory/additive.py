"""Scores of additive attention over a sliding window.

Shapes below: B batch, T time, L window, k units.
"""

import keras
from keras import ops

from memlm_keras.gradients import with_gradient
from memlm_keras.masking import by_slot

# Steps of a block. Scores are computed for all positions that any of them sees:
# a larger block wastes more of them, a smaller one needs more operations.
_BLOCK = 16

# Size of a tensor that fits in a core's cache with a few others.
_CACHED = 200_000


# The scores are the only cost that grows with window times units. Kept for the
# backward pass, these would take gigabytes; on a CPU, computing them again is
# faster than writing and reading them: at a window of 64 over 64 steps of 96
# units, in half the time of an automatic gradient of the same loop.


def additive_scores(keys, queries, kernel, seen):
    """Scores `w . tanh(key + query)`, `(B, T, L)`, of queries `t` with keys `t`
    to `t + L - 1`; any finite numbers where `seen` is false."""
    keys, queries, kernel = map(ops.convert_to_tensor, (keys, queries, kernel))
    run = implementation(queries)
    if run is not None:
        return run(keys, queries, kernel, seen)
    return _in_blocks(keys, queries, kernel, seen.shape[-1])


def implementation(queries):
    """Returns the function that loops over the slots, or `None` for blocks."""
    if queries.shape[1] == 1:
        # No position is seen twice.
        return None
    if keras.backend.backend() == "torch" and queries.device.type == "cpu":
        return _torch_scores
    if keras.backend.backend() == "jax":
        import jax

        if jax.default_backend() == "cpu":
            return _jax_scores
    return None


def _in_blocks(keys, queries, kernel, window):
    time = queries.shape[1]
    if not isinstance(time, int) or 2 * window <= _BLOCK:
        # An unknown time cannot be cut into blocks, and with a short window
        # most scores of a block would be wasted.
        time = ops.shape(queries)[1]
        scores = [
            ops.matmul(ops.tanh(keys[:, slot : slot + time] + queries), kernel)
            for slot in range(window)
        ]
        return ops.concatenate(scores, axis=-1)
    blocks = []
    for start in range(0, time, _BLOCK):
        stop = min(start + _BLOCK, time)
        seen = keys[:, None, start : stop + window - 1]
        hidden = ops.tanh(seen + queries[:, start:stop, None])
        blocks.append(by_slot(ops.matmul(hidden, kernel)[..., 0], window))
    return ops.concatenate(blocks, axis=1)


# === PyTorch ===


def _torch_scores(keys, queries, kernel, seen):
    import torch

    time, window = seen.shape[1:]
    # Skip slots that no step sees, as at the beginning of texts.
    first = int(seen.any(0).any(0).byte().argmax())

    def in_parts(*tensors):
        """Yields parts of the batch that fit in the cache, in float32."""
        rows = max(1, _CACHED // max(1, time * tensors[1].shape[-1]))
        for parts in zip(*(tensor.split(rows) for tensor in tensors)):
            yield [part.float() for part in parts]

    def forward(keys, queries, kernel):
        weights = kernel[:, 0].float()
        parts = []
        for some_keys, some in in_parts(keys, queries):
            scores = some.new_zeros((window, *some.shape[:2]))
            hidden = torch.empty_like(some)
            for slot in range(first, window):
                seen = some_keys[:, slot : slot + time]
                torch.add(seen, some, out=hidden).tanh_()
                torch.matmul(hidden, weights, out=scores[slot])
            parts.append(scores.permute(1, 2, 0).to(queries.dtype))
        return torch.cat(parts), (keys, queries, kernel)

    def backward(kept, d_scores):
        keys, queries, kernel = kept
        weights = kernel[:, 0].float()
        d_weights = torch.zeros_like(weights)
        d_keys, d_queries = [], []
        for some_keys, some, d_some in in_parts(keys, queries, d_scores):
            d_slots = d_some.permute(2, 0, 1).contiguous()
            hidden = torch.empty_like(some)
            # The gradient is w times the difference of the sums of d and of
            # d tanh^2.
            d_seen = some.new_zeros(some_keys.shape[:2])
            squares = torch.zeros_like(some)
            squares_seen = torch.zeros_like(some_keys)
            for slot in range(first, window):
                seen = slice(slot, slot + time)
                d = d_slots[slot]
                torch.add(some_keys[:, seen], some, out=hidden).tanh_()
                d_weights += d.flatten() @ hidden.flatten(0, 1)
                hidden.square_()
                d_seen[:, seen] += d
                squares.addcmul_(d[..., None], hidden)
                squares_seen[:, seen].addcmul_(d[..., None], hidden)
            d_all = d_slots[first:].sum(0)
            d_queries.append(weights * (d_all[..., None] - squares))
            d_keys.append(weights * (d_seen[..., None] - squares_seen))
        return (
            torch.cat(d_keys).to(keys.dtype),
            torch.cat(d_queries).to(queries.dtype),
            d_weights[:, None].to(kernel.dtype),
        )

    return with_gradient(forward, backward)(keys, queries, kernel)


# === JAX ===


def _jax_scores(keys, queries, kernel, seen):
    import jax
    import jax.numpy as jnp

    time, window = seen.shape[1:]
    # Skip slots that no step sees, as at the beginning of texts.
    first = jnp.argmax(jnp.any(seen, axis=(0, 1)))

    def in_loop(keys, queries, first, update, state):
        """Computes `update(state, slot, hidden)` for each slot, in float32."""
        keys, queries = keys.astype("float32"), queries.astype("float32")

        def step(slot, state):
            seen = jax.lax.dynamic_slice_in_dim(keys, slot, time, axis=1)
            return update(state, slot, jnp.tanh(seen + queries))

        return jax.lax.fori_loop(first, window, step, state)

    def forward(keys, queries, kernel, first):
        weights = kernel[:, 0].astype("float32")

        def update(scores, slot, hidden):
            # A product of matrices would write `hidden` to memory.
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
            # Without a barrier, each of the three sums computes the tanh again.
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
