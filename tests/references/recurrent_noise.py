"""Naive float64 references of recurrent cells with noise.

    cell(inputs, weights, states, noise) -> (outputs, new states)

`inputs` is `(batch, time, input_dim)`; `states` is a list of `(batch, units)`;
`weights` are `W`, `U` and `b` in Keras' layout; `noise` is the noise drawn for
each step, `(batch, time, ...)`, or `None` in inference.
"""

import numpy as np

from references.daniluk2017 import run
from references.daniluk2017 import sigmoid


def zoneout(inputs, weights, states, noise, rates):
    """Krueger et al. (2016), Section 3.3."""

    def step(x, states, drawn):
        h, c = states
        d_c, d_h = rates if drawn is None else np.split(drawn, 2)
        i, f, g, o = _lstm_gates(x, h, weights)
        updated = f * c + i * g
        new_h = d_h * h + (1 - d_h) * o * np.tanh(updated)
        return [new_h, d_c * c + (1 - d_c) * updated]

    return run(step, inputs, states, noise)


def recurrent_dropout_lstm(inputs, weights, states, noise, rates):
    """Semeniuta et al. (2016), Section 3."""

    def step(x, states, drawn):
        h, c = states
        i, f, g, o = _lstm_gates(x, h, weights)
        c = f * c + i * (g if drawn is None else drawn * g)
        return [o * np.tanh(c), c]

    return run(step, inputs, states, noise)


def recurrent_dropout_gru(inputs, weights, states, noise, rates):
    """Semeniuta et al. (2016), Section 3."""

    def step(x, states, drawn):
        (h,) = states
        kernel, recurrent, bias = (
            np.split(weight, 3, axis=-1) for weight in weights
        )
        z = sigmoid(x @ kernel[0] + h @ recurrent[0] + bias[0])
        r = sigmoid(x @ kernel[1] + h @ recurrent[1] + bias[1])
        g = np.tanh(x @ kernel[2] + (r * h) @ recurrent[2] + bias[2])
        return [z * h + (1 - z) * (g if drawn is None else drawn * g)]

    return run(step, inputs, states, noise)


def _lstm_gates(x, h, weights):
    kernel, recurrent, bias = weights
    i, f, g, o = np.split(x @ kernel + h @ recurrent + bias, 4)
    return sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
