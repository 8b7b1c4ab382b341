"""Recurrent layer that projects all inputs before its loop over time."""

import functools

import keras
from keras import ops

from memlm_keras.keras_private import rnn
from memlm_keras.kernels import expanded


class ProjectedCell(keras.layers.Layer):
    """Base class of cells for `ProjectedRNN`; initial states are zeros."""

    def get_initial_state(self, batch_size=None):
        """Returns zeros `(B, size)` for each size in `state_size`."""
        return [
            ops.zeros((batch_size, size), dtype=self.compute_dtype)
            for size in self.state_size
        ]

    def call(self, inputs, states, training=None):
        return self.step(self.project_inputs(inputs), states)


@keras.saving.register_keras_serializable(package="memlm_keras")
class ProjectedRNN(keras.layers.RNN):
    """A `keras.layers.RNN` that projects all inputs of a sequence at once.

    One large matrix product before the loop is faster than a small one at each
    step. Outputs, states, arguments and weights equal those of
    `keras.layers.RNN` with the same cell.

    A cell may define further methods, which replace parts of the loop:

    * `noise(inputs)`, used if the attribute `is_noisy` is true, as in
      `ZoneoutLSTMCell`: draws the noise of a whole sequence in training;
      `step(projected, states, noise)` then gets one step's noise.
    * `empty_states`, `begin` and `end`, as in `LSTMNetworkCell`, which stores
      steps in slots: `empty_states(batch_size)` makes states without slots;
      `begin(states, steps)` and `end(states)` convert states before and after
      the loop. `step` gets `grows`: whether each step adds a slot.
    * `step_function()`, as in `AssociativeMemoryCell`: computes the tensors
      that all steps share, and returns a `step` that uses these tensors.
    * `run(projected, states, mask)`, used if `has_own_gradient` is true, as in
      `AssociativeGRUCell`: replaces the loop in float32 training.

    Args:
        cell: a cell, such as one of `memlm_keras.cells`, with the methods
            `project_inputs(inputs)`, from `(..., input_dim)` to
            `(..., projected units)`, and `step(projected, states)`;
            `cell(inputs, states)` must equal
            `cell.step(cell.project_inputs(inputs), states)`.
        **kwargs: arguments of `keras.layers.RNN`; the dtype is the cell's.

    Raises:
        ValueError: if the cell lacks a method, or `dtype` is not the cell's.

    Example:

    >>> layer = memlm_keras.cells.ProjectedRNN(
    ...     memlm_keras.cells.FOFEHORNNCell(16), return_sequences=True
    ... )
    >>> keras.ops.shape(layer(np.ones((2, 7, 5), "float32")))
    (2, 7, 16)
    """

    def __init__(self, cell, **kwargs):
        if not projects_inputs(cell):
            raise ValueError(
                "`cell` must have the methods `project_inputs` and `step`; use "
                f"`keras.layers.RNN` for other cells. Received: cell={cell!r}"
            )
        # The methods of the cell run in the precision of the layer.
        own = cell.dtype_policy
        if own.quantization_mode is not None:
            # The layer has no weights to quantize except the cell's.
            own = keras.dtype_policies.get(own.name.partition("_from_")[2])
        dtype = keras.dtype_policies.get(kwargs.pop("dtype", None) or own)
        if dtype.name != own.name:
            raise ValueError(
                f"`dtype` must be that of the cell, {own.name!r}. Received: "
                f"dtype={dtype.name!r}"
            )
        super().__init__(cell, dtype=own, **kwargs)

    def call(self, sequences, initial_state=None, mask=None, training=False):
        empty_states = getattr(self.cell, "empty_states", None)
        if empty_states and initial_state is None and not self.stateful:
            initial_state = empty_states(ops.shape(sequences)[0])
        return super().call(sequences, initial_state, mask, training)

    def inner_loop(self, sequences, initial_state, mask, training=False):
        """Projects all inputs, then runs the steps; see `keras.layers.RNN`."""
        cell, go_backwards = expanded(self.cell), self.go_backwards
        inputs = cell.project_inputs(sequences)
        if (
            training
            and getattr(cell, "has_own_gradient", False)
            and self.compute_dtype == "float32"
            and not go_backwards
            and not self.unroll
            and not self.zero_output_for_mask
        ):
            outputs, states = cell.run(inputs, initial_state, mask)
            return outputs[:, -1], outputs, states
        step = cell.step
        if hasattr(cell, "step_function"):
            step = cell.step_function()
        # On PyTorch, Keras computes step 1 twice unless the loop is unrolled.
        unroll = self.unroll or keras.backend.backend() == "torch"
        if hasattr(cell, "begin"):
            # Only in an unrolled loop without a mask may states change shape.
            grows = unroll and mask is None
            step = functools.partial(step, grows=grows)
            steps = 0 if grows else sequences.shape[1]
            initial_state = cell.begin(initial_state, steps)
        if training and getattr(cell, "is_noisy", False):

            def step(inputs, states):
                projected, noise = inputs
                return cell.step(projected, states, noise)

            inputs = inputs, cell.noise(sequences)
        if go_backwards and mask is not None:
            # On PyTorch, Keras' unrolled loop cannot reverse a mask.
            inputs, mask = keras.tree.map_structure(
                lambda tensor: ops.flip(tensor, axis=1), (inputs, mask)
            )
            go_backwards = False
        last, outputs, states = rnn(
            step,
            inputs,
            initial_state,
            go_backwards=go_backwards,
            mask=mask,
            unroll=unroll,
            zero_output_for_mask=self.zero_output_for_mask,
            return_all_outputs=self.return_sequences,
        )
        if hasattr(cell, "end") and (self.return_state or self.stateful):
            states = cell.end(states)
        return last, outputs, states


def projects_inputs(cell):
    """Returns whether a cell has the methods that `ProjectedRNN` needs."""
    return hasattr(cell, "project_inputs") and hasattr(cell, "step")
