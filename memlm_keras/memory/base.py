"""The base of all memories: their protocol, and tables of words."""

import itertools

import keras
from keras import ops

# The mask that Keras attaches to a tensor; these have no public names.
from keras.src.backend import get_keras_mask
from keras.src.backend import set_keras_mask

from memlm_keras.arguments import require_positive_integer
from memlm_keras.kernels import DistinctKernels
from memlm_keras.masking import SlidingWindow
from memlm_keras.masking import ValidSteps
from memlm_keras.masking import take_steps


class Memory(keras.layers.Layer):
    """Base class of the layers that read back what the network produced.

    A subclass implements `build`, `initial_state` and `read`, a pure function
    of outputs, state and token ids. One `read` serves whole sequences and
    single steps, as the state holds all that is needed of the past, and so
    `read_at` reads at some steps only and remembers all. `call` dresses it as
    other Keras layers are: it returns the outputs, and the state and the
    attention weights to those who ask.

    A mask `(batch, time)`, given or attached to `outputs` by Keras, is
    honoured: a masked step is never remembered, wherever it stands, and valid
    steps and the state come out as if it were not there. At masked steps
    outputs and weights are zero, and the mask goes on to the next layer.
    `memlm_keras.masking.over_valid_steps` makes any causal `read` do so.

    Recurrent layers below do as Keras says: at a masked step an `LSTM` repeats
    its last output and keeps its state on every backend. A mask sends it
    through the generic loop on JAX and PyTorch, and on TensorFlow through
    cuDNN only where the mask is padding at the right.

    Attributes:
        attends: whether the third result of `read` means anything.
        steps_back: integer, how many steps before the current one the last
            slot lies; `None` where slots lie behind it as well.
        causal: whether `read` looks at no token behind the ones read so far. A
            memory that is not causal is given whole sentences, one a row, and
            has no state to go on from.

    Args:
        return_state: whether a call returns the new state as well.
        return_attention_scores: whether a call returns the attention weights
            as well.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        outputs: float tensor `(batch, time, units)`, outputs of the last
            recurrent layer.
        token_ids: optional int32 tensor `(batch, time)`, the tokens read.
        state: optional dict of tensors, batch first, as `initial_state` and
            a call return it. `None` means `initial_state`.
        mask: optional boolean tensor `(batch, time)`, `False` at padding.
        training: not used.
        return_state, return_attention_scores: `None` for what the layer was
            made with, or a bool for this call.
        positions: optional int32 tensor `(batch, queries)`, the steps whose
            results are asked for, from 0 on and in any order; `None` for all.
            Every step is remembered, whether it is read at or not.

    Returns:
        What is handed to the output projection, `(batch, time, output_units)`;
        or a tuple of that, the new state if it is returned, and, if they are
        returned, the attention weights `(batch, time, memory)`, oldest slot
        first, where `memory` is 0 for a memory that does not attend. With
        `positions` there are `queries` rows in place of `time`.

    Raises:
        ValueError: for `return_attention_scores=True` of a memory that does
            not attend, and for a mask that is not `(batch, time)`.

    Example:

    >>> model = keras.Sequential([
    ...     keras.layers.Embedding(50, 8, mask_zero=True),
    ...     keras.layers.LSTM(12, return_sequences=True),
    ...     memlm_keras.memory.KeyValuePredict(window=5),
    ...     keras.layers.Dense(50),
    ... ])
    >>> keras.ops.shape(model(np.array([[3, 7, 4, 0], [5, 0, 2, 9]])))
    (2, 4, 50)

    A task that asks at a few steps only pays for those:

    >>> memory = memlm_keras.memory.Attention(window=64)
    >>> keras.ops.shape(memory(np.ones((2, 99, 8)), positions=[[98], [40]]))
    (2, 1, 8)
    """

    attends = True
    steps_back = 1
    causal = True

    def __init__(
        self, return_state=False, return_attention_scores=False, **kwargs
    ):
        if return_attention_scores and not self.attends:
            raise ValueError(
                "`return_attention_scores=True` needs a memory that attends, "
                "such as `KeyValuePredict`. Received: a "
                f"{type(self).__name__}, which does not"
            )
        super().__init__(**kwargs)
        self.return_state = return_state
        self.return_attention_scores = return_attention_scores
        self.supports_masking = True

    def initial_state(self, batch_size):
        """Returns the state before the first token, a dict of tensors."""
        raise NotImplementedError(
            f"{type(self).__name__} must implement `initial_state`."
        )

    def read(self, outputs, state, token_ids=None, mask=None):
        """Reads any number of steps from a given state.

        Args:
            outputs, token_ids, mask: as for a call.
            state: dict as of `initial_state`.

        Returns:
            A tuple `(outputs, state, weights)`, as a call returns them that
            was asked for all three.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `read`."
        )

    def remembered(self, outputs, token_ids=None):
        """The contents of new slots of the sliding window `recent`.

        Args:
            outputs, token_ids: as for a call.

        Returns:
            Tensor `(batch, time, ...)`; `None` if the state is not just that
            of such a window.
        """
        return None

    def read_at(self, positions, outputs, state, token_ids=None, mask=None):
        """Reads at some steps only, and remembers all.

        A memory over a sliding window, which says what it has `remembered`,
        reads each of these steps from the state before it, so that the cost
        grows with their number. Others read all steps.

        Args:
            positions: int32 tensor `(batch, queries)`.
            outputs, state, token_ids, mask: as for `read`.

        Returns:
            As `read`, with results `(batch, queries, ...)`.
        """
        if self.remembered(outputs, token_ids) is None:
            outputs, state, weights = self.read(outputs, state, token_ids, mask)
            return (
                take_steps(outputs, positions),
                state,
                take_steps(weights, positions),
            )
        put_back = None
        if mask is not None:
            steps = ValidSteps(mask)
            outputs = steps.to_front(outputs)
            token_ids = steps.to_front(token_ids)
            positions, put_back = steps.positions(positions)
            mask = steps.front
        remembered = self.remembered(outputs, token_ids)
        extended, _, new_state = self.recent.slide(state, remembered, mask)
        before = self.recent.before(state, extended, positions)
        batch_size, queries = ops.shape(positions)

        def alone(tensor):
            # Each step is a row of its own.
            if tensor is None:
                return None
            steps = take_steps(tensor, positions)
            return ops.reshape(steps, (-1, 1, *tensor.shape[2:]))

        def together(tensor):
            shape = (batch_size, queries, tensor.shape[-1])
            tensor = ops.reshape(tensor, shape)
            return tensor if put_back is None else put_back(tensor)

        outputs, _, weights = self.read(
            alone(outputs), before, alone(token_ids)
        )
        return together(outputs), new_state, together(weights)

    def embed_state(self, state, embed):
        """Adds vectors of the words in a state, where a memory needs them.

        A memory that shares the model's embedding carries word ids, so that
        they are looked up anew, with a gradient, wherever the state goes on.
        Whoever holds the embedding hands each state through this method before
        it is read.

        Args:
            state: dict as of `initial_state`.
            embed: function from int32 `(batch, n)` to vectors
                `(batch, n, units)`, as `outputs` has them.

        Returns:
            The state that `read` takes; most memories return it as it is.
        """
        return state

    def call(
        self,
        outputs,
        token_ids=None,
        state=None,
        mask=None,
        training=None,
        return_state=None,
        return_attention_scores=None,
        positions=None,
    ):
        if mask is None:
            # Keras fills in `mask` for calls with a single tensor only.
            mask = get_keras_mask(outputs)
        if state is None:
            # No word is remembered, so any vector will do.
            state = self.embed_state(
                self.initial_state(ops.shape(outputs)[0]),
                lambda words: ops.zeros(
                    (*ops.shape(words), outputs.shape[-1]), outputs.dtype
                ),
            )
        arguments = outputs, state, token_ids, mask
        if positions is None:
            outputs, state, weights = self.read(*arguments)
        else:
            positions = ops.convert_to_tensor(positions, "int32")
            outputs, state, weights = self.read_at(positions, *arguments)
            if mask is not None:
                # Keras would attach the mask of all steps.
                set_keras_mask(outputs, take_steps(mask, positions))
        if return_state is None:
            return_state = self.return_state
        if return_attention_scores is None:
            return_attention_scores = self.return_attention_scores
        if not return_state and not return_attention_scores:
            return outputs
        asked = (True, return_state, return_attention_scores)
        return tuple(itertools.compress((outputs, state, weights), asked))

    def compute_output_spec(self, outputs, *arguments, **keywords):
        """Shapes and dtypes of what a call returns, found by tracing it once.

        An open batch or time is traced as some size; the protocol says which
        sizes of the results follow from them, and these are open again.
        """

        def sized(tensor):
            if not isinstance(tensor, keras.KerasTensor):
                return tensor
            some = (2, 3, *tensor.shape[2:])
            shape = [given or size for given, size in zip(tensor.shape, some)]
            return keras.KerasTensor(shape, tensor.dtype)

        if keywords.get("positions") is not None:
            positions = keywords["positions"]
            if not isinstance(positions, keras.KerasTensor):
                positions = ops.convert_to_tensor(positions, "int32")
            keywords = {**keywords, "positions": positions}
        steps = keywords.get("positions")
        steps = outputs if steps is None else steps

        def opened(tensor, axes):
            shape = (*steps.shape[:axes], *tensor.shape[axes:])
            return keras.KerasTensor(shape, tensor.dtype)

        traced = (outputs, *arguments), keywords
        positional, named = keras.tree.map_structure(sized, traced)
        found = keras.Operation.compute_output_spec(self, *positional, **named)
        if not isinstance(found, tuple):
            return opened(found, 2)
        return tuple(
            {name: opened(value, 1) for name, value in result.items()}
            if isinstance(result, dict)
            else opened(result, 2)
            for result in found
        )

    def compute_output_shape(self, outputs_shape, *shapes, **named_shapes):
        """Shapes of what a call returns, given the shapes of its tensors."""
        if not self.built:
            self.build(outputs_shape)
        found = self.compute_output_spec(
            keras.KerasTensor(outputs_shape, dtype=self.compute_dtype),
            token_ids=keras.KerasTensor(outputs_shape[:2], dtype="int32"),
        )
        return keras.tree.map_structure(
            lambda tensor: tuple(tensor.shape), found
        )

    def get_config(self):
        return {
            **super().get_config(),
            "return_state": self.return_state,
            "return_attention_scores": self.return_attention_scores,
        }


class WordMemory(DistinctKernels, Memory):
    """Base class of memories over the n most recent words.

    The current word is one of them. Subclasses look words up in tables of
    `vocabulary_size` rows.

    Args:
        window: integer, n, how many words are attended over.
        vocabulary_size: integer, V; a `memlm_keras.LanguageModel` fills in
            its own where it is `None`.
        kernel_initializer: initializer of every weight of the memory.
        **kwargs: arguments of `Memory`.
    """

    steps_back = 0

    def __init__(self, window, vocabulary_size, kernel_initializer, **kwargs):
        require_positive_integer("window", window)
        if vocabulary_size is not None:
            require_positive_integer("vocabulary_size", vocabulary_size)
        super().__init__(kernel_initializer, **kwargs)
        self.window = window
        self.vocabulary_size = vocabulary_size
        self.recent = SlidingWindow(window, dtype="int32", current=True)

    def add_table(self, name, units):
        """Adds a look-up table `(vocabulary_size, units)`."""
        if self.vocabulary_size is None:
            raise ValueError(
                "`vocabulary_size` must be given for a "
                f"{type(self).__name__} outside of a `LanguageModel`. "
                "Received: vocabulary_size=None"
            )
        return self.add_kernel(name, (self.vocabulary_size, units))

    def initial_state(self, batch_size):
        return self.recent.initial_state(batch_size)

    def require_words(self, token_ids):
        """Raises `ValueError` unless the words read are given."""
        if token_ids is None:
            raise ValueError(
                f"`token_ids` must be given: a {type(self).__name__} attends "
                "over the words read. Received: token_ids=None"
            )

    def get_config(self):
        return {
            **super().get_config(),
            "window": self.window,
            "vocabulary_size": self.vocabulary_size,
        }


def equal_parts(layer, units, parts):
    """Size of each of `parts` equal parts of an output of `units` units."""
    if units % parts:
        nearest = max(1, units // parts) * parts
        raise ValueError(
            f"{type(layer).__name__} splits each output into {parts} equal "
            f"parts, so the units of the last recurrent layer must be "
            f"divisible by {parts}. Received: units={units}. Nearest sizes "
            f"that do: {nearest} and {nearest + parts}"
        )
    return units // parts
