"""No memory, but what memories end with: a projection of the outputs."""

import keras
from keras import ops

from memlm_keras.arguments import require_positive_integer
from memlm_keras.kernels import Int8Kernels
from memlm_keras.masking import over_valid_steps
from memlm_keras.memory.base import Memory


@keras.saving.register_keras_serializable(package="memlm_keras")
class Projection(Int8Kernels, Memory):
    """No memory, but the layer that the others end with.

        h*_t = tanh(W^x h_t)

    Eq. 4 of Daniluk et al. (2017) without its context. The parameters of the
    higher-order networks in Figure 2c are counted with it. Without the tanh,
    with a bias and a penalty on the kernel it is the projection
    regularization of Press and Wolf (2016, Section 3.1), `h* = P h + b_P`.

    `W^x`, or `P`, is the weight `output_kernel` of shape `(k, units)`, applied
    from the right to rows, and `b_P` the weight `bias` of shape `(units,)`.

    Args:
        kernel_initializer: initializer of `W^x`.
        activation: Keras activation.
        use_bias: whether there is a bias.
        bias_initializer: initializer of the bias.
        kernel_regularizer: Keras regularizer of `W^x`, or `None`. What it
            gives is added to the loss while training and evaluating, and is
            no part of perplexities.
        units: integer, size of `h*`; `None` is k, as in both papers.
        **kwargs: arguments of `Memory`, but `return_attention_scores`.

    Call arguments:
        outputs: float tensor `(B, T, k)`.
        token_ids: not used.
        state: not used; the state is an empty dict.
        mask, return_state, return_attention_scores: see `Memory`.

    Returns:
        `h*`, `(B, T, units)`; and, where they are returned, an empty dict and
        an empty `(B, T, 0)` tensor.

    Example:

    >>> memory = memlm_keras.memory.Projection()
    >>> keras.ops.shape(memory(np.ones((2, 7, 12), "float32")))
    (2, 7, 12)
    """

    attends = False

    def __init__(
        self,
        kernel_initializer="glorot_uniform",
        activation="tanh",
        use_bias=False,
        bias_initializer="zeros",
        kernel_regularizer=None,
        units=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if units is not None:
            require_positive_integer("units", units)
        self.units = units
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.activation = keras.activations.get(activation)
        self.use_bias = use_bias
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)

    def build(self, outputs_shape):
        units = self.units or outputs_shape[-1]
        self.output_kernel = self.add_weight(
            name="output_kernel",
            shape=(outputs_shape[-1], units),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
        )
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias", shape=(units,), initializer=self.bias_initializer
            )

    def initial_state(self, batch_size):
        return {}

    @over_valid_steps
    def read(self, outputs, state, token_ids=None, mask=None):
        outputs = ops.matmul(outputs, self.output_kernel)
        if self.use_bias:
            outputs = outputs + self.bias
        outputs = self.activation(outputs)
        return outputs, {}, outputs[..., :0]

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "kernel_initializer": keras.initializers.serialize(
                self.kernel_initializer
            ),
            "activation": keras.activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "bias_initializer": keras.initializers.serialize(
                self.bias_initializer
            ),
            "kernel_regularizer": keras.regularizers.serialize(
                self.kernel_regularizer
            ),
        }
