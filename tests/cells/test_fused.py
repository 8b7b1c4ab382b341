"""Tests that fast implementations of Keras' layers give the layers' results."""

import keras
import numpy as np
import pytest
from keras import ops
from layers import assert_close

import memlm_keras
from memlm_keras.cells import fused

pytestmark = pytest.mark.backend

LAYERS = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU}
# Layers with a fast implementation, by backend.
FUSED = {"torch": {"lstm", "gru"}, "jax": {"lstm"}, "tensorflow": {"lstm"}}


def made(name, units=5, **arguments):
    layer = LAYERS[name](
        units,
        return_sequences=True,
        return_state=True,
        bias_initializer="random_normal",
        **arguments,
    )
    layer.build((None, None, 4))
    return layer


def is_fused(name):
    return name in FUSED[keras.backend.backend()]


@pytest.fixture
def inputs(random):
    return random.normal(size=(3, 6, 4)).astype("float32")


@pytest.mark.parametrize("begins", ["zeros", "states"])
@pytest.mark.parametrize(
    "name, many", [("lstm", False), ("lstm", True), ("gru", False)]
)
def test_outputs_states_and_gradients(
    name, many, begins, inputs, random, gradients, monkeypatch
):
    looped = {"float32": 5 if many else 6}
    monkeypatch.setattr(fused, "_LOOPED_UNITS", looped)
    layer = made(name)
    found = fused.implementation(layer, ops.array(inputs))
    assert (found is not None) == is_fused(name)
    if keras.backend.backend() == "torch":
        assert many == ("looped" in found.__name__)
    count = len(layer.get_initial_state(3))
    states = None
    if begins == "states":
        drawn = random.normal(size=(count, 3, 5)).astype("float32")
        states = [ops.array(state) for state in drawn]
    weights = ops.array(random.normal(size=(3, 6, 5)).astype("float32"))
    variables = layer.trainable_variables

    expected = layer(ops.array(inputs), initial_state=states)
    found = fused.run_layer(layer, ops.array(inputs), states)
    assert_close(found, expected, rtol=1e-5, atol=1e-6)

    def loss(run):
        def of(tensors):
            mapping = list(zip(variables, tensors[1:]))
            begin = tensors[1 + len(variables) :] or None
            with keras.StatelessScope(state_mapping=mapping):
                outputs, *last = run(tensors[0], begin)
            terms = [ops.sum(outputs * weights)]
            terms += [ops.sum(state**2) for state in last]
            return sum(terms)

        return of

    given = [*variables, *(states or [])]
    tensors = [inputs, *(ops.convert_to_numpy(v) for v in given)]
    expected = gradients(loss(lambda x, s: layer(x, initial_state=s)), tensors)
    found = gradients(loss(lambda x, s: fused.run_layer(layer, x, s)), tensors)
    assert_close(found, expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    "arguments",
    [
        {"activation": "relu"},
        {"recurrent_activation": "hard_sigmoid"},
        {"use_bias": False},
        {"go_backwards": True},
        {"dropout": 0.5},
        {"recurrent_dropout": 0.5},
    ],
)
def test_other_layers_run_themselves(arguments, inputs):
    arguments = {"bias_initializer": "zeros", **arguments}
    layer = keras.layers.LSTM(
        5, return_sequences=True, return_state=True, **arguments
    )
    layer.build((None, None, 4))
    assert fused.implementation(layer, ops.array(inputs), True) is None
    drops = "dropout" in str(arguments)
    is_run = fused.implementation(layer, ops.array(inputs), False) is not None
    assert is_run == (drops and is_fused("lstm"))


@pytest.mark.parametrize("name", LAYERS)
def test_a_single_step_or_a_mask_is_left_to_the_layer(name, inputs):
    layer = made(name)
    step, masked = inputs[:, :1], keras.layers.Masking()(ops.array(inputs))
    assert fused.implementation(layer, ops.array(step)) is None
    assert fused.implementation(layer, masked) is None


@pytest.mark.parametrize("name", LAYERS)
def test_language_models_run_it(name, monkeypatch):
    ran = []
    known = fused.implementation

    def noted(layer, inputs, training=False):
        found = known(layer, inputs, training)
        ran.append(found is not None)
        return found

    monkeypatch.setattr(fused, "implementation", noted)
    lm = memlm_keras.LanguageModel(
        vocabulary_size=9,
        embedding_dim=4,
        recurrent=[LAYERS[name](5), LAYERS[name](5)],
    )
    lm(np.array([[1, 2, 3]]))
    assert ran[-2:] == [is_fused(name)] * 2
    ran.clear()
    lm.compile()
    lm.fit(np.array([[1, 2, 3]]), np.array([[2, 3, 4]]), verbose=0)
    assert ran[-1] == is_fused(name)


def test_a_penalty_on_activities_is_left_to_the_layer(inputs):
    layer = made("lstm", activity_regularizer=keras.regularizers.L2(0.1))
    fused.run_layer(layer, ops.array(inputs))
    assert len(layer.losses) > 0
