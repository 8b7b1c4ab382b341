"""The cells of Weissenborn (2016) with an associative memory.

"Neural Associative Memory for Dual-Sequence Modeling", Sections 3.2 and 4: any
cell with an associative memory. `associative_gru` has the gated recurrent unit.

Shapes below: B batch, H units of the memory, k units of the output, N_c copies.
"""

import keras
from keras import ops

from memlm_keras.cells import complex_vectors
from memlm_keras.cells.associative_cell import AssociativeCell
from memlm_keras.cells.associative_cell import require_source_key


@keras.saving.register_keras_serializable(package="memlm_keras")
class AssociativeMemoryCell(AssociativeCell):
    """Any recurrent cell whose state is in an associative memory (AM-RNN).

    With f the cell, `s = [c; n]` its state, `(x)` the complex product and
    `read` the mean over the copies (`memlm_keras.cells.complex_vectors`):

        r_t      = bound(W_r [x_t; h_{t-1}])                        (8)
        c_{t-1}  = read(conj(r_t), m_{t-1})                         (8)
        s_t, h_t = f([x_t; h_{t-1}], s_{t-1})                       (11)
        m_t      = m_{t-1} + r_t (x) (c_t - c_{t-1})                (12)

    The memory state c is the last state of the cell: all there is of a GRU or
    a simple RNN, the cell state of an LSTM. The remainder n, such as the
    output of an LSTM, passes by the memory (Section 3.2).

    `AssociativeGRUCell` is the paper's own, with all its inputs projected
    outside the time loop; here those of the key are.

    | equations | weight | shape |
    |---|---|---|
    | rows of `x_t` in `W_r` | `kernel` | `(input_dim, H)` |
    | rows of `h_{t-1}` in `W_r` | `recurrent_kernel` | `(k, H)` |
    | `P_1 ... P_{N_c}` | `permutations` | `(N_c, H / 2)` int32, not trained |

    Args:
        cell: a Keras cell, such as `keras.layers.LSTMCell`.
        num_copies: integer, redundant copies of the memory, N_c.
        seed: integer, from which the permutations of the keys follow.
        kernel_initializer: initializer of `W_r`.
        key: `"bound"`, as above, or `"unit"`, numbers of modulus one.
        **kwargs: arguments of `keras.layers.Layer`; the dtype is the cell's.

    Call arguments:
        inputs: float tensor `(B, input_dim)`.
        states: list of `h_{t-1}`, `(B, k)`, the flat memory, `(B, N_c H)`, and
            the states of the remainder.
        training: optional bool, handed to the cell.

    Returns:
        A tuple of `h_t`, `(B, k)`, and the list of new states.

    Raises:
        ValueError: if the last state of the cell has an odd size, `num_copies`
            is not a positive integer, the cell is built for other inputs, or
            for another `key`.

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
        *remainder, memory_units = keras.tree.flatten(cell.state_size)
        super().__init__(
            memory_units,
            cell.output_size,
            num_copies,
            seed,
            kernel_initializer,
            key,
            **{"dtype": cell.dtype_policy, **kwargs},
        )
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
        self._build_cell(input_dim + k + source)

    def _build_cell(self, input_dim):
        if not self.cell.built:
            self.cell.build((None, input_dim))
        shape = self.cell.get_build_config()["input_shape"]
        if shape[-1] != input_dim:
            raise ValueError(
                f"`cell` must read inputs of {input_dim} numbers: inputs, "
                "outputs and what is read of a source. Received: a cell that "
                f"is built for {shape[-1]}"
            )

    def project_inputs(self, inputs):
        """Projects the inputs of any number of steps at once.

        Args:
            inputs: float tensor `(..., input_dim)`.

        Returns:
            Float tensor `(..., projected units)`: keys, and the inputs.
        """
        keys = ops.matmul(inputs, self.kernel)
        return ops.concatenate([keys, ops.cast(inputs, keys.dtype)], axis=-1)

    def trace(self, projected, states, training=None, shared=None):
        """One step, see `AssociativeCell.trace`."""
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
            training=training,
        )
        *remainder, state = keras.tree.flatten(new)
        written = state - value
        memory = complex_vectors.write(
            keys, complex_vectors.split(written), memories[0]
        )
        new_states = [output, self.flat(memory), *remainder]
        new_states += states[len(new_states) :]
        # The first permutation changes nothing.
        key = complex_vectors.join([part[:, 0] for part in keys])
        return output, new_states, self.traced(key, values, state, written)

    def get_config(self):
        return {
            **super().get_config(),
            "cell": keras.saving.serialize_keras_object(self.cell),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        cell = keras.saving.deserialize_keras_object(
            config["cell"], custom_objects=custom_objects
        )
        return cls(**{**config, "cell": cell})


@keras.saving.register_keras_serializable(package="memlm_keras")
class DualAssociativeMemoryCell(AssociativeMemoryCell):
    """`AssociativeMemoryCell` that reads the memory of a source as well.

    Dual AM-RNN. With `m^x` the final memory of the source sequence, which is
    read and never written:

        r'_t     = bound(W_r' [y_t; h_{t-1}])                       (13)
        phi_t    = read(conj(r'_t), m^x)                            (13)
        s_t, h_t = f([y_t; h_{t-1}; phi_t], s_{t-1})                (13)

    and all else as before. Separate keys have `H` more columns in `kernel` and
    `recurrent_kernel`, behind those of `r_t`.

    Args:
        cell, num_copies, seed, kernel_initializer, key: as of
            `AssociativeMemoryCell`. Source and target must agree in the units
            of the memory, `num_copies`, `seed` and `key`.
        source_key: `"shared"` or `"separate"`, whether `r'_t` is `r_t`.
        **kwargs: arguments of `keras.layers.Layer`; the dtype is the cell's.

    Call arguments:
        inputs: float tensor `(B, input_dim)`.
        states: as of `AssociativeMemoryCell`, and behind them the source's flat
            memory, `(B, N_c H)`, which stays as it is. A sequence is given it
            in its initial state; zeros stand for none.
        training: optional bool, handed to the cell.

    Returns:
        A tuple of `h_t`, `(B, k)`, and the list of new states.

    Raises:
        ValueError: as of `AssociativeMemoryCell`, and for another `source_key`.

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
        require_source_key(source_key)
        super().__init__(
            cell, num_copies, seed, kernel_initializer, key, **kwargs
        )
        self.source_key = source_key
