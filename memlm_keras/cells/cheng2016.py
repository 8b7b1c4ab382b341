"""The long short-term memory-network of Cheng, Dong and Lapata (2016).

"Long Short-Term Memory-Networks for Machine Reading", Sections 3.1 and 4.2.

Symbols in shapes: B batch, d input_dim, H units, L window.
"""

import keras
from keras import ops

from memlm_keras.arguments import require_positive_integer
from memlm_keras.cells.projected_rnn import ProjectedCell
from memlm_keras.kernels import DistinctKernels
from memlm_keras.masking import masked_softmax


@keras.saving.register_keras_serializable(package="memlm_keras")
class LSTMNetworkCell(DistinctKernels, ProjectedCell):
    """An LSTM that attends to all its earlier states (LSTMN).

    The cell keeps its earlier states on a tape, and reads a mixture of them
    instead of the last state:

        a_i   = v . tanh(W_h h_i + W_x x_t + W_h~ h~_{t-1})          (4)
        s     = softmax(a)                                           (5)
        h~_t, c~_t = sum_i s_i h_i, sum_i s_i c_i                    (6)
        i, f, g, o = sigm, sigm, tanh, sigm (W [x_t; h~_t] + b)      (7)
        c_t   = f * c~_t + i * g                                     (8)
        h_t   = o * tanh(c_t)                                        (9)

    Index i runs over earlier steps, i < t. Before the first step, all states
    are zero. With `fusion` (the paper's deep attention fusion), the cell also
    attends to the tape of a source sequence, with hidden states `gamma_j` and
    cell states `alpha_j`:

        b_j   = u . tanh(W_g gamma_j + W_y x_t + W_g~ gamma~_{t-1})  (10)
        gamma~_t, alpha~_t = sums by softmax(b)                      (11, 12)
        r_t   = sigm(W_r [x_t; gamma~_t])                            (13)
        c_t   = r_t * alpha~_t + f * c~_t + i * g                    (14)

    With an empty source tape, the cell computes the same as without `fusion`,
    so one cell can read both sequences.

    | equations | weight | shape |
    |---|---|---|
    | rows of `x_t` in `W`, `W_x`, `W_y`, `W_r` | `kernel` | `(d, 5 H)` or `(d, 7 H)` |
    | rows of `h~_t` in `W` | `recurrent_kernel` | `(H, 4 H)` |
    | `b`, with ones for `f` | `bias` | `(4 H,)` |
    | `W_h`, `W_h~`, `v` | `key_kernel`, `read_kernel`, `score_kernel` | `(H, H)`, `(H, H)`, `(H,)` |
    | `W_g`, `W_g~`, `u` | `source_key_kernel`, `source_read_kernel`, `source_score_kernel` | likewise |
    | rows of `gamma~_t` in `W_r` | `source_gate_kernel` | `(H, H)` |

    Args:
        units: integer, H.
        window: integer, L, number of states on the tape; a new state replaces
            the oldest. Source and target need cells with the same `window`.
        fusion: whether the cell reads the tape of a source.
        kernel_initializer: initializer of all matrices.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(B, d)`.
        states: list of `h_{t-1}`, `(B, H)`; `h~_{t-1}`, `(B, H)`; the filled
            slots of the tape, `(B, L)`, ones and zeros; and the flat tape,
            `(B, 3 L H)`, whose slots contain `W_h h_i`, `h_i` and `c_i`, the
            most recent last. With `fusion`, also `gamma~_{t-1}`, `(B, H)`, and
            the filled slots and the flat tape of the source.

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

    # The tape of a target sequence starts empty.
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
        self.fusion = fusion
        self.output_size = units

    @property
    def reads_source(self):
        """Whether the cell attends to a source."""
        return self.fusion

    @property
    def state_size(self):
        """List of the sizes of the states."""
        tape = [self.window, 3 * self.window * self.units]
        sizes = [self.units, self.units, *tape]
        return [*sizes, self.units, *tape] if self.fusion else sizes

    @property
    def memory_identity(self):
        """Settings that cells must share to read each other's tape."""
        return {"window": self.window, "units": self.units}

    def states_after_source(self, states):
        """Returns a target's initial states: zeros and the source's tape."""
        output, read, filled, tape = states[:4]
        zeros = map(ops.zeros_like, (output, read, filled, tape, read))
        return [*zeros, filled, tape]

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
        return super().call(inputs, self.begin(states))

    def project_inputs(self, inputs):
        """Projects inputs `(..., d)` to `(..., projected units)`."""
        return ops.matmul(inputs, self.kernel)

    def begin(self, states):
        """Replaces `W_h gamma_j` on the source's tape by `W_g gamma_j`."""
        if not self.fusion:
            return states
        *others, tape = states
        slots = self._slots(tape)
        keys = ops.matmul(
            slots[..., self.units : 2 * self.units], self.source_key_kernel
        )
        slots = ops.concatenate([keys, slots[..., self.units :]], axis=-1)
        return [*others, self._flat(slots)]

    def step(self, projected, states):
        """Returns `h_t` and the new states; call `begin` on initial states."""
        h = self.units
        _, read, filled, tape = states[:4]
        slots = self._slots(tape)
        hidden, cell = self._attend(
            slots,
            filled,
            projected[:, 4 * h : 5 * h] + ops.matmul(read, self.read_kernel),
            self.score_kernel,
        )
        gates = projected[:, : 4 * h] + self.bias
        gates = gates + ops.matmul(hidden, self.recurrent_kernel)
        i, f, g, o = ops.split(gates, 4, axis=-1)
        new_cell = ops.sigmoid(f) * cell + ops.sigmoid(i) * ops.tanh(g)
        source_states = list(states[4:])
        if self.fusion:
            before, source_filled, source_tape = source_states
            source, source_cell = self._attend(
                self._slots(source_tape),
                source_filled,
                projected[:, 5 * h : 6 * h]
                + ops.matmul(before, self.source_read_kernel),
                self.source_score_kernel,
            )
            gate = projected[:, 6 * h :] + ops.matmul(
                source, self.source_gate_kernel
            )
            new_cell = new_cell + ops.sigmoid(gate) * source_cell
            source_states[0] = source
        output = ops.sigmoid(o) * ops.tanh(new_cell)
        slot = ops.concatenate(
            [ops.matmul(output, self.key_kernel), output, new_cell], axis=-1
        )
        slots = ops.concatenate([slots[:, 1:], slot[:, None]], axis=1)
        filled = ops.concatenate(
            [filled[:, 1:], ops.ones_like(filled[:, :1])], axis=1
        )
        states = [output, hidden, filled, self._flat(slots), *source_states]
        return output, states

    def _attend(self, slots, filled, query, score_kernel):
        """Attends to a tape; returns the mixed hidden and cell states."""
        h = self.units
        keys = ops.tanh(slots[..., :h] + query[:, None])
        scores = ops.matmul(keys, score_kernel)[..., 0]
        weights = masked_softmax(scores, filled > 0)
        mixed = ops.matmul(weights[:, None], slots[..., h:])[:, 0]
        return mixed[:, :h], mixed[:, h:]

    def _slots(self, tape):
        return ops.reshape(tape, (-1, self.window, 3 * self.units))

    def _flat(self, slots):
        return ops.reshape(slots, (-1, 3 * self.window * self.units))
