"""Keras' own LSTM and GRU layers, by a faster implementation of the same.

Outputs, states and gradients are those of the layer itself, to rounding. Which
implementation runs follows from backend, device and layer:

* PyTorch on a CPU: the library's fused LSTM and GRU.
* JAX on a CPU: an LSTM whose inputs are projected before the loop over time
  and whose matrices get their gradients from one product each, behind it.
* Elsewhere, for a single step, and for layers with dropout, other activations,
  no bias or a mask: the layer, which takes cuDNN on a GPU.
"""

import functools

import keras
from keras import ops


def run_layer(layer, inputs, initial_state=None, training=False):
    """Calls a recurrent layer, by the fastest implementation that there is.

    Args:
        layer: a Keras recurrent layer that returns sequences and states.
        inputs: float tensor `(batch, time, features)`.
        initial_state: list of its states, or `None` for zeros.
        training: bool.

    Returns:
        The outputs `(batch, time, units)` and the states, a flat list.
    """
    run = implementation(layer, inputs, training)
    if run is None:
        return layer(inputs, initial_state=initial_state, training=training)
    dtype = layer.compute_dtype
    if initial_state is None:
        initial_state = layer.get_initial_state(ops.shape(inputs)[0])
    weights = [
        ops.cast(weight, dtype)
        for weight in (
            layer.cell.kernel,
            layer.cell.recurrent_kernel,
            layer.cell.bias,
        )
    ]
    states = [ops.cast(state, dtype) for state in initial_state]
    return run(ops.cast(inputs, dtype), *weights, *states)


def implementation(layer, inputs, training=False):
    """Finds the function that computes a layer in its stead.

    Args:
        layer: a Keras recurrent layer.
        inputs: what it is called with.
        training: bool.

    Returns:
        A function of inputs, kernel, recurrent kernel, bias and states, or
        `None` where the layer is to run itself.
    """
    if not _is_usual(layer, inputs, training):
        return None
    known = {"jax": _jax_functions, "torch": _torch_functions}
    functions = known.get(keras.backend.backend(), dict)
    return functions().get(type(layer))


def _is_usual(layer, inputs, training):
    """Whether a layer does what the libraries' own LSTMs and GRUs do."""
    if type(layer) not in (keras.layers.LSTM, keras.layers.GRU):
        return False
    if isinstance(inputs, keras.KerasTensor) or not layer.built:
        return False
    if inputs.shape[1] == 1:
        # There is no loop, and PyTorch would pack the weights for one step.
        return False
    cell = layer.cell
    drops = training and (cell.dropout or cell.recurrent_dropout)
    return (
        layer.return_sequences
        and layer.return_state
        and not layer.go_backwards
        and not layer.stateful
        and not layer.unroll
        and not drops
        and cell.use_bias
        and cell.activation is keras.activations.tanh
        and cell.recurrent_activation is keras.activations.sigmoid
        and getattr(cell, "reset_after", True)
        and getattr(inputs, "_keras_mask", None) is None
        and layer.quantization_mode is None
    )


# === PyTorch ===


def _torch_functions():
    import torch

    if torch.cuda.is_available():
        return {}
    return {keras.layers.LSTM: _torch_lstm, keras.layers.GRU: _torch_gru}


def _torch_lstm(inputs, kernel, recurrent_kernel, bias, hidden, cell):
    import torch

    weights = [kernel.T, recurrent_kernel.T, bias, torch.zeros_like(bias)]
    states = [hidden[None], cell[None]]
    outputs, hidden, cell = torch.lstm(
        inputs, states, weights, *_torch_arguments(inputs)
    )
    return outputs, hidden[0], cell[0]


def _torch_gru(inputs, kernel, recurrent_kernel, bias, hidden):
    import torch

    # Keras has the update gate first, PyTorch the reset gate.
    def in_order(weight):
        update, reset, candidate = torch.chunk(weight, 3, dim=-1)
        return torch.cat([reset, update, candidate], dim=-1)

    weights = [
        in_order(kernel).T,
        in_order(recurrent_kernel).T,
        in_order(bias[0]),
        in_order(bias[1]),
    ]
    outputs, hidden = torch.gru(
        inputs, hidden[None], weights, *_torch_arguments(inputs)
    )
    return outputs, hidden[0]


def _torch_arguments(inputs):
    """Arguments that `torch.lstm` and `torch.gru` take by position only."""
    has_biases, layers, dropout = True, 1, 0.0
    trains, bidirectional, batch_first = inputs.requires_grad, False, True
    return has_biases, layers, dropout, trains, bidirectional, batch_first


# === JAX ===


def _jax_functions():
    import jax

    if jax.default_backend() != "cpu":
        return {}
    return {keras.layers.LSTM: _jax_lstm()}


@functools.cache
def _jax_lstm():
    """An LSTM with a backward pass of its own.

    Differentiated by JAX, each step backward adds a product to the gradients
    of both kernels. Here the loop only finds the gradients of the gates, and
    one product over all steps makes of them what the kernels get.
    """
    import jax
    import jax.numpy as jnp

    def by_time(array):
        return jnp.swapaxes(array, 0, 1)

    def run(inputs, kernel, recurrent_kernel, bias, hidden, cell):
        projected = by_time(jnp.matmul(inputs, kernel) + bias)

        def step(state, projected):
            hidden, cell = state
            gates = projected + jnp.matmul(hidden, recurrent_kernel)
            i, f, g, o = jnp.split(gates, 4, axis=-1)
            i, f, o = map(jax.nn.sigmoid, (i, f, o))
            g = jnp.tanh(g)
            cell = f * cell + i * g
            hidden = o * jnp.tanh(cell)
            return (hidden, cell), (hidden, cell, i, f, g, o)

        return jax.lax.scan(step, (hidden, cell), projected)

    @jax.custom_vjp
    def lstm(*arguments):
        (hidden, cell), (outputs, *_) = run(*arguments)
        return by_time(outputs), hidden, cell

    def forward(*arguments):
        (hidden, cell), steps = run(*arguments)
        return (by_time(steps[0]), hidden, cell), (arguments, steps)

    def backward(kept, gradients):
        arguments, (outputs, cells, *gates) = kept
        inputs, kernel, recurrent_kernel, bias, hidden, cell = arguments
        d_outputs, d_hidden, d_cell = gradients
        before = jnp.concatenate([cell[None], cells[:-1]])

        def step(state, at):
            d_hidden, d_cell = state
            d_output, cell, before, i, f, g, o = at
            d_hidden = d_hidden + d_output
            squashed = jnp.tanh(cell)
            d_cell = d_cell + d_hidden * o * (1 - squashed**2)
            d_gates = jnp.concatenate(
                [
                    d_cell * g * i * (1 - i),
                    d_cell * before * f * (1 - f),
                    d_cell * i * (1 - g**2),
                    d_hidden * squashed * o * (1 - o),
                ],
                axis=-1,
            )
            d_hidden = jnp.matmul(d_gates, recurrent_kernel.T)
            return (d_hidden, d_cell * f), d_gates

        (d_hidden, d_cell), d_gates = jax.lax.scan(
            step,
            (d_hidden, d_cell),
            (by_time(d_outputs), cells, before, *gates),
            reverse=True,
        )
        hiddens = jnp.concatenate([hidden[None], outputs[:-1]])
        d_inputs = by_time(jnp.matmul(d_gates, kernel.T))
        d_kernel = jnp.einsum("tbi,tbg->ig", by_time(inputs), d_gates)
        d_recurrent = jnp.einsum("tbh,tbg->hg", hiddens, d_gates)
        d_bias = d_gates.sum(axis=(0, 1)).astype(bias.dtype)
        return d_inputs, d_kernel, d_recurrent, d_bias, d_hidden, d_cell

    lstm.defvjp(forward, backward)
    return lstm
