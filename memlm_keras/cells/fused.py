"""Keras' own LSTM and GRU layers, by a faster implementation of the same.

Outputs, states and gradients are those of the layer itself, to rounding. Which
implementation runs follows from backend, device and layer:

* PyTorch on a CPU: the library's fused GRU and, for few units, LSTM.
* All backends on a CPU: an LSTM whose inputs are projected before the loop over
  time and whose matrices get their gradients from one product each, behind it.
* Elsewhere, for a single step, and for layers with dropout, other activations,
  no bias or a mask: the layer, which takes cuDNN on a GPU.
"""

import keras
from keras import ops

# From here on the loop is faster on PyTorch: in float32 and bfloat16 it takes
# 0.9 and 0.6 of the time of PyTorch's own at 650 units, 1.1 and 1.2 at 300.
_LOOPED_UNITS = 500


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
    known = {
        "jax": _jax_functions,
        "tensorflow": _tensorflow_functions,
        "torch": _torch_functions,
    }
    functions = known[keras.backend.backend()](layer.units)
    return functions.get(type(layer))


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
        and layer.activity_regularizer is None
    )


def _torch_functions(units):
    import torch

    if torch.cuda.is_available():
        return {}
    from memlm_keras.cells import fused_torch

    lstm = fused_torch.lstm
    if units >= _LOOPED_UNITS:
        lstm = fused_torch.looped_lstm
    return {keras.layers.LSTM: lstm, keras.layers.GRU: fused_torch.gru}


def _jax_functions(units):
    import jax

    if jax.default_backend() != "cpu":
        return {}
    from memlm_keras.cells import fused_loop

    return {keras.layers.LSTM: fused_loop.lstm}


def _tensorflow_functions(units):
    import tensorflow as tf

    if tf.config.list_physical_devices("GPU"):
        return {}
    from memlm_keras.cells import fused_loop

    return {keras.layers.LSTM: fused_loop.lstm}
