"""Zoneout (Krueger et al., 2016)."""

import keras
from keras import ops

from memlm_keras.arguments import require_rate
from memlm_keras.cells.projected_rnn import NoisyLSTMCell


@keras.saving.register_keras_serializable(package="memlm_keras")
class ZoneoutLSTMCell(NoisyLSTMCell):
    """LSTM whose units keep their last values at random.

    Krueger et al. (2016), Section 3.3: with `i, f, g, o` the gates and the
    candidate of an LSTM, and masks `d` drawn anew at each step,

        c_t = d^c * c_{t-1} + (1 - d^c) * (f * c_{t-1} + i * g)
        h_t = d^h * h_{t-1} + (1 - d^h) * o * tanh(f * c_{t-1} + i * g)

    Each entry of `d^c` is 1 with the probability `cell_zoneout` and of `d^h`
    with `hidden_zoneout`. When not training they are these probabilities.

    Args:
        units: integer, size of the output.
        cell_zoneout: float in [0, 1), probability that a unit of c is kept.
        hidden_zoneout: float in [0, 1), likewise of h.
        **kwargs: other arguments of `keras.layers.LSTMCell`.

    Call arguments:
        inputs: float tensor `(B, input_dim)`.
        states: list of `h_{t-1}` and `c_{t-1}`, each `(B, units)`.
        training: optional bool.

    Returns:
        A tuple of `h_t` and the list `[h_t, c_t]`.

    Raises:
        ValueError: for rates outside [0, 1), for `dropout` and
            `recurrent_dropout`, and for training outside of a `ProjectedRNN`.

    Example:

    >>> layer = memlm_keras.cells.ProjectedRNN(
    ...     memlm_keras.cells.ZoneoutLSTMCell(16), return_sequences=True
    ... )
    >>> outputs = layer(np.ones((2, 7, 5), "float32"), training=True)
    >>> keras.ops.shape(outputs)
    (2, 7, 16)
    """

    def __init__(self, units, cell_zoneout=0.5, hidden_zoneout=0.05, **kwargs):
        require_rate("cell_zoneout", cell_zoneout)
        require_rate("hidden_zoneout", hidden_zoneout)
        super().__init__(units, **kwargs)
        self.cell_zoneout = cell_zoneout
        self.hidden_zoneout = hidden_zoneout
        self.is_noisy = bool(cell_zoneout or hidden_zoneout)

    def noise(self, inputs):
        """Draws which units keep their value, for all steps of a sequence.

        Args:
            inputs: tensor `(batch, time, ...)`.

        Returns:
            Tensor of zeros and ones `(batch, time, 2 units)`, `d^c` and `d^h`.
        """
        shape = (*ops.shape(inputs)[:2], self.units)
        masks = [
            ops.less(
                keras.random.uniform(shape, seed=self.seed_generator), rate
            )
            for rate in (self.cell_zoneout, self.hidden_zoneout)
        ]
        return ops.cast(ops.concatenate(masks, axis=-1), self.compute_dtype)

    def step(self, projected, states, noise=None):
        """Computes one output and the new state.

        Args:
            projected: `(B, 4 units)`, as of `project_inputs`.
            states: list of `h_{t-1}` and `c_{t-1}`.
            noise: `d^c` and `d^h`, `(B, 2 units)`, or `None` when not training.

        Returns:
            A tuple of `h_t` and the list `[h_t, c_t]`.
        """
        hidden, cell = states
        i, f, g, o = self.gates(projected, hidden)
        kept_cell, kept_hidden = self.cell_zoneout, self.hidden_zoneout
        if noise is not None:
            kept_cell, kept_hidden = ops.split(noise, 2, axis=-1)
        candidate = f * cell + i * g
        output = o * self.activation(candidate)
        hidden = kept_hidden * hidden + (1.0 - kept_hidden) * output
        cell = kept_cell * cell + (1.0 - kept_cell) * candidate
        return hidden, [hidden, cell]

    def get_config(self):
        return {
            **super().get_config(),
            "cell_zoneout": self.cell_zoneout,
            "hidden_zoneout": self.hidden_zoneout,
        }
