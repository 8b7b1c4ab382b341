"""Naive float64 references of the higher-order recurrent networks.

    cell(inputs, weights, history) -> (outputs, new history)

`inputs` is `(batch, time, input_dim)`; `history` is the list of the n outputs
`(batch, units)` before the first step, the latest first. `weights` maps the
equations' symbols to matrices that multiply column vectors from the left; `U`,
`A` and `B` are lists with one matrix per earlier output.
"""

import numpy as np

from references.daniluk2017 import run
from references.daniluk2017 import sigmoid


def fofe(inputs, weights, history):
    """Computes h_t = tanh(W x_t + b + sum_i alpha^i U_i h_{t-i})."""

    def step(x, past, _):
        total = weights["W"] @ x + weights["b"]
        for i, (u, h) in enumerate(zip(weights["U"], past), start=1):
            total = total + weights["alpha"] ** i * (u @ h)
        return [np.tanh(total), *past[:-1]]

    return run(step, inputs, history)


def gated(inputs, weights, history):
    """Computes h_t = tanh(W x_t + b + sum_i r_i * U_i h_{t-i}), gates r_i."""

    def step(x, past, _):
        total = weights["W"] @ x + weights["b"]
        for u, a, b, h in zip(*(weights[name] for name in "UAB"), past):
            total = total + sigmoid(a @ x + b @ h) * (u @ h)
        return [np.tanh(total), *past[:-1]]

    return run(step, inputs, history)
