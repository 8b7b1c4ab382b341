"""Shared by the tests of cells and memories."""

import functools
import inspect
import json

import keras
import numpy as np
from hypothesis import settings
from keras import ops

# JAX compiles each example, since shapes differ.
few_on_jax = settings(
    max_examples=3 if keras.backend.backend() == "jax" else 12
)


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
    """A call of a memory that returns outputs, state and attention weights."""
    return functools.partial(
        call, return_state=True, return_attention_scores=True
    )


def revived(layer):
    """A layer made of the configuration of another, through JSON."""
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    other = keras.saving.deserialize_keras_object(config, safe_mode=True)
    assert type(other) is type(layer)
    assert other.get_config() == layer.get_config()
    return other


def assert_arguments_survive(kind, arguments, **others):
    """Asserts that `arguments` are all of a class, and in its configuration.

    Returns a layer and its revival.
    """
    signature = inspect.signature(kind.__init__).parameters
    assert set(signature) - {"self", "kwargs"} == set(arguments)
    layer = kind(**arguments, **others)
    assert set(arguments) <= set(layer.get_config())
    return layer, revived(layer)


def memory_loss(layer, direction, *arguments):
    """Function of `[outputs, *weights]`: outputs times a direction."""

    def loss(tensors):
        outputs, *weights = tensors
        result, _ = layer.stateless_call(weights, [], outputs, *arguments)
        return ops.sum(ops.multiply(result, direction))

    return loss


def sequence_loss(layer, direction, num_states, training=False):
    """Function of `[inputs, *states, *weights]`: outputs times a direction."""

    def loss(tensors):
        inputs, *others = tensors
        states, weights = others[:num_states], others[num_states:]
        mapping = list(zip(layer.trainable_variables, weights, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            outputs = layer(inputs, initial_state=states, training=training)
        return ops.sum(ops.multiply(outputs, direction))

    return loss


def uniform(seed=None, limit=1.0):
    """An initializer whose weights are large enough to tell them apart."""
    return keras.initializers.RandomUniform(-limit, limit, seed=seed)
