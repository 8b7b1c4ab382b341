import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layers import arrays
from layers import assert_close
from layers import normal
from layers import tensor
from layers import uniform

from memlm_keras.memory import DeltaRule
from memlm_keras.memory import delta_rule
from references import delta_rule as reference
from references.finite_differences import assert_derivatives
from references.finite_differences import assert_directional_derivatives

pytestmark = pytest.mark.backend

SYMBOLS = {
    "query_kernel": "W^q",
    "key_kernel": "W^k",
    "value_kernel": "W^v",
    "context_kernel": "W^r",
    "output_kernel": "W^x",
    "rate_kernel": "w^b",
    "rate_bias": "b^b",
    "decay_kernel": "w^a",
    "decay_bias": "b^a",
    "convolution": "convolution",
    "permutations": "P",
}
CHOICES = "negative_eigenvalues decay previous_keys holographic residual"
FORMS = {
    "plain": {},
    "residual": {"residual": True},
    "all": {
        "negative_eigenvalues": True,
        "decay": True,
        "kernel_size": 4,
        "previous_keys": True,
    },
}
FORMS["all_holographic"] = {**FORMS["all"], "holographic": True}
every_form = pytest.mark.parametrize("form", FORMS)
# Keys have length one even if the outputs are small.
sizes_of_outputs = st.sampled_from([np.float32(1), np.float32(1e-9)])
plain_and_all = pytest.mark.parametrize(
    "form", ["plain", "all", "all_holographic"]
)


def make(units, **arguments):
    layer = DeltaRule(kernel_initializer=uniform(), **arguments)
    layer.build((None, None, units))
    for seed, weight in enumerate(layer.trainable_weights):
        if len(weight.shape) == 1 or weight.name == "convolution":
            weight.assign(normal(seed, *weight.shape))
    return layer


def state_of(layer, seed, batch_size):
    """Draws a random state without zeros."""
    return {
        name: normal(seed, *value.shape)
        for name, value in layer.initial_state(batch_size).items()
    }


def expected_of(layer, outputs, state, values=None):
    """Returns the outputs and the state of the reference."""
    weights = {
        SYMBOLS[weight.name]: arrays(weight)
        for weight in layer.non_trainable_weights
    }
    values = arrays(layer.trainable_weights) if values is None else values
    for weight, value in zip(layer.trainable_weights, values, strict=True):
        value = np.asarray(value, "float64")
        # Transpose, since the reference multiplies by matrices from the left.
        weights[SYMBOLS[weight.name]] = (
            value if weight.name == "convolution" else value.T
        )
    return reference.delta_rule(
        np.asarray(outputs, "float64"),
        weights,
        state,
        layer.negative_eigenvalues,
        layer.previous_keys,
    )


def reader(layer, compiled):
    return compiled(
        lambda outputs, state: layer(outputs, state=state, return_state=True)
    )


def assert_equals_the_reference(layer, outputs, state, read, **tolerance):
    found = read(outputs, keras.tree.map_structure(tensor, state))
    assert_close(found, expected_of(layer, outputs, state), **tolerance)


@st.composite
def settings(draw):
    """Draws sizes, which all differ, and any combination of the options."""
    sizes = st.lists(st.integers(1, 6), min_size=5, max_size=5, unique=True)
    batch, time, units, keys, values = draw(sizes)
    arguments = {name: draw(st.booleans()) for name in CHOICES.split()}
    arguments |= {"key_dim": keys, "value_dim": values}
    arguments["num_heads"] = draw(st.integers(1, 3))
    arguments["kernel_size"] = draw(st.integers(1, 4))
    return batch, time, units, arguments


@given(setting=settings(), seed=st.integers(0, 1000), size=sizes_of_outputs)
def test_equals_the_reference(compiled, setting, seed, size):
    batch, time, units, arguments = setting
    layer = make(units, **arguments)
    assert_equals_the_reference(
        layer,
        size * normal(seed, batch, time, units),
        state_of(layer, seed + 1, batch),
        reader(layer, compiled),
    )


@plain_and_all
@pytest.mark.parametrize("time", [32, 33, 200])
def test_chunks_equal_the_recurrence(form, time, compiled, monkeypatch):
    monkeypatch.setattr(delta_rule, "_CHUNK", 32)
    layer = make(8, key_dim=4, **FORMS[form])
    assert_equals_the_reference(
        layer,
        normal(1, 2, time, 8),
        state_of(layer, 2, 2),
        reader(layer, compiled),
    )


@pytest.mark.backend("tensorflow")
@plain_and_all
def test_an_unknown_time(form):
    """In a SavedModel, the number of steps and of chunks is unknown."""
    import tensorflow as tf

    layer = make(8, key_dim=4, **FORMS[form])

    @tf.function(input_signature=[tf.TensorSpec((None, None, 8))])
    def read(outputs):
        return layer(outputs, return_state=True)

    for time in (1, 32, 100):
        outputs = normal(1, 2, time, 8)
        assert_close(read(outputs), layer(outputs, return_state=True))


@pytest.mark.parametrize("holographic", [False, True])
def test_2000_steps(holographic, compiled):
    """Keys are almost equal, so errors would grow if a step amplified the
    state."""
    layer = make(
        8,
        key_dim=4,
        decay=True,
        negative_eigenvalues=True,
        holographic=holographic,
    )
    outputs = 0.1 * normal(1, 1, 2000, 8) + normal(2, 8)
    assert_equals_the_reference(
        layer, outputs, state_of(layer, 3, 1), reader(layer, compiled)
    )


@every_form
def test_gradients_equal_finite_differences(form, gradients):
    layer = make(4, num_heads=2, key_dim=3, **FORMS[form])
    outputs, toward = normal(1, 2, 5, 4), normal(2, 2, 5, 4)
    state = state_of(layer, 3, 2)
    toward_state = state_of(layer, 4, 2)
    names = list(state)

    def reference_loss(values):
        outputs, *rest = values
        before = dict(zip(names, rest))
        predictions, after = expected_of(
            layer, outputs, before, rest[len(names) :]
        )
        return np.sum(predictions * toward) + sum(
            np.sum(after[name] * toward_state[name]) for name in names
        )

    def loss(tensors):
        outputs, *rest = tensors
        (predictions, after), _ = layer.stateless_call(
            rest[len(names) :],
            layer.non_trainable_weights,
            outputs,
            state=dict(zip(names, rest)),
            return_state=True,
        )
        return keras.ops.sum(predictions * tensor(toward)) + sum(
            keras.ops.sum(after[name] * tensor(toward_state[name]))
            for name in names
        )

    weights = arrays(layer.trainable_weights)
    values = [outputs, *state.values(), *weights]
    assert_derivatives(gradients, loss, reference_loss, values)


@pytest.mark.parametrize("form, time", [("all", 35), ("all_holographic", 17)])
def test_gradients_through_chunks(form, time, gradients, monkeypatch):
    monkeypatch.setattr(delta_rule, "_CHUNK", 32)
    layer = make(4, key_dim=3, **FORMS[form])
    outputs, toward = normal(1, 1, time, 4), normal(2, 1, time, 4)
    state = state_of(layer, 3, 1)

    def reference_loss(values):
        predictions, _ = expected_of(layer, values[0], state, values[1:])
        return np.sum(predictions * toward)

    def loss(tensors):
        outputs, *weights = tensors
        predictions, _ = layer.stateless_call(
            weights, layer.non_trainable_weights, outputs, state=arrays(state)
        )
        return keras.ops.sum(predictions * tensor(toward))

    values = [outputs, *arrays(layer.trainable_weights)]
    assert_directional_derivatives(
        gradients, loss, reference_loss, values, directions=3
    )


@plain_and_all
def test_a_read_is_a_sum_of_values(form):
    layer = make(6, num_heads=2, key_dim=4, value_dim=3, **FORMS[form])
    outputs = normal(1, 2, 40, 6)
    weights = arrays(layer.read_weights(outputs))
    # The real and the imaginary part count as separate steps.
    steps = np.arange(40 * layer.parts) // layer.parts
    assert weights.shape == (2, 2, len(steps), len(steps))
    later = steps > steps[:, None]
    np.testing.assert_array_equal(weights[..., later], 0.0)
    sources, _ = layer._sources(tensor(outputs), layer.initial_state(2), None)
    values = arrays(keras.ops.matmul(sources[2], layer.value_kernel))
    context = np.einsum(
        "bnti,binv->btnv", weights, values.reshape(2, len(steps), 2, 3)
    ).reshape(2, 40, -1)
    context_kernel, output_kernel = (
        arrays(kernel) for kernel in (layer.context_kernel, layer.output_kernel)
    )
    expected = np.tanh(context @ context_kernel + outputs @ output_kernel)
    assert_close(layer(outputs), expected)


def test_a_convolution_begins_as_the_identity():
    arguments = {"key_dim": 3, "kernel_initializer": uniform(1)}
    with_one, without = (
        DeltaRule(kernel_size=4, **arguments),
        DeltaRule(**arguments),
    )
    outputs = normal(1, 2, 9, 6)
    assert_close(with_one(outputs), without(outputs))


def test_heads_divide_the_units():
    with pytest.raises(ValueError, match="divisible by 2"):
        DeltaRule(num_heads=2).build((None, None, 5))
