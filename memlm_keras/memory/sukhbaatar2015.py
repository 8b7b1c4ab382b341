"""The memory network of Sukhbaatar et al. (2015) as a language model.

"End-To-End Memory Networks", Section 5, with one layer, as Tran et al. (2016)
use it for a baseline.

Shapes below: B batch, T time, n memory size, d units.
"""

import keras
from keras import ops

from memlm_keras.embeddings import look_up
from memlm_keras.masking import masked_softmax
from memlm_keras.memory.words import WordMemory

# The query of a language model, which has no question, is a constant vector.
QUERY = 0.1


@keras.saving.register_keras_serializable(package="memlm_keras")
class MemoryNetwork(WordMemory):
    """One layer of a memory network over the most recent words.

    With `A x_i` the embeddings of the n most recent words, the current word
    included, `C x_i` those of a second table, and the constant query `u = 0.1`:

        p_i = softmax_i(u^T (A x_i + T_A(i)))
        o   = sum_i p_i (C x_i + T_C(i))
        h   = H u + o, with ReLU applied to its second half

    The model's embedding is A, so that there is no recurrent layer below. Note
    that without a query of its own a word's weight depends on the word and its
    place alone. While fewer than n words were read, those there take the last
    rows of `T_A` and `T_C`.

    | paper | weight | shape |
    |---|---|---|
    | `C` | `output_embeddings` | `(V, d)` |
    | `T_A` | `temporal_kernel` | `(n, d)`, the current word's row last |
    | `T_C` | `output_temporal_kernel` | `(n, d)`, likewise |
    | `H` | `query_kernel` | `(d, d)` |

    Args:
        window: integer, n, how many words are attended over.
        vocabulary_size: integer, V; a `memlm_keras.LanguageModel` fills in
            its own where it is `None`.
        kernel_initializer: initializer of every weight.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        outputs: float tensor `(B, T, d)`, the embedded words.
        token_ids: int32 tensor `(B, T)`, the words read.
        state: `None` or the dict `{"window": (B, n - 1, 2 d),
            "filled": (B,)}`, what both tables gave for the words before.

    Returns:
        `(h, state, p)`: `(B, T, d)`, the new state, and `(B, T, n)` with the
        current word last.

    Raises:
        ValueError: if `vocabulary_size` or `window` is not a positive integer,
            for a call without `token_ids`, and if there is no
            `vocabulary_size` when the weights are made.

    Example:

    >>> lm = memlm_keras.LanguageModel(
    ...     100, 16, [], memlm_keras.memory.MemoryNetwork(window=15))
    """

    def __init__(
        self,
        window=15,
        vocabulary_size=None,
        kernel_initializer="uniform",
        **kwargs,
    ):
        super().__init__(window, vocabulary_size, kernel_initializer, **kwargs)

    def build(self, outputs_shape, token_ids_shape=None):
        d = outputs_shape[-1]
        positions = (self.window, d)
        self.build_window(2 * d)
        self.output_embeddings = self.add_table("output_embeddings", d)
        self.temporal_kernel = self.add_kernel("temporal_kernel", positions)
        self.output_temporal_kernel = self.add_kernel(
            "output_temporal_kernel", positions
        )
        self.query_kernel = self.add_kernel("query_kernel", (d, d))

    def call(self, outputs, token_ids=None, state=None, training=None):
        self.require_words(token_ids)
        d = outputs.shape[-1]
        values = look_up(self.output_embeddings, token_ids)
        remembered = ops.concatenate([outputs, values], axis=-1)
        words, mask, state = self.slide(state, remembered)

        # u^T A x_i, once for each word and not for each of its slots.
        scores_of_words = QUERY * ops.sum(words[..., :d], axis=-1)
        scores = ops.stack(
            [self.slot(scores_of_words, i) for i in range(self.window)],
            axis=-1,
        )
        scores = scores + QUERY * ops.sum(self.temporal_kernel, axis=-1)
        weights = masked_softmax(scores, mask)
        context = self.weighted_slots(weights, words[..., d:])
        context = context + ops.matmul(weights, self.output_temporal_kernel)
        hidden = context + QUERY * ops.sum(self.query_kernel, axis=0)
        linear, rectified = hidden[..., : d // 2], hidden[..., d // 2 :]
        outputs = ops.concatenate([linear, ops.relu(rectified)], axis=-1)
        return outputs, state, weights
