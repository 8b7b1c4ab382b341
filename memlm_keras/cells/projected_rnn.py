"""Running a cell with its input projections outside the loop over time."""

import keras
from keras import ops

# The loop over time of every Keras recurrent layer; it has no public name.
from keras.src.backend import rnn

from memlm_keras.kernels import Int8Kernels


@keras.saving.register_keras_serializable(package="memlm_keras")
class ProjectedRNN(keras.layers.RNN):
    """A `keras.layers.RNN` that projects all inputs of a sequence at once.

    What a cell computes of its inputs alone does not depend on time. One large
    matrix product before the loop is faster than a small one in every step.
    Outputs, states, arguments and weights are those of `keras.layers.RNN`
    around the same cell. What a cell draws at random, it draws at once as
    well: of one with `is_noisy` and `noise(inputs)`, as `ZoneoutLSTMCell` is,
    `step(projected, states, noise)` gets the noise of its step while training;
    and what it makes of the states it is to begin with, by a `begin(states)`,
    as `LSTMNetworkCell` does, is made once. A `step_function()`, as
    `AssociativeMemoryCell` has, gives a `step` that shares what all steps need,
    and a `run(projected, states, mask)`, as `AssociativeGRUCell` has, is the
    loop itself where a sequence is trained on in float32 by JAX or TensorFlow.

    Args:
        cell: a cell with the methods `project_inputs(inputs)`, from
            `(..., input_dim)` to `(..., projected units)`, and
            `step(projected, states)`, where `cell(inputs, states)` is
            `cell.step(cell.project_inputs(inputs), states)`. The cells of
            `memlm_keras.cells` have them.
        **kwargs: arguments of `keras.layers.RNN`; the dtype is the cell's.

    Raises:
        ValueError: if the cell lacks one of the two methods, or for another
            dtype than the cell's.

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
                "`cell` must have the methods `project_inputs` and `step`, as "
                "the cells of `memlm_keras.cells` have; use `keras.layers.RNN` "
                f"for other cells. Received: cell={cell!r}"
            )
        # The cell's methods run in the layer's own precision.
        own = cell.dtype_policy
        if own.quantization_mode is not None:
            # That is how its weights are kept, of which the layer has none.
            own = keras.dtype_policies.get(own.name.partition("_from_")[2])
        dtype = keras.dtype_policies.get(kwargs.pop("dtype", None) or own)
        if dtype.name != own.name:
            raise ValueError(
                f"`dtype` must be that of the cell, {own.name!r}. Received: "
                f"dtype={dtype.name!r}"
            )
        super().__init__(cell, dtype=own, **kwargs)

    def inner_loop(self, sequences, initial_state, mask, training=False):
        """Runs the steps over inputs that are projected all at once."""
        inputs = self.cell.project_inputs(sequences)
        if training and self._runs_itself:
            outputs, states = self.cell.run(inputs, initial_state, mask)
            return outputs[:, -1], outputs, states
        step = self.cell.step
        if hasattr(self.cell, "step_function"):
            step = self.cell.step_function()
        if hasattr(self.cell, "begin"):
            initial_state = self.cell.begin(initial_state)
        if training and getattr(self.cell, "is_noisy", False):
            step, inputs = (
                self._noisy_step,
                (inputs, self.cell.noise(sequences)),
            )
        return rnn(
            step,
            inputs,
            initial_state,
            go_backwards=self.go_backwards,
            mask=mask,
            # There, a loop that is not unrolled computes its first step twice.
            unroll=self.unroll or keras.backend.backend() == "torch",
            input_length=sequences.shape[1],
            zero_output_for_mask=self.zero_output_for_mask,
            return_all_outputs=self.return_sequences,
        )

    @property
    def _runs_itself(self):
        """Whether the cell's own `run` is this loop."""
        return (
            getattr(self.cell, "has_own_gradient", False)
            and self.compute_dtype == "float32"
            and not self.go_backwards
            and not self.unroll
            and not self.zero_output_for_mask
        )

    def _noisy_step(self, inputs, states):
        projected, noise = inputs
        return self.cell.step(projected, states, noise)


def projects_inputs(cell):
    """Whether a cell can be run by `ProjectedRNN`."""
    return hasattr(cell, "project_inputs") and hasattr(cell, "step")


class NoisyCell(Int8Kernels):
    """Base of cells whose noise is drawn outside of loops.

    It stands before a Keras cell among the bases of a class. Subclasses
    implement `step` and `noise`, and say in `is_noisy` whether there is any.
    """

    is_noisy = True

    def __init__(self, units, **kwargs):
        for name in ("dropout", "recurrent_dropout"):
            if kwargs.get(name):
                raise ValueError(
                    f"`{name}` is not for a {type(self).__name__}; drop its "
                    "inputs before it, as `LanguageModel(dropout=..., "
                    "variational_dropout=True)` does. Received: "
                    f"{name}={kwargs[name]!r}"
                )
        super().__init__(units, **kwargs)

    def call(self, inputs, states, training=False):
        if training and self.is_noisy:
            raise ValueError(
                f"A {type(self).__name__} is trained inside "
                "`memlm_keras.cells.ProjectedRNN`, which draws the noise of a "
                "whole sequence at once. Received: training=True in a call of "
                "a single step, as by `keras.layers.RNN`"
            )
        return self.step(self.project_inputs(inputs), states)

    def project_inputs(self, inputs):
        """Projects the inputs of any number of steps at once.

        Args:
            inputs: float tensor `(..., input_dim)`.

        Returns:
            Float tensor `(..., gates * units)`.
        """
        projected = ops.matmul(inputs, self.kernel)
        return projected + self.bias if self.use_bias else projected

    def noise(self, inputs):
        """Draws the noise of a sequence.

        Args:
            inputs: float tensor `(B, T, input_dim)`.

        Returns:
            Float tensor `(B, T, ...)`, as `step` takes it.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `noise`."
        )


class NoisyLSTMCell(NoisyCell, keras.layers.LSTMCell):
    """Base of LSTM cells with noise: their gates."""

    def gates(self, projected, hidden):
        """Computes `i`, `f`, `g` and `o`, each `(B, units)`, activated.

        Args:
            projected: `(B, 4 units)`, as of `project_inputs`.
            hidden: `h_{t-1}`, `(B, units)`.
        """
        total = projected + ops.matmul(hidden, self.recurrent_kernel)
        i, f, g, o = ops.split(total, 4, axis=-1)
        activate = self.recurrent_activation
        return activate(i), activate(f), self.activation(g), activate(o)
