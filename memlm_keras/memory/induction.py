"""Attention over what followed similar outputs, as an induction head reads.

Olsson et al. (2022), "In-context Learning and Induction Heads". The memory is
this package's own, for the outputs of a recurrent layer.

Shapes below: B batch, T time, L window, k units.
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
    """Attention whose key is the output before the value.

    With `h_t` the output of the recurrent layer (`k` units) and
    `n_t = h_t / rms(h_t)`:

        score_i = n_{i-1}^T W^q n_t / sqrt(k), i from t - L + 1 to t
        alpha_t = softmax(score)
        r_t     = sum_i alpha_i n_i
        h*_t    = tanh(W^r r_t + W^x h_t)

    So it finds the steps like the current one, and reads what followed them.
    This is what an induction head does (Olsson et al., 2022), and the keys are
    those of the neural cache (Grave et al., 2017, Eq. 3). In `Attention`, one
    output must hold both what it is found by and what followed, which a
    recurrent layer learns late.

    Only outputs with an output before them are read. `r_t` is zero at the first
    step of a text. A learned scale of `n` would add nothing, as `W^q` and `W^r`
    contain it.

    | symbol | weight | shape |
    |---|---|---|
    | `W^q` | `query_kernel` | `(k, k)` |
    | `W^r` | `context_kernel` | `(k, k)` |
    | `W^x` | `output_kernel` | `(k, k)` |

    Args:
        window: integer, L, number of outputs to attend to, including the
            current one.
        kernel_initializer: initializer of the three weights.
        **kwargs: arguments of `Memory`.

    See `Memory` for calls, which do not use `token_ids`. Outputs and `h*` are
    `(B, T, k)`, the state is `{"window": (B, L, k), "filled": (B,)}`, the last
    `n`, and the attention weights are `alpha`, `(B, T, L)`, the oldest slot
    first; the last slot is the current step.

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
        # Scaled before the product, which float16 cannot hold otherwise.
        scaled = normalized / self.query_kernel.shape[0] ** 0.5
        queries = ops.matmul(scaled, self.query_kernel)
        # The keys are the steps of the window, each value is one step later.
        scores = self.recent.products(queries, extended)
        weights = masked_softmax(scores, seen)
        context = self.recent.weighted_sum(weights, extended[:, 1:])
        outputs = ops.tanh(
            ops.matmul(context, self.context_kernel)
            + ops.matmul(outputs, self.output_kernel)
        )
        return outputs, state, weights

    def get_config(self):
        return {**super().get_config(), "window": self.window}
