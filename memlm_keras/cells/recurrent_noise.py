"""Recurrent cells with noise: zoneout, and recurrent dropout.

Krueger et al. (2017), "Zoneout: Regularizing RNNs by Randomly Preserving Hidden
Activations", and Semeniuta et al. (2016), "Recurrent Dropout without Memory
Loss". `memlm_keras.cells.ProjectedRNN` draws the noise of a whole sequence
before its loop over time.
"""

import keras
from keras import ops

from memlm_keras.arguments import require_one_of
from memlm_keras.arguments import require_rate
from memlm_keras.kernels import Int8Kernels

MASKS = ("step", "sequence")


class NoisyCell(Int8Kernels):
    """Base class of cells that draw noise before the loop over time. Subclasses
    implement `step(projected, states, noise=None)` and `noise(inputs)`, which
    returns noise `(B, T, ...)` for inputs `(B, T, input_dim)`."""

    def __init__(self, units, **kwargs):
        for name in ("dropout", "recurrent_dropout"):
            if kwargs.get(name):
                raise ValueError(
                    f"`{name}` is not supported by {type(self).__name__}; use "
                    "a dropout layer, or `LanguageModel(dropout=...)`. "
                    f"Received: {name}={kwargs[name]!r}"
                )
        super().__init__(units, **kwargs)

    def call(self, inputs, states, training=False):
        if training and self.is_noisy:
            raise ValueError(
                f"A {type(self).__name__} must be trained inside a "
                "`memlm_keras.cells.ProjectedRNN`, which draws the noise. "
                "Received: training=True in another layer, such as "
                "`keras.layers.RNN`"
            )
        return self.step(self.project_inputs(inputs), states)

    def project_inputs(self, inputs):
        """Projects inputs `(..., input_dim)` to `(..., gates * units)`."""
        projected = ops.matmul(inputs, self.kernel)
        return projected + self.bias if self.use_bias else projected


class NoisyLSTMCell(NoisyCell, keras.layers.LSTMCell):
    """Base class of LSTM cells with noise."""

    def gates(self, projected, hidden):
        """Computes `i`, `f`, `g` and `o`, each `(B, units)`."""
        total = projected + ops.matmul(hidden, self.recurrent_kernel)
        i, f, g, o = ops.split(total, 4, axis=-1)
        activate = self.recurrent_activation
        return activate(i), activate(f), self.activation(g), activate(o)


@keras.saving.register_keras_serializable(package="memlm_keras")
class ZoneoutLSTMCell(NoisyLSTMCell):
    """LSTM cell whose units keep their previous values at random.

    Krueger et al. (2017), Section 3.3; `i, f, g, o` are the gates and the
    candidate of an LSTM, and the masks `d` are drawn at each step:

        c_t = d^c * c_{t-1} + (1 - d^c) * (f * c_{t-1} + i * g)
        h_t = d^h * h_{t-1} + (1 - d^h) * o * tanh(f * c_{t-1} + i * g)

    Each entry of `d^c` is 1 with probability `cell_zoneout` and otherwise 0;
    for entries of `d^h`, the probability is `hidden_zoneout`. In inference,
    `d^c` and `d^h` are the constants `cell_zoneout` and `hidden_zoneout`.

    Args:
        units: integer, size of the output.
        cell_zoneout: float in [0, 1), probability that a unit of c keeps its
            previous value.
        hidden_zoneout: float in [0, 1), probability that a unit of h keeps its
            previous value.
        **kwargs: other arguments of `keras.layers.LSTMCell`.

    Call arguments:
        inputs: float tensor `(B, input_dim)`.
        states: list of `h_{t-1}` and `c_{t-1}`, each `(B, units)`.
        training: optional bool.

    Returns:
        A tuple of `h_t` and the list `[h_t, c_t]`.

    Raises:
        ValueError: if a rate is outside [0, 1), `dropout` or
            `recurrent_dropout` is given, or the cell is trained outside a
            `ProjectedRNN`.

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
        """Draws the masks `d^c` and `d^h`, concatenated, `(B, T, 2 units)`."""
        shape = (*ops.shape(inputs)[:2], self.units)
        masks = [
            keras.random.uniform(shape, seed=self.seed_generator) < rate
            for rate in (self.cell_zoneout, self.hidden_zoneout)
        ]
        return ops.cast(ops.concatenate(masks, axis=-1), self.compute_dtype)

    def step(self, projected, states, noise=None):
        """Returns `h_t` and `[h_t, c_t]`; inference passes no `noise`."""
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


class DroppedCandidate(NoisyCell):
    """Base class of the cells with recurrent dropout."""

    def __init__(self, units, rate=0.25, masks="step", **kwargs):
        require_rate("rate", rate)
        require_one_of("masks", masks, MASKS)
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


@keras.saving.register_keras_serializable(package="memlm_keras")
class RecurrentDropoutLSTMCell(DroppedCandidate, NoisyLSTMCell):
    """LSTM cell with recurrent dropout: a dropout mask on the candidate only.

    Semeniuta et al. (2016), Section 3; `i, f, g, o` are the gates and the
    candidate of an LSTM, and `d` is a dropout mask:

        c_t = f * c_{t-1} + i * (d * g)
        h_t = o * tanh(c_t)

    Entries of `d` are zero with probability `rate`, or else `1 / (1 - rate)`.
    The cell state `c` is never dropped. Keras' `recurrent_dropout` instead
    drops units of `h_{t-1}` (Gal and Ghahramani, 2016).

    Args:
        units: integer, size of the output.
        rate: float in [0, 1), the dropout rate.
        masks: `"step"` for a new mask at each step, or `"sequence"` for one
            mask for all steps.
        **kwargs: other arguments of `keras.layers.LSTMCell`.

    Call arguments and results: see `ZoneoutLSTMCell`.

    Raises:
        ValueError: if `rate` is outside [0, 1), `masks` is unknown, `dropout`
            or `recurrent_dropout` is given, or the cell is trained outside a
            `ProjectedRNN`.

    Example:

    >>> layer = memlm_keras.cells.ProjectedRNN(
    ...     memlm_keras.cells.RecurrentDropoutLSTMCell(16, rate=0.2)
    ... )
    >>> keras.ops.shape(layer(np.ones((2, 7, 5), "float32"), training=True))
    (2, 16)
    """

    def step(self, projected, states, noise=None):
        """Returns `h_t` and `[h_t, c_t]`; inference passes no `noise`."""
        hidden, cell = states
        i, f, g, o = self.gates(projected, hidden)
        cell = f * cell + i * (g if noise is None else noise * g)
        hidden = o * self.activation(cell)
        return hidden, [hidden, cell]


@keras.saving.register_keras_serializable(package="memlm_keras")
class RecurrentDropoutGRUCell(DroppedCandidate, keras.layers.GRUCell):
    """GRU cell with dropout of the candidate only (recurrent dropout).

    Semeniuta et al. (2016), Section 3; `d` is a dropout mask as in
    `RecurrentDropoutLSTMCell`:

        z = sigm(W_z x_t + U_z h_{t-1} + b_z)
        r = sigm(W_r x_t + U_r h_{t-1} + b_r)
        g = tanh(W_g x_t + U_g (r * h_{t-1}) + b_g)
        h_t = z * h_{t-1} + (1 - z) * (d * g)

    Without the dropout mask d, the cell is Keras' GRU with `reset_after=False`.

    Args:
        units, rate, masks: see `RecurrentDropoutLSTMCell`.
        **kwargs: arguments of `keras.layers.GRUCell` except `reset_after`.

    Call arguments:
        inputs: float tensor `(B, input_dim)`.
        states: list of `h_{t-1}`, `(B, units)`.
        training: optional bool.

    Returns:
        A tuple of `h_t` and the list `[h_t]`.

    Raises:
        ValueError: as `RecurrentDropoutLSTMCell`.

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
        """Returns `h_t` and `[h_t]`; inference passes no `noise`."""
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
