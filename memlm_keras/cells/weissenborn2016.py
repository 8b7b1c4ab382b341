"""The cells of Weissenborn (2016) with an associative memory.

"Neural Associative Memory for Dual-Sequence Modeling", Sections 3.2, 4 and 5.2:
any cell with an associative memory, and the gated recurrent unit.

Shapes below: B batch, H units of the memory, k units of the output, N_c copies.
"""

import keras
from keras import ops

from memlm_keras.arguments import require_positive_integer
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
            is not a positive integer, or the cell is built for other inputs.

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
        **kwargs,
    ):
        *remainder, memory_units = keras.tree.flatten(cell.state_size)
        super().__init__(
            memory_units,
            cell.output_size,
            num_copies,
            seed,
            kernel_initializer,
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

    def trace(self, projected, states, training=None):
        """One step, see `AssociativeCell.trace`."""
        columns = self.num_keys * self.memory_units
        output = states[0]
        keys, value, source = self.read_all(
            projected[:, :columns] + ops.matmul(output, self.recurrent_kernel),
            states,
        )
        inputs = [projected[:, columns:], output]
        if source is not None:
            inputs.append(source)
        remainder = states[2 : 2 + len(self.remainder)]
        output, new = self.cell(
            ops.concatenate(inputs, axis=-1),
            [*remainder, value],
            training=training,
        )
        *remainder, state = keras.tree.flatten(new)
        written = state - value
        new_states = [output, self.written(keys, written, states), *remainder]
        if source is not None:
            new_states.append(states[-1])
        traced = self.traced(keys, value, source, state, written)
        return output, new_states, traced

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
        cell, num_copies, seed, kernel_initializer: as of
            `AssociativeMemoryCell`. Source and target must agree in the units
            of the memory, `num_copies` and `seed`.
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
        **kwargs,
    ):
        require_source_key(source_key)
        super().__init__(cell, num_copies, seed, kernel_initializer, **kwargs)
        self.source_key = source_key


@keras.saving.register_keras_serializable(package="memlm_keras")
class AssociativeGRUCell(AssociativeCell):
    """Gated recurrent unit whose state is in an associative memory (AM-GRU).

    With `(x)` the complex product and `read` the mean over the copies
    (`memlm_keras.cells.complex_vectors`):

        r_t     = bound(W_r [x_t; h_{t-1}])                         (8)
        s_{t-1} = read(conj(r_t), m_{t-1})                          (8)
        u_t, g_t = sigm(W [x_t; h_{t-1}; s_{t-1}] + b)
        c_t     = tanh(W' [x_t; h_{t-1}; g_t * s_{t-1}] + b')
        s_t     = s_{t-1} + u_t * (c_t - s_{t-1}),  h_t = s_t       (11)
        m_t     = m_{t-1} + r_t (x) (s_t - s_{t-1})                 (12)

    The gates are those of the paper's code: `u` multiplies the candidate, and
    the biases of the gates begin at one, those of the candidate at zero.

    | equations | weight | shape |
    |---|---|---|
    | rows of `x_t` in `W_r`, `W`, `W'` | `kernel` | `(input_dim, 4 H)` |
    | rows of `h_{t-1}` in the same | `recurrent_kernel` | `(H, 4 H)` |
    | rows of `s_{t-1}` in `W`, `W'` | `memory_kernel` | `(H, 3 H)` |
    | `b`, `b'` | `bias` | `(3 H,)` |
    | `P_1 ... P_{N_c}` | `permutations` | `(N_c, H / 2)` int32, not trained |

    Columns are those of the key, `u`, `g` and `c`, in this order.

    Args:
        units: integer, H, even.
        num_copies: integer, redundant copies of the memory, N_c.
        seed: integer, from which the permutations of the keys follow.
        kernel_initializer: initializer of all matrices.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(B, input_dim)`.
        states: list of `h_{t-1}`, `(B, H)`, and the flat memory, `(B, N_c H)`.
        training: not used.

    Returns:
        A tuple of `h_t`, `(B, H)`, and the list of new states.

    Raises:
        ValueError: if `units` or `num_copies` is not a positive integer, or
            `units` is odd.

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
        **kwargs,
    ):
        require_positive_integer("units", units)
        super().__init__(
            units, units, num_copies, seed, kernel_initializer, **kwargs
        )
        self.units = units

    def build(self, inputs_shape):
        super().build(inputs_shape)
        h = self.units
        columns = (self.num_keys + 3) * h
        self.kernel = self.add_kernel("kernel", (inputs_shape[-1], columns))
        self.recurrent_kernel = self.add_kernel(
            "recurrent_kernel", (h, columns)
        )
        self.memory_kernel = self.add_kernel("memory_kernel", (h, 3 * h))
        if self.source_key is not None:
            self.source_kernel = self.add_kernel("source_kernel", (h, 3 * h))
        self.bias = self.add_weight(
            name="bias", shape=(3 * h,), initializer=_ones_for_gates
        )

    def project_inputs(self, inputs):
        """Projects the inputs of any number of steps at once.

        Args:
            inputs: float tensor `(..., input_dim)`.

        Returns:
            Float tensor `(..., projected units)`.
        """
        return ops.matmul(inputs, self.kernel)

    def trace(self, projected, states, training=None):
        """One step, see `AssociativeCell.trace`."""
        h = self.units
        projected = projected + ops.matmul(states[0], self.recurrent_kernel)
        split = self.num_keys * h
        keys, value, source = self.read_all(projected[:, :split], states)
        gates = projected[:, split:] + self.bias
        if source is not None:
            gates = gates + ops.matmul(source, self.source_kernel)
        both = gates[:, : 2 * h] + ops.matmul(
            value, self.memory_kernel[:, : 2 * h]
        )
        update, reset = ops.split(ops.sigmoid(both), 2, axis=-1)
        candidate = ops.tanh(
            gates[:, 2 * h :]
            + ops.matmul(reset * value, self.memory_kernel[:, 2 * h :])
        )
        written = update * (candidate - value)
        output = value + written
        new_states = [
            output,
            self.written(keys, written, states),
            *states[2:],
        ]
        traced = self.traced(keys, value, source, output, written)
        return output, new_states, traced

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@keras.saving.register_keras_serializable(package="memlm_keras")
class DualAssociativeGRUCell(AssociativeGRUCell):
    """`AssociativeGRUCell` that reads the memory of a source sequence as well.

    Dual AM-GRU. With `m^x` the final memory of the source sequence, which is
    read and never written:

        r'_t  = bound(W_r' [y_t; h_{t-1}])                          (13)
        phi_t = read(conj(r'_t), m^x)                               (13)
        u_t, g_t = sigm(W [y_t; h_{t-1}; s_{t-1}] + V phi_t + b)
        c_t   = tanh(W' [y_t; h_{t-1}; g_t * s_{t-1}] + V' phi_t + b')

    and all else as before. `phi_t` enters by matrices of its own without
    biases, so with an empty source memory this is the `AssociativeGRUCell`:
    one cell can read both sequences, and so share its parameters. In the
    paper's experiments `r'_t` is `r_t` (Section 5.1).

    Further weights: `source_kernel` `(H, 3 H)`, `V` and `V'`. Separate keys
    have `H` more columns in `kernel` and `recurrent_kernel`, behind those of
    `r_t`.

    Args:
        units, num_copies, seed, kernel_initializer: as of
            `AssociativeGRUCell`. Source and target must agree in the first
            three.
        source_key: `"shared"` or `"separate"`, whether `r'_t` is `r_t`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(B, input_dim)`.
        states: list of `h_{t-1}`, `(B, H)`, the flat memory, `(B, N_c H)`, and
            the source's flat memory, `(B, N_c H)`, which stays as it is. A
            sequence is given it in its initial state; zeros stand for none.
        training: not used.

    Returns:
        A tuple of `h_t`, `(B, H)`, and the list of new states.

    Raises:
        ValueError: as of `AssociativeGRUCell`, and for another `source_key`.

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
        **kwargs,
    ):
        require_source_key(source_key)
        super().__init__(units, num_copies, seed, kernel_initializer, **kwargs)
        self.source_key = source_key


def _ones_for_gates(shape, dtype):
    units = shape[0] // 3
    return ops.concatenate(
        [ops.ones((2 * units,), dtype), ops.zeros((units,), dtype)]
    )
