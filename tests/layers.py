"""Functions that the tests of cells and memories share."""

import functools
import inspect
import json

import keras
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from memlm_keras.cells import ProjectedRNN
from references.finite_differences import assert_derivatives

tensor = ops.convert_to_tensor


def normal(seed, *shape):
    """Draws float32 numbers from the standard normal distribution."""
    random = np.random.default_rng(seed)
    return random.normal(size=shape).astype("float32")


def given_sizes(**others):
    """Decorates a test with hypothesis examples of small sizes and a seed."""
    sizes = {"batch_size": st.integers(1, 3), "time": st.integers(1, 6)}
    return given(**sizes, **others, seed=st.integers(0, 2**16))


def dtype_of(tensor):
    return keras.backend.standardize_dtype(tensor.dtype)


def arrays(nest):
    return keras.tree.map_structure(ops.convert_to_numpy, nest)


def assert_close(found, expected, rtol=1e-4, atol=1e-5):
    """Compares nested tensors."""
    found, expected = (
        keras.tree.flatten(arrays(nest)) for nest in (found, expected)
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)


def everything(call):
    """Returns a memory's call that returns outputs, state and attention."""
    return functools.partial(
        call, return_state=True, return_attention_scores=True
    )


def assert_shares(found, expected, draws):
    """Asserts that frequencies in `draws` draws fit the expected
    probabilities."""
    deviation = np.sqrt(expected * (1 - expected) / np.maximum(draws, 1))
    assert np.all(np.abs(found - expected) <= 4.5 * deviation + 1e-9)


def assert_weights_differ(weights):
    values = arrays(list(weights))
    for index, value in enumerate(values):
        for other in values[:index]:
            assert value.shape != other.shape or np.all(value != other)


def revived(layer):
    """Returns a copy of a layer, made from its config in JSON."""
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    other = keras.saving.deserialize_keras_object(config, safe_mode=True)
    assert type(other) is type(layer)
    # Compare as JSON, in which tuples become lists.
    assert json.dumps(other.get_config()) == json.dumps(layer.get_config())
    return other


def assert_arguments_survive(kind, arguments, **others):
    """Makes a layer with all arguments of its class; returns it and its
    copy."""
    signature = inspect.signature(kind.__init__).parameters
    assert set(signature) - {"self", "kwargs"} == set(arguments)
    layer = kind(**arguments, **others)
    assert set(arguments) <= set(layer.get_config())
    return layer, revived(layer)


def initializers(limit=1.0):
    """Returns initializer arguments that make all weights of a cell
    different."""
    return {
        f"{weight}_initializer": uniform(seed, limit)
        for seed, weight in enumerate(("kernel", "recurrent", "bias"))
    }


def layer_of(cell, kind=ProjectedRNN, **arguments):
    """Returns a layer with a cell; calls return all outputs and the states."""
    return kind(cell, return_sequences=True, return_state=True, **arguments)


def assert_memory_gradients(gradients, layer, outputs, reference, *arguments):
    """Checks gradients of a memory's outputs for its inputs and weights,
    against derivatives of `reference(inputs, weights)`."""
    values = [outputs, *layer.get_weights()]
    direction = normal(6, *reference(outputs, values[1:]).shape)

    def loss(tensors):
        outputs, *weights = tensors
        result, _ = layer.stateless_call(weights, [], outputs, *arguments)
        return ops.sum(ops.multiply(result, direction))

    def reference_loss(values):
        return np.sum(reference(values[0], values[1:]) * direction)

    assert_derivatives(gradients, loss, reference_loss, values)


def assert_window_gradients(gradients, layer, outputs, state, reference):
    """Checks gradients of outputs and attention for inputs, window and weights,
    against derivatives of `reference(inputs, window, weights)`."""
    filled = tensor(state["filled"])
    values = [outputs, state["window"], *layer.get_weights()]
    toward, toward_attention = (
        normal(seed, *found.shape)
        for seed, found in enumerate(reference(*values[:2], values[2:]), 3)
    )

    def loss(tensors):
        outputs, window, *weights = tensors
        (predictions, _, attention), _ = everything(layer.stateless_call)(
            weights, [], outputs, state={"window": window, "filled": filled}
        )
        return ops.sum(predictions * tensor(toward)) + ops.sum(
            attention * tensor(toward_attention)
        )

    def reference_loss(values):
        outputs, window, *weights = values
        predictions, attention = reference(outputs, window, weights)
        return np.sum(predictions * toward) + np.sum(
            attention * toward_attention
        )

    assert_derivatives(gradients, loss, reference_loss, values)


def assert_cell_gradients(
    gradients, cell, inputs, states, reference, training=False
):
    """Checks gradients of a built cell's outputs for inputs, states and
    weights, against derivatives of `reference(inputs, states, weights)`."""
    layer = ProjectedRNN(cell, return_sequences=True)
    layer.build(inputs.shape)
    count = len(states)
    values = [inputs, *states, *map(arrays, cell.trainable_variables)]
    direction = normal(4, *inputs.shape[:2], cell.output_size)

    def loss(tensors):
        inputs, *others = tensors
        states, weights = others[:count], others[count:]
        mapping = list(zip(layer.trainable_variables, weights, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            outputs = layer(inputs, initial_state=states, training=training)
        return ops.sum(ops.multiply(outputs, direction))

    def reference_loss(values):
        inputs, *others = values
        outputs = reference(inputs, others[:count], others[count:])
        return np.sum(outputs * direction)

    assert_derivatives(gradients, loss, reference_loss, values)


def uniform(seed=None, limit=1.0):
    """Returns a uniform initializer with a large range: weights differ
    clearly."""
    return keras.initializers.RandomUniform(-limit, limit, seed=seed)
