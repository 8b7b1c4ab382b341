"""Memories of Daniluk, Rocktaeschel, Welbl and Riedel (2017).

"Frustratingly Short Attention Spans in Neural Language Modeling", Section 2, in
the paper's order: attention, key-value, key-value-predict, N-gram RNN. The last
class, a control without a memory, is only the output projection.

Shapes use B (batch), T (time), L (window) and k (units of a part).
"""

import keras
from keras import ops

from memlm_keras.arguments import require_positive_integer
from memlm_keras.kernels import DistinctKernels
from memlm_keras.kernels import Int8Kernels
from memlm_keras.masking import SlidingWindow
from memlm_keras.masking import additive_scores
from memlm_keras.masking import masked_softmax
from memlm_keras.masking import over_valid_steps
from memlm_keras.memory.base import Memory
from memlm_keras.memory.base import equal_parts


@keras.saving.register_keras_serializable(package="memlm_keras")
class Attention(DistinctKernels, Memory):
    """Attention over the previous outputs (Daniluk et al., 2017, Eq. 1-4).

    `h_t` is the output of the recurrent layer (`k` units), and the window
    `Y_t = [h_{t-L} ... h_{t-1}]` does not include the current output:

        M_t     = tanh(W^Y Y_t + (W^h h_t) 1^T)         (1)
        alpha_t = softmax(w^T M_t)                      (2)
        r_t     = Y_t alpha_t^T                         (3)
        h*_t    = tanh(W^r r_t + W^x h_t)               (4)

    The paper does not define the first steps: here, empty slots are masked, and
    `r_t` is zero if all slots are empty.

    | paper | weight | shape |
    |---|---|---|
    | `W^Y` | `memory_kernel` | `(k, k)` |
    | `W^h` | `query_kernel` | `(k, k)` |
    | `w` | `score_kernel` | `(k, 1)` |
    | `W^r` | `context_kernel` | `(k, k)` |
    | `W^x` | `output_kernel` | `(k, k)` |

    Args:
        window: integer, L, number of previous outputs to attend to.
        kernel_initializer: initializer of all weights.
        **kwargs: arguments of `Memory`.

    `Memory` describes the call arguments; `token_ids` are not used. Outputs and
    `h*` are `(B, T, k)`, the state has `"window"` `(B, L, k)` and `"filled"`
    `(B,)`, and the attention weights are `alpha`, `(B, T, L)`, oldest first.

    Raises:
        ValueError: if `window` is not a positive integer.

    Example:

    >>> memory = memlm_keras.memory.Attention(window=10)
    >>> outputs = np.ones((2, 7, 16), "float32")
    >>> keras.ops.shape(memory(outputs))
    (2, 7, 16)
    >>> _, weights = memory(outputs, return_attention_scores=True)
    >>> keras.ops.shape(weights)
    (2, 7, 10)
    """

    parts = 1

    def __init__(
        self, window=10, kernel_initializer="glorot_uniform", **kwargs
    ):
        require_positive_integer("window", window)
        super().__init__(kernel_initializer, **kwargs)
        self.window = window

    def build(self, outputs_shape):
        k = equal_parts(self, outputs_shape[-1], self.parts)
        # The first two parts of an output are key and value. The window omits
        # the third part, which only the prediction of the same step uses.
        self.remembered_units = k * min(self.parts, 2)
        self.recent = SlidingWindow(
            self.window, (self.remembered_units,), self.compute_dtype
        )
        self.memory_kernel = self.add_kernel("memory_kernel", (k, k))
        self.query_kernel = self.add_kernel("query_kernel", (k, k))
        self.score_kernel = self.add_kernel("score_kernel", (k, 1))
        self.context_kernel = self.add_kernel("context_kernel", (k, k))
        self.output_kernel = self.add_kernel("output_kernel", (k, k))

    def remembered(self, outputs, token_ids=None):
        return outputs[..., : self.remembered_units]

    def split(self, outputs):
        """Returns the key, value and prediction parts of each output."""
        return outputs, outputs, outputs

    @over_valid_steps
    def read(self, outputs, state, token_ids=None, mask=None):
        k = self.memory_kernel.shape[0]
        query, _, predict = self.split(outputs)
        remembered = self.remembered(outputs)
        extended, seen, state = self.recent.slide(state, remembered, mask)
        # The first k units of a slot are the key, and the last k the value.
        keys, values = extended[..., :k], extended[..., -k:]
        projected_keys = ops.matmul(keys, self.memory_kernel)
        projected_query = ops.matmul(query, self.query_kernel)
        scores = additive_scores(
            projected_keys, projected_query, self.score_kernel, seen
        )
        weights = masked_softmax(scores, seen)
        context = self.recent.weighted_sum(weights, values)
        outputs = ops.tanh(
            ops.matmul(context, self.context_kernel)
            + ops.matmul(predict, self.output_kernel)
        )
        return outputs, state, weights


@keras.saving.register_keras_serializable(package="memlm_keras")
class KeyValue(Attention):
    """Key-value attention (Daniluk et al., 2017, Eq. 8-12).

    The output is split into two halves of `k` units, `h_t = [k_t; v_t]` (8):

        M_t     = tanh(W^Y [k_{t-L} ... k_{t-1}] + (W^h k_t) 1^T)   (9)
        alpha_t = softmax(w^T M_t)                                  (10)
        r_t     = [v_{t-L} ... v_{t-1}] alpha_t^T                   (11)
        h*_t    = tanh(W^r r_t + W^x v_t)                           (12)

    Weights, arguments and results are as in `Attention`, where `k` is half the
    units of the recurrent layer; the state's window is `(B, L, 2k)`.

    Raises:
        ValueError: if the number of units of the recurrent layer is odd.

    Example:

    >>> memory = memlm_keras.memory.KeyValue(window=10)
    >>> keras.ops.shape(memory(np.ones((2, 7, 16), "float32")))
    (2, 7, 8)
    """

    parts = 2

    def split(self, outputs):
        key, value = ops.split(outputs, 2, axis=-1)
        return key, value, value


@keras.saving.register_keras_serializable(package="memlm_keras")
class KeyValuePredict(Attention):
    """Key-value-predict attention (Daniluk et al., 2017, Eq. 16-17).

    The output is split into three parts of `k` units, `h_t = [k_t; v_t; p_t]`
    (16). Keys and values are used as in `KeyValue` (Eq. 9-11):

        h*_t = tanh(W^r r_t + W^x p_t)                              (17)

    Weights, arguments and results are as in `Attention`, where `k` is a third
    of the recurrent layer's units. The state's window, `(B, L, 2k)`, contains
    only keys and values, since no later step reads `p_t`.

    Raises:
        ValueError: if the units of the recurrent layer are not divisible by 3.

    Example:

    >>> memory = memlm_keras.memory.KeyValuePredict(5, return_state=True)
    >>> outputs = np.ones((2, 7, 12), "float32")
    >>> predictions, state = memory(outputs)
    >>> keras.ops.shape(predictions)
    (2, 7, 4)
    >>> predictions, state = memory(outputs, state=state)
    """

    parts = 3

    def __init__(self, window=5, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(window, kernel_initializer, **kwargs)

    def split(self, outputs):
        return ops.split(outputs, 3, axis=-1)


@keras.saving.register_keras_serializable(package="memlm_keras")
class NGram(DistinctKernels, Memory):
    """N-gram RNN (Daniluk et al., 2017, Eq. 21).

    Outputs have N parts of `k` units each. Part i is read i - 1 steps later:

        h*_t = tanh(W^N [h^1_t; h^2_{t-1}; ...; h^N_{t-N+1}])       (21)

    The paper's text splits outputs into N - 1 parts, but the hidden sizes in
    its table are those of N parts: `W^N` reads one part of the current output
    and one of each of N - 1 previous outputs. Outputs before step 1 are zero.

    `W^N` is the weight `output_kernel`, `(N k, k)`, with rows as in Eq. 21.

    Args:
        order: integer, N, at least 2.
        kernel_initializer: initializer of `W^N`.
        **kwargs: arguments of `Memory`, except `return_attention_scores`.

    `Memory` describes the call arguments; `token_ids` are not used. Outputs are
    `(B, T, N k)`, `h*` is `(B, T, k)`, and attention weights are `(B, T, 0)`.
    The state has the previous outputs, `"window"` `(B, N - 1, N k)`, and their
    number, `"filled"` `(B,)`.

    Raises:
        ValueError: if `order` is not an integer of at least 2, or if the units
            of the recurrent layer are not divisible by `order`.

    Example:

    >>> memory = memlm_keras.memory.NGram(order=4)
    >>> keras.ops.shape(memory(np.ones((2, 7, 12), "float32")))
    (2, 7, 3)
    """

    attends = False

    def __init__(self, order=4, kernel_initializer="glorot_uniform", **kwargs):
        require_positive_integer("order", order, minimum=2)
        super().__init__(kernel_initializer, **kwargs)
        self.order = order

    def build(self, outputs_shape):
        units = outputs_shape[-1]
        self.part_units = equal_parts(self, units, self.order)
        self.recent = SlidingWindow(
            self.order - 1, (units,), self.compute_dtype
        )
        self.output_kernel = self.add_kernel(
            "output_kernel", (units, self.part_units)
        )

    def remembered(self, outputs, token_ids=None):
        return outputs

    @over_valid_steps
    def read(self, outputs, state, token_ids=None, mask=None):
        extended, seen, state = self.recent.slide(state, outputs, mask)
        k = self.part_units
        parts = [outputs[..., :k]]
        for steps_ago in range(1, self.order):
            index = self.order - 1 - steps_ago
            part = self.recent.slot(extended, index)
            part = part[..., steps_ago * k : (steps_ago + 1) * k]
            parts.append(ops.where(seen[..., index : index + 1], part, 0.0))
        outputs = ops.tanh(
            ops.matmul(ops.concatenate(parts, axis=-1), self.output_kernel)
        )
        return outputs, state, outputs[..., :0]


@keras.saving.register_keras_serializable(package="memlm_keras")
class Projection(Int8Kernels, Memory):
    """A projection of the recurrent layer's output, without a memory.

        h*_t = tanh(W^x h_t)

    The layer is Eq. 4 of Daniluk et al. (2017) without the context `W^r r_t`.
    The higher-order RNNs of Figure 2c have such a layer, judging by their
    parameter counts. With a linear activation, a bias and a penalty on P,
    `h* = P h + b_P` is the projection regularization of Press and Wolf (2016,
    Section 3.1). `W^x`, or `P`, is the weight `output_kernel` `(k, units)`, by
    which rows `h_t` are multiplied, and `b_P` is the weight `bias` `(units,)`.

    Args:
        kernel_initializer: initializer of `W^x`.
        activation: Keras activation.
        use_bias: whether there is a bias.
        bias_initializer: initializer of the bias.
        kernel_regularizer: Keras regularizer of `W^x`, or `None`. The training
            loss includes the regularizer's penalty, but perplexities do not.
        units: integer, size of `h*`; `None` for k, as in both papers.
        **kwargs: arguments of `Memory`, except `return_attention_scores`.

    `Memory` describes the call arguments; `token_ids` are not used. Outputs are
    `(B, T, k)`, `h*` is `(B, T, units)`, the state is an empty dict, and the
    attention weights are an empty `(B, T, 0)` tensor.

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
            start = self.bias_initializer
            self.bias = self.add_weight((units,), start, name="bias")

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
        activation = keras.activations.serialize(self.activation)
        return {**super().get_config(), "activation": activation}
