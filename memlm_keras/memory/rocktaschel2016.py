"""Word-by-word attention of Rocktaeschel et al. (2016).

"Reasoning about Entailment with Neural Attention", Section 2.4.

Shapes use B (batch), T (hypothesis), P (premise) and k (units).
"""

import keras
from keras import ops

from memlm_keras.keras_private import rnn
from memlm_keras.kernels import DistinctKernels
from memlm_keras.masking import penalty_where_false
from memlm_keras.masking import softmax_after


@keras.saving.register_keras_serializable(package="memlm_keras")
class WordByWordAttention(DistinctKernels, keras.layers.Layer):
    """Attention over a premise at each word of a hypothesis.

    The columns of `Y` are the outputs of the premise's LSTM, and `h_t` are the
    outputs of the hypothesis' LSTM:

        M_t = tanh(W^y Y + (W^h h_t + W^r r_{t-1}) 1^T)
        a_t = softmax(w^T M_t)
        r_t = Y a_t^T + tanh(W^t r_{t-1})
        h*  = tanh(W^p r_N + W^x h_N)

    `r_0` is zero, and N is the last word of the hypothesis.

    | paper | weight | shape |
    |---|---|---|
    | `W^y`, `W^h`, `W^r` | `premise_kernel`, `query_kernel`, `read_kernel` | `(k, k)` |
    | `w` | `score_kernel` | `(k, 1)` |
    | `W^t` | `transition_kernel` | `(k, k)` |
    | `W^p`, `W^x` | `final_read_kernel`, `final_output_kernel` | `(k, k)` |

    Args:
        kernel_initializer: initializer of every weight.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        outputs: float tensor `(B, T, k)`, outputs of the hypothesis.
        last: float tensor `(B, k)`, the output at the last word.
        premise: float tensor `(B, P, k)`, outputs of the premise.
        outputs_mask: boolean tensor `(B, T)`, `True` at words.
        premise_mask: boolean tensor `(B, P)`, `True` at words.

    Returns:
        A tuple of `h*`, `(B, k)`, and `a`, `(B, T, P)`, which is zero where a
        mask is false.

    Example:

    >>> attention = memlm_keras.memory.WordByWordAttention()
    >>> outputs, premise = np.ones((2, 4, 8)), np.ones((2, 7, 8))
    >>> final, weights = attention(
    ...     outputs, outputs[:, -1], premise, np.ones((2, 4), "bool"),
    ...     np.ones((2, 7), "bool")
    ... )
    >>> keras.ops.shape(weights)
    (2, 4, 7)
    """  # noqa: E501

    def __init__(self, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(kernel_initializer, **kwargs)
        # The mask arguments replace the masks that Keras attaches to tensors.
        self.supports_masking = True

    def build(self, outputs_shape, *shapes, **named_shapes):
        k = outputs_shape[-1]
        add = self.add_kernel
        self.premise_kernel = add("premise_kernel", (k, k))
        self.query_kernel = add("query_kernel", (k, k))
        self.read_kernel = add("read_kernel", (k, k))
        self.transition_kernel = add("transition_kernel", (k, k))
        self.final_read_kernel = add("final_read_kernel", (k, k))
        self.final_output_kernel = add("final_output_kernel", (k, k))
        self.score_kernel = add("score_kernel", (k, 1))

    def call(self, outputs, last, premise, outputs_mask, premise_mask):
        projected = ops.matmul(premise, self.premise_kernel)
        queries = ops.matmul(outputs, self.query_kernel)
        kernels = self.read_kernel, self.score_kernel, self.transition_kernel
        of_read, of_score, transition = map(ops.convert_to_tensor, kernels)
        penalties = penalty_where_false(premise_mask)
        # If all words are masked, their weights are arbitrary.
        is_word = ops.cast(premise_mask, premise.dtype)
        premise = premise * is_word[..., None]

        def step(inputs, states):
            query, reads = inputs
            (read,) = states
            query = query + read @ of_read
            scores = ops.tanh(projected + query[:, None]) @ of_score
            weights = softmax_after(scores[..., 0], penalties)
            new_read = (weights[:, None] @ premise)[:, 0]
            new_read = new_read + ops.tanh(read @ transition)
            # `where` is faster than the `mask` argument of Keras' loop.
            return weights, [ops.where(reads, new_read, read)]

        reads = ops.cast(outputs_mask, "bool")[..., None]
        _, weights, (read,) = rnn(
            step,
            (queries, reads),
            [ops.zeros_like(premise[:, 0])],
            unroll=keras.backend.backend() == "torch",
        )
        weights = weights * ops.cast(reads, weights.dtype) * is_word[:, None]
        merged = ops.matmul(read, self.final_read_kernel)
        merged = merged + ops.matmul(last, self.final_output_kernel)
        return ops.tanh(merged), weights

    def compute_mask(self, *arguments, previous_mask=None, **keywords):
        """Returns `None`, since the results need no masks."""
        return None

    def compute_output_spec(
        self, outputs, last, premise, outputs_mask, premise_mask
    ):
        weights = (*outputs.shape[:2], premise.shape[1])
        return (
            keras.KerasTensor(last.shape, dtype=self.compute_dtype),
            keras.KerasTensor(weights, dtype=self.compute_dtype),
        )
