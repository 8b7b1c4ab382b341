import inspect
import json

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memlm_keras
from memlm_keras.memory import MemoryNetwork
from references.daniluk2017 import softmax
from references.finite_differences import assert_derivatives

V = 11


def make(d, window):
    layer = MemoryNetwork(
        window,
        vocabulary_size=V,
        kernel_initializer=keras.initializers.RandomUniform(-1, 1),
    )
    layer.build((None, None, d))
    return layer


def reference(embedded, token_ids, weights, window, before=0):
    """The equations in float64, the first `before` steps read but not told."""
    table, t_a, t_c, query_kernel = weights
    batch_size, time, d = embedded.shape
    hidden = np.zeros((batch_size, time, d))
    attention = np.zeros((batch_size, time, window))
    u = np.full(d, 0.1)
    for row in range(batch_size):
        for step in range(time):
            first = max(0, step + 1 - window)
            count = step + 1 - first
            a = embedded[row, first : step + 1] + t_a[window - count :]
            c = table[token_ids[row, first : step + 1]] + t_c[window - count :]
            p = softmax(a @ u)
            h = query_kernel.T @ u + c.T @ p
            h[d // 2 :] = np.maximum(h[d // 2 :], 0)
            hidden[row, step] = h
            attention[row, step, window - count :] = p
    return hidden[:, before:], attention[:, before:]


def inputs_of(seed, batch_size, time, d):
    random = np.random.default_rng(seed)
    embedded = random.normal(size=(batch_size, time, d)).astype("float32")
    return embedded, random.integers(V, size=(batch_size, time)).astype("int32")


def arrays(nest):
    return keras.tree.map_structure(keras.ops.convert_to_numpy, nest)


@given(
    batch_size=st.integers(1, 3),
    time=st.integers(1, 6),
    d=st.integers(1, 5),
    window=st.integers(1, 4),
    history=st.integers(0, 5),
    seed=st.integers(0, 2**16),
)
def test_outputs_equal_the_reference(
    compiled, batch_size, time, d, window, history, seed
):
    """From the state that any history leaves."""
    layer = make(d, window)
    embedded, token_ids = inputs_of(seed, batch_size, history + time, d)
    read = compiled(lambda *args: layer(args[0], args[1], state=args[2]))
    state = layer.initial_state(batch_size)
    if history:
        _, state, _ = read(embedded[:, :history], token_ids[:, :history], state)
    found = arrays(read(embedded[:, history:], token_ids[:, history:], state))
    weights = [value.astype("float64") for value in layer.get_weights()]
    expected = reference(
        embedded.astype("float64"), token_ids, weights, window, history
    )
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[2], expected[1], rtol=1e-4, atol=1e-5)


def test_gradients_equal_finite_differences(gradients):
    layer = make(4, 3)
    embedded, token_ids = inputs_of(5, 2, 4, 4)
    direction = np.random.default_rng(6).normal(size=(2, 4, 4))
    direction = direction.astype("float32")

    def loss(tensors):
        embedded, *weights = tensors
        (hidden, _, _), _ = layer.stateless_call(
            weights, [], embedded, token_ids
        )
        return keras.ops.sum(keras.ops.multiply(hidden, direction))

    def reference_loss(values):
        embedded, *weights = values
        hidden, _ = reference(embedded, token_ids, weights, 3)
        return np.sum(hidden * direction)

    values = [embedded, *layer.get_weights()]
    assert_derivatives(gradients, loss, reference_loss, values)


def test_every_argument_survives_its_configuration():
    arguments = {
        "window": 3,
        "vocabulary_size": 7,
        "kernel_initializer": keras.initializers.RandomUniform(-0.3, 0.2, 1),
    }
    signature = inspect.signature(MemoryNetwork.__init__).parameters
    assert set(signature) - {"self", "kwargs"} == set(arguments)
    layer = MemoryNetwork(**arguments, name="memory")
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    revived = keras.saving.deserialize_keras_object(config, safe_mode=True)
    assert set(arguments) <= set(config["config"])
    assert revived.get_config() == layer.get_config()


def test_a_model_without_recurrent_layers():
    model = memlm_keras.LanguageModel(V, 4, [], MemoryNetwork(window=2))
    assert model.memory.vocabulary_size == V
    with pytest.raises(ValueError, match="`recurrent` must be a list of at"):
        memlm_keras.LanguageModel(V, 4, [], None)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"vocabulary_size": 0}, "`vocabulary_size`.*Received: "),
        ({"window": 0}, "`window`.*Received: "),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        MemoryNetwork(**arguments)
