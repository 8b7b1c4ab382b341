"""Base class of layers that mix the head's distribution with recent words."""

import keras
from keras import ops

from memlm_keras.arguments import Configured
from memlm_keras.keras_private import get_keras_mask
from memlm_keras.keras_private import set_keras_mask
from memlm_keras.masking import ValidSteps
from memlm_keras.masking import as_mask
from memlm_keras.masking import by_position
from memlm_keras.masking import take_steps

# This number is added to probabilities to keep their logarithms finite.
_TINY = 1e-37


class Mixture(Configured, keras.layers.Layer):
    """Base class of layers that raise the probability of recent words.

    A mixture remembers the outputs and input words of recent steps, and attends
    to them at each step. The attention weights, summed by word, are a copy
    distribution, which is mixed with the distribution of the head. A mixture
    follows the head, whereas a memory precedes the head.

    In `build`, a subclass sets the attribute `recent` to a
    `memlm_keras.memory.SlidingWindow`. It implements `read`, a pure function.
    The state is `{"window": (batch, slots, units), "words": (batch, slots)
    int32, "filled": (batch,) int32}`.

    Masked steps are never remembered. At masked steps, log-probabilities and
    attention weights are zero.

    Attributes:
        attends, steps_back, causal: see `memlm_keras.memory.Memory`.
        supervised: whether training adds `-pointer_log_probability` to losses.

    Call arguments:
        outputs: float tensor `(batch, time, units)`, the inputs of the head.
        token_ids: int32 tensor `(batch, time)`, the input tokens.
        logits: float tensor `(batch, time, vocabulary)` from the head, or
            `None` to compute only state and attention.
        state: dict, a result of a call; `None` means `initial_state`.
        mask: optional boolean tensor `(batch, time)`, `False` at padding.
        training: not used.
        positions: optional int32 tensor `(batch, queries)`, the steps that
            predict and to which `logits` belong; all steps are remembered.

    Returns:
        A tuple `(log_probabilities, state, weights, copies)`. Natural-log
        probabilities are `(batch, time, vocabulary)`, or `None` without logits.
        `state` is the new state. Attention weights are `(batch, time, memory)`,
        oldest slot first. `copies` is a tuple that `log_probability` accepts.
        With `positions`, the axis `queries` replaces the axis `time`.
    """

    attends = True
    steps_back = 1
    causal = True
    supervised = False

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def initial_state(self, batch_size):
        """Returns the state before the first token, a dict of tensors."""
        words = ops.zeros((batch_size, self.recent.slots), dtype="int32")
        return {**self.recent.initial_state(batch_size), "words": words}

    def read(self, outputs, state, token_ids, mask=None, positions=None):
        """Reads any number of steps from a given state.

        In each row, valid steps (where `mask` is `True`) come first.

        Returns:
            A tuple `(copies, state, weights)`. `copies` is
            `(gate, shares, words)`; the mixture is `gate * softmax(logits) +
            copy_distribution(shares, words, vocabulary)`. The new state and the
            attention weights are results of `call`.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `read`."
        )

    def call(
        self,
        outputs,
        token_ids=None,
        logits=None,
        state=None,
        mask=None,
        training=None,
        positions=None,
    ):
        if mask is None:
            # Keras sets `mask` only for calls with a single tensor.
            mask = get_keras_mask(outputs)
        if state is None:
            state = self.initial_state(ops.shape(outputs)[0])
        if positions is not None:
            positions = ops.convert_to_tensor(positions, "int32")
        if mask is None:
            copies, state, weights = self.read(
                outputs, state, token_ids, positions=positions
            )
            return self._mixed(logits, copies), state, weights, copies
        steps = ValidSteps(as_mask(mask, outputs))
        of_results, put_back = steps.mask, steps.put_back
        if positions is None:
            logits = steps.to_front(logits)
        else:
            of_results = take_steps(steps.mask, positions)
            positions, put_back = steps.positions(positions)
        copies, state, weights = self.read(
            steps.to_front(outputs),
            state,
            steps.to_front(token_ids),
            steps.front,
            positions,
        )
        weights = put_back(weights)
        log_probabilities = self._mixed(logits, copies)
        if logits is not None:
            log_probabilities = put_back(log_probabilities)
            set_keras_mask(log_probabilities, of_results)
        return log_probabilities, state, weights, copies

    def _mixed(self, logits, copies):
        """Computes the logarithm of the mixture in float32."""
        if logits is None:
            return None
        gate, shares, words = copies
        predicted = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
        copied = self.copy_distribution(shares, words, logits.shape[-1])
        return ops.logaddexp(safe_log(gate) + predicted, safe_log(copied))

    def log_probability(self, copies, targets, scores):
        """Computes the natural-log probability of targets only.

        The result is the logarithm of `gate * p_head(y) + p_copy(y)`: Equation
        4 of Grave et al. (2017), and the mixture of Merity et al. (2017).

        Args:
            copies: the fourth result of this layer, called without a mask.
            targets: int32 tensor `(batch, time)`, one for each step.
            scores: float32 tensor `(batch, time)`, the targets' `log p_head`.

        Returns:
            float32 tensor `(batch, time)`.

        Example:

        >>> cache = memlm_keras.mixtures.NeuralCache(10)
        >>> token_ids = np.ones((2, 7), "int32")
        >>> *_, copies = cache(np.ones((2, 7, 16), "float32"), token_ids)
        >>> scores = np.full((2, 7), -3.0, "float32")
        >>> found = cache.log_probability(copies, token_ids, scores)
        >>> keras.ops.shape(found)
        (2, 7)
        """
        gate, shares, words = copies
        copied = self.copy_probability(shares, words, targets)
        predicted = ops.add(safe_log(gate[..., 0]), scores)
        return ops.logaddexp(predicted, safe_log(copied))

    def compute_mask(self, outputs, previous_mask=None):
        """Returns `None`, since `call` attaches the mask itself."""
        return None

    def compute_output_spec(
        self,
        outputs,
        token_ids=None,
        logits=None,
        state=None,
        mask=None,
        training=None,
        positions=None,
    ):
        few = None
        if logits is not None:
            # To infer shapes on PyTorch, Keras runs a batch of 89 rows and 89
            # steps, whose logits of all words would take gigabytes.
            few = keras.KerasTensor((*logits.shape[:2], 2), logits.dtype)
        result, *others = super().compute_output_spec(
            outputs, token_ids, few, state, mask, training, positions
        )
        if few is not None:
            result = keras.KerasTensor(logits.shape, result.dtype)
        return result, *others

    def slide(self, outputs, state, token_ids, mask=None):
        """Appends outputs and words to the window; see `SlidingWindow.slide`.
        Returns the extended outputs and words `(batch, slots + time, ...)`, the
        mask of the filled positions that each step sees, and the new state."""
        words = ops.concatenate([state["words"], token_ids], axis=1)
        outputs, seen, state = self.recent.slide(state, outputs, mask)
        state["words"] = self.recent.last(words, mask)
        return outputs, words, seen, state

    def products(self, queries, extended):
        """Computes dot products of steps and slots, `(batch, time, memory)`."""
        # Use float32, since the softmax may sum thousands of slots.
        return ops.cast(self.recent.products(queries, extended), "float32")

    def weights_of_words(self, weights, words, positions=None):
        """Aligns weights with `words`: slot i of step t is word t + i."""
        weights = by_position(weights, ops.shape(words)[1])
        return weights if positions is None else take_steps(weights, positions)

    def copy_distribution(self, weights, words, vocabulary_size):
        """Sums the weights of each word, `(batch, steps, vocabulary)`."""
        batch_size, time, _ = ops.shape(weights)
        # With steps on the last axis, one `segment_sum` handles all steps.
        rows = ops.arange(batch_size, dtype="int32")[:, None]
        segments = ops.reshape(rows * vocabulary_size + words, (-1,))
        by_word = ops.segment_sum(
            ops.reshape(ops.transpose(weights, (0, 2, 1)), (-1, time)),
            segments,
            num_segments=batch_size * vocabulary_size,
        )
        by_word = ops.reshape(by_word, (batch_size, vocabulary_size, time))
        return ops.transpose(by_word, (0, 2, 1))

    def copy_probability(self, weights, words, targets):
        """Computes `copy_distribution` for targets `(batch, steps)` only."""
        same = ops.equal(words[:, None], targets[..., None])
        return ops.sum(ops.where(same, weights, 0), axis=-1)


def safe_log(probabilities):
    """Computes logarithms of probabilities in float32; log 0 becomes finite."""
    return ops.log(ops.cast(probabilities, "float32") + _TINY)
