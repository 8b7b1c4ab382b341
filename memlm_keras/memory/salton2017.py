"""The attentive memory of Salton, Ross and Kelleher (2017).

"Attentive Language Models", Section 3.

Shapes use B (batch), T (time), W (window) and k (units).
"""

import keras
from keras import ops

from memlm_keras.arguments import require_one_of
from memlm_keras.arguments import require_positive_integer
from memlm_keras.kernels import DistinctKernels
from memlm_keras.masking import SlidingWindow
from memlm_keras.masking import additive_scores
from memlm_keras.masking import masked_softmax
from memlm_keras.masking import over_valid_steps
from memlm_keras.memory.base import Memory

SCORES = ("single", "combined")
# A finite value replaces the logarithm of zero to keep gradients finite.
_LOG_ZERO = -1e9


@keras.saving.register_keras_serializable(package="memlm_keras")
class Attentive(DistinctKernels, Memory):
    """Attention over all earlier outputs of a sentence (Salton et al., 2017).

    `h_t` is the output of the last recurrent layer (`k` units); step t attends
    to the outputs before step t:

        c_t  = sum_i a_i h_i, i from 1 to t - 1                     (3)
        a_i  = exp(score(h_i, h_t)) / sum_j exp(score(h_j, h_t))    (4)
        h'_t = tanh(W_c [h_t; c_t] + b_t)                           (7)

        single(h_i)        = v_s . tanh(W_s h_i)                    (9)
        combined(h_i, h_t) = v_s . tanh(W_s h_i + W_q h_t)          (10)

    At the first step, which the paper does not define, `c_t` is zero. A
    sentence begins with a new state: `memlm_keras.LanguageModel` resets the
    state of a row where batches mark the start of a sentence.

    With `score="single"`, an output has the same score at all later steps, so
    the state stores only `c_t` and the logarithm of the sum in Eq. 4, instead
    of outputs. With `score="combined"`, scores depend on the current step, so
    the state contains the `window` most recent outputs. If no sentence is
    longer than the window, the memory equals the paper's.

    A call reads all its steps at once. It allocates `(B, T + 1, T + 1)` with
    `score="single"`, and at most `(B, T, W + 15, k)` with `score="combined"`.

    | paper | weight | shape |
    |---|---|---|
    | `W_s` | `memory_kernel` | `(k, k)` |
    | `W_q` | `query_kernel` | `(k, k)`, for a combined score only |
    | `v_s` | `score_kernel` | `(k, 1)` |
    | `W_c` | `output_kernel` | `(2 k, k)`, rows of `h_t` first |
    | `b_t` | `bias` | `(k,)`, the same at every step |

    Args:
        score: `"single"` or `"combined"`.
        window: integer, W, number of most recent outputs whose attention
            weights are returned; with a combined score, also the number of
            outputs to attend to.
        kernel_initializer: initializer of the matrices and of `v_s`.
        bias_initializer: initializer of `b_t`.
        **kwargs: arguments of `Memory`.

    `Memory` describes the call arguments; `token_ids` are not used. Outputs and
    `h'` are `(B, T, k)`. With `score="combined"`, the state contains the last
    outputs, `"window"` `(B, W, k)`, and their number, `"filled"` `(B,)`. With
    `score="single"`, `"window"` `(B, W)` contains the last scores, and the
    state has `"context"` `(B, k)` and `"log_normalizer"` `(B,)`, in float32.

    The attention weights are `a`, `(B, T, W)`, the oldest slot first: slot j of
    step t is the weight of the output of step `t - W + j`. After the first
    step, weights sum to one, except with a single score after more than W
    outputs: then outputs before the window have the remaining weight. In a
    sentence, `weights[t, W - t + i]` is the weight of input word i for
    predicting the word after word t, as in the paper's Figures 2 and 3.

    Raises:
        ValueError: if `score` is unknown or `window` is not a positive integer.

    Example:

    >>> memory = memlm_keras.memory.Attentive(score="combined", window=50)
    >>> outputs, weights = memory(
    ...     np.ones((2, 7, 16), "float32"), return_attention_scores=True
    ... )
    >>> keras.ops.shape(weights)
    (2, 7, 50)
    """

    def __init__(
        self,
        score="single",
        window=100,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        **kwargs,
    ):
        require_one_of("score", score, SCORES)
        require_positive_integer("window", window)
        # Autocasting would round the state to the compute dtype.
        super().__init__(kernel_initializer, autocast=False, **kwargs)
        self.score = score
        self.window = window
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, outputs_shape):
        k = outputs_shape[-1]
        self.units = k
        self.memory_kernel = self.add_kernel("memory_kernel", (k, k))
        if self.score == "combined":
            self.recent = SlidingWindow(self.window, (k,), self.compute_dtype)
            self.query_kernel = self.add_kernel("query_kernel", (k, k))
        else:
            self.recent = SlidingWindow(self.window, dtype="float32")
        self.score_kernel = self.add_kernel("score_kernel", (k, 1))
        self.output_kernel = self.add_kernel("output_kernel", (2 * k, k))
        self.bias = self.add_weight((k,), self.bias_initializer, name="bias")

    def initial_state(self, batch_size):
        state = super().initial_state(batch_size)
        if self.score == "single":
            state["context"] = ops.zeros((batch_size, self.units), "float32")
            state["log_normalizer"] = ops.zeros((batch_size,), "float32")
        return state

    def remembered(self, outputs, token_ids=None):
        # With `score="single"`, `read` needs more of the state than a window.
        return self._cast(outputs) if self.score == "combined" else None

    @over_valid_steps
    def read(self, outputs, state, token_ids=None, mask=None):
        outputs = self._cast(outputs)
        attend = {"single": self._single, "combined": self._combined}
        context, state, weights = attend[self.score](outputs, state, mask)
        merged = ops.concatenate([outputs, self._cast(context)], axis=-1)
        outputs = ops.tanh(
            ops.matmul(merged, self._cast(self.output_kernel))
            + self._cast(self.bias)
        )
        return outputs, state, self._cast(weights)

    def _single(self, outputs, state, mask):
        """Computes Eq. 3, 4 and 9; returns context, state and weights."""
        hidden = ops.tanh(self._keys(outputs))
        scores = ops.matmul(hidden, self._cast(self.score_kernel))
        scores = ops.cast(scores[..., 0], "float32")
        recent, filled, new_state = self.recent.slide(state, scores, mask)

        # Slot 0 contains the context of all earlier calls, and slot i the
        # output of step i - 1 of this call. Step t attends to slots 0 to t. One
        # more step after the last attends to all slots, for the new state.
        slots = ops.arange(ops.shape(outputs)[1] + 1)
        seen = (slots > 0)[None, None] | (state["filled"] > 0)[:, None, None]
        seen = seen & (slots[None] <= slots[:, None])[None]
        logits = ops.concatenate([state["log_normalizer"][:, None], scores], 1)
        logits = ops.where(seen, logits[:, None], _LOG_ZERO)
        log_normalizers = ops.logsumexp(logits, axis=-1)
        weights = ops.where(
            seen, ops.exp(logits - log_normalizers[..., None]), 0.0
        )
        values = ops.concatenate(
            [state["context"][:, None], ops.cast(outputs, "float32")], axis=1
        )
        contexts = ops.matmul(weights, values)
        last = SlidingWindow(1).last
        new_state["context"] = last(contexts, mask)[:, 0]
        new_state["log_normalizer"] = last(log_normalizers, mask)[:, 0]
        steps = ops.arange(ops.shape(outputs)[1])
        recent = ops.take(
            recent, steps[:, None] + ops.arange(self.window)[None], axis=1
        )
        recent = recent - log_normalizers[:, :-1, None]
        reported = ops.exp(ops.where(filled, recent, _LOG_ZERO))
        return contexts[:, :-1], new_state, reported

    def _combined(self, outputs, state, mask):
        """Computes Eq. 3, 4 and 10; returns context, state and weights."""
        extended, seen, new_state = self.recent.slide(state, outputs, mask)
        queries = ops.matmul(outputs, self._cast(self.query_kernel))
        # Project old outputs separately, since they need no gradient.
        before = self._cast(state["window"])
        keys = ops.concatenate(
            [self._keys(before), self._keys(outputs)], axis=1
        )
        scores = additive_scores(
            keys, queries, self._cast(self.score_kernel), seen
        )
        weights = masked_softmax(scores, seen)
        context = self.recent.weighted_sum(weights, extended)
        return context, new_state, weights

    def _keys(self, outputs):
        return ops.matmul(outputs, self._cast(self.memory_kernel))

    def _cast(self, tensor):
        return ops.cast(tensor, self.compute_dtype)
