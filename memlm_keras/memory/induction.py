"""Attention to outputs that followed similar outputs, like an induction head.

Olsson et al. (2022), "In-context Learning and Induction Heads", found induction
heads in transformers. `InductionAttention` reads a recurrent layer's outputs.

Shapes use B (batch), T (time), L (window) and k (units).
"""

import keras
from keras import ops

from memlm_keras.arguments import require_positive_integer
from memlm_keras.gradients import divide_by_length
from memlm_keras.kernels import DistinctKernels
from memlm_keras.masking import SlidingWindow
from memlm_keras.masking import masked_softmax
from memlm_keras.masking import over_valid_steps
from memlm_keras.memory.base import Memory


@keras.saving.register_keras_serializable(package="memlm_keras")
class InductionAttention(DistinctKernels, Memory):
    """Attention in which output i is a value, and output i - 1 is its key.

    `h_t` is the output of the recurrent layer (`k` units), and
    `n_t = h_t / rms(h_t)`:

        score_i = n_{i-1}^T W^q n_t / sqrt(k), i from t - L + 1 to t
        alpha_t = softmax(score)
        r_t     = sum_i alpha_i n_i
        h*_t    = tanh(W^r r_t + W^x h_t)

    Attention finds steps that are similar to the current one, and reads the
    outputs that followed, like an induction head (Olsson et al., 2022). In the
    neural cache (Grave et al., 2017, Eq. 3), too, the previous output is the
    key. In `Attention`, one output is key and value, which slows learning.

    At the first step of a text, no output has a key, so `r_1` is zero. `n_t` is
    RMS-normalized without a learned scale, since `W^q` and `W^r` can learn one.

    | symbol | weight | shape |
    |---|---|---|
    | `W^q` | `query_kernel` | `(k, k)` |
    | `W^r` | `context_kernel` | `(k, k)` |
    | `W^x` | `output_kernel` | `(k, k)` |

    Args:
        window: integer, L, number of outputs to attend to, up to the current.
        kernel_initializer: initializer of the three weights.
        **kwargs: arguments of `Memory`.

    `Memory` describes the call arguments; `token_ids` are not used. Outputs and
    `h*` are `(B, T, k)`. The state contains `"window"`, `(B, L, k)`, with the
    last `n`, and `"filled"`, `(B,)`. The attention weights are `alpha`,
    `(B, T, L)`, the oldest slot first and the current step last.

    Raises:
        ValueError: if `window` is not a positive integer.

    Example:

    >>> memory = memlm_keras.memory.InductionAttention(window=100)
    >>> outputs = np.ones((2, 7, 16), "float32")
    >>> keras.ops.shape(memory(outputs))
    (2, 7, 16)
    >>> _, weights = memory(outputs, return_attention_scores=True)
    >>> keras.ops.shape(weights)
    (2, 7, 100)
    """

    steps_back = 0

    def __init__(
        self, window=100, kernel_initializer="glorot_uniform", **kwargs
    ):
        require_positive_integer("window", window)
        super().__init__(kernel_initializer, **kwargs)
        self.window = window

    def build(self, outputs_shape):
        k = outputs_shape[-1]
        self.recent = SlidingWindow(self.window, (k,), self.compute_dtype)
        self.query_kernel = self.add_kernel("query_kernel", (k, k))
        self.context_kernel = self.add_kernel("context_kernel", (k, k))
        self.output_kernel = self.add_kernel("output_kernel", (k, k))

    def remembered(self, outputs, token_ids=None):
        (direction,) = divide_by_length((outputs,), axis=-1)
        return direction * outputs.shape[-1] ** 0.5

    @over_valid_steps
    def read(self, outputs, state, token_ids=None, mask=None):
        normalized = self.remembered(outputs)
        extended, seen, state = self.recent.slide(state, normalized, mask)
        # Scale first, because the product could overflow in float16.
        scaled = normalized / self.query_kernel.shape[0] ** 0.5
        queries = ops.matmul(scaled, self.query_kernel)
        # Output i - 1 is the key of output i, so shift the values by one step.
        scores = self.recent.products(queries, extended)
        weights = masked_softmax(scores, seen)
        context = self.recent.weighted_sum(weights, extended[:, 1:])
        outputs = ops.tanh(
            ops.matmul(context, self.context_kernel)
            + ops.matmul(outputs, self.output_kernel)
        )
        return outputs, state, weights
