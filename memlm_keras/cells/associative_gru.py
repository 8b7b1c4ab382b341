"""The gated recurrent unit of Weissenborn (2016) with an associative memory.

"Neural Associative Memory for Dual-Sequence Modeling", Sections 4 and 5.2.

Shapes below: B batch, H units, N_c copies.
"""

import keras
import numpy as np
from keras import ops

from memlm_keras.arguments import require_positive_integer
from memlm_keras.cells import associative_gradients
from memlm_keras.cells import complex_vectors
from memlm_keras.cells.associative_cell import AssociativeCell
from memlm_keras.cells.associative_cell import require_source_key


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
    the biases of the gates begin at one, those of the candidate at zero. A
    comment there reads "not update", for which the bias of `u` would begin at
    -1: that is `update_bias`.

    As `s_t - s_{t-1}` is `u_t * (c_t - s_{t-1})`, and `s_{t-1}` what is read
    under the key, (12) is the delta rule, with a complex product where fast
    weights have an outer one (docs/papers/weissenborn2016.md). What is read of
    one write is `|r_t|^2` times that, number by number; with `key="unit"` it is
    that itself.

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
        key: `"bound"`, as above, or `"unit"`, numbers of modulus one.
        update_bias: float, at which the bias of `u` begins.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(B, input_dim)`.
        states: list of `h_{t-1}`, `(B, H)`, and the flat memory, `(B, N_c H)`.
        training: not used.

    Returns:
        A tuple of `h_t`, `(B, H)`, and the list of new states.

    Raises:
        ValueError: if `units` or `num_copies` is not a positive integer,
            `units` is odd, or for another `key`.

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
        super().__init__(
            units, units, num_copies, seed, kernel_initializer, key, **kwargs
        )
        self.units = units
        self.update_bias = update_bias

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
            name="bias", shape=(3 * h,), initializer=self._draw_bias
        )

    def _draw_bias(self, shape, dtype):
        values = np.repeat([self.update_bias, 1.0, 0.0], self.units)
        return ops.convert_to_tensor(values, dtype)

    def project_inputs(self, inputs):
        """Projects the inputs of any number of steps at once.

        Args:
            inputs: float tensor `(..., input_dim)`.

        Returns:
            Float tensor `(..., projected units)`.
        """
        return ops.matmul(inputs, self.kernel)

    def shared_by_steps(self):
        """Makes what all steps of a sequence share.

        Returns:
            A tuple of the permutations, `(H / 2, N_c)`, and the list of
            weights, transposed, as `advance` takes them.
        """
        weights = [
            self.recurrent_kernel,
            self.memory_kernel,
            self.bias[:, None],
        ]
        if self.source_key is not None:
            weights.append(self.source_kernel)
        recurrent, memory, bias, *source = [
            ops.cast(weight, self.compute_dtype) for weight in weights
        ]
        weights = [ops.transpose(recurrent), ops.transpose(memory), bias]
        weights += [ops.transpose(kernel) for kernel in source]
        return ops.transpose(self.permutations), weights

    def advance(
        self, projected, hidden, memories, positions, weights, mask=None
    ):
        """Computes one step, of tensors whose last axis is the batch.

        So a look-up by a permutation moves whole rows.

        Args:
            projected: `(projected units, B)`, as of `project_inputs`.
            hidden: `h_{t-1}`, `(H, B)`.
            memories: list of the memory and, where there is one, the source's,
                each a pair of `(H / 2, N_c, B)`.
            positions, weights: as of `shared_by_steps`.
            mask: optional bool tensor `(1, B)`, `True` where a step counts.

        Returns:
            A tuple of the new memory, a pair, and a list of float tensors
            `(..., B)`: `h_t`, what keys are made of, both gates, the candidate,
            what was written, and what was read of each memory.
        """
        h = self.units
        of_hidden, of_value, bias, *of_source = weights
        projected = projected + of_hidden @ hidden
        split = self.num_keys * h
        keys, values = self.read_all(
            projected[:split],
            memories,
            lambda key: associative_gradients.look_up(key, positions),
            axis=0,
        )
        gates = projected[split:] + bias
        value, *source = values
        for read, kernel in zip(source, of_source):
            gates = gates + kernel @ read
        both = ops.sigmoid(gates[: 2 * h] + of_value[: 2 * h] @ value)
        update, reset = both[:h], both[h:]
        candidate = ops.tanh(
            gates[2 * h :] + of_value[2 * h :] @ (reset * value)
        )
        written = update * (candidate - value)
        output = value + written
        if mask is not None:
            written = ops.where(mask, written, ops.zeros_like(written))
            output = ops.where(mask, output, hidden)
        memory = complex_vectors.write(
            keys, complex_vectors.split(written, 0), memories[0]
        )
        return memory, [
            output,
            projected[:split],
            both,
            candidate,
            written,
            *values,
        ]

    def trace(self, projected, states, training=None, shared=None):
        """One step, see `AssociativeCell.trace`."""
        if shared is None:
            shared = self.shared_by_steps()
        turn = associative_gradients.turn
        memory, kept = self.advance(
            ops.transpose(projected),
            ops.transpose(states[0]),
            [turn(memory) for memory in self.memories(states)],
            *shared,
        )
        output, keys, _, _, written, *values = map(ops.transpose, kept)
        key = self.as_key(complex_vectors.split(keys[:, : self.units]))
        new_states = [output, self.flat(turn(memory)), *states[2:]]
        return (
            output,
            new_states,
            self.traced(complex_vectors.join(key), values, output, written),
        )

    @property
    def has_own_gradient(self):
        """Whether `run` is of these equations, and not of a subclass'."""
        return all(
            getattr(type(self), name) is getattr(AssociativeGRUCell, name)
            for name in ("advance", "trace", "step")
        )

    def run(self, projected, states, mask=None):
        """Runs the steps of a sequence with a backward pass of its own.

        See `memlm_keras.cells.associative_gradients`.
        """
        run = associative_gradients.run
        if keras.backend.backend() == "torch":
            from memlm_keras.cells import associative_torch

            run = associative_torch.run
        outputs, states = run(self, projected, states, mask)
        if mask is not None and keras.backend.backend() != "jax":
            # There Keras gives zeros before the first step that counts, and
            # the first state elsewhere.
            begun = ops.cumsum(ops.cast(mask, "int32"), axis=1)[..., None] > 0
            outputs = ops.where(begun, outputs, ops.zeros_like(outputs))
        return outputs, states

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "update_bias": self.update_bias,
        }


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
        units, num_copies, seed, kernel_initializer, key, update_bias: as of
            `AssociativeGRUCell`. Source and target must agree in `units`,
            `num_copies`, `seed` and `key`.
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
        key="bound",
        update_bias=1.0,
        **kwargs,
    ):
        require_source_key(source_key)
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
