"""Mixing the vocabulary's distribution with one over the words just read."""

import keras
from keras import ops

from memlm_keras.memory.base import SlidingWindow
from memlm_keras.memory.base import by_position
from memlm_keras.memory.base import by_slot

# The logarithm of what was not copied is finite, and has a gradient.
_TINY = 1e-37


class Mixture(SlidingWindow):
    """Base class of what predicts words that were read before, again.

    The outputs of recent steps are remembered with the words read there. Each
    step weighs them, and the words' weights are mixed with the distribution of
    the output projection. Unlike other memories, this comes after the head.
    `supervised` says whether the loss has the term `-pointer_log_probability`
    while training.

    Its state is `{"window": (batch, slots, units), "words": (batch, slots)
    int32, "filled": (batch,) int32}`.

    Call arguments:
        outputs: float tensor `(batch, time, units)`, what the head projects.
        token_ids: int32 tensor `(batch, time)`, the tokens read.
        logits: float tensor `(batch, time, vocabulary)` of the head, or `None`
            where only state and attention are of interest.
        state: as of other memories.
        training: optional bool.

    Returns:
        A tuple `(log_probabilities, state, attention, recalled)`: natural-log
        probabilities `(batch, time, vocabulary)`, or `None` without logits;
        the new state; the weights `(batch, time, memory)`, oldest slot first;
        and the weights and words that `pointer_log_probability` reads.
    """

    def pointer_log_probability(self, recalled, targets):
        """What was made of words that are known only after the prediction.

        Args:
            recalled: as `call` returns it.
            targets: int32 tensor `(batch, time)`, the words that came.

        Returns:
            Float tensor `(batch, time)`.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `pointer_log_probability`."
        )

    supervised = False

    def initial_state(self, batch_size):
        words = ops.zeros((batch_size, self.slots), dtype="int32")
        return {**super().initial_state(batch_size), "words": words}

    def compute_output_spec(
        self,
        outputs,
        token_ids=None,
        logits=None,
        state=None,
        training=None,
    ):
        """Shapes and dtypes of the results."""
        few = None
        if logits is not None:
            # Found on torch by computing it for 89 rows of 89 steps, which is
            # gigabytes for a whole vocabulary.
            few = keras.KerasTensor((*logits.shape[:2], 2), logits.dtype)
        found, *others = super().compute_output_spec(
            outputs, token_ids, few, state, training
        )
        if few is not None:
            found = keras.KerasTensor(logits.shape, found.dtype)
        return found, *others

    def recall(self, outputs, token_ids, state):
        """Puts outputs and words behind those remembered.

        Returns:
            A tuple of outputs `(batch, slots + time, units)`, words `(batch,
            slots + time)`, mask and new state, as of `slide`.
        """
        if state is None:
            state = self.initial_state(ops.shape(outputs)[0])
        words = ops.concatenate([state["words"], token_ids], axis=1)
        outputs, mask, state = self.slide(state, outputs)
        state["words"] = words[:, ops.shape(words)[1] - self.slots :]
        return outputs, words, mask, state

    def products(self, queries, extended, memory):
        """Inner product of each step with what it sees.

        Args:
            queries: `(batch, time, units)`.
            extended: `(batch, slots + time, units)`, of `recall`.
            memory: integer, `slots`, or one more with the step itself.

        Returns:
            float32 tensor `(batch, time, memory)`: in less, sums over thousands
            of weights would stop growing.
        """
        every = ops.matmul(queries, ops.transpose(extended, (0, 2, 1)))
        return ops.cast(by_slot(every, memory), "float32")

    def copy_distribution(self, weights, words, vocabulary_size):
        """Sum of the weights of each word of the vocabulary.

        Args:
            weights: `(batch, time, memory)`.
            words: int32 `(batch, memory - 1 + time)`: step t weighs the words
                at positions t to t + memory - 1.
            vocabulary_size: integer.

        Returns:
            Tensor `(batch, time, vocabulary_size)`.
        """
        batch_size, time, memory = ops.shape(weights)
        every = by_position(weights, memory - 1 + time)
        # All steps of one word are summed at once.
        rows = ops.arange(batch_size, dtype="int32")[:, None]
        segments = ops.reshape(rows * vocabulary_size + words, (-1,))
        by_word = ops.segment_sum(
            ops.reshape(ops.transpose(every, (0, 2, 1)), (-1, time)),
            segments,
            num_segments=batch_size * vocabulary_size,
        )
        by_word = ops.reshape(by_word, (batch_size, vocabulary_size, time))
        return ops.transpose(by_word, (0, 2, 1))

    def weight_of(self, weights, words, targets):
        """Sum of the weights of one word a step, as `copy_distribution` has it.

        Args:
            weights, words: as for `copy_distribution`.
            targets: int32 `(batch, time)`.

        Returns:
            Tensor `(batch, time)`.
        """
        same = ops.equal(words[:, None], targets[..., None])
        same = by_slot(ops.cast(same, weights.dtype), weights.shape[-1])
        return ops.sum(weights * same, axis=-1)


def mixed(gate, logits, copied):
    """Natural logarithm of `gate * softmax(logits) + copied`, float32.

    Args:
        gate: `(batch, time, 1)`.
        logits, copied: `(batch, time, vocabulary)`.
    """
    predicted = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
    return ops.logaddexp(safe_log(gate) + predicted, safe_log(copied))


def safe_log(probabilities):
    """Natural logarithm in float32, finite where a probability is zero."""
    return ops.log(ops.cast(probabilities, "float32") + _TINY)
