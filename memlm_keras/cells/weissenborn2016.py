"""The cells of Weissenborn (2016) with an associative memory.

"Neural Associative Memory for Dual-Sequence Modeling", Sections 3.2, 4 and 5.2:
a gated recurrent unit, a wrapper for any other cell, and versions of both that
read the memory of a source sequence. `complex_vectors` implements the
operations of the memory, and `associative_backward` the backward pass of the
gated recurrent unit.

Shapes use B (batch), H (memory units), k (output units) and N_c (copies).
"""

import keras
from keras import ops

from memlm_keras.arguments import deserialize
from memlm_keras.arguments import require_one_of
from memlm_keras.arguments import require_positive_integer
from memlm_keras.cells import associative_backward
from memlm_keras.cells import complex_vectors
from memlm_keras.cells.projected_rnn import ProjectedCell
from memlm_keras.kernels import DistinctKernels

SOURCE_KEYS = ("shared", "separate")


class AssociativeCell(DistinctKernels, ProjectedCell):
    """Base class of cells that store their state in an associative memory.

    The states are flat: the last output, `(B, k)`; the memory, `(B, N_c H)`;
    the other states of the cell, if any; and, with a `source_key`, the memory
    of a source sequence, `(B, N_c H)`, which is never written.

    The permutations of the keys are non-trainable weights. Cells with equal
    `seed`, memory units and `num_copies` have equal permutations.
    """

    # A read returns a stored value times |r|^2, so a key r must not be small.
    # Small embeddings make small keys. Below an associative cell, models draw
    # initial embeddings from U(-0.5, 0.5), like the range of GloVe's vectors.
    embedding_range = 0.5
    # The key with which the cell reads the memory of a source: "shared" for the
    # key of its own memory, "separate" for a second key, `None` for no source.
    source_key = None
    # Sizes of the states other than the output and the associative memory.
    remainder = ()

    def __init__(self, num_copies, seed, kernel_initializer, key, **kwargs):
        require_positive_integer("num_copies", num_copies)
        require_one_of("key", key, complex_vectors.KEYS)
        super().__init__(kernel_initializer, **kwargs)
        self.num_copies = num_copies
        self.seed = seed
        self.key = key

    def set_sizes(self, memory_units, output_units):
        """Sets the number of units of the memory and of the output."""
        if memory_units % 2:
            raise ValueError(
                f"The memory `units` of {type(self).__name__} must be even, "
                "since two real numbers form a complex number. Received: "
                f"units={memory_units}"
            )
        self.memory_units = memory_units
        self.output_size = output_units

    @property
    def state_size(self):
        """List of the sizes of the states."""
        flat = self.num_copies * self.memory_units
        # The output is the first state, which Keras returns at masked steps.
        sizes = [self.output_size, flat, *self.remainder]
        return sizes if self.source_key is None else [*sizes, flat]

    @property
    def reads_source(self):
        """Whether the cell reads the memory of a source."""
        return self.source_key is not None

    @property
    def memory_identity(self):
        """Settings that must agree if a cell reads another's memory."""
        return {
            "memory_units": self.memory_units,
            "num_copies": self.num_copies,
            "seed": self.seed,
            "key": self.key,
        }

    def states_after_source(self, states):
        """Returns a target's initial states: zeros and the source's memory."""
        empty = [ops.zeros_like(state) for state in states]
        return [*empty[: len(self.state_size) - 1], states[1]]

    @property
    def num_keys(self):
        """Number of keys that a step computes."""
        return 2 if self.source_key == "separate" else 1

    def build(self, inputs_shape):
        self.permutations = self.add_weight(
            name="permutations",
            shape=(self.num_copies, self.memory_units // 2),
            initializer=complex_vectors.permutations_from(self.seed),
            dtype="int32",
            trainable=False,
        )

    def copies(self, memory):
        """Splits a memory `(B, N_c H)` into a pair of `(B, N_c, H / 2)`."""
        shape = (-1, self.num_copies, 2, self.memory_units // 2)
        parts = ops.reshape(memory, shape)
        return parts[:, :, 0], parts[:, :, 1]

    def flat(self, memory):
        """Inverts `copies`."""
        return ops.reshape(
            ops.stack(memory, axis=2), (-1, self.num_copies * self.memory_units)
        )

    def read_all(self, projected_keys, memories, permute, axis=-1):
        """Reads `memories` with keys computed from `projected_keys`. `permute`
        computes the N_c copies of a key. Returns the copies of the first key,
        as real and imaginary parts `(B, N_c, H / 2)`, and a list of the values
        `(B, H)` read from the memories. With `axis=0`, all tensors have their
        axes in reverse order, such as `(H, B)`."""
        keys = [
            permute(self.as_key(complex_vectors.split(projected, axis)))
            for projected in ops.split(projected_keys, self.num_keys, axis=axis)
        ]
        # A shared key is both `keys[0]` and `keys[-1]`.
        values = [
            complex_vectors.join(complex_vectors.read(key, memory), axis)
            for key, memory in zip([keys[0], keys[-1]], memories)
        ]
        return keys[0], values

    def as_key(self, vector):
        """Computes a key, r of Equation 8, from a pair of `(..., H / 2)`."""
        return complex_vectors.normalize(vector, self.key)

    def memories(self, states):
        """Returns a list of pairs made by `copies`: from the cell's own memory
        and, with a source, from the source's memory."""
        flat = [states[1]]
        if self.source_key is not None:
            flat.append(states[-1])
        return [self.copies(memory) for memory in flat]

    def step(self, projected, states):
        """Returns the output and the new states of one step."""
        return self.step_function()(projected, states)

    def step_function(self):
        """Returns a function like `step` for a loop: the tensors that all steps
        share are computed only once, by `shared_by_steps`."""
        shared = self.shared_by_steps()

        def step(projected, states):
            output, states, _ = self.trace(projected, states, shared=shared)
            return output, states

        return step

    def shared_by_steps(self):
        """Computes the matrix that permutes keys."""
        return complex_vectors.matrix_of(self.permutations, self.compute_dtype)

    def trace(self, projected, states, shared=None):
        """Computes one step; `shared` is a result of `shared_by_steps`. Returns
        the output, the list of new states, and a dict of tensors `(B, H)`: the
        `"key"`, the value `"read"` from the memory, the new `"state"`, the
        change `"written"` to the memory and, with a source, the value read from
        the source's memory, `"source"`."""

    def traced(self, key, values, state, written):
        """Returns the dict of tensors that `trace` returns."""
        read = dict(zip(("read", "source"), values))
        return {"key": key, **read, "state": state, "written": written}


@keras.saving.register_keras_serializable(package="memlm_keras")
class AssociativeGRUCell(AssociativeCell):
    """Gated recurrent unit with its state in an associative memory (AM-GRU).

    `(x)` is the element-wise complex product, `read` the mean over the copies
    of the memory, and `bound` limits moduli to one (see `complex_vectors`):

        r_t     = bound(W_r [x_t; h_{t-1}])                         (8)
        s_{t-1} = read(conj(r_t), m_{t-1})                          (8)
        u_t, g_t = sigm(W [x_t; h_{t-1}; s_{t-1}] + b)
        c_t     = tanh(W' [x_t; h_{t-1}; g_t * s_{t-1}] + b')
        s_t     = s_{t-1} + u_t * (c_t - s_{t-1}),  h_t = s_t       (11)
        m_t     = m_{t-1} + r_t (x) (s_t - s_{t-1})                 (12)

    The gates follow the paper's code: `u` multiplies the candidate, and initial
    biases are 1 for gates and 0 for the candidate. A comment there calls `u`
    "not update", which implies a bias of -1: with `update_bias=-1`, `u` starts
    near `sigm(-1) = 0.27`, so that updates are small at first.

    Equation 12 is a delta rule (docs/papers/weissenborn2016.md). Reading a
    value that was written once multiplies each element by `|r_t|^2`; with
    `key="unit"`, the value does not change.

    | equations | weight | shape |
    |---|---|---|
    | rows of `x_t` in `W_r`, `W`, `W'` | `kernel` | `(input_dim, 4 H)` |
    | rows of `h_{t-1}` in the same | `recurrent_kernel` | `(H, 4 H)` |
    | rows of `s_{t-1}` in `W`, `W'` | `memory_kernel` | `(H, 3 H)` |
    | `b`, `b'` | `bias` | `(3 H,)` |
    | `P_1 ... P_{N_c}` | `permutations` | `(N_c, H / 2)` int32, not trained |

    Columns are in the order key (not in `memory_kernel`), `u`, `g`, `c`.

    Args:
        units: integer, H, even.
        num_copies: integer, number of redundant copies of the memory, N_c.
        seed: integer, seed of the permutations of the keys.
        kernel_initializer: initializer of all matrices.
        key: `"bound"` limits the modulus of each complex number of a key to
            one, and `"unit"` sets it to one. Numbers near zero then have large
            gradients, so trainings on two backends soon differ.
        update_bias: float, initial value of the bias of `u`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(B, input_dim)`.
        states: list of `h_{t-1}`, `(B, H)`, and the flat memory, `(B, N_c H)`.

    Returns:
        A tuple of `h_t`, `(B, H)`, and the list of new states.

    Raises:
        ValueError: if `units` or `num_copies` is not a positive integer,
            `units` is odd, or the `key` is unknown.

    Example:

    >>> layer = memlm_keras.cells.ProjectedRNN(
    ...     memlm_keras.cells.AssociativeGRUCell(16, num_copies=8),
    ...     return_sequences=True,
    ... )
    >>> keras.ops.shape(layer(np.ones((2, 7, 5), "float32")))
    (2, 7, 16)
    """

    def __init__(
        self,
        units,
        num_copies=8,
        seed=0,
        kernel_initializer="glorot_uniform",
        key="bound",
        update_bias=1.0,
        **kwargs,
    ):
        require_positive_integer("units", units)
        super().__init__(num_copies, seed, kernel_initializer, key, **kwargs)
        self.set_sizes(units, units)
        self.units = units
        self.update_bias = update_bias

    def build(self, inputs_shape):
        super().build(inputs_shape)
        h = self.units
        columns = (self.num_keys + 3) * h
        add = self.add_kernel
        self.kernel = add("kernel", (inputs_shape[-1], columns))
        self.recurrent_kernel = add("recurrent_kernel", (h, columns))
        self.memory_kernel = add("memory_kernel", (h, 3 * h))
        if self.source_key is not None:
            self.source_kernel = add("source_kernel", (h, 3 * h))
        self.bias = self.add_bias([self.update_bias, 1.0, 0.0], h)

    def project_inputs(self, inputs):
        """Projects inputs `(..., input_dim)` to `(..., projected units)`."""
        return ops.matmul(inputs, self.kernel)

    def shared_by_steps(self):
        """Returns permutations `(H / 2, N_c)` and the weights."""
        # Slicing in the loop would copy the weights at each step.
        weights = [
            self.recurrent_kernel,
            self.memory_kernel[:, : 2 * self.units],
            self.memory_kernel[:, 2 * self.units :],
            self.bias[None],
        ]
        if self.source_key is not None:
            weights.append(self.source_kernel)
        return ops.transpose(self.permutations), [
            ops.cast(weight, self.compute_dtype) for weight in weights
        ]

    def advance(
        self, projected, hidden, memories, positions, weights, mask=None
    ):
        """Computes one step; the batch is the last axis of memories, so that a
        permutation moves whole rows.

        Returns the new memory, a pair `(H / 2, N_c, B)`, and a list of tensors
        `(B, ...)`: `h_t`, projected keys, update and reset gates in one tensor,
        candidate, change written, and the value read from each memory.
        """
        h = self.units
        of_hidden, of_value, of_reset_value, bias, *of_source = weights
        projected = projected + hidden @ of_hidden
        split = self.num_keys * h
        keys, values = self.read_all(
            ops.transpose(projected[:, :split]),
            memories,
            lambda key: complex_vectors.look_up(key, positions),
            axis=0,
        )
        value, *source = values = [ops.transpose(value) for value in values]
        gates = projected[:, split:] + bias
        for read, kernel in zip(source, of_source):
            gates = gates + read @ kernel
        both = ops.sigmoid(gates[:, : 2 * h] + value @ of_value)
        update, reset = both[:, :h], both[:, h:]
        candidate = ops.tanh(
            gates[:, 2 * h :] + (reset * value) @ of_reset_value
        )
        written = update * (candidate - value)
        output = value + written
        if mask is not None:
            written = ops.where(mask, written, ops.zeros_like(written))
            output = ops.where(mask, output, hidden)
        columns = complex_vectors.split(ops.transpose(written), 0)
        memory = complex_vectors.write(keys, columns, memories[0])
        return memory, [
            output,
            projected[:, :split],
            both,
            candidate,
            written,
            *values,
        ]

    def trace(self, projected, states, shared=None):
        if shared is None:
            shared = self.shared_by_steps()
        reverse_axes = complex_vectors.reverse_axes
        memories = [reverse_axes(memory) for memory in self.memories(states)]
        memory, kept = self.advance(projected, states[0], memories, *shared)
        output, keys, _, _, written, *values = kept
        key = self.as_key(complex_vectors.split(keys[:, : self.units]))
        key = complex_vectors.join(key)
        new_states = [output, self.flat(reverse_axes(memory)), *states[2:]]
        return output, new_states, self.traced(key, values, output, written)

    @property
    def has_own_gradient(self):
        """Whether `run` computes what a loop over `step` computes: true unless
        a subclass overrides `advance`, `trace` or `step`."""
        return all(
            getattr(type(self), name) is getattr(AssociativeGRUCell, name)
            for name in ("advance", "trace", "step")
        )

    def run(self, projected, states, mask=None):
        """Runs all steps of a sequence with a hand-written backward pass."""
        outputs, states = associative_backward.run(
            self, projected, states, mask
        )
        if mask is not None and keras.backend.backend() != "jax":
            # At masked steps before the first valid step, Keras returns the
            # initial state on JAX, and zeros on other backends.
            begun = ops.cumsum(ops.cast(mask, "int32"), axis=1)[..., None] > 0
            outputs = ops.where(begun, outputs, ops.zeros_like(outputs))
        return outputs, states


@keras.saving.register_keras_serializable(package="memlm_keras")
class DualAssociativeGRUCell(AssociativeGRUCell):
    """An `AssociativeGRUCell` that also reads the memory of a source.

    The paper calls the cell Dual AM-GRU. `y_t` is an input of the target, and
    `m^x`, the memory after the last step of the source, is only read:

        r'_t  = bound(W_r' [y_t; h_{t-1}])                          (13)
        phi_t = read(conj(r'_t), m^x)                               (13)
        u_t, g_t = sigm(W [y_t; h_{t-1}; s_{t-1}] + V phi_t + b)
        c_t   = tanh(W' [y_t; h_{t-1}; g_t * s_{t-1}] + V' phi_t + b')

    The other equations are those of `AssociativeGRUCell`. `phi_t` has its own
    matrices and no biases. With an empty source memory, the cell equals an
    `AssociativeGRUCell`, so one cell can read both sequences. In the paper's
    experiments, `r'_t` is `r_t` (Section 5.1).

    An additional weight, `source_kernel` `(H, 3 H)`, contains the matrices `V`
    and `V'` of the value read from the source. Separate keys add `H` columns to
    `kernel` and `recurrent_kernel`, after the columns of `r_t`.

    Args:
        units, num_copies, seed, kernel_initializer, key, update_bias: see
            `AssociativeGRUCell`. The cells of source and target must have equal
            `units`, `num_copies`, `seed` and `key`.
        source_key: `"shared"` to read the source's memory with `r_t`, or
            `"separate"` to compute a second key, `r'_t`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments and results are as for `AssociativeGRUCell`, with a third
    state that no step changes: the final memory of the source, `(B, N_c H)`.
    Pass this state in `initial_state`; its default is zeros, for no source.

    Raises:
        ValueError: as `AssociativeGRUCell`, and if `source_key` is unknown.

    Example:

    >>> cell = memlm_keras.cells.DualAssociativeGRUCell(16)
    >>> layer = memlm_keras.cells.ProjectedRNN(cell, return_state=True)
    >>> _, _, memory, _ = layer(np.ones((2, 7, 5), "float32"))
    >>> output, empty, _ = layer.get_initial_state(2)
    >>> read = layer(
    ...     np.ones((2, 4, 5), "float32"), initial_state=[output, empty, memory]
    ... )
    >>> keras.ops.shape(read[0])
    (2, 16)
    """

    def __init__(
        self,
        units,
        num_copies=8,
        seed=0,
        kernel_initializer="glorot_uniform",
        source_key="shared",
        key="bound",
        update_bias=1.0,
        **kwargs,
    ):
        require_one_of("source_key", source_key, SOURCE_KEYS)
        super().__init__(
            units,
            num_copies,
            seed,
            kernel_initializer,
            key,
            update_bias,
            **kwargs,
        )
        self.source_key = source_key


@keras.saving.register_keras_serializable(package="memlm_keras")
class AssociativeMemoryCell(AssociativeCell):
    """Puts the state of any recurrent cell in an associative memory (AM-RNN).

    f is the wrapped cell, and `s = [c; n]` its state; `bound`, `read`, `(x)`
    are as in `AssociativeGRUCell`:

        r_t      = bound(W_r [x_t; h_{t-1}])                        (8)
        c_{t-1}  = read(conj(r_t), m_{t-1})                         (8)
        s_t, h_t = f([x_t; h_{t-1}], s_{t-1})                       (11)
        m_t      = m_{t-1} + r_t (x) (c_t - c_{t-1})                (12)

    The memory stores c, the last in the cell's list of states: the only state
    of a GRU or a simple RNN, or the cell state of an LSTM. The memory does not
    store n, the other states, such as the output of an LSTM (Section 3.2).

    Before the loop over time, this cell projects the inputs only to keys;
    `AssociativeGRUCell`, the paper's own cell, computes all input projections.

    | equations | weight | shape |
    |---|---|---|
    | rows of `x_t` in `W_r` | `kernel` | `(input_dim, H)` |
    | rows of `h_{t-1}` in `W_r` | `recurrent_kernel` | `(k, H)` |
    | `P_1 ... P_{N_c}` | `permutations` | `(N_c, H / 2)` int32, not trained |

    Args:
        cell: a Keras cell, such as `keras.layers.LSTMCell`.
        num_copies, seed, key: see `AssociativeGRUCell`.
        kernel_initializer: initializer of `W_r`.
        **kwargs: arguments of `keras.layers.Layer`; the dtype is the cell's.

    Call arguments:
        inputs: float tensor `(B, input_dim)`.
        states: list of `h_{t-1}`, `(B, k)`, the flat memory, `(B, N_c H)`, and
            n, the wrapped cell's other states.

    Returns:
        A tuple of `h_t`, `(B, k)`, and the list of new states.

    Raises:
        ValueError: if the last state of `cell` has an odd size, if `cell` has
            dropout or zoneout, or is already built for inputs of another size,
            if `num_copies` is not a positive integer, or if `key` is unknown.

    Example:

    >>> cell = memlm_keras.cells.AssociativeMemoryCell(
    ...     keras.layers.LSTMCell(16), num_copies=8
    ... )
    >>> layer = memlm_keras.cells.ProjectedRNN(cell)
    >>> keras.ops.shape(layer(np.ones((2, 7, 5), "float32")))
    (2, 16)
    """

    def __init__(
        self,
        cell,
        num_copies=8,
        seed=0,
        kernel_initializer="glorot_uniform",
        key="bound",
        **kwargs,
    ):
        noise = ("dropout", "recurrent_dropout", "is_noisy")
        if any(getattr(cell, name, False) for name in noise):
            raise ValueError(
                "`cell` must have no dropout or zoneout, since no layer draws "
                f"its masks; use a dropout layer. Received: cell={cell!r}"
            )
        dtype = {"dtype": cell.dtype_policy, **kwargs}
        super().__init__(num_copies, seed, kernel_initializer, key, **dtype)
        *remainder, memory_units = keras.tree.flatten(cell.state_size)
        self.set_sizes(memory_units, cell.output_size)
        self.cell = cell
        self.remainder = tuple(remainder)

    def build(self, inputs_shape):
        super().build(inputs_shape)
        columns = self.num_keys * self.memory_units
        input_dim, k = inputs_shape[-1], self.output_size
        self.kernel = self.add_kernel("kernel", (input_dim, columns))
        self.recurrent_kernel = self.add_kernel(
            "recurrent_kernel", (k, columns)
        )
        source = 0 if self.source_key is None else self.memory_units
        input_dim += k + source
        if not self.cell.built:
            self.cell.build((None, input_dim))
        shape = self.cell.get_build_config()["input_shape"]
        if shape[-1] != input_dim:
            raise ValueError(
                f"`cell` must read inputs of size {input_dim}, the total size "
                "of inputs, outputs and any value read from a source. "
                f"Received: a cell built for size {shape[-1]}"
            )

    def project_inputs(self, inputs):
        """Returns the projected keys and the inputs, concatenated."""
        keys = ops.matmul(inputs, self.kernel)
        return ops.concatenate([keys, ops.cast(inputs, keys.dtype)], axis=-1)

    def trace(self, projected, states, shared=None):
        if shared is None:
            shared = self.shared_by_steps()
        columns = self.num_keys * self.memory_units
        output = states[0]
        memories = self.memories(states)
        keys, values = self.read_all(
            projected[:, :columns] + ops.matmul(output, self.recurrent_kernel),
            memories,
            lambda key: complex_vectors.permute(key, shared),
        )
        value, *source = values
        remainder = states[2 : 2 + len(self.remainder)]
        output, new = self.cell(
            ops.concatenate([projected[:, columns:], output, *source], axis=-1),
            [*remainder, value],
        )
        *remainder, state = keras.tree.flatten(new)
        written = state - value
        memory = complex_vectors.write(
            keys, complex_vectors.split(written), memories[0]
        )
        new_states = [output, self.flat(memory), *remainder]
        new_states += states[len(new_states) :]
        # The first permutation is the identity.
        key = complex_vectors.join([part[:, 0] for part in keys])
        return output, new_states, self.traced(key, values, state, written)

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**deserialize(config, custom_objects))


@keras.saving.register_keras_serializable(package="memlm_keras")
class DualAssociativeMemoryCell(AssociativeMemoryCell):
    """An `AssociativeMemoryCell` that also reads the memory of a source.

    The paper calls the cell Dual AM-RNN. `y_t` is an input of the target, and
    `m^x`, the memory after the last step of the source, is only read:

        r'_t     = bound(W_r' [y_t; h_{t-1}])                       (13)
        phi_t    = read(conj(r'_t), m^x)                            (13)
        s_t, h_t = f([y_t; h_{t-1}; phi_t], s_{t-1})                (13)

    The other equations are those of `AssociativeMemoryCell`. Separate keys add
    `H` columns to `kernel` and `recurrent_kernel`, after the columns of `r_t`.

    Args:
        cell, num_copies, seed, kernel_initializer, key: see
            `AssociativeMemoryCell`. The cells of source and target must have
            equal memory units, `num_copies`, `seed` and `key`.
        source_key: `"shared"` to read the source's memory with `r_t`, or
            `"separate"` to compute a second key, `r'_t`.
        **kwargs: arguments of `keras.layers.Layer`; the dtype is the cell's.

    Call arguments and results are as for `AssociativeMemoryCell`, with one more
    state, which does not change: the source's flat memory, `(B, N_c H)`, passed
    as an initial state, or zeros without a source.

    Raises:
        ValueError: as `AssociativeMemoryCell`, and if `source_key` is unknown.

    Example:

    >>> cell = memlm_keras.cells.DualAssociativeMemoryCell(
    ...     keras.layers.GRUCell(16), source_key="separate"
    ... )
    >>> layer = memlm_keras.cells.ProjectedRNN(cell)
    >>> source = np.ones((2, 8 * 16), "float32")
    >>> output, empty, _ = layer.get_initial_state(2)
    >>> outputs = layer(
    ...     np.ones((2, 4, 5), "float32"), initial_state=[output, empty, source]
    ... )
    >>> keras.ops.shape(outputs)
    (2, 16)
    """

    def __init__(
        self,
        cell,
        num_copies=8,
        seed=0,
        kernel_initializer="glorot_uniform",
        source_key="shared",
        key="bound",
        **kwargs,
    ):
        require_one_of("source_key", source_key, SOURCE_KEYS)
        super().__init__(
            cell, num_copies, seed, kernel_initializer, key, **kwargs
        )
        self.source_key = source_key
