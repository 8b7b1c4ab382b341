import inspect
import json

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlm_keras.memory import Projection
from references.finite_differences import assert_derivatives
from references.results import everything

pytestmark = pytest.mark.backend

FORMS = {
    "daniluk2017": ({}, np.tanh),
    "press2016": ({"activation": "linear", "use_bias": True}, lambda x: x),
    "of another size": ({"units": 2}, np.tanh),
}
every_form = pytest.mark.parametrize("form", FORMS)


def make(form, units):
    initializer = keras.initializers.RandomUniform(-1, 1, seed=3)
    layer = Projection(
        kernel_initializer=initializer,
        bias_initializer=initializer,
        **FORMS[form][0],
    )
    layer.build((None, None, units))
    return layer


def reference(form, outputs, kernel, bias=0.0):
    """P h + b_P, and its tanh, step by step."""
    projected = np.zeros((*outputs.shape[:2], kernel.shape[1]))
    for row in np.ndindex(outputs.shape[:2]):
        projected[row] = FORMS[form][1](kernel.T @ outputs[row] + bias)
    return projected


@every_form
@given(
    batch_size=st.integers(1, 3),
    time=st.integers(1, 4),
    units=st.integers(1, 5),
    seed=st.integers(0, 2**16),
)
def test_it_equals_the_reference(form, batch_size, time, units, seed):
    random = np.random.default_rng(seed)
    outputs = random.normal(size=(batch_size, time, units))
    layer = make(form, units)
    found, state, attention = everything(layer)(outputs.astype("float32"))
    expected = reference(form, outputs, *layer.get_weights())
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(found), expected, rtol=1e-4, atol=1e-5
    )
    assert state == {} == layer.initial_state(batch_size)
    assert tuple(attention.shape) == (batch_size, time, 0)
    assert layer.losses == []


@every_form
def test_gradients_equal_finite_differences(form, gradients, random):
    layer = make(form, 3)
    outputs = random.normal(size=(2, 4, 3)).astype("float32")
    units = layer.units or 3
    direction = random.normal(size=(2, 4, units)).astype("float32")

    def loss(tensors):
        mapping = list(zip(layer.trainable_variables, tensors[1:]))
        with keras.StatelessScope(state_mapping=mapping):
            projected, _, _ = everything(layer)(tensors[0])
        return keras.ops.sum(keras.ops.multiply(projected, direction))

    def reference_loss(values):
        return np.sum(reference(form, *values) * direction)

    values = [outputs, *layer.get_weights()]
    assert_derivatives(gradients, loss, reference_loss, values)


def test_a_penalty_is_a_loss():
    layer = Projection(kernel_regularizer=keras.regularizers.L2(0.5))
    layer.build((None, None, 4))
    (penalty,) = layer.losses
    kernel = layer.get_weights()[0]
    np.testing.assert_allclose(float(penalty), 0.5 * np.sum(kernel**2), 1e-5)


def test_every_argument_survives_its_configuration():
    arguments = {
        "units": 3,
        "kernel_initializer": keras.initializers.RandomUniform(-0.3, 0.2, 1),
        "activation": "relu",
        "use_bias": True,
        "bias_initializer": keras.initializers.RandomUniform(-0.3, 0.2, 2),
        "kernel_regularizer": keras.regularizers.L2(0.25),
    }
    signature = inspect.signature(Projection.__init__).parameters
    assert set(signature) - {"self", "kwargs"} == set(arguments)
    layer = Projection(**arguments, name="memory", dtype="float16")
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    revived = keras.saving.deserialize_keras_object(config, safe_mode=True)
    assert set(arguments) <= set(config["config"])
    assert revived.get_config() == layer.get_config()
    assert float(revived.kernel_regularizer.l2) == 0.25
