"""Base classes `Memory`, and `WordMemory` for memories over input words."""

import functools
import itertools

import keras
from keras import ops

from memlm_keras.arguments import Configured
from memlm_keras.arguments import require_positive_integer
from memlm_keras.keras_private import get_keras_mask
from memlm_keras.keras_private import set_keras_mask
from memlm_keras.kernels import DistinctKernels
from memlm_keras.masking import SlidingWindow
from memlm_keras.masking import ValidSteps
from memlm_keras.masking import as_mask
from memlm_keras.masking import take_steps


class Memory(Configured, keras.layers.Layer):
    """Base class of layers that read earlier outputs or words.

    A subclass implements `build`, `initial_state` and `read`, a pure function
    of outputs, state and token ids. The state contains everything that `read`
    needs from earlier steps, so one `read` serves whole sequences and single
    steps. `read_at` reads at some steps and remembers all steps. `call` wraps
    `read` and `read_at` in the usual Keras layer interface.

    A mask `(batch, time)` may be an argument, or be attached to `outputs` by
    Keras. Masked steps are never remembered, so they change neither the state
    nor the results of valid steps. At masked steps, outputs and weights are
    zero. The next layer gets the mask. To support masks, decorate a causal
    `read` with `memlm_keras.masking.over_valid_steps`.

    A masked Keras `LSTM` below the memory repeats its last output and keeps its
    state at masked steps, on every backend. Keras runs a masked `LSTM` in a
    generic loop on JAX and PyTorch; TensorFlow uses cuDNN for right padding.

    Attributes:
        attends: whether `read` returns attention weights.
        steps_back: integer, number of steps from the most recent slot to the
            current step; `None` if some slots are after the current step.
        causal: whether `read` uses only tokens read so far. If false, each row
            must be one whole sentence, and no state is carried.

    Args:
        return_state: whether a call also returns the new state.
        return_attention_scores: whether a call also returns attention weights.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        outputs: float tensor `(batch, time, units)` from the recurrent layers.
        token_ids: optional int32 tensor `(batch, time)`, the tokens read.
        state: optional dict of tensors, batch first, as returned by
            `initial_state` and by a call. `None` means `initial_state`.
        mask: optional boolean tensor `(batch, time)`, `False` at padding.
        training: not used.
        return_state, return_attention_scores: bool, or `None` for the layer's.
        positions: optional int32 tensor `(batch, queries)`, indices of the
            steps to read at, in any order; `None` for all. All are remembered.

    Returns:
        The outputs, `(batch, time, output_units)`; or a tuple of the outputs,
        the new state if `return_state`, and the attention weights
        `(batch, time, memory)` if `return_attention_scores`, the oldest slot
        first. The axis `memory` is of size 0 if the layer does not attend. With
        `positions`, the axis `queries` replaces `time`.

    Raises:
        ValueError: if a layer that does not attend is created with
            `return_attention_scores`, or the mask is not `(batch, time)`.

    Example:

    >>> model = keras.Sequential([
    ...     keras.layers.Embedding(50, 8, mask_zero=True),
    ...     keras.layers.LSTM(12, return_sequences=True),
    ...     memlm_keras.memory.KeyValuePredict(window=5),
    ...     keras.layers.Dense(50),
    ... ])
    >>> keras.ops.shape(model(np.array([[3, 7, 4, 0], [5, 0, 2, 9]])))
    (2, 4, 50)

    Reading at a few steps costs less than reading at all steps:

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
                f"such as `KeyValuePredict`. Received: a {type(self).__name__}"
            )
        super().__init__(**kwargs)
        self.return_state = return_state
        self.return_attention_scores = return_attention_scores
        self.supports_masking = True

    def initial_state(self, batch_size):
        """Returns the state before the first token, a dict of tensors. By
        default, returns the initial state of the sliding window `recent`."""
        if not hasattr(self, "recent"):
            raise NotImplementedError(
                f"{type(self).__name__} must implement `initial_state`."
            )
        return self.recent.initial_state(batch_size)

    def read(self, outputs, state, token_ids=None, mask=None):
        """Reads any number of steps from a given state.

        Args:
            outputs, token_ids, mask: as for a call.
            state: dict, a result of `initial_state` or `read`.

        Returns:
            A tuple `(outputs, state, weights)`, as described in the class.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `read`."
        )

    def remembered(self, outputs, token_ids=None):
        """Returns the tensor `(batch, time, ...)` of new steps to add to the
        window `recent`, or `None` if `read` needs more than this window."""
        return None

    def read_at(self, positions, outputs, state, token_ids=None, mask=None):
        """Reads at the steps `positions`, int32 `(batch, queries)`. The new
        state remembers all steps. A memory that implements `remembered` reads
        only the window before each of `positions`, and reads at no other step.
        If `remembered` returns `None`, the memory reads at all steps."""
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

        # Each query becomes a row of the batch, with one step.
        def to_rows(tensor):
            if tensor is None:
                return None
            steps = take_steps(tensor, positions)
            return ops.reshape(steps, (-1, 1, *tensor.shape[2:]))

        def from_rows(tensor):
            shape = (batch_size, queries, tensor.shape[-1])
            tensor = ops.reshape(tensor, shape)
            return tensor if put_back is None else put_back(tensor)

        outputs, _, weights = self.read(
            to_rows(outputs), before, to_rows(token_ids)
        )
        return from_rows(outputs), new_state, from_rows(weights)

    def embed_state(self, state, embed):
        """Adds to a state the vectors of its words; by default, does nothing.

        A memory that attends to vectors of the model's own embedding keeps only
        the ids of words in its state. The model looks up the vectors of these
        ids before each `read`, so that a training step also computes gradients
        of the embedding through the words in the state.

        Args:
            state: dict, a result of `initial_state` or `read`.
            embed: function from int32 ids `(batch, n)` to vectors
                `(batch, n, units)`, with the `units` of `outputs`.

        Returns:
            Dict, the state for `read`.
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
            # Keras sets `mask` only for calls with a single tensor.
            mask = get_keras_mask(outputs)
        shape = tuple(outputs.shape)
        if len(shape) != 3:
            raise ValueError(
                "`outputs` must be of shape (batch, time, units); layers below "
                f"need `return_sequences=True`. Received: shape {shape}"
            )
        if mask is not None:
            mask = as_mask(mask, outputs)
        if state is None:
            # Slots of an initial state are masked, so their vectors may be 0.
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
                # Keras would give `outputs` the mask of all steps.
                set_keras_mask(outputs, take_steps(mask, positions))
        if return_state is None:
            return_state = self.return_state
        if return_attention_scores is None:
            return_attention_scores = self.return_attention_scores
        if not return_state and not return_attention_scores:
            return outputs
        returned = (True, return_state, return_attention_scores)
        return tuple(itertools.compress((outputs, state, weights), returned))

    def compute_output_spec(self, outputs, *arguments, **keywords):
        """Traces a call, with arbitrary sizes in place of unknown sizes."""
        make = keras.KerasTensor
        trace = functools.partial(keras.Operation.compute_output_spec, self)
        if keras.backend.backend() == "torch":
            # PyTorch's tracing imports its compiler, which takes a second.
            make, trace = ops.zeros, self.call

        def sized(tensor):
            if not isinstance(tensor, keras.KerasTensor):
                return tensor
            sizes = (2, 3, *tensor.shape[2:])
            shape = [known or size for known, size in zip(tensor.shape, sizes)]
            return make(shape, tensor.dtype)

        if keywords.get("positions") is not None:
            positions = keywords["positions"]
            if not isinstance(positions, keras.KerasTensor):
                positions = ops.convert_to_tensor(positions, "int32")
            keywords = {**keywords, "positions": positions}
        steps = keywords.get("positions")
        steps = outputs if steps is None else steps

        def unsized(tensor, axes):
            shape = (*steps.shape[:axes], *tensor.shape[axes:])
            return keras.KerasTensor(shape, tensor.dtype)

        traced = (outputs, *arguments), keywords
        positional, named = keras.tree.map_structure(sized, traced)
        specs = trace(*positional, **named)
        if not isinstance(specs, tuple):
            return unsized(specs, 2)
        return tuple(
            {name: unsized(value, 1) for name, value in spec.items()}
            if isinstance(spec, dict)
            else unsized(spec, 2)
            for spec in specs
        )

    def compute_output_shape(self, outputs_shape, *shapes, **named_shapes):
        if not self.built:
            self.build(outputs_shape)
        specs = self.compute_output_spec(
            keras.KerasTensor(outputs_shape, dtype=self.compute_dtype),
            token_ids=keras.KerasTensor(outputs_shape[:2], dtype="int32"),
        )
        return keras.tree.map_structure(lambda spec: tuple(spec.shape), specs)


class WordMemory(DistinctKernels, Memory):
    """Base class of memories over the `window` most recent words, including the
    current word. Subclasses look words up in tables with `vocabulary_size`
    rows; a `memlm_keras.LanguageModel` sets a missing size."""

    steps_back = 0

    def __init__(
        self,
        window=15,
        vocabulary_size=None,
        kernel_initializer="uniform",
        **kwargs,
    ):
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
                f"`vocabulary_size` must be given for a {type(self).__name__} "
                "outside a `LanguageModel`. Received: vocabulary_size=None"
            )
        return self.add_kernel(name, (self.vocabulary_size, units))

    def require_words(self, token_ids):
        """Raises `ValueError` if `token_ids` is `None`."""
        if token_ids is None:
            raise ValueError(
                f"`token_ids` must be given: a {type(self).__name__} attends "
                "to the words read. Received: token_ids=None"
            )


def equal_parts(layer, units, parts):
    """Returns the size of a part if an output is split into `parts` parts."""
    if units % parts:
        nearest = max(1, units // parts) * parts
        raise ValueError(
            f"{type(layer).__name__} splits each output into {parts} equal "
            f"parts, so the units of the last recurrent layer must be "
            f"divisible by {parts}, such as {nearest} or {nearest + parts}. "
            f"Received: units={units}"
        )
    return units // parts
