"""Recurrent dropout without memory loss (Semeniuta et al., 2016)."""

import keras
from keras import ops

from memlm_keras.arguments import require_rate
from memlm_keras.cells.projected_rnn import NoisyCell
from memlm_keras.cells.projected_rnn import NoisyLSTMCell

MASKS = ("step", "sequence")


class DroppedCandidate(NoisyCell):
    """Base of the cells with recurrent dropout: their masks.

    Args:
        units: integer, size of the output.
        rate: float in [0, 1), of the candidate's units that are dropped.
        masks: `"step"` or `"sequence"`, for which a mask is drawn.
        **kwargs: arguments of the Keras cell.
    """

    def __init__(self, units, rate=0.25, masks="step", **kwargs):
        require_rate("rate", rate)
        if masks not in MASKS:
            raise ValueError(
                f"`masks` must be one of {MASKS}. Received: masks={masks!r}"
            )
        super().__init__(units, **kwargs)
        self.rate = rate
        self.masks = masks
        self.is_noisy = bool(rate)

    def noise(self, inputs):
        batch_size, time = ops.shape(inputs)[:2]
        different = 1 if self.masks == "sequence" else time
        return keras.random.dropout(
            ops.ones((batch_size, time, self.units), dtype=self.compute_dtype),
            self.rate,
            noise_shape=(batch_size, different, self.units),
            seed=self.seed_generator,
        )

    def get_config(self):
        return {**super().get_config(), "rate": self.rate, "masks": self.masks}


@keras.saving.register_keras_serializable(package="memlm_keras")
class RecurrentDropoutLSTMCell(DroppedCandidate, NoisyLSTMCell):
    """LSTM that drops units of its candidate, and no memory with them.

    Semeniuta et al. (2016), Section 3: with `i, f, g, o` the gates and the
    candidate of an LSTM and `d` a dropout mask,

        c_t = f * c_{t-1} + i * (d * g)
        h_t = o * tanh(c_t)

    Entries of `d` are zero with the probability `rate` and else
    `1 / (1 - rate)`. It is not what Keras calls `recurrent_dropout`, which
    drops units of `h_{t-1}` (Gal and Ghahramani, 2016).

    Args:
        units: integer, size of the output.
        rate: float in [0, 1).
        masks: `"step"`, a mask of its own for each step, or `"sequence"`, one
            for all steps.
        **kwargs: other arguments of `keras.layers.LSTMCell`.

    Call arguments and results as of `ZoneoutLSTMCell`.

    Raises:
        ValueError: for a `rate` outside [0, 1), unknown `masks`, `dropout` and
            `recurrent_dropout`, and training outside of a `ProjectedRNN`.

    Example:

    >>> layer = memlm_keras.cells.ProjectedRNN(
    ...     memlm_keras.cells.RecurrentDropoutLSTMCell(16, rate=0.2)
    ... )
    >>> keras.ops.shape(layer(np.ones((2, 7, 5), "float32"), training=True))
    (2, 16)
    """

    def step(self, projected, states, noise=None):
        """Computes one output and the new state.

        Args:
            projected: `(B, 4 units)`, as of `project_inputs`.
            states: list of `h_{t-1}` and `c_{t-1}`.
            noise: `d`, `(B, units)`, or `None` when not training.

        Returns:
            A tuple of `h_t` and the list `[h_t, c_t]`.
        """
        hidden, cell = states
        i, f, g, o = self.gates(projected, hidden)
        cell = f * cell + i * (g if noise is None else noise * g)
        hidden = o * self.activation(cell)
        return hidden, [hidden, cell]


@keras.saving.register_keras_serializable(package="memlm_keras")
class RecurrentDropoutGRUCell(DroppedCandidate, keras.layers.GRUCell):
    """GRU that drops units of its candidate, and no memory with them.

    Semeniuta et al. (2016), Section 3: with `d` a dropout mask as of
    `RecurrentDropoutLSTMCell`,

        z = sigm(W_z x_t + U_z h_{t-1} + b_z)
        r = sigm(W_r x_t + U_r h_{t-1} + b_r)
        g = tanh(W_g x_t + U_g (r * h_{t-1}) + b_g)
        h_t = z * h_{t-1} + (1 - z) * (d * g)

    It is Keras' GRU of `reset_after=False`, where `z` keeps.

    Args:
        units: integer, size of the output.
        rate: float in [0, 1).
        masks: `"step"` or `"sequence"`.
        **kwargs: other arguments of `keras.layers.GRUCell`, but `reset_after`.

    Call arguments:
        inputs: float tensor `(B, input_dim)`.
        states: list of `h_{t-1}`, `(B, units)`.
        training: optional bool.

    Returns:
        A tuple of `h_t` and the list `[h_t]`.

    Raises:
        ValueError: as of `RecurrentDropoutLSTMCell`.

    Example:

    >>> layer = memlm_keras.cells.ProjectedRNN(
    ...     memlm_keras.cells.RecurrentDropoutGRUCell(16, rate=0.2)
    ... )
    >>> keras.ops.shape(layer(np.ones((2, 7, 5), "float32"), training=True))
    (2, 16)
    """

    def __init__(self, units, rate=0.25, masks="step", **kwargs):
        super().__init__(units, rate, masks, **kwargs, reset_after=False)

    def step(self, projected, states, noise=None):
        """Computes one output and the new state.

        Args:
            projected: `(B, 3 units)`, as of `project_inputs`.
            states: list of `h_{t-1}`.
            noise: `d`, `(B, units)`, or `None` when not training.

        Returns:
            A tuple of `h_t` and the list `[h_t]`.
        """
        (hidden,) = states
        of_gates, of_candidate = ops.split(
            self.recurrent_kernel, [2 * self.units], axis=-1
        )
        recurrent = ops.matmul(hidden, of_gates)
        gates = projected[:, : 2 * self.units] + recurrent
        z, r = ops.split(self.recurrent_activation(gates), 2, axis=-1)
        candidate = self.activation(
            projected[:, 2 * self.units :]
            + ops.matmul(r * hidden, of_candidate)
        )
        if noise is not None:
            candidate = noise * candidate
        hidden = z * hidden + (1.0 - z) * candidate
        return hidden, [hidden]

    def get_config(self):
        config = super().get_config()
        del config["reset_after"]
        return config
