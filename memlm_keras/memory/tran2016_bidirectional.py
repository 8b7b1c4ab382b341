"""The bidirectional memory block of Tran, Bisazza and Monz (2016).

"Recurrent Memory Networks for Language Modeling", Section 6.

Shapes below: B batch, T time, n words on each side, d units.
"""

import keras
from keras import ops

from memlm_keras.arguments import require_positive_integer
from memlm_keras.memory.tran2016 import MemoryBlock


@keras.saving.register_keras_serializable(package="memlm_keras")
class BidirectionalMemoryBlock(MemoryBlock):
    """Attention over the words around the one to predict (Tran et al., 2016).

    With `x_t` the word read at step t, and so `x_{t+1}` the word to predict,
    step t attends over

        x_{t-n+1} ... x_t   and   x_{t+2} ... x_{t+1+n}

    by Eq. 1 to 7 of `MemoryBlock`, whose options and weights this block has.
    The temporal matrix has a row for each of the 2 n places; where a side has
    fewer words, those there keep the rows of their places, so that rows n and
    n + 1 always stand for the neighbours of the word to predict.

    The words after it are those of the same sentence. Its end is none of them,
    and it and all behind it is masked, as is what lies behind the input: so
    padding with `end_of_sentence_id` changes nothing.

    The word to predict is never read. But what is behind it is, so a row must
    be one whole sentence, nothing can be streamed, and the probabilities of the
    words of a sentence do not multiply to the probability of the sentence.

    Args:
        window: integer, n, how many words are attended over on each side.
        end_of_sentence_id: integer, ends each sentence, and pads.
        **kwargs: other arguments of `MemoryBlock`.

    Call arguments:
        outputs: float tensor `(B, T, d)`.
        token_ids: int32 tensor `(B, T)`, the words read.
        state: not used; the state is an empty dict.

    Returns:
        `(h^m, state, p)`: `(B, T, d)`, an empty dict, and `(B, T, 2 n)`, the
        words before and then the words after, each side from left to right.

    Raises:
        ValueError: as `MemoryBlock`, and if `end_of_sentence_id` is not an
            integer from 0 on, below `vocabulary_size`.

    Example:

    >>> memory = memlm_keras.memory.BidirectionalMemoryBlock(
    ...     window=10, vocabulary_size=50
    ... )
    >>> outputs, _, weights = memory(
    ...     np.ones((2, 7, 16), "float32"), np.ones((2, 7), "int32")
    ... )
    >>> keras.ops.shape(weights)
    (2, 7, 20)
    """

    reads_ahead = True

    def __init__(self, window=10, end_of_sentence_id=0, **kwargs):
        require_positive_integer("end_of_sentence_id", end_of_sentence_id, 0)
        super().__init__(window, **kwargs)
        self.end_of_sentence_id = end_of_sentence_id

    @property
    def memory_size(self):
        """How many words a step attends over, both sides together."""
        return 2 * self.window

    @property
    def steps_back(self):
        """Not defined, as half of the places lie ahead.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "`steps_back` is defined for memories of what was read before, "
            f"such as `MemoryBlock`. Received: {type(self).__name__}, of words "
            "on both sides of the predicted one. Pictures and analyses need "
            "the former; `lm.attention(tokens)` gives the weights here."
        )

    def build(self, outputs_shape, token_ids_shape=None):
        super().build(outputs_shape, token_ids_shape)
        if self.end_of_sentence_id >= self.vocabulary_size:
            raise ValueError(
                "`end_of_sentence_id` must be below the vocabulary size "
                f"{self.vocabulary_size}. Received: end_of_sentence_id="
                f"{self.end_of_sentence_id}"
            )

    def initial_state(self, batch_size):
        return {}

    def slide(self, state, token_ids):
        """As `MemoryBlock.slide`, with the words after, and without a state.

        Returns:
            Words `(B, T + 2 n)`, of which `slot` shows each step its own; the
            mask `(B, T, 2 n)`; and an empty dict.
        """
        n, end = self.window, self.end_of_sentence_id
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
        """As `SlidingWindow.slot`, the word to predict left out.

        Args:
            extended: tensor `(B, T + 2 n, ...)`, of words as of `slide`.
            index: integer in `[0, 2 n)`, the word to predict between n - 1
                and n.

        Returns:
            Tensor `(B, T, ...)`.
        """
        index += index >= self.window
        return extended[:, index : (index - 2 * self.window) or None]

    def get_config(self):
        return {
            **super().get_config(),
            "end_of_sentence_id": self.end_of_sentence_id,
        }
