"""An LSTM of whole sequences by JAX and TensorFlow, on a CPU.

Differentiated by the backend, each step backward adds a product to the
gradients of both matrices, and on TensorFlow each step stacks what it needs.
Here the inputs are projected before the loop, the loop backward only finds the
gradients of the gates, and one product over all steps makes of them what each
matrix gets.
"""

import keras
from keras import ops


def lstm(*arguments):
    """Outputs and states of an LSTM; arguments as of Keras' layer."""
    return _with_gradient(_forward, _backward)(*arguments)


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

    last, (outputs, cells, gates) = _loop(
        step,
        (hidden, cell),
        [ops.matmul(inputs, kernel) + bias],
        sizes=(units, units, 4 * units),
    )
    hiddens = ops.concatenate([hidden[None], outputs[:-1]])
    before = ops.concatenate([cell[None], cells[:-1]])
    kept = (inputs, kernel, recurrent_kernel, hiddens, before, cells, gates)
    return (ops.swapaxes(outputs, 0, 1), *last), kept


def _backward(kept, gradients):
    inputs, kernel, recurrent_kernel, hiddens, before, cells, gates = kept
    d_outputs, d_hidden, d_cell = gradients
    columns = gates.shape[-1]
    i, f, g, o = _activated(gates)
    squashed = ops.tanh(cells)
    # By what the gradients of cell and output are multiplied at each step.
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

    (d_hidden, d_cell), (d_gates,) = _loop(
        step,
        (d_hidden, d_cell),
        [
            ops.swapaxes(d_outputs, 0, 1),
            o * (1 - squashed**2),
            f,
            of_cell,
            of_output,
        ],
        sizes=(columns,),
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
    """Input, forget, candidate and output gate, in the order of Keras."""
    i, f, g, o = ops.split(gates, 4, axis=-1)
    return ops.sigmoid(i), ops.sigmoid(f), ops.tanh(g), ops.sigmoid(o)


def _with_gradient(forward, backward):
    """A function with a backward pass of its own.

    Args:
        forward: function of tensors to a tuple of its results and what
            `backward` needs.
        backward: function of that and the results' gradients to those of the
            arguments.
    """
    if keras.backend.backend() == "jax":
        import jax

        run = jax.custom_vjp(lambda *arguments: forward(*arguments)[0])
        run.defvjp(forward, backward)
        return run
    import tensorflow as tf

    @tf.custom_gradient
    def run(*arguments):
        results, kept = forward(*arguments)
        return results, lambda *gradients: backward(kept, gradients)

    return run


def _loop(step, state, sequences, sizes, reverse=False):
    """Runs `step` over time.

    Args:
        step: function of the state and the tensors of one step to the new
            state and a tuple of results.
        state: tuple of tensors `(batch, ...)`.
        sequences: list of tensors, time first.
        sizes: tuple of integers, the last axis of each result.
        reverse: bool, whether the last step is run first.

    Returns:
        The last state, and the results `(time, batch, size)`, a list.
    """
    if keras.backend.backend() == "jax":
        import jax

        return jax.lax.scan(step, state, sequences, reverse=reverse)
    import tensorflow as tf

    time = ops.shape(sequences[0])[0]

    def array(dtype, shape):
        return tf.TensorArray(dtype, time, element_shape=shape)

    read = [array(s.dtype, s.shape[1:]).unstack(s) for s in sequences]
    batch = state[0].shape[0]
    written = [array(state[0].dtype, (batch, size)) for size in sizes]

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
