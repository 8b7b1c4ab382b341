"""Memories of Daniluk, Rocktaeschel, Welbl and Riedel (2017).

"Frustratingly Short Attention Spans in Neural Language Modeling", Section 2,
in the paper's order: attention, key-value, key-value-predict, N-gram RNN.

Shapes below: B batch, T time, L window, k units of one part of an output.
"""

import keras
from keras import ops

from memlm_keras.arguments import require_positive_integer
from memlm_keras.masking import masked_softmax
from memlm_keras.memory.base import SlidingWindow
from memlm_keras.memory.base import equal_parts


@keras.saving.register_keras_serializable(package="memlm_keras")
class Attention(SlidingWindow):
    """Attention over the previous outputs (Daniluk et al., 2017, Eq. 1-4).

    With `h_t` the output of the recurrent layer (`k` units) and
    `Y_t = [h_{t-L} ... h_{t-1}]` the window, the current output not included:

        M_t     = tanh(W^Y Y_t + (W^h h_t) 1^T)         (1)
        alpha_t = softmax(w^T M_t)                      (2)
        r_t     = Y_t alpha_t^T                         (3)
        h*_t    = tanh(W^r r_t + W^x h_t)               (4)

    The paper is silent about the first steps: slots that hold no output yet
    are masked out, and with no slot filled `r_t` is zero.

    | paper | weight | shape |
    |---|---|---|
    | `W^Y` | `memory_kernel` | `(k, k)` |
    | `W^h` | `query_kernel` | `(k, k)` |
    | `w` | `score_kernel` | `(k, 1)` |
    | `W^r` | `context_kernel` | `(k, k)` |
    | `W^x` | `output_kernel` | `(k, k)` |

    Args:
        window: integer, L, how many previous outputs are attended over.
        kernel_initializer: initializer of the five weights.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        outputs: float tensor `(B, T, k)`.
        token_ids: not used.
        state: `None` or the dict `{"window": (B, L, k), "filled": (B,)}`.

    Returns:
        `(h*, state, alpha)`: `(B, T, k)`, the new state, and `(B, T, L)` with
        the oldest slot first.

    Raises:
        ValueError: if `window` is not a positive integer.

    Example:

    >>> memory = memlm_keras.memory.Attention(window=10)
    >>> outputs, state, weights = memory(np.ones((2, 7, 16), "float32"))
    >>> keras.ops.shape(weights)
    (2, 7, 10)
    """

    parts = 1

    def __init__(
        self, window=10, kernel_initializer="glorot_uniform", **kwargs
    ):
        require_positive_integer("window", window)
        super().__init__(window, kernel_initializer, **kwargs)
        self.window = window

    def build(self, outputs_shape):
        k = equal_parts(self, outputs_shape[-1], self.parts)
        self.build_window(k * min(self.parts, 2))
        self.memory_kernel = self.add_kernel("memory_kernel", (k, k))
        self.query_kernel = self.add_kernel("query_kernel", (k, k))
        self.score_kernel = self.add_kernel("score_kernel", (k, 1))
        self.context_kernel = self.add_kernel("context_kernel", (k, k))
        self.output_kernel = self.add_kernel("output_kernel", (k, k))

    def split(self, outputs):
        """Returns what serves as key, value and prediction of each output."""
        return outputs, outputs, outputs

    def call(self, outputs, token_ids=None, state=None, training=None):
        k = ops.shape(self.memory_kernel)[0]
        (remembered_units,) = self.remembered_shape
        remembered = outputs[..., :remembered_units]
        extended, mask, state = self.slide(state, remembered)
        query, _, predict = self.split(outputs)
        # What is remembered begins with the key and ends with the value.
        keys, values = extended[..., :k], extended[..., -k:]

        projected_keys = ops.matmul(keys, self.memory_kernel)
        projected_query = ops.matmul(query, self.query_kernel)
        scores = ops.concatenate(
            [
                ops.matmul(
                    ops.tanh(self.slot(projected_keys, i) + projected_query),
                    self.score_kernel,
                )
                for i in range(self.window)
            ],
            axis=-1,
        )
        weights = masked_softmax(scores, mask)
        context = self.weighted_slots(weights, values)
        outputs = ops.tanh(
            ops.matmul(context, self.context_kernel)
            + ops.matmul(predict, self.output_kernel)
        )
        return outputs, state, weights

    def get_config(self):
        return {**super().get_config(), "window": self.window}


@keras.saving.register_keras_serializable(package="memlm_keras")
class KeyValue(Attention):
    """Key-value attention (Daniluk et al., 2017, Eq. 8-12).

    The output is split in two halves of `k` units, `h_t = [k_t; v_t]` (8):

        M_t     = tanh(W^Y [k_{t-L} ... k_{t-1}] + (W^h k_t) 1^T)   (9)
        alpha_t = softmax(w^T M_t)                                  (10)
        r_t     = [v_{t-L} ... v_{t-1}] alpha_t^T                   (11)
        h*_t    = tanh(W^r r_t + W^x v_t)                           (12)

    Weights, arguments and results as in `Attention`, with `k` half of the
    units of the recurrent layer; the state's window is `(B, L, 2k)`.

    Raises:
        ValueError: if the units of the recurrent layer are odd.

    Example:

    >>> memory = memlm_keras.memory.KeyValue(window=10)
    >>> outputs, state, weights = memory(np.ones((2, 7, 16), "float32"))
    >>> keras.ops.shape(outputs)
    (2, 7, 8)
    """

    parts = 2

    def split(self, outputs):
        key, value = ops.split(outputs, 2, axis=-1)
        return key, value, value


@keras.saving.register_keras_serializable(package="memlm_keras")
class KeyValuePredict(Attention):
    """Key-value-predict attention (Daniluk et al., 2017, Eq. 16-17).

    The output is split in three parts of `k` units, `h_t = [k_t; v_t; p_t]`
    (16). Keys and values serve as in `KeyValue` (Eq. 9-11), and

        h*_t = tanh(W^r r_t + W^x p_t)                              (17)

    Weights, arguments and results as in `Attention`, with `k` a third of the
    units of the recurrent layer; the state's window is `(B, L, 2k)`, keys and
    values, since past predictions are never read back.

    Raises:
        ValueError: if the units of the recurrent layer are not divisible by 3.

    Example:

    >>> memory = memlm_keras.memory.KeyValuePredict(window=5)
    >>> outputs, state, weights = memory(np.ones((2, 7, 12), "float32"))
    >>> keras.ops.shape(outputs)
    (2, 7, 4)
    """

    parts = 3

    def __init__(self, window=5, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(window, kernel_initializer, **kwargs)

    def split(self, outputs):
        return ops.split(outputs, 3, axis=-1)


@keras.saving.register_keras_serializable(package="memlm_keras")
class NGram(SlidingWindow):
    """N-gram RNN (Daniluk et al., 2017, Eq. 21).

    The output is split in N parts of `k` units, and part i is read i - 1 steps
    later:

        h*_t = tanh(W^N [h^1_t; h^2_{t-1}; ...; h^N_{t-N+1}])       (21)

    The text speaks of N - 1 parts, but the paper's own table of sizes holds
    only for N, the current output and N - 1 previous ones; N it is here.
    Outputs before the first step are zero.

    `W^N` is the weight `output_kernel` of shape `(N k, k)`, its rows in the
    order of Eq. 21.

    Args:
        order: integer, N, at least 2.
        kernel_initializer: initializer of `W^N`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        outputs: float tensor `(B, T, N k)`.
        token_ids: not used.
        state: `None` or `{"window": (B, N - 1, N k), "filled": (B,)}`.

    Returns:
        `(h*, state, attention)`: `(B, T, k)`, the new state, and an empty
        `(B, T, 0)` tensor: an N-gram RNN reads every slot and attends to none.

    Raises:
        ValueError: if `order` is not an integer of at least 2, or if the units
            of the recurrent layer are not divisible by `order`.

    Example:

    >>> memory = memlm_keras.memory.NGram(order=4)
    >>> outputs, state, _ = memory(np.ones((2, 7, 12), "float32"))
    >>> keras.ops.shape(outputs)
    (2, 7, 3)
    """

    attends = False

    def __init__(self, order=4, kernel_initializer="glorot_uniform", **kwargs):
        require_positive_integer("order", order, minimum=2)
        super().__init__(order - 1, kernel_initializer, **kwargs)
        self.order = order

    def build(self, outputs_shape):
        units = outputs_shape[-1]
        self.part_units = equal_parts(self, units, self.order)
        self.build_window(units)
        self.output_kernel = self.add_kernel(
            "output_kernel", (units, self.part_units)
        )

    def call(self, outputs, token_ids=None, state=None, training=None):
        extended, mask, state = self.slide(state, outputs)
        k = self.part_units
        history = [outputs[..., :k]]
        for steps_ago in range(1, self.order):
            index = self.slots - steps_ago
            part = slice(steps_ago * k, (steps_ago + 1) * k)
            history.append(
                ops.where(
                    mask[..., index : index + 1],
                    self.slot(extended, index)[..., part],
                    0.0,
                )
            )
        outputs = ops.tanh(
            ops.matmul(ops.concatenate(history, axis=-1), self.output_kernel)
        )
        return outputs, state, outputs[..., :0]

    def get_config(self):
        return {**super().get_config(), "order": self.order}
