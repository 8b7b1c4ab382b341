"""Compares FusedAdam with Keras' Adam and the equations; tests clipping."""

import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras.training import FusedAdam

pytestmark = pytest.mark.backend
SHAPES = [(5, 3), (4,)]


def trained(optimizer, gradients):
    """Applies gradients to two variables of ones; returns their values."""
    variables = [keras.Variable(np.ones(shape, "float32")) for shape in SHAPES]
    for step in gradients:
        step = [keras.ops.convert_to_tensor(gradient) for gradient in step]
        optimizer.apply_gradients(zip(step, variables))
    return [keras.ops.convert_to_numpy(variable) for variable in variables]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"amsgrad": True},
        {"epsilon": 0.1, "beta_1": 0.5, "beta_2": 0.9},
        {"global_clipnorm": 0.5},
        {"global_clipnorm": 500.0},
        {"weight_decay": 0.1},
        {"gradient_accumulation_steps": 2},
    ],
)
def test_steps_are_those_of_keras(random, arguments):
    gradients = [
        [random.normal(size=shape).astype("float32") for shape in SHAPES]
        for _ in range(7)
    ]
    ours, theirs = (
        trained(adam(0.01, **arguments), gradients)
        for adam in (FusedAdam, keras.optimizers.Adam)
    )
    for value, expected in zip(ours, theirs):
        np.testing.assert_allclose(value, expected, rtol=2e-6, atol=2e-6)


def compiled(**arguments):
    """Returns the SGD optimizer of a compiled model."""
    optimizer = keras.optimizers.SGD(0.1, **arguments)
    LanguageModel(5, 3, [keras.layers.LSTM(2)]).compile(optimizer)
    return optimizer


@pytest.mark.parametrize(
    "arguments",
    [
        {"global_clipnorm": 0.5},
        {"global_clipnorm": 500.0},
        {"clipnorm": 0.5},
        {"clipvalue": 0.5},
    ],
)
def test_a_compiled_optimizer_clips_like_keras(random, arguments):
    gradients = [random.normal(size=s).astype("float32") for s in SHAPES]
    expected = trained(keras.optimizers.SGD(0.1, **arguments), [gradients])
    found = trained(compiled(**arguments), [gradients])
    for value, other in zip(found, expected):
        np.testing.assert_allclose(value, other, rtol=1e-6)


@pytest.mark.backend("torch")
def test_a_compiled_optimizer_clips_in_place():
    gradients = [keras.ops.ones((2, 3))]
    clipped = compiled(global_clipnorm=0.5)._clip_gradients(gradients)
    assert clipped[0] is gradients[0]


@pytest.mark.parametrize(
    "optimizer", [lambda **a: FusedAdam(0.01, **a), compiled]
)
def test_an_infinite_gradient_is_seen(optimizer):
    gradients = [np.ones(shape, "float32") for shape in SHAPES]
    gradients[0][0, 0] = np.inf
    for value in trained(optimizer(global_clipnorm=1.0), [gradients]):
        assert np.isnan(value).all()


def test_training_continues_with_the_other_adam(random, tmp_path):
    def model(optimizer):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        model.compile(optimizer, "mse")
        return model

    x, y = random.normal(size=(8, 3)), random.normal(size=(8, 2))
    first = model(keras.optimizers.Adam(0.1))
    first.fit(x, y, epochs=2, verbose=0)
    other = model(FusedAdam(0.1))
    other.optimizer.build(other.trainable_variables)
    other.set_weights(first.get_weights())
    state = {}
    first.optimizer.save_own_variables(state)
    other.optimizer.load_own_variables(
        {name: np.array(value) for name, value in state.items()}
    )
    for either in (first, other):
        either.fit(x, y, epochs=2, verbose=0, shuffle=False)
    for value, expected in zip(other.get_weights(), first.get_weights()):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


def test_config_round_trip():
    config = keras.optimizers.serialize(FusedAdam(0.1, global_clipnorm=2.0))
    revived = keras.optimizers.deserialize(config)
    assert type(revived) is FusedAdam
    assert revived.get_config() == config["config"]
