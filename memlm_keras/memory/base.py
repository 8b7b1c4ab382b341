"""What every memory has in common: explicit state and a sliding window."""

import keras
from keras import ops

from memlm_keras.kernels import DistinctKernels


class Memory(keras.layers.Layer):
    """Base class of the layers that read back what the network produced.

    A memory is a pure function of the recurrent outputs, the token ids and its
    own state. The same call serves whole sequences and single steps, because
    the state holds all that is needed of the past.

    Subclasses implement `call` and `initial_state`. `attends` says whether the
    third result of `call` means anything, `steps_back` how many steps before
    the current one its last position lies, and `reads_ahead` whether `call`
    reads `token_ids` behind the word that a step predicts: such a memory is
    given whole sentences, one a row, and has no state to go on from.

    Call arguments:
        outputs: float tensor `(batch, time, units)`, outputs of the last
            recurrent layer.
        token_ids: optional int32 tensor `(batch, time)`, the tokens read.
        state: optional dict of tensors, batch first, as `initial_state` and
            `call` return it. `None` means `initial_state`.
        training: optional bool.

    Returns:
        A tuple `(outputs, state, attention)`: what is handed to the output
        projection, `(batch, time, output_units)`; the new state; and the
        attention weights `(batch, time, memory)`, oldest slot first, where
        `memory` is 0 for a memory that does not attend.
    """

    attends = True
    steps_back = 1
    reads_ahead = False

    def initial_state(self, batch_size):
        """Returns the state before the first token, a dict of tensors."""
        raise NotImplementedError(
            f"{type(self).__name__} must implement `initial_state`."
        )


class SlidingWindow(DistinctKernels, Memory):
    """A memory over what was remembered of the most recent steps.

    Its state is `{"window": (batch, slots, ...), "filled": (batch,) int32}`:
    what was remembered, the most recent last, and how many of the slots hold
    something.

    Args:
        slots: integer, how many previous steps are kept.
        kernel_initializer: initializer of every weight of the memory.
        **kwargs: arguments of `keras.layers.Layer`.
    """

    def __init__(self, slots, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.slots = slots
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build_window(self, *shape, dtype=None):
        """Fixes shape and dtype of what is remembered of one step.

        Args:
            *shape: integers; none for a single number.
            dtype: string, by default the dtype that the layer computes in.
        """
        self.remembered_shape = shape
        self.remembered_dtype = dtype or self.compute_dtype

    def initial_state(self, batch_size):
        return {
            "window": ops.zeros(
                (batch_size, self.slots, *self.remembered_shape),
                dtype=self.remembered_dtype,
            ),
            "filled": ops.zeros((batch_size,), dtype="int32"),
        }

    def slide(self, state, remembered):
        """Puts what is remembered of new steps behind the window.

        Args:
            state: the state before, or `None`.
            remembered: tensor `(batch, time, ...)`.

        Returns:
            A tuple of what can be read, `(batch, slots + time, ...)`, in which
            step `t` sees positions `t` to `t + slots - 1` of the steps before
            it; the boolean mask `(batch, time, slots)` of slots that hold
            something; and the new state.
        """
        batch_size, time = ops.shape(remembered)[:2]
        if state is None:
            state = self.initial_state(batch_size)
        window = ops.cast(state["window"], remembered.dtype)
        extended = ops.concatenate([window, remembered], axis=1)
        positions = ops.arange(time)[:, None] + ops.arange(self.slots)[None]
        first_filled = self.slots - state["filled"]
        mask = positions[None] >= first_filled[:, None, None]
        new_state = {
            "window": extended[:, -self.slots :] if self.slots else window,
            "filled": ops.minimum(state["filled"] + time, self.slots),
        }
        return extended, mask, new_state

    def slot(self, extended, index):
        """What each step sees in slot `index` (0 is the oldest).

        Args:
            extended: tensor `(batch, slots + time, ...)` of `slide`.
            index: integer in `[0, slots]`; `slots` is the step itself.

        Returns:
            Tensor `(batch, time, ...)`.
        """
        return extended[:, index : (index - self.slots) or None]

    def weighted_slots(self, weights, extended):
        """Sum over what each step sees, by weights.

        Args:
            weights: tensor `(batch, time, n)`, one for each slot from 0 on.
            extended: tensor `(batch, slots + time, units)` of `slide`.

        Returns:
            Tensor `(batch, time, units)`.
        """
        return sum(
            weights[..., index : index + 1] * self.slot(extended, index)
            for index in range(weights.shape[-1])
        )

    def get_config(self):
        return {
            **super().get_config(),
            "kernel_initializer": keras.initializers.serialize(
                self.kernel_initializer
            ),
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


def by_slot(numbers, slots):
    """What each step says of what it sees, of what it says of all positions.

    Args:
        numbers: tensor `(batch, time, positions)`, where step `t` sees position
            `t` and those behind it, as of `SlidingWindow.slide`.
        slots: integer, how many it sees.

    Returns:
        Tensor `(batch, time, slots)`, the oldest slot first.
    """
    batch_size, time, positions = ops.shape(numbers)
    # Row t begins at position t: in rows longer by one it is shifted there.
    flat = ops.reshape(numbers, (batch_size, time * positions))
    flat = ops.pad(flat, [[0, 0], [0, time]])
    rows = ops.reshape(flat, (batch_size, time, positions + 1))
    return rows[..., :slots]


def by_position(numbers, positions):
    """The way back of `by_slot`, with zeros at positions that are not seen.

    Args:
        numbers: tensor `(batch, time, slots)`.
        positions: integer, at least `slots + time - 1`.

    Returns:
        Tensor `(batch, time, positions)`.
    """
    batch_size, time, slots = ops.shape(numbers)
    rows = ops.pad(numbers, [[0, 0], [0, 0], [0, positions + 1 - slots]])
    flat = ops.reshape(rows, (batch_size, time * (positions + 1)))
    return ops.reshape(
        flat[:, : time * positions], (batch_size, time, positions)
    )
