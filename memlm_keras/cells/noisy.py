"""What cells with noise in their recurrence have in common.

Weights, their layout and initial values are those of Keras' cells, and without
noise so is what they compute.
"""

import keras
from keras import ops


class NoisyCell:
    """What the cells have in common: noise that is drawn outside of loops.

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
        """What a step needs of its input, for any number of steps at once.

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
    """What the LSTM cells have in common: their gates."""

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
