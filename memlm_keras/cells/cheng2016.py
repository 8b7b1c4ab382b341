"""The long short-term memory-network of Cheng, Dong and Lapata (2016).

"Long Short-Term Memory-Networks for Machine Reading", Sections 3.1 and 4.2.

Shapes use B (batch), d (input_dim), H (units) and L (window).
"""

import keras
from keras import ops

from memlm_keras.arguments import require_positive_integer
from memlm_keras.cells.projected_rnn import ProjectedCell
from memlm_keras.kernels import DistinctKernels
from memlm_keras.masking import penalty_where_false
from memlm_keras.masking import softmax_after


@keras.saving.register_keras_serializable(package="memlm_keras")
class LSTMNetworkCell(DistinctKernels, ProjectedCell):
    """An LSTM that attends to its own earlier states (LSTMN).

    The cell stores its earlier states on a tape, and reads a weighted mean of
    the stored states instead of the last state:

        a_i   = v . tanh(W_h h_i + W_x x_t + W_h~ h~_{t-1})          (4)
        s     = softmax(a)                                           (5)
        h~_t, c~_t = sum_i s_i h_i, sum_i s_i c_i                    (6)
        i, f, g, o = sigm, sigm, tanh, sigm (W [x_t; h~_t] + b)      (7)
        c_t   = f * c~_t + i * g                                     (8)
        h_t   = o * tanh(c_t)                                        (9)

    Index i runs over steps i < t. Before the first step, all states are zero.
    With `fusion` (deep attention fusion), the cell also attends to the hidden
    states `gamma_j` and cell states `alpha_j` that it stored for a source:

        b_j   = u . tanh(W_g gamma_j + W_y x_t + W_g~ gamma~_{t-1})  (10)
        gamma~_t, alpha~_t = sums weighted by softmax(b)             (11, 12)
        r_t   = sigm(W_r [x_t; gamma~_t])                            (13)
        c_t   = r_t * alpha~_t + f * c~_t + i * g                    (14)

    If no source states are stored, a cell with `fusion` computes Equations 4 to
    9, so the same cell can read both the source and the target.

    On JAX and TensorFlow, `ProjectedRNN(cell, unroll=True)` trains faster but
    takes longer to compile. Without a mask, the tape of an unrolled loop grows
    with each step, so early steps read fewer slots.

    | equations | weight | shape |
    |---|---|---|
    | rows of `x_t` in `W`, `W_x`, `W_y`, `W_r` | `kernel` | `(d, 5 H)` or `(d, 7 H)` |
    | rows of `h~_t` in `W` | `recurrent_kernel` | `(H, 4 H)` |
    | `b`, at first 1 for `f` and 0 elsewhere | `bias` | `(4 H,)` |
    | `W_h`, `W_h~`, `v` | `key_kernel`, `read_kernel`, `score_kernel` | `(H, H)`, `(H, H)`, `(H, 1)` |
    | `W_g`, `W_g~`, `u` | `source_key_kernel`, `source_read_kernel`, `source_score_kernel` | likewise |
    | rows of `gamma~_t` in `W_r` | `source_gate_kernel` | `(H, H)` |

    Args:
        units: integer, H.
        window: integer, L, number of stored states; in a full window, a new
            state replaces the oldest. Source and target need equal windows.
        fusion: whether the cell also attends to stored states of a source.
        kernel_initializer: initializer of all matrices.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(B, d)`.
        states: list of `h_{t-1}`, `(B, H)`; the value `h~_{t-1}` read last,
            `(B, H)`; a mask, `(B, L)`, 1.0 for filled slots; and all L slots,
            `(B, 3 L H)`. A slot contains `W_h h_i`, `h_i` and `c_i`; the last
            slot has the most recent state. With `fusion`, the list continues
            with `gamma~_{t-1}`, `(B, H)`, and the source's mask and slots.

    Returns:
        A tuple of `h_t`, `(B, H)`, and the list of new states.

    Raises:
        ValueError: if `units` or `window` is not a positive integer.

    Example:

    >>> layer = memlm_keras.cells.ProjectedRNN(
    ...     memlm_keras.cells.LSTMNetworkCell(16, window=10),
    ...     return_sequences=True,
    ... )
    >>> keras.ops.shape(layer(np.ones((2, 7, 5), "float32")))
    (2, 7, 16)
    """  # noqa: E501

    # A target sequence starts with an empty tape, even after a source.
    continues_source = False

    def __init__(
        self,
        units,
        window=50,
        fusion=False,
        kernel_initializer="glorot_uniform",
        **kwargs,
    ):
        require_positive_integer("units", units)
        require_positive_integer("window", window)
        super().__init__(kernel_initializer, **kwargs)
        self.units = units
        self.window = window
        self.fusion = self.reads_source = fusion
        self.output_size = units

    @property
    def state_size(self):
        """List of the sizes of the states."""
        tape = [self.window, 3 * self.window * self.units]
        sizes = [self.units, self.units, *tape]
        return [*sizes, self.units, *tape] if self.fusion else sizes

    @property
    def memory_identity(self):
        """Settings that the cells of source and target must share."""
        return {"window": self.window, "units": self.units}

    def states_after_source(self, states):
        """Returns initial states for the target sequence: zeros, and the states
        that the cell stored for the source."""
        output, read, filled, tape = states[:4]
        states = output, read, filled[:, :0], tape[:, :0], read
        return [*map(ops.zeros_like, states), filled, tape]

    def empty_states(self, batch_size):
        """Returns initial states without slots for stored states."""
        h = self.units
        sizes = [h, h, 0, 0, h, 0, 0] if self.fusion else [h, h, 0, 0]
        return [ops.zeros((batch_size, n), self.compute_dtype) for n in sizes]

    def build(self, inputs_shape):
        d, h = inputs_shape[-1], self.units
        columns = 7 * h if self.fusion else 5 * h
        self.kernel = self.add_kernel("kernel", (d, columns))
        self.recurrent_kernel = self.add_kernel("recurrent_kernel", (h, 4 * h))
        self.bias = self.add_bias([0.0, 1.0, 0.0, 0.0], h)
        self.key_kernel = self.add_kernel("key_kernel", (h, h))
        self.read_kernel = self.add_kernel("read_kernel", (h, h))
        self.score_kernel = self.add_kernel("score_kernel", (h, 1))
        if self.fusion:
            add = self.add_kernel
            self.source_key_kernel = add("source_key_kernel", (h, h))
            self.source_read_kernel = add("source_read_kernel", (h, h))
            self.source_score_kernel = add("source_score_kernel", (h, 1))
            self.source_gate_kernel = add("source_gate_kernel", (h, h))

    def call(self, inputs, states, training=None):
        output, states = super().call(inputs, self.begin(states))
        return output, self.end(states)

    def project_inputs(self, inputs):
        """Projects inputs `(..., d)` to `(..., projected units)`."""
        return ops.matmul(inputs, self.kernel)

    def begin(self, states, steps=None):
        """Splits stored states into keys, which are compared with queries, and
        values, and turns masks into penalties of scores. Adds at most `steps`
        empty slots; `None` fills the window."""
        states, h = list(states), self.units
        for index in reversed(range(2, len(states), 3)):
            filled, tape = states[index : index + 2]
            most = self.window - filled.shape[1] if index == 2 else 0
            empty = most if steps is None else min(most, steps)
            filled = ops.pad(filled, [(0, 0), (empty, 0)])
            tape = ops.pad(tape, [(0, 0), (3 * h * empty, 0)])
            slots, rows = filled.shape[1], ops.shape(tape)[0]
            tape = ops.reshape(tape, (rows, slots, 3 * h))
            keys, values = ops.split(tape, [h], axis=-1)
            if index > 2:
                keys = ops.matmul(values[..., :h], self.source_key_kernel)
            # Keras' loop with a mask on JAX needs states `(B, ...)` of rank 2.
            keys = ops.reshape(keys, (rows, slots * h))
            values = ops.reshape(values, (rows, slots * 2 * h))
            penalties = penalty_where_false(filled > 0)
            states[index : index + 2] = [penalties, keys, values]
        return states

    def end(self, states):
        """Inverts `begin`, and adds empty slots to fill the window."""
        states = list(states)
        for index in reversed(range(2, len(states), 4)):
            penalties, *slots = states[index : index + 3]
            filled = ops.cast(ops.equal(penalties, 0), slots[0].dtype)
            empty = self.window - filled.shape[1]
            filled = ops.pad(filled, [(0, 0), (empty, 0)])
            slots = [
                ops.reshape(
                    ops.pad(part, [(0, 0), (empty * size, 0)]),
                    (-1, self.window, size),
                )
                for part, size in zip(slots, (self.units, 2 * self.units))
            ]
            tape = ops.concatenate(slots, axis=-1)
            tape = ops.reshape(tape, (-1, self.state_size[3]))
            states[index : index + 3] = [filled, tape]
        return states

    def step(self, projected, states, grows=False):
        """Returns `h_t` and new states, in the form that `begin` returns. With
        `grows`, each step adds a slot until the window is full."""
        h = self.units
        _, read, *tape = states[:5]
        query = projected[:, 4 * h : 5 * h] + ops.matmul(read, self.read_kernel)
        hidden, cell = self._attend(tape, query, self.score_kernel)
        gates = projected[:, : 4 * h] + self.bias
        gates = gates + ops.matmul(hidden, self.recurrent_kernel)
        i, f, g, o = ops.split(gates, 4, axis=-1)
        cell = ops.sigmoid(f) * cell + ops.sigmoid(i) * ops.tanh(g)
        source = list(states[5:])
        if self.fusion:
            query = projected[:, 5 * h : 6 * h]
            query = query + ops.matmul(source[0], self.source_read_kernel)
            source[0], source_cell = self._attend(
                source[1:], query, self.source_score_kernel
            )
            gate = projected[:, 6 * h :]
            gate = gate + ops.matmul(source[0], self.source_gate_kernel)
            cell = cell + ops.sigmoid(gate) * source_cell
        output = ops.sigmoid(o) * ops.tanh(cell)
        key = ops.matmul(output, self.key_kernel)
        value = ops.concatenate([output, cell], axis=-1)
        slot = ops.zeros_like(output[:, :1], "float32"), key, value
        if not grows or tape[0].shape[1] == self.window:
            tape = [old[:, new.shape[1] :] for old, new in zip(tape, slot)]
        tape = [ops.concatenate(pair, axis=1) for pair in zip(tape, slot)]
        return output, [output, hidden, *tape, *source]

    def _attend(self, tape, query, score_kernel):
        """Returns weighted means of stored hidden states and cell states."""
        penalties, *slots = tape
        if not penalties.shape[1]:
            return ops.zeros_like(query), ops.zeros_like(query)
        shape = (ops.shape(penalties)[0], penalties.shape[1], -1)
        keys, values = (ops.reshape(part, shape) for part in slots)
        hidden = ops.tanh(keys + query[:, None])
        scores = ops.matmul(hidden, score_kernel)[..., 0]
        # If all slots are empty, weights are arbitrary, but values are zero.
        weights = softmax_after(scores, penalties)
        mixed = ops.matmul(weights[:, None], values)[:, 0]
        return ops.split(mixed, 2, axis=-1)
