"""The memory blocks of Tran, Bisazza and Monz (2016).

"Recurrent Memory Networks for Language Modeling", Section 3.1, and Section 6
for words on both sides.

Shapes use B (batch), T (time), n (memory size) and d (units).
"""

import keras
from keras import ops

from memlm_keras.arguments import require_one_of
from memlm_keras.arguments import require_positive_integer
from memlm_keras.embeddings import look_up
from memlm_keras.masking import SlidingWindow
from memlm_keras.masking import banded_products
from memlm_keras.masking import banded_sum
from memlm_keras.masking import masked_softmax
from memlm_keras.masking import over_valid_steps
from memlm_keras.memory.base import WordMemory

COMPOSITIONS = ("gated", "linear")


@keras.saving.register_keras_serializable(package="memlm_keras")
class MemoryBlock(WordMemory):
    """Attention over the most recent input words (Tran et al., 2016).

    `h_t` is the output of the recurrent layer (`d` units), `M_i` and `C_i` are
    the rows of two look-up tables for the n most recent words, including the
    current word, and `T` is the temporal matrix. The weights follow Eq. 1 or 2:

        p_t = softmax(M_i h_t)                                  (1)
        p_t = softmax((M_i + T) h_t)                            (2)
        s_t = C_i^T p_t                                         (3)

    `composition="gated"` combines context and output with gates:

        z_t = sigm(W_sz s_t + U_hz h_t)                         (4)
        r_t = sigm(W_sr s_t + U_hr h_t)                         (5)
        c_t = tanh(W s_t + U (r_t * h_t))                       (6)
        h^m_t = (1 - z_t) * h_t + z_t * c_t                     (7)

    `composition="linear"` adds context and output, `h^m_t = s_t + h_t`.

    The last row of `T` always belongs to the current word, even while fewer
    than n words have been read, as in the authors' code. In the paper's text,
    the first words of a sentence use the first rows of `T`.

    | paper | weight | shape |
    |---|---|---|
    | `M` | `input_embeddings` | `(V, d)` |
    | `C` | `output_embeddings` | `(V, d)` |
    | `T` | `temporal_kernel` | `(n, d)`, the current word's row last |
    | `W_sz`, `W_sr`, `W` | `context_kernel` | `(d, 3 d)`, side by side |
    | `U_hz`, `U_hr` | `gate_kernel` | `(d, 2 d)`, side by side |
    | `U` | `candidate_kernel` | `(d, d)` |

    Args:
        window: integer, n, number of words to attend to.
        temporal: whether there is a temporal matrix, as in Eq. 2.
        composition: `"gated"` or `"linear"`.
        temporal_context: whether a second temporal matrix, the weight
            `output_temporal_kernel`, is added to `C_i` in Eq. 3. This option
            and the next two are from the authors' code.
        gate_bias: whether Eq. 4 to 6 have a bias, the weight `bias`, `(3 d,)`.
        linear_kernel: whether the sum is `s_t + H h_t`, with H the weight
            `hidden_kernel`, `(d, d)`.
        vocabulary_size: integer, V; `None` for that of the
            `memlm_keras.LanguageModel`.
        kernel_initializer: initializer of every weight.
        **kwargs: arguments of `Memory`.

    `Memory` describes the call arguments; `token_ids` are required. Outputs and
    `h^m` are `(B, T, d)`. The state contains `"window"` `(B, n - 1)`, the int32
    ids of the previous words, and their number, `"filled"` `(B,)`. The
    attention weights `p`, `(B, T, n)`, end with the current word.

    Raises:
        ValueError: if `vocabulary_size` or `window` is not a positive integer,
            `composition` is unknown or does not support an option, a call has
            no `token_ids`, or the layer is built without `vocabulary_size`.

    Example:

    >>> memory = memlm_keras.memory.MemoryBlock(window=15, vocabulary_size=50)
    >>> outputs = memory(
    ...     np.ones((2, 7, 16), "float32"), np.ones((2, 7), "int32")
    ... )
    >>> keras.ops.shape(outputs)
    (2, 7, 16)
    """

    def __init__(
        self,
        window=15,
        temporal=True,
        composition="gated",
        temporal_context=False,
        gate_bias=False,
        linear_kernel=False,
        vocabulary_size=None,
        kernel_initializer="uniform",
        **kwargs,
    ):
        require_one_of("composition", composition, COMPOSITIONS)
        for option, is_set, needed in (
            ("gate_bias", gate_bias, "gated"),
            ("linear_kernel", linear_kernel, "linear"),
        ):
            if is_set and composition != needed:
                raise ValueError(
                    f'`{option}=True` needs composition="{needed}". Received: '
                    f"composition={composition!r}"
                )
        super().__init__(window, vocabulary_size, kernel_initializer, **kwargs)
        self.temporal = temporal
        self.composition = composition
        self.temporal_context = temporal_context
        self.gate_bias = gate_bias
        self.linear_kernel = linear_kernel

    @property
    def memory_size(self):
        """Number of words that a step attends to."""
        return self.window

    def build(self, outputs_shape, token_ids_shape=None):
        d = outputs_shape[-1]
        positions = (self.memory_size, d)
        self.input_embeddings = self.add_table("input_embeddings", d)
        self.output_embeddings = self.add_table("output_embeddings", d)
        if self.temporal:
            self.temporal_kernel = self.add_kernel("temporal_kernel", positions)
        if self.temporal_context:
            self.output_temporal_kernel = self.add_kernel(
                "output_temporal_kernel", positions
            )
        if self.composition == "gated":
            self.context_kernel = self.add_kernel("context_kernel", (d, 3 * d))
            self.gate_kernel = self.add_kernel("gate_kernel", (d, 2 * d))
            self.candidate_kernel = self.add_kernel("candidate_kernel", (d, d))
        if self.gate_bias:
            self.bias = self.add_kernel("bias", (3 * d,))
        if self.linear_kernel:
            self.hidden_kernel = self.add_kernel("hidden_kernel", (d, d))

    def remembered(self, outputs, token_ids=None):
        return token_ids

    @over_valid_steps
    def read(self, outputs, state, token_ids=None, mask=None):
        self.require_words(token_ids)
        words, seen, state = self.recent.slide(state, token_ids, mask)
        weights = self.attend(outputs, words, seen)
        context = self.context(words, weights)
        return self.compose(context, outputs), state, weights

    def attend(self, outputs, words, seen):
        """Computes Eq. 1 or 2: weights `(B, T, n)`."""
        embedded = look_up(self.input_embeddings, words)
        scores = self.recent.products(outputs, embedded)
        if self.temporal:
            scores = scores + ops.matmul(
                outputs, ops.transpose(self.temporal_kernel)
            )
        return masked_softmax(scores, seen)

    def context(self, words, weights):
        """Computes Eq. 3: the context `(B, T, d)`."""
        embedded = look_up(self.output_embeddings, words)
        context = self.recent.weighted_sum(weights, embedded)
        if self.temporal_context:
            context = context + ops.matmul(weights, self.output_temporal_kernel)
        return context

    def compose(self, context, outputs):
        """Combines context and output, `(B, T, d)`, by Eq. 4 to 7 or a sum."""
        if self.composition == "linear":
            if self.linear_kernel:
                outputs = ops.matmul(outputs, self.hidden_kernel)
            return context + outputs
        of_context = ops.matmul(context, self.context_kernel)
        if self.gate_bias:
            of_context = of_context + self.bias
        update, reset, candidate = ops.split(of_context, 3, axis=-1)
        of_update, of_reset = ops.split(
            ops.matmul(outputs, self.gate_kernel), 2, axis=-1
        )
        update = ops.sigmoid(update + of_update)
        reset = ops.sigmoid(reset + of_reset)
        candidate = ops.tanh(
            candidate + ops.matmul(reset * outputs, self.candidate_kernel)
        )
        return (1.0 - update) * outputs + update * candidate


@keras.saving.register_keras_serializable(package="memlm_keras")
class BidirectionalMemoryBlock(MemoryBlock):
    """Attention over words around the word to predict (Tran et al., 2016).

    `x_t` is the word read at step t, and `x_{t+1}` the word to predict. Step t
    attends to the words

        x_{t-n+1} ... x_t   and   x_{t+2} ... x_{t+1+n}

    Equations, options and weights are those of `MemoryBlock`. The temporal
    matrix has one row for each of the 2 n positions. Row n always belongs to
    the word before the word to predict, and row n + 1 to the word after it,
    even if fewer than n words precede or follow.

    The end of the sentence and all words after it are masked, so padding with
    `end_of_sentence_id` changes nothing.

    The word to predict is never read. Because words after it are read, each row
    must be one whole sentence, streaming is impossible, and the product of the
    words' probabilities is not the probability of the sentence.

    Args:
        window: integer, n, number of words to attend to on each side.
        end_of_sentence_id: integer, token that ends sentences and pads rows.
        **kwargs: other arguments of `MemoryBlock`.

    `Memory` describes the call arguments; `token_ids` are required. Outputs and
    `h^m` are `(B, T, d)`, the state is an empty dict, and the attention weights
    are `p`, `(B, T, 2 n)`, from left to right.

    Raises:
        ValueError: as `MemoryBlock`, and if `end_of_sentence_id` is not an
            integer of at least 0 and below `vocabulary_size`.

    Example:

    >>> memory = memlm_keras.memory.BidirectionalMemoryBlock(
    ...     window=10, vocabulary_size=50
    ... )
    >>> outputs, weights = memory(
    ...     np.ones((2, 7, 16), "float32"),
    ...     np.ones((2, 7), "int32"),
    ...     return_attention_scores=True,
    ... )
    >>> keras.ops.shape(weights)
    (2, 7, 20)
    """

    causal = False
    steps_back = None

    def __init__(self, window=10, end_of_sentence_id=0, **kwargs):
        require_positive_integer("end_of_sentence_id", end_of_sentence_id, 0)
        super().__init__(window, **kwargs)
        self.end_of_sentence_id = end_of_sentence_id
        self.recent = _BothSides(window, end_of_sentence_id)

    @property
    def memory_size(self):
        """Number of words around the target that a step attends to."""
        return 2 * self.window

    def build(self, outputs_shape, token_ids_shape=None):
        super().build(outputs_shape, token_ids_shape)
        if self.end_of_sentence_id >= self.vocabulary_size:
            raise ValueError(
                "`end_of_sentence_id` must be below the vocabulary size "
                f"{self.vocabulary_size}. Received: end_of_sentence_id="
                f"{self.end_of_sentence_id}"
            )

    def remembered(self, outputs, token_ids=None):
        # A step also reads the words after the word to predict.
        return None


class _BothSides(SlidingWindow):
    """Window over the n most recent words and n words after the target."""

    def __init__(self, size, end_of_sentence_id):
        super().__init__(size, dtype="int32", current=True)
        self.end_of_sentence_id = end_of_sentence_id

    def initial_state(self, batch_size):
        return {}

    def slide(self, state, token_ids, mask=None):
        """Returns words `(B, T + 2 n)`, a mask `(B, T, 2 n)` and no state."""
        n, end = self.size, self.end_of_sentence_id
        if mask is not None:
            token_ids = ops.where(mask, token_ids, end)
        empty = super().initial_state(ops.shape(token_ids)[0])
        words, before, _ = super().slide(empty, token_ids)
        words = ops.pad(words, [(0, 0), (0, n + 1)], constant_values=end)
        is_end = ops.cast(ops.equal(words, end), "int32")
        ends = ops.stack(
            [self.slot(is_end, i) for i in range(n, 2 * n)], axis=-1
        )
        after = ops.equal(ops.cumsum(ends, axis=-1), 0)
        return words, ops.concatenate([before, after], axis=-1), {}

    def slot(self, extended, index):
        # Skip the word to predict, which is in `extended` after slot n - 1.
        index += index >= self.size
        return extended[:, index : (index - 2 * self.size) or None]

    def products(self, queries, extended):
        n = self.size
        products = banded_products(queries, extended, 2 * n + 1)
        return ops.concatenate(
            [products[..., :n], products[..., n + 1 :]], axis=-1
        )

    def weighted_sum(self, weights, extended):
        before, after = ops.split(weights, 2, axis=-1)
        to_predict = ops.zeros_like(before[..., :1])
        weights = ops.concatenate([before, to_predict, after], axis=-1)
        return banded_sum(weights, extended)
