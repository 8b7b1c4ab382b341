"""The memory network of Sukhbaatar et al. (2015) as a language model.

"End-To-End Memory Networks", Section 5. The model has one layer, like the
memory network with which Tran et al. (2016) compare their models.

Shapes use B (batch), T (time), n (memory size) and d (units).
"""

import keras
from keras import ops

from memlm_keras.embeddings import look_up
from memlm_keras.masking import masked_softmax
from memlm_keras.masking import over_valid_steps
from memlm_keras.memory.base import WordMemory

# A memory network's query is an embedded question. A language model has no
# question; as in Section 5, all elements of its query are 0.1.
QUERY = 0.1


@keras.saving.register_keras_serializable(package="memlm_keras")
class MemoryNetwork(WordMemory):
    """One layer of a memory network over the most recent words.

    `A x_i` are the embeddings of the n most recent words up to the current one,
    `C x_i` their rows in a second table; elements of the query `u` are 0.1:

        p_i = softmax_i(u^T (A x_i + T_A(i)))
        o   = sum_i p_i (C x_i + T_C(i))
        h   = H u + o, with ReLU applied to its second half

    `A` is the model's embedding, and the model has no recurrent layer. Since
    the query is constant, the weight of a word depends only on the word and its
    position. `T_A` and `T_C` have one row per position. The last row is for
    the current word, even while fewer than n words have been read.

    | paper | weight | shape |
    |---|---|---|
    | `C` | `output_embeddings` | `(V, d)` |
    | `T_A` | `temporal_kernel` | `(n, d)`, the current word's row last |
    | `T_C` | `output_temporal_kernel` | `(n, d)`, likewise |
    | `H` | `query_kernel` | `(d, d)` |

    Args:
        window: integer, n, number of words to attend to.
        vocabulary_size, kernel_initializer, **kwargs: see `MemoryBlock`.

    `Memory` describes the call arguments; `token_ids` are required. The
    argument `outputs`, `(B, T, d)`, holds the embedded words; the result is
    `h`, `(B, T, d)`. The state contains `"window"` `(B, n - 1)`, the int32 ids
    of the previous words, and their number, `"filled"` `(B,)`; call
    `embed_state` on a state before the next call. The attention weights are
    `p`, `(B, T, n)`, the current word last.

    Raises:
        ValueError: if `window` or `vocabulary_size` is not a positive integer,
            or a call has no `token_ids` or a state without embedded words.

    Example:

    >>> embedding = keras.layers.Embedding(100, 16)
    >>> memory = memlm_keras.memory.MemoryNetwork(15, 100, return_state=True)
    >>> token_ids = np.ones((2, 7), "int32")
    >>> outputs, state = memory(embedding(token_ids), token_ids)
    >>> state = memory.embed_state(state, embedding)
    >>> outputs, state = memory(embedding(token_ids), token_ids, state=state)
    """

    def build(self, outputs_shape, token_ids_shape=None):
        d = outputs_shape[-1]
        positions = (self.window, d)
        self.output_embeddings = self.add_table("output_embeddings", d)
        self.temporal_kernel = self.add_kernel("temporal_kernel", positions)
        self.output_temporal_kernel = self.add_kernel(
            "output_temporal_kernel", positions
        )
        self.query_kernel = self.add_kernel("query_kernel", (d, d))

    def embed_state(self, state, embed):
        """Adds `"vectors"`, `(B, n - 1, d)`: `A x_i` of the previous words."""
        return {**state, "vectors": embed(state["window"])}

    @over_valid_steps
    def read(self, outputs, state, token_ids=None, mask=None):
        self.require_words(token_ids)
        if "vectors" not in state:
            raise ValueError(
                "`state` must be a result of `memory.embed_state(state, "
                "embedding)`, which looks up the words of the state. "
                f"Received: a state with the keys {sorted(state)}"
            )
        before = ops.cast(state["vectors"], outputs.dtype)
        words, seen, state = self.recent.slide(state, token_ids, mask)
        embedded = ops.concatenate([before, outputs], axis=1)
        scores = self.recent.products(ops.full_like(outputs, QUERY), embedded)
        scores = scores + QUERY * ops.sum(self.temporal_kernel, axis=-1)
        weights = masked_softmax(scores, seen)
        values = look_up(self.output_embeddings, words)
        context = self.recent.weighted_sum(weights, values)
        context = context + ops.matmul(weights, self.output_temporal_kernel)
        d = outputs.shape[-1]
        hidden = context + QUERY * ops.sum(self.query_kernel, axis=0)
        linear, rectified = hidden[..., : d // 2], hidden[..., d // 2 :]
        outputs = ops.concatenate([linear, ops.relu(rectified)], axis=-1)
        return outputs, state, weights
