"""Higher-order recurrent networks (Soltani and Jiang, 2016).

Each step reads the last n outputs. Daniluk et al. (2017) compare their models
with two such networks, of order n = 3. Shapes use B (batch) and k (units).
"""

import keras
from keras import ops

from memlm_keras.arguments import distinct
from memlm_keras.arguments import require_number
from memlm_keras.arguments import require_positive_integer
from memlm_keras.cells.projected_rnn import ProjectedCell
from memlm_keras.kernels import Int8Kernels


class HigherOrderCell(Int8Kernels, ProjectedCell):
    """Base class of higher-order cells; the states are the last n outputs."""

    # `conditioning="memory"` would keep only the second output.
    continues_source = False

    def __init__(
        self,
        units,
        order=3,
        kernel_initializer="glorot_uniform",
        recurrent_initializer="orthogonal",
        bias_initializer="zeros",
        **kwargs,
    ):
        require_positive_integer("units", units)
        require_positive_integer("order", order)
        super().__init__(**kwargs)
        self.units = units
        self.order = order
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.recurrent_initializer = keras.initializers.get(
            recurrent_initializer
        )
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.state_size = [units] * order
        self.output_size = units

    def step(self, projected, states):
        """Returns the output `(B, k)` and the new states, the latest first."""
        output = self.output_of(projected, states)
        return output, [output, *states[:-1]]

    def output_of(self, projected, states):
        """Returns the output `(B, k)` of a step."""


@keras.saving.register_keras_serializable(package="memlm_keras")
class FOFEHORNNCell(HigherOrderCell):
    """Higher-order cell with fixed weights for earlier outputs (FOFE).

    Soltani and Jiang (2016); baseline of Daniluk et al. (2017), Figure 2c:

        h_t = tanh(W x_t + b + sum_{i=1..n} alpha^i U_i h_{t-i})

    Outputs before the first step are zero. FOFE means fixed-size ordinally
    forgetting encoding. Daniluk et al. do not state the constant alpha; the
    default, 0.6, is from third-party notes on Soltani and Jiang.

    | paper | weight | shape |
    |---|---|---|
    | `W` | `kernel` | `(input_dim, k)` |
    | `U_1 ... U_n` | `recurrent_kernel` | `(n k, k)`, stacked in rows |
    | `b` | `bias` | `(k,)` |

    Args:
        units: integer, size of the output, k.
        order: integer, n, number of previous outputs that a step reads.
        forgetting_factor: float, alpha, above 0 and at most 1.
        kernel_initializer: initializer of `W`.
        recurrent_initializer: initializer of `U`.
        bias_initializer: initializer of `b`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(B, input_dim)`.
        states: list of n float tensors `(B, k)`, the latest output first.

    Returns:
        A tuple of `h_t`, `(B, k)`, and the list of new states, `h_t` first.

    Raises:
        ValueError: if `units` or `order` is not a positive integer, or
            `forgetting_factor` is not in (0, 1].

    Example:

    >>> layer = keras.layers.RNN(memlm_keras.cells.FOFEHORNNCell(16))
    >>> keras.ops.shape(layer(np.ones((2, 7, 5), "float32")))
    (2, 16)
    """

    def __init__(
        self,
        units,
        order=3,
        forgetting_factor=0.6,
        kernel_initializer="glorot_uniform",
        recurrent_initializer="orthogonal",
        bias_initializer="zeros",
        **kwargs,
    ):
        require_number(
            "forgetting_factor", forgetting_factor, above=0, at_most=1
        )
        super().__init__(
            units,
            order,
            kernel_initializer,
            recurrent_initializer,
            bias_initializer,
            **kwargs,
        )
        self.forgetting_factor = forgetting_factor

    def build(self, inputs_shape):
        k = self.units
        self.kernel = self.add_weight(
            (inputs_shape[-1], k), self.kernel_initializer, name="kernel"
        )
        self.recurrent_kernel = self.add_weight(
            (self.order * k, k),
            self.recurrent_initializer,
            name="recurrent_kernel",
        )
        self.bias = self.add_weight((k,), self.bias_initializer, name="bias")

    def project_inputs(self, inputs):
        """Projects inputs `(..., input_dim)` to `(..., k)`."""
        return ops.matmul(inputs, self.kernel) + self.bias

    def output_of(self, projected, states):
        weighted = [
            self.forgetting_factor**steps_ago * state
            for steps_ago, state in enumerate(states, start=1)
        ]
        earlier = ops.concatenate(weighted, axis=-1)
        return ops.tanh(projected + ops.matmul(earlier, self.recurrent_kernel))


@keras.saving.register_keras_serializable(package="memlm_keras")
class GatedHORNNCell(HigherOrderCell):
    """Higher-order cell with a gate for each of the previous outputs.

    Soltani and Jiang (2016); baseline of Daniluk et al. (2017), Figure 2c:

        r_i = sigm(A_i x_t + B_i h_{t-i})
        h_t = tanh(W x_t + b + sum_{i=1..n} r_i * (U_i h_{t-i}))

    Outputs before the first step are zero. The number of parameters in Figure
    2c implies one gate for each previous output, and no biases in gates.

    | paper | weight | shape |
    |---|---|---|
    | `W`, `A_1 ... A_n` | `kernel` | `(input_dim, (1 + n) k)`, in columns |
    | `U_i`, `B_i` | `recurrent_kernels[i - 1]` | `(k, 2 k)`, in columns |
    | `b` | `bias` | `(k,)` |

    Args:
        units, order, bias_initializer, **kwargs: see `FOFEHORNNCell`, which
            also describes the call arguments and results.
        kernel_initializer: initializer of `W` and `A`.
        recurrent_initializer: initializer of `U` and `B`.

    Raises:
        ValueError: if `units` or `order` is not a positive integer.

    Example:

    >>> layer = keras.layers.RNN(memlm_keras.cells.GatedHORNNCell(16, order=2))
    >>> keras.ops.shape(layer(np.ones((2, 7, 5), "float32")))
    (2, 16)
    """

    def build(self, inputs_shape):
        k = self.units
        shape = (inputs_shape[-1], (1 + self.order) * k)
        self.kernel = self.add_weight(
            shape, self.kernel_initializer, name="kernel"
        )
        self.recurrent_kernels = [
            self.add_weight(
                (k, 2 * k),
                distinct(self.recurrent_initializer, index),
                name=f"recurrent_kernel_{index + 1}",
            )
            for index in range(self.order)
        ]
        self.bias = self.add_weight((k,), self.bias_initializer, name="bias")

    def project_inputs(self, inputs):
        """Projects inputs `(..., input_dim)` to `(..., (1 + n) k)`."""
        projected = ops.matmul(inputs, self.kernel)
        k = self.units
        return ops.concatenate(
            [projected[..., :k] + self.bias, projected[..., k:]], axis=-1
        )

    def output_of(self, projected, states):
        total, *gates = ops.split(projected, 1 + self.order, axis=-1)
        for gate, state, kernel in zip(gates, states, self.recurrent_kernels):
            previous, gate_of_previous = ops.split(
                ops.matmul(state, kernel), 2, axis=-1
            )
            total = total + ops.sigmoid(gate + gate_of_previous) * previous
        return ops.tanh(total)
