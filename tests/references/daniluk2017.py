"""Naive float64 references of Daniluk et al. (2017), written from the paper.

Every memory has the same form:

    memory(outputs, weights, window) -> (predictions, new window, attention)

`outputs` is `(batch, time, units)`. `weights` maps the paper's symbols to
matrices as printed, which multiply column vectors from the left. `window` is a
dict of `slots` `(batch, L, ...)`, the most recent last, and `filled`
`(batch,)`, the number of slots with an output; empty slots are never read.

The references define the correct results, so the loops over batch, time and
slots are never optimized.
"""

import numpy as np


def attention(outputs, weights, window):
    """Attention (Eq. 1-4), where `h_t` is key, value and prediction."""
    return _attend(outputs, weights, window, *[slice(None)] * 4)


def key_value(outputs, weights, window):
    """Key-value attention (Eq. 8-12), where `h_t = [k_t; v_t]`."""
    k = outputs.shape[-1] // 2
    v = slice(k, None)
    return _attend(outputs, weights, window, slice(k), v, v, slice(None))


def key_value_predict(outputs, weights, window):
    """Key-value-predict attention (Eq. 9-11, 16-17); the window omits `p_t`."""
    k = outputs.shape[-1] // 3
    v, p = slice(k, 2 * k), slice(2 * k, None)
    return _attend(outputs, weights, window, slice(k), v, p, slice(2 * k))


def _attend(outputs, weights, window, key, value, predict, kept):
    """Computes attention. Slices select an output's key, value, prediction and
    the part that the window keeps."""
    batch_size, time, _ = outputs.shape
    length = window["slots"].shape[1]
    k = weights["w"].shape[0]
    predictions = np.zeros((batch_size, time, k))
    attention = np.zeros((batch_size, time, length))
    new_window = empty_like(window)
    for row in range(batch_size):
        past = history(window, row)
        for step in range(time):
            h = outputs[row, step]
            scores = []
            for remembered in past:
                column = np.tanh(
                    weights["W^Y"] @ remembered[key] + weights["W^h"] @ h[key]
                )
                scores.append(weights["w"] @ column)
            alpha = softmax(np.array(scores))
            r = np.zeros(k)
            for weight, remembered in zip(alpha, past):
                r = r + weight * remembered[value]
            predictions[row, step] = np.tanh(
                weights["W^r"] @ r + weights["W^x"] @ h[predict]
            )
            attention[row, step, length - len(past) :] = alpha
            past = (past + [h[kept]])[-length:]
        keep(new_window, row, past)
    return predictions, new_window, attention


def ngram(outputs, weights, window):
    """N-gram memory (Eq. 21) of N parts; the window holds N - 1 outputs."""
    batch_size, time, units = outputs.shape
    order = window["slots"].shape[1] + 1
    k = units // order
    predictions = np.zeros((batch_size, time, k))
    new_window = empty_like(window)
    for row in range(batch_size):
        past = history(window, row)
        for step in range(time):
            past = past + [outputs[row, step]]
            stacked = np.zeros(order * k)
            for part in range(order):
                if part < len(past):
                    rows = slice(part * k, (part + 1) * k)
                    stacked[rows] = past[-1 - part][rows]
            predictions[row, step] = np.tanh(weights["W^N"] @ stacked)
            past = past[-(order - 1) :]
        keep(new_window, row, past)
    return predictions, new_window, np.zeros((batch_size, time, 0))


def history(window, row):
    """Returns the outputs in a row's window, the most recent last."""
    length = window["slots"].shape[1]
    first = length - window["filled"][row]
    return [window["slots"][row, slot] for slot in range(first, length)]


def keep(window, row, past):
    """Writes outputs to a row's window, the most recent last."""
    length = window["slots"].shape[1]
    for index, remembered in enumerate(past):
        window["slots"][row, length - len(past) + index] = remembered
    window["filled"][row] = len(past)


def empty_like(window):
    return {
        "slots": np.zeros_like(window["slots"]),
        "filled": np.zeros_like(window["filled"]),
    }


def softmax(scores):
    """Computes the softmax of a vector, which may be empty."""
    if not len(scores):
        return scores
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def log_softmax(scores):
    """Computes the logarithm of the softmax over the last axis."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def run(step, inputs, states, noise=None):
    """Runs a cell over `(batch, time, input_dim)`, row by row.

    Args:
        step: function of `x`, a list of states and the step's noise; returns
            the new states, of which the first is the output.
        inputs: float64 `(batch, time, input_dim)`.
        states: list of arrays `(batch, units)`.
        noise: `(batch, time, ...)`, or `None`.

    Returns:
        Outputs `(batch, time, units)`, and the new states.
    """
    batch_size, time, _ = inputs.shape
    outputs = np.zeros((batch_size, time, states[0].shape[-1]))
    new_states = [np.zeros_like(state, "float64") for state in states]
    for row in range(batch_size):
        own = [state[row] for state in states]
        for t in range(time):
            drawn = None if noise is None else noise[row, t]
            own = step(inputs[row, t], own, drawn)
            outputs[row, t] = own[0]
        for state, value in zip(new_states, own):
            state[row] = value
    return outputs, new_states


def sigmoid(values):
    return 1 / (1 + np.exp(-values))
