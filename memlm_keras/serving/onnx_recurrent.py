"""Keras' LSTM and GRU as the operators LSTM and GRU of ONNX.

While a model is traced, a layer leaves an operator in the TensorFlow graph that
nothing runs, and that the converter replaces. The weights are put in ONNX's
order. Other layers, and those with other activations, are traced as they are.

Runs on the TensorFlow backend of Keras only.
"""

import keras
import numpy as np
import tensorflow as tf

from memlm_keras.serving.streamed_step import recurrent_layers
from memlm_keras.serving.streamed_step import set_on_layers

# ONNX's name of a cell, and the places in Keras' order of its gates.
_OPERATORS = {
    keras.layers.LSTMCell: ("LSTM", (0, 3, 1, 2)),
    keras.layers.GRUCell: ("GRU", (0, 1, 2)),
}
# What stands in the TensorFlow graph.
_PLACEHOLDER = "PyFunc"


def native_recurrence(model):
    """Context in which tracing leaves each LSTM and GRU in one operator.

    Args:
        model: a `memlm_keras.LanguageModel` or `Ensemble` in float32.
    """

    def attributes(layer):
        if not _is_native(layer.cell):
            return {}
        # A layer that is unrolled runs itself, which here is one operator.
        return {"call": _call(layer), "unroll": True}

    return set_on_layers(recurrent_layers(model), attributes)


def handlers():
    """Functions for operators that tf2onnx does not know.

    Returns:
        Dict of functions with further arguments, by TensorFlow's names: those
        that stand for layers, and what ONNX has no operator for.
    """
    return {_PLACEHOLDER: (_replace, []), "Log1p": (_log1p, [])}


def _is_native(cell):
    """Whether ONNX's operator computes what a cell does."""
    return (
        type(cell) in _OPERATORS
        and cell.activation is keras.activations.tanh
        and cell.recurrent_activation is keras.activations.sigmoid
    )


def _call(layer):
    """Returns the `call` of a layer that leaves one operator in a graph."""
    operator, _ = _OPERATORS[type(layer.cell)]
    units = layer.cell.units
    weights = onnx_weights(layer.cell)

    def call(sequences, initial_state=None, mask=None, training=False):
        if initial_state is None:
            initial_state = layer.get_initial_state(tf.shape(sequences)[0])
        # ONNX has the time first, and an axis for the two directions.
        found = tf.raw_ops.PyFunc(
            input=[
                tf.transpose(sequences, (1, 0, 2)),
                *map(tf.constant, weights),
                *(state[None] for state in initial_state),
            ],
            token=f"{operator} {int(getattr(layer.cell, 'reset_after', 0))}",
            Tout=[tf.float32] * (1 + len(initial_state)),
        )
        time = sequences.shape[1]
        outputs = tf.ensure_shape(found[0], (time, 1, None, units))[:, 0]
        states = [
            tf.ensure_shape(state, (1, None, units))[0] for state in found[1:]
        ]
        return tf.transpose(outputs, (1, 0, 2)), *states

    return call


def onnx_weights(cell):
    """Weights of a cell as ONNX's operator takes them.

    Args:
        cell: a `keras.layers.LSTMCell` or `GRUCell`, built.

    Returns:
        Three float32 NumPy arrays: kernel `(1, gates * units, features)`,
        recurrent kernel `(1, gates * units, units)` and biases
        `(1, 2 * gates * units)`, those of the inputs first.
    """
    _, order = _OPERATORS[type(cell)]

    def ordered(weight):
        gates = np.split(keras.ops.convert_to_numpy(weight), len(order), -1)
        return np.concatenate([gates[place] for place in order], -1)

    biases = np.zeros((2, len(order) * cell.units), "float32")
    if cell.use_bias:
        bias = ordered(cell.bias)
        biases[: len(np.atleast_2d(bias))] = bias
    return (
        np.ascontiguousarray(ordered(cell.kernel).T[None]),
        np.ascontiguousarray(ordered(cell.recurrent_kernel).T[None]),
        biases.reshape(1, -1),
    )


def _replace(context, node, name, arguments):
    """Puts ONNX's operator in the place of one that stands for a layer."""
    operator, after = node.get_attr_str("token").split()
    attributes = {"hidden_size": context.get_shape(node.input[2])[2]}
    if operator == "GRU":
        attributes["linear_before_reset"] = int(after)
    features, kernel, recurrent_kernel, biases, *states = node.input
    # All rows are of one length, which there is no need to give.
    inputs = [features, kernel, recurrent_kernel, biases, "", *states]
    _put(context, node, operator, inputs, attributes)


def _log1p(context, node, name, arguments):
    one = context.make_const(f"{name}_one", np.ones((), "float32"))
    total = context.make_node("Add", [node.input[0], one.output[0]])
    _put(context, node, "Log", total.output)


def _put(context, node, operator, inputs, attributes=None):
    """Puts an operator of ONNX in the place of a node."""
    place = {
        "outputs": list(node.output),
        "shapes": node.output_shapes,
        "dtypes": node.output_dtypes,
    }
    context.remove_node(node.name)
    context.make_node(operator, inputs, attr=attributes, **place)
