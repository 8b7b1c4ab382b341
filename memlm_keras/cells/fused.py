"""Fast implementations of Keras' LSTM and GRU layers for CPUs.

Outputs, states and gradients equal those of Keras' layers, up to rounding.
"""

import keras
from keras import ops

from memlm_keras.gradients import with_gradient

if keras.backend.backend() == "torch":
    import torch

# Dtypes in which `_torch_looped_lstm` is faster than PyTorch's LSTM from a
# number of units on. At 650 units in bfloat16, the loop takes 0.6 times as long
# as PyTorch's LSTM; at 300 units, 1.2 times. In float32, 1.1 to 1.3 times.
_LOOPED_UNITS = {"bfloat16": 500}


def run_layer(layer, inputs, initial_state=None, training=False):
    """Runs a layer that returns sequences and states, as fast as possible.
    Returns outputs `(batch, time, units)` and each state."""
    run = implementation(layer, inputs, training)
    if run is None:
        return layer(inputs, initial_state=initial_state, training=training)
    dtype = layer.compute_dtype
    if initial_state is None:
        initial_state = layer.get_initial_state(ops.shape(inputs)[0])
    if getattr(inputs, "is_meta", False):
        # Only shapes matter for a meta tensor; tracing each step is slow.
        size = *inputs.shape[:2], layer.units
        return ops.empty(size, dtype), *initial_state
    cell = layer.cell
    weights = cell.kernel, cell.recurrent_kernel, cell.bias
    tensors = inputs, *weights, *initial_state
    return run(*(ops.cast(tensor, dtype) for tensor in tensors))


def implementation(layer, inputs, training=False):
    """Returns a fast function `(inputs, kernel, recurrent_kernel, bias,
    *states)` for a layer, or `None` if Keras' layer should be called."""
    if not _is_usual(layer, inputs, training):
        return None
    # On a GPU, Keras' layer uses cuDNN.
    backend = keras.backend.backend()
    if backend == "torch":
        on_gpu = torch.cuda.is_available()
        lstm = _torch_lstm
        if layer.units >= _LOOPED_UNITS.get(layer.compute_dtype, 1e9):
            lstm = _torch_looped_lstm
        functions = {keras.layers.LSTM: lstm, keras.layers.GRU: _torch_gru}
    elif backend == "jax":
        import jax

        on_gpu = jax.default_backend() != "cpu"
        functions = {keras.layers.LSTM: with_gradient(_forward, _backward)}
    else:
        import tensorflow as tf

        on_gpu = tf.config.list_physical_devices("GPU")
        functions = {keras.layers.LSTM: with_gradient(_forward, _backward)}
    return None if on_gpu else functions.get(type(layer))


def _is_usual(layer, inputs, training):
    """Returns whether a layer is a plain LSTM or GRU over several steps."""
    if type(layer) not in (keras.layers.LSTM, keras.layers.GRU):
        return False
    if isinstance(inputs, keras.KerasTensor) or not layer.built:
        return False
    if inputs.shape[1] == 1:
        # One step has no loop to make faster, and PyTorch's LSTM would first
        # copy the weights into another layout.
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


# === JAX and TensorFlow ===
# Inputs are projected before the loop over time, and the gradient of a matrix
# is one product after the loop. Automatic differentiation would compute a
# product at each step, and TensorFlow would store tensors for each step.


def _forward(inputs, kernel, recurrent_kernel, bias, hidden, cell):
    units = hidden.shape[-1]
    inputs = ops.swapaxes(inputs, 0, 1)

    def step(state, projected):
        hidden, cell = state
        gates = projected[0] + ops.matmul(hidden, recurrent_kernel)
        i, f, g, o = _activated(gates)
        cell = f * cell + i * g
        hidden = o * ops.tanh(cell)
        return (hidden, cell), (hidden, cell, gates)

    last, (outputs, cells, gates) = loop(
        step,
        (hidden, cell),
        [ops.matmul(inputs, kernel) + bias],
        shapes=[(*hidden.shape[:-1], n * units) for n in (1, 1, 4)],
    )
    hiddens = ops.concatenate([hidden[None], outputs[:-1]])
    before = ops.concatenate([cell[None], cells[:-1]])
    kept = (inputs, kernel, recurrent_kernel, hiddens, before, cells, gates)
    return (ops.swapaxes(outputs, 0, 1), *last), kept


def _backward(kept, d_outputs, d_hidden, d_cell):
    inputs, kernel, recurrent_kernel, hiddens, before, cells, gates = kept
    columns = gates.shape[-1]
    i, f, g, o = _activated(gates)
    squashed = ops.tanh(cells)
    # Derivatives of the cell state with respect to the pre-activations of i, f
    # and g, and of the output with respect to the pre-activation of o.
    of_cell = ops.stack(
        [g * i * (1 - i), before * f * (1 - f), i * (1 - g**2)], axis=-2
    )
    of_output = squashed * o * (1 - o)
    transposed = ops.transpose(recurrent_kernel)

    def step(state, at):
        d_hidden, d_cell = state
        d_output, d_squashed, forget, of_cell, of_output = at
        d_hidden = d_hidden + d_output
        d_cell = d_cell + d_hidden * d_squashed
        d_gates = ops.concatenate(
            [
                ops.reshape(d_cell[:, None] * of_cell, (-1, columns // 4 * 3)),
                d_hidden * of_output,
            ],
            axis=-1,
        )
        d_hidden = ops.matmul(d_gates, transposed)
        return (d_hidden, d_cell * forget), (d_gates,)

    (d_hidden, d_cell), (d_gates,) = loop(
        step,
        (d_hidden, d_cell),
        [
            ops.swapaxes(d_outputs, 0, 1),
            o * (1 - squashed**2),
            f,
            of_cell,
            of_output,
        ],
        shapes=[gates.shape[1:]],
        reverse=True,
    )

    def of_matrix(read):
        read = ops.reshape(read, (-1, read.shape[-1]))
        return ops.matmul(
            ops.transpose(read), ops.reshape(d_gates, (-1, columns))
        )

    d_inputs = ops.matmul(d_gates, ops.transpose(kernel))
    return (
        ops.swapaxes(d_inputs, 0, 1),
        of_matrix(inputs),
        of_matrix(hiddens),
        ops.sum(d_gates, axis=(0, 1)),
        d_hidden,
        d_cell,
    )


def _activated(gates):
    """Applies the activations of the gates i, f, o and of the candidate g."""
    i, f, g, o = ops.split(gates, 4, axis=-1)
    return ops.sigmoid(i), ops.sigmoid(f), ops.tanh(g), ops.sigmoid(o)


def loop(step, state, sequences, shapes, reverse=False):
    """Runs `step(state, tensors)` over sequences with time first. Returns the
    last state and, for each of `shapes`, a tensor `(time, *shape)`."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.lax.scan(step, state, sequences, reverse=reverse)
    import tensorflow as tf

    time = ops.shape(sequences[0])[0]

    def array(dtype, shape):
        return tf.TensorArray(dtype, time, element_shape=shape)

    read = [array(s.dtype, s.shape[1:]).unstack(s) for s in sequences]
    written = [array(state[0].dtype, shape) for shape in shapes]

    def body(index, state, written):
        place = time - 1 - index if reverse else index
        state, results = step(state, [array.read(place) for array in read])
        written = [a.write(place, r) for a, r in zip(written, results)]
        return index + 1, state, written

    _, state, written = tf.while_loop(
        lambda index, *_: index < time,
        body,
        (0, tuple(state), written),
        maximum_iterations=time,
    )
    return state, [array.stack() for array in written]


# === PyTorch ===


def _torch_lstm(inputs, kernel, recurrent_kernel, bias, hidden, cell):
    weights = [kernel.T, recurrent_kernel.T, bias, torch.zeros_like(bias)]
    states = [hidden[None], cell[None]]
    outputs, hidden, cell = torch.lstm(
        inputs, states, weights, *_by_position(inputs)
    )
    return outputs, hidden[0], cell[0]


# PyTorch's LSTM transposes both matrices in each pass, and updates their
# gradients at each step. This loop does neither, and allocates buffers once.
def _torch_looped_lstm(*arguments):
    return with_gradient(_torch_forward, _torch_backward)(*arguments)


def _torch_forward(inputs, kernel, recurrent_kernel, bias, hidden, cell):
    batch, time, _ = inputs.shape
    units = hidden.shape[-1]
    inputs = inputs.transpose(0, 1).reshape(time * batch, -1)
    gates = torch.addmm(bias, inputs, kernel).view(time, batch, -1)
    hiddens = inputs.new_empty(time + 1, batch, units)
    cells, squashed = hiddens.clone(), hiddens[1:].clone()
    hiddens[0], cells[0] = hidden, cell
    for step in range(time):
        gate = gates[step]
        torch.addmm(gate, hiddens[step], recurrent_kernel, out=gate)
        i, f, g, o = gate.chunk(4, dim=-1)
        gate[:, : 2 * units].sigmoid_()
        g.tanh_()
        o.sigmoid_()
        torch.mul(f, cells[step], out=cells[step + 1]).addcmul_(i, g)
        torch.tanh(cells[step + 1], out=squashed[step])
        torch.mul(o, squashed[step], out=hiddens[step + 1])
    kept = inputs, kernel, recurrent_kernel, gates, hiddens, cells, squashed
    return (hiddens[1:].transpose(0, 1), hiddens[-1], cells[-1]), kept


def _torch_backward(kept, d_outputs, d_hidden, d_cell):
    inputs, kernel, recurrent_kernel, gates, hiddens, cells, squashed = kept
    time, batch, columns = gates.shape
    units = columns // 4
    i, f, g, o = gates.chunk(4, dim=-1)
    # `d_gates` holds local derivatives until the loop applies the chain rule.
    d_gates = torch.empty_like(gates)
    d_i, d_f, d_g, d_o = d_gates.chunk(4, dim=-1)
    torch.mul(g, i * (1 - i), out=d_i)
    torch.mul(cells[:-1], f * (1 - f), out=d_f)
    torch.mul(i, 1 - g**2, out=d_g)
    torch.mul(squashed, o * (1 - o), out=d_o)
    d_squashed = o * (1 - squashed**2)
    d_hidden, d_cell = d_hidden.clone(), d_cell.clone()
    for step in reversed(range(time)):
        d_gate = d_gates[step]
        d_hidden += d_outputs[:, step]
        d_cell.addcmul_(d_hidden, d_squashed[step])
        d_gate[:, : 3 * units].view(batch, 3, units).mul_(d_cell[:, None])
        d_o[step].mul_(d_hidden)
        torch.mm(d_gate, recurrent_kernel.T, out=d_hidden)
        d_cell *= f[step]
    d_gates = d_gates.view(time * batch, columns)
    d_inputs = torch.mm(d_gates, kernel.T).view(time, batch, -1)
    return (
        d_inputs.transpose(0, 1),
        torch.mm(inputs.T, d_gates),
        torch.mm(hiddens[:-1].view(time * batch, units).T, d_gates),
        d_gates.sum(dim=0),
        d_hidden,
        d_cell,
    )


def _torch_gru(inputs, kernel, recurrent_kernel, bias, hidden):
    # Keras' weights begin with the update gate, PyTorch's with the reset gate.
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
        inputs, hidden[None], weights, *_by_position(inputs)
    )
    return outputs, hidden[0]


def _by_position(inputs):
    """Returns the positional arguments of `torch.lstm` and `torch.gru`."""
    has_biases, layers, dropout = True, 1, 0.0
    trains, bidirectional, batch_first = inputs.requires_grad, False, True
    return has_biases, layers, dropout, trains, bidirectional, batch_first
