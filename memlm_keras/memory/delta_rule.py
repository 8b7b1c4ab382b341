"""A memory of fixed size, written by the delta rule.

Schlag et al. (2021), "Linear Transformers Are Secretly Fast Weight
Programmers"; training in chunks follows Yang et al. (2024), "Parallelizing
Linear Transformers with the Delta Rule over Sequence Length".

Shapes use B (batch), T (time), k (units), N (heads), K (key size), V (value
size) and C (steps in a chunk).
"""

import keras
import numpy as np
from keras import ops

from memlm_keras.arguments import require_positive_integer
from memlm_keras.cells import complex_vectors
from memlm_keras.gradients import divide_by_length
from memlm_keras.gradients import with_gradient
from memlm_keras.keras_private import rnn
from memlm_keras.kernels import DistinctKernels
from memlm_keras.masking import SlidingWindow
from memlm_keras.masking import over_valid_steps
from memlm_keras.memory.base import Memory
from memlm_keras.memory.base import equal_parts

# Maximal number of steps in a chunk. With longer chunks, the loop has fewer
# steps, but products of more pairs of steps are computed.
_CHUNK = 64
# Size of the largest matrix that is not inverted block by block.
_BLOCK = 8


@keras.saving.register_keras_serializable(package="memlm_keras")
class DeltaRule(DistinctKernels, Memory):
    """A matrix of associations, written by the delta rule.

    `h_t` is the output of the recurrent layer (`k` units), and
    `unit(x) = x / |x|`. Each head computes:

        q_t    = unit(W^q h_t)
        k_t    = unit(W^k h_t)
        v_t    = W^v h_t
        beta_t = sigmoid(w^b h_t + b^b)
        S_t    = S_{t-1} + beta_t k_t (v_t - S_{t-1}^T k_t)^T
        r_t    = S_t^T q_t
        h*_t   = tanh(W^r [r_t of all heads] + W^x h_t)

    A write replaces a fraction `beta_t` of the value stored at the key `k_t`,
    and changes nothing at orthogonal keys. The state has `N K V` numbers,
    independent of the length of the text.

    A whole sequence is read in chunks. One triangular system of equations gives
    all writes of a chunk, so the loop over time has only one step for each
    chunk. Chunks do not change the results.

    Arguments change the equations as follows:

    * `negative_eigenvalues`: `beta_t = 2 sigmoid(w^b h_t + b^b)`. A write can
      then flip the sign of the value at a key, which state tracking needs
      (Grazzi et al., 2025, "Unlocking State-Tracking in Linear RNNs Through
      Negative Eigenvalues").
    * `decay`: `S_{t-1}` is multiplied by `alpha_t = sigmoid(w^a h_t + b^a)`
      wherever it occurs, as in Gated DeltaNet (Yang et al., 2025, Eq. 10),
      whose gate also has a learned exponent.
    * `kernel_size`: queries, keys and values are computed from a weighted sum
      of the last `kernel_size` outputs, with separate weights for each unit.
      This short causal convolution is at first the identity.
    * `previous_keys`: the key `k_t` is computed from the previous output
      `h_{t-1}`, and the value `v_t` from `h_t`, as in `InductionAttention`.
      Nothing is written at the first step, which has no previous output.
    * `holographic`: keys, queries and values are complex. Let `z_t` be the N
      complex numbers `W^k h_t`, divided by their moduli, and `P_1 ... P_K`
      permutations. The key of head n is

          k_t = [P_1 z_t, ..., P_K z_t]_n / sqrt(K)

      A query is computed from `W^q h_t` in the same way. The real and the
      imaginary part of `v_t - k_t^H S_{t-1}` have separate rates, `2 N` in all,
      and `r_t = q_t^H S_t`. With `value_dim=1`, this is the memory of
      Weissenborn (2016): N complex numbers in K redundant copies. With larger
      values, all numbers of a head's value share one key and the head's rates.
    * `residual`: `h*_t = h_t + W^r [r_t of all heads]`. The output `h_t` is
      added unchanged, so there is no weight `W^x`.

    | symbol | weight | shape |
    |---|---|---|
    | `W^q`, `W^k` | `query_kernel`, `key_kernel` | `(k, N K)` |
    | `W^v` | `value_kernel` | `(k, N V)` |
    | `w^b`, `b^b` | `rate_kernel`, `rate_bias` | `(k, N)`, `(N,)` |
    | `w^a`, `b^a` | `decay_kernel`, `decay_bias` | `(k, N)`, `(N,)` |
    | weights of the last outputs | `convolution`, for queries, keys and values | `(kernel_size, 3 k)` |
    | `W^r` | `context_kernel` | `(N V, k)` |
    | `W^x` | `output_kernel` | `(k, k)` |
    | `P_1 ... P_K` | `permutations` | `(K, N)` int32, not trained |

    With `holographic`, `query_kernel` and `key_kernel` have `2 N` columns. `N`
    is doubled in the shapes of `value_kernel`, `rate_kernel`, `rate_bias` and
    `context_kernel`. The real parts of all heads precede the imaginary parts.

    Args:
        num_heads: integer, N.
        key_dim: integer, K, size of a key, and the largest number of unrelated
            associations that a head can store.
        value_dim: integer, V; `None` for `k / num_heads` or, if `holographic`,
            for `k / (2 num_heads)` complex numbers.
        negative_eigenvalues: whether `beta_t` is in (0, 2), not in (0, 1), so
            that `1 - beta_t`, an eigenvalue of a write, can be negative.
        decay: whether a learned gate makes associations decay.
        kernel_size: integer, number of outputs in the weighted sums.
        previous_keys: whether keys are computed from the previous output.
        holographic: whether keys are permuted copies of one complex key.
        residual: whether `W^r r_t` is added to the output, `h_t`.
        kernel_initializer: initializer of all matrices but the convolution.
        **kwargs: arguments of `Memory`.

    `Memory` describes the call arguments; `token_ids` are not used. A call
    returns all `h*_t` as a tensor `(B, T, k)`. The state is `{"associations":
    (B, N, K, V)}` in float32, or `(B, N, 2 K, V)` if `holographic`, real parts
    first. With `kernel_size` above 1 or with `previous_keys`, the state also
    contains the last outputs, `"window"`, `(B, slots, k)`.

    Raises:
        ValueError: if a size is not a positive integer or, without `value_dim`,
            k is not divisible by `num_heads` (`2 num_heads` if `holographic`).

    Example:

    >>> memory = memlm_keras.memory.DeltaRule(num_heads=2, key_dim=8)
    >>> outputs = np.ones((2, 70, 16), "float32")
    >>> _, state = memory(outputs, return_state=True)
    >>> keras.ops.shape(state["associations"])
    (2, 2, 8, 8)

    The memory of Weissenborn (2016) with four copies of 16 units:

    >>> memory = memlm_keras.memory.DeltaRule(8, key_dim=4, holographic=True)
    >>> _, state = memory(outputs, return_state=True)
    >>> keras.ops.shape(state["associations"])
    (2, 8, 8, 1)
    """  # noqa: E501

    attends = False

    def __init__(
        self,
        num_heads=2,
        key_dim=32,
        value_dim=None,
        negative_eigenvalues=False,
        decay=False,
        kernel_size=1,
        previous_keys=False,
        holographic=False,
        residual=False,
        kernel_initializer="glorot_uniform",
        **kwargs,
    ):
        require_positive_integer("num_heads", num_heads)
        require_positive_integer("key_dim", key_dim)
        require_positive_integer("kernel_size", kernel_size)
        if value_dim is not None:
            require_positive_integer("value_dim", value_dim)
        super().__init__(kernel_initializer, **kwargs)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.negative_eigenvalues = negative_eigenvalues
        self.decay = decay
        self.kernel_size = kernel_size
        self.previous_keys = previous_keys
        self.holographic = holographic
        # A complex value is written in two steps: real part, then imaginary.
        self.parts = 2 if holographic else 1
        self.residual = residual

    def build(self, outputs_shape):
        k, heads = outputs_shape[-1], self.parts * self.num_heads
        values = self.value_dim or equal_parts(self, k, heads)
        keys = heads if self.holographic else heads * self.key_dim
        size = self.kernel_size + self.previous_keys
        self.recent = SlidingWindow(size, (k,), self.compute_dtype, True)
        self.query_kernel = self.add_kernel("query_kernel", (k, keys))
        self.key_kernel = self.add_kernel("key_kernel", (k, keys))
        self.value_kernel = self.add_kernel("value_kernel", (k, heads * values))
        self.context_kernel = self.add_kernel(
            "context_kernel", (heads * values, k)
        )
        if not self.residual:
            self.output_kernel = self.add_kernel("output_kernel", (k, k))
        self.rate_kernel = self.add_kernel("rate_kernel", (k, heads))
        self.rate_bias = self.add_weight((heads,), "zeros", name="rate_bias")
        if self.decay:
            self.decay_kernel = self.add_kernel(
                "decay_kernel", (k, self.num_heads)
            )
            # An association halves in 38 steps: sigmoid(4)^38 is about 0.5.
            self.decay_bias = self.add_weight(
                (self.num_heads,),
                keras.initializers.Constant(4.0),
                name="decay_bias",
            )
        if self.holographic:
            self.permutations = self.add_weight(
                (self.key_dim, self.num_heads),
                complex_vectors.permutations_from(seed=0),
                dtype="int32",
                trainable=False,
                name="permutations",
            )
        if self.kernel_size > 1:
            # At first, the convolution returns the last output unchanged.
            first = np.zeros((self.kernel_size, 3 * k))
            first[-1] = 1.0
            self.convolution = self.add_weight(
                first.shape,
                lambda shape, dtype: ops.convert_to_tensor(first, dtype),
                name="convolution",
            )

    def initial_state(self, batch_size):
        values = self.value_kernel.shape[1] // self.rate_kernel.shape[1]
        keys = self.parts * self.key_dim
        shape = (batch_size, self.num_heads, keys, values)
        state = {"associations": ops.zeros(shape, "float32")}
        if self.recent.slots:
            state["window"] = self.recent.initial_state(batch_size)["window"]
        return state

    @over_valid_steps
    def read(self, outputs, state, token_ids=None, mask=None):
        (queries, keys, values, *gates), new_state = self._projected(
            outputs, state, mask
        )
        context, new_state["associations"] = read_and_write(
            queries,
            keys,
            values,
            *gates,
            ops.cast(state["associations"], "float32"),
            self.parts,
        )
        shape = ops.shape(outputs)[:2]
        context = ops.reshape(context, (*shape, self.context_kernel.shape[0]))
        context = ops.cast(context, outputs.dtype)
        context = ops.matmul(context, self.context_kernel)
        if self.residual:
            outputs = outputs + context
        else:
            outputs = ops.tanh(
                context + ops.matmul(outputs, self.output_kernel)
            )
        return outputs, new_state, ops.zeros((*shape, 0), outputs.dtype)

    def read_weights(self, outputs):
        """Returns the weight that each read gives to each earlier value.

        Starting from an empty state, a read is a sum of values,
        `r_t = sum_i weights[t, i] v_i`. The weights depend on all queries, keys
        and rates, and can be negative. With `holographic`, each step counts as
        two steps, one for the real and one for the imaginary part.

        Args:
            outputs: float tensor `(B, T, k)`, without padding.

        Returns:
            Float32 tensor `(B, N, T, T)`, zero where step i is after step t.

        Example:

        >>> memory = memlm_keras.memory.DeltaRule(num_heads=2, key_dim=8)
        >>> outputs = np.ones((1, 5, 16), "float32")
        >>> _ = memory(outputs)
        >>> keras.ops.shape(memory.read_weights(outputs))
        (1, 2, 5, 5)
        """
        outputs = ops.convert_to_tensor(outputs, self.compute_dtype)
        state = self.initial_state(ops.shape(outputs)[0])
        (queries, keys, _, *gates), _ = self._projected(outputs, state)
        batch_size, time, _, size = ops.shape(keys)
        # The values are one-hot vectors, one for each step.
        steps = ops.broadcast_to(
            ops.eye(time)[None, :, None],
            (batch_size, time, self.num_heads, time),
        )
        empty = ops.zeros((batch_size, self.num_heads, size, time))
        weights, _ = read_and_write(
            queries, keys, steps, *gates, empty, self.parts
        )
        return ops.transpose(weights, (0, 2, 1, 3))

    def _projected(self, outputs, state, mask=None):
        """Computes queries, keys, values, rates and decays of each head. Also
        returns the new state, which contains the last outputs."""
        sources, new_state = self._sources(outputs, state, mask)
        queries, keys, values = (
            ops.matmul(source, kernel)
            for source, kernel in zip(
                sources, (self.query_kernel, self.key_kernel, self.value_kernel)
            )
        )
        rates = ops.matmul(outputs, self.rate_kernel) + self.rate_bias
        rates = ops.sigmoid(self._by_head(rates))
        if self.negative_eigenvalues:
            rates = 2.0 * rates
        decays = None
        if self.decay:
            decays = ops.matmul(outputs, self.decay_kernel) + self.decay_bias
            decays = ops.log_sigmoid(ops.cast(decays, "float32"))
            if self.holographic:
                # Decay once for each value: at the step of the real part.
                decays = ops.concatenate([decays, ops.zeros_like(decays)], -1)
            decays = self._by_head(decays)
        if mask is not None:
            # At masked steps, nothing is written and nothing decays.
            valid = ops.repeat(ops.cast(mask, "float32"), self.parts, axis=1)
            rates = rates * valid[..., None, None]
            if decays is not None:
                decays = decays * valid[..., None, None]
        queries, keys = map(self._as_keys, (queries, keys))
        return (queries, keys, self._by_head(values), rates, decays), new_state

    def _as_keys(self, vectors):
        """Returns unit vectors `(B, T, N, K)` or complex `(B, 2 T, N, 2 K)`."""
        if not self.holographic:
            return divide_by_length((self._by_head(vectors),), axis=-1)[0]
        pair = complex_vectors.split(ops.cast(vectors, "float32"))
        re, im = complex_vectors.permute(
            complex_vectors.normalize(pair, "unit"),
            complex_vectors.matrix_of(self.permutations, "float32"),
        )
        batch_size, time = ops.shape(vectors)[:2]
        keys = ops.concatenate([re, im, -im, re], axis=2)
        shape = (batch_size, 2 * time, 2 * self.key_dim, self.num_heads)
        return transposed(ops.reshape(keys, shape)) / self.key_dim**0.5

    def _sources(self, outputs, state, mask):
        """Returns the vectors from which queries, keys and values are computed,
        each `(B, T, k)`, and the new state, which contains the last outputs."""
        if not self.recent.slots:
            return (outputs, outputs, outputs), {}
        window = ops.cast(state["window"], outputs.dtype)
        extended = ops.concatenate([window, outputs], axis=1)
        new_state = {"window": self.recent.last(extended, mask)}
        recent = before = extended
        if self.previous_keys:
            recent, before = extended[:, 1:], extended[:, :-1]
        sources = recent, before, recent
        if self.kernel_size > 1:
            last = self.kernel_size - 1
            sources = [
                sum(
                    kernel[slot] * source[:, slot : (slot - last) or None]
                    for slot in range(self.kernel_size)
                )
                for source, kernel in zip(
                    sources, ops.split(self.convolution, 3, axis=-1)
                )
            ]
        return sources, new_state

    def _by_head(self, tensor):
        """Splits the last axis of `(B, T, P N n)` by part and head. Returns a
        float32 tensor `(B, P T, N, n)`. P is 2 for complex numbers, else 1."""
        size = tensor.shape[-1] // (self.parts * self.num_heads)
        batch_size, time = ops.shape(tensor)[:2]
        shape = (batch_size, self.parts * time, self.num_heads, size)
        return ops.cast(ops.reshape(tensor, shape), "float32")


def read_and_write(
    queries, keys, values, rates, decays, associations, writes=1
):
    """Writes by the delta rule and reads after each write, in chunks.

    Args:
        queries, keys: float32 tensors `(B, T, N, K)`.
        values: float32 tensor `(B, T, N, V)`.
        rates: float32 tensor `(B, T, N, 1)`, `beta`.
        decays: float32 tensor `(B, T, N, 1)`, `log(alpha)`; `None` for zeros.
        associations: float32 tensor `(B, N, K, V)`, before the first step.
        writes: integer, size of the groups of consecutive steps into which T
            steps are divided. All values of a group are written before any is
            read, and the keys of a group must be orthogonal.

    Returns:
        A tuple of the values read, `(B, T, N, V)`, and the new associations.
    """
    batch_size, time, heads, _ = ops.shape(queries)
    static = isinstance(time, int)
    if static and not time:
        return values, associations
    count, chunk = (time + _CHUNK - 1) // _CHUNK, _CHUNK
    if static:
        # Chunks of equal lengths need little padding at the end.
        chunk = writes * ((time // writes + count - 1) // count)
    whole = static and count == 1

    def in_chunks(tensor):
        if not whole:
            missing = count * chunk - time
            tensor = ops.pad(tensor, [[0, 0], [0, missing], [0, 0], [0, 0]])
        shape = (batch_size, count, chunk, heads, tensor.shape[-1])
        return ops.transpose(ops.reshape(tensor, shape), (1, 0, 3, 2, 4))

    queries, keys, values, rates = map(
        in_chunks, (queries, keys, values, rates)
    )
    # `left[t, i]` is the fraction of the write at step i that remains at step
    # t; `earlier` is `left` with zeros for writes in the group of step t.
    order = np.arange(chunk) // writes
    left = ops.convert_to_tensor(order[:, None] >= order, "float32")
    earlier = ops.convert_to_tensor(order[:, None] > order, "float32")
    # Multiply keys by rates: XLA would multiply `overlap` by them more slowly.
    rated = keys_left = rates * keys
    known, asked, of_state = keys, queries, []
    if decays is not None:
        sums = ops.cumsum(in_chunks(decays), axis=-2)
        # For writes after step t, `left` is 0 and the exponent is positive.
        # Clip the exponent: if `exp` overflowed, 0 times infinity would be NaN.
        left = left * ops.exp(ops.minimum(sums - transposed(sums), 0.0))
        earlier = left * earlier
        # Scale each key by the fraction of its write left at the chunk's end.
        keys_left = rated * transposed(left[..., -1:, :])
        # At step t, a fraction `exp(sums)` of earlier associations is left.
        of_state = [ops.exp(sums)]
        known, asked = of_state[0] * keys, of_state[0] * queries
    # Step t of a chunk adds `beta_t k_t d_t^T` to the associations. S are the
    # associations before the chunk, and d_t is v_t minus the value at key k_t:
    #     d_t = v_t - S^T k_t - sum_{i < t} beta_i (k_i . k_t) d_i
    overlap = earlier * ops.matmul(keys, transposed(rated))

    def write(changes, before, keys, left=None):
        """Returns associations after a chunk; `changes` are the d_t above."""
        if left is not None:
            before = left[..., -1:, :] * before
        return before + ops.matmul(transposed(keys), changes)

    if whole:
        before = associations[None]
        changes = values - ops.matmul(known, before)
        if chunk > writes:
            changes = solve(overlap, changes)
        associations = write(changes, before, keys_left, *of_state)[0]
    else:
        # The associations S before this chunk are not known yet. Since d_t is
        # linear in S, `d_t = part - factor S`: solve for `part` and `factor`.
        added = solve(overlap, ops.concatenate([values, known], axis=-1))
        # `ops.split` would fail in LiteRT for tensors of more than four axes.
        size = values.shape[-1]
        data = added[..., :size], added[..., size:], keys_left, *of_state

        def step(inputs, states):
            part, factor, *keys = inputs
            changes = part - ops.matmul(factor, states[0])
            return (states[0], changes), [write(changes, *states, *keys)]

        # Unroll short loops, since XLA copies a loop's inputs and results.
        if static and count <= 8:
            results = []
            for inputs in zip(*(ops.unstack(part, count) for part in data)):
                result, [associations] = step(inputs, [associations])
                results.append(result)
            before, changes = map(ops.stack, zip(*results))
        else:
            found = rnn(step, data, [associations], time_major=True)
            _, (before, changes), [associations] = found
    overlap = left * ops.matmul(queries, transposed(rated))
    context = ops.matmul(asked, before) + ops.matmul(overlap, changes)
    context = ops.transpose(context, (1, 0, 3, 2, 4))
    shape = (batch_size, count * chunk, heads, values.shape[-1])
    return ops.reshape(context, shape)[:, :time], associations


def solve(overlap, right):
    """Solves `(I + overlap) x = right`. The matrices of `overlap`,
    `(..., C, C)`, are strictly lower triangular."""

    def forward(overlap, right):
        # XLA on a CPU cannot multiply some matrices with many batch axes.
        inverted = inverse(ops.reshape(overlap, (-1, *overlap.shape[-2:])))
        inverted = ops.reshape(inverted, ops.shape(overlap))
        solved = ops.matmul(inverted, right)
        return solved, (inverted, solved)

    def backward(kept, upstream):
        inverted, solved = kept
        d_right = ops.matmul(transposed(inverted), upstream)
        return -ops.matmul(d_right, transposed(solved)), d_right

    return with_gradient(forward, backward)(overlap, right)


def inverse(overlap):
    """Inverts `I + overlap` for strictly lower triangular `(matrices, C, C)`.
    With the inverses A' and D' of both blocks on the diagonal, the inverse of
    `[[A, 0], [E, D]]` is `[[A', 0], [-D' E A', D']]`. A solver for triangular
    systems is faster than these matrix products, but the solver's gradient
    hangs in XLA on a CPU with two cores."""
    size = overlap.shape[-1]
    if size <= _BLOCK:
        return _inverse_of_block(overlap)
    half = (size + 1) // 2
    if size % 2:
        overlap = ops.pad(overlap, [[0, 0], [0, 1], [0, 1]])
    blocks = [overlap[:, :half, :half], overlap[:, half:, half:]]
    first, second = ops.split(inverse(ops.concatenate(blocks)), 2)
    corner = ops.matmul(second, ops.matmul(overlap[:, half:, :half], first))
    above = ops.concatenate([first, ops.zeros_like(first)], axis=-1)
    below = ops.concatenate([-corner, second], axis=-1)
    return ops.concatenate([above, below], axis=-2)[:, :size, :size]


def _inverse_of_block(overlap):
    """Inverts `I + overlap` like `inverse`, for up to `_BLOCK` rows. Masking
    whole matrices takes fewer tensor operations than joining blocks."""
    rows, columns = np.indices(overlap.shape[-2:])
    found, size = ops.eye(len(rows)), 1
    while size < len(rows):
        joined = rows // (2 * size) == columns // (2 * size)
        joined &= rows // size != columns // size
        corners = overlap * ops.convert_to_tensor(joined, overlap.dtype)
        if size > 1:
            corners = ops.matmul(found, ops.matmul(corners, found))
        found = found - corners
        size *= 2
    return found


def transposed(tensor):
    """Swaps the last two axes."""
    return ops.swapaxes(tensor, -1, -2)
