import inspect
import json

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memlm_keras
from memlm_keras.memory import MemoryBlock
from references import tran2016 as reference
from references.finite_differences import assert_derivatives
from references.results import everything

pytestmark = pytest.mark.backend

V = 11
every_variant = pytest.mark.parametrize("variant", reference.VARIANTS)


def make(variant, d, window=3):
    layer = MemoryBlock(
        window,
        **reference.VARIANTS[variant],
        vocabulary_size=V,
        kernel_initializer=keras.initializers.RandomUniform(-1, 1),
    )
    layer.build((None, None, d))
    return layer


def inputs_of(seed, batch_size, time, d):
    random = np.random.default_rng(seed)
    outputs = random.normal(size=(batch_size, time, d)).astype("float32")
    return outputs, random.integers(V, size=(batch_size, time)).astype("int32")


def arrays(nest):
    return keras.tree.map_structure(keras.ops.convert_to_numpy, nest)


@every_variant
@given(
    batch_size=st.integers(1, 3),
    time=st.integers(1, 6),
    d=st.integers(1, 4),
    window=st.integers(1, 4),
    history=st.integers(0, 5),
    seed=st.integers(0, 2**16),
)
def test_outputs_equal_the_reference(
    variant, compiled, batch_size, time, d, window, history, seed
):
    """From the state that any history leaves."""
    layer = make(variant, d, window)
    earlier, earlier_ids = inputs_of(seed + 1, batch_size, history, d)
    outputs, token_ids = inputs_of(seed, batch_size, time, d)
    read = compiled(
        lambda *args: everything(layer)(args[0], args[1], state=args[2])
    )
    state = layer.initial_state(batch_size)
    if history:
        _, state, _ = read(earlier, earlier_ids, state)
    composed, state, weights = arrays(read(outputs, token_ids, state))

    expected, attention = reference.memory_block(
        outputs.astype("float64"),
        token_ids,
        reference.symbols(layer),
        window,
        list(earlier_ids),
    )
    np.testing.assert_allclose(composed, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(weights, attention, rtol=1e-4, atol=1e-5)
    filled = min(history + time, window - 1)
    np.testing.assert_array_equal(state["filled"], filled)
    assert state["window"].shape == (batch_size, window - 1)
    words = np.concatenate([earlier_ids, token_ids], axis=1)
    np.testing.assert_array_equal(
        state["window"][:, window - 1 - filled :],
        words[:, words.shape[1] - filled :],
    )


@every_variant
def test_gradients_equal_finite_differences(variant, gradients):
    d, window = 3, 3
    layer = make(variant, d, window)
    outputs, token_ids = inputs_of(5, 2, 4, d)
    direction = np.random.default_rng(6).normal(size=(2, 4, d))
    direction = direction.astype("float32")

    def loss(tensors):
        outputs, *weights = tensors
        (composed, _, _), _ = everything(layer.stateless_call)(
            weights, [], outputs, token_ids
        )
        return keras.ops.sum(keras.ops.multiply(composed, direction))

    def reference_loss(values):
        outputs, *weights = values
        composed, _ = reference.memory_block(
            outputs,
            token_ids,
            reference.symbols(layer, weights),
            window,
            [[], []],
        )
        return np.sum(composed * direction)

    values = [outputs, *layer.get_weights()]
    assert_derivatives(gradients, loss, reference_loss, values)


def test_the_last_row_of_the_temporal_matrix_is_now(compiled):
    """However few words were read."""
    layer = make("tm_linear", 2, window=4)
    zeros = [np.zeros_like(value) for value in layer.get_weights()]
    layer.set_weights(zeros)
    temporal = np.zeros((4, 2), "float32")
    temporal[-1] = 50.0
    layer.temporal_kernel.assign(temporal)
    outputs = np.ones((1, 6, 2), "float32")
    token_ids = np.arange(6, dtype="int32")[None]
    _, _, weights = arrays(compiled(everything(layer))(outputs, token_ids))
    np.testing.assert_allclose(
        weights[0], np.tile([0, 0, 0, 1.0], (6, 1)), atol=1e-6
    )


def test_attention_points_at_a_word(compiled):
    layer = make("notm_linear", 2, window=4)
    layer.set_weights([np.zeros_like(value) for value in layer.get_weights()])
    table = np.zeros((V, 2), "float32")
    table[7] = 50.0
    layer.input_embeddings.assign(table)
    contexts = np.arange(2 * V, dtype="float32").reshape(V, 2)
    layer.output_embeddings.assign(contexts)
    outputs = np.ones((1, 6, 2), "float32")
    token_ids = np.array([[3, 7, 1, 2, 4, 5]], "int32")
    composed, _, weights = arrays(
        compiled(everything(layer))(outputs, token_ids)
    )
    for step, slot in ((1, 3), (2, 2), (3, 1), (4, 0)):
        np.testing.assert_allclose(weights[0, step], np.eye(4)[slot], atol=1e-6)
        np.testing.assert_allclose(composed[0, step], contexts[7] + 1)
    np.testing.assert_allclose(weights[0, 5], 0.25, atol=1e-6)


@every_variant
def test_words_outside_the_filled_slots_change_nothing(variant, compiled):
    layer = make(variant, 3, window=4)
    outputs, token_ids = inputs_of(3, 2, 3, 3)
    states = [
        {
            "window": np.array(window, "int32"),
            "filled": np.array([1, 2], "int32"),
        }
        for window in ([[9, 8, 5], [7, 6, 4]], [[1, 0, 5], [3, 6, 4]])
    ]
    read = compiled(
        lambda state: everything(layer)(outputs, token_ids, state=state)
    )
    first, second = (arrays(read(state)) for state in states)
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[2], second[2])


def test_no_copy_of_the_tables_for_each_slot(compiled):
    """Each table is read once for the whole sequence."""
    layer = make("tm_gated", 3, window=5)
    outputs, token_ids = inputs_of(3, 2, 4, 3)
    shapes = []
    take = keras.ops.take

    def spy(table, words, axis=None):
        shapes.append(tuple(words.shape))
        return take(table, words, axis=axis)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras.ops, "take", spy)
        everything(layer)(outputs, token_ids)
    assert shapes == [(2, 4 + 4)] * 2


def test_every_argument_survives_its_configuration():
    gated = {
        "vocabulary_size": 7,
        "window": 3,
        "temporal": False,
        "composition": "gated",
        "temporal_context": True,
        "gate_bias": True,
        "linear_kernel": False,
        "kernel_initializer": keras.initializers.RandomUniform(-0.3, 0.2, 1),
    }
    linear = {
        **gated,
        "composition": "linear",
        "gate_bias": False,
        "linear_kernel": True,
    }
    signature = inspect.signature(MemoryBlock.__init__).parameters
    assert set(signature) - {"self", "kwargs"} == set(gated)
    for arguments in (gated, linear):
        layer = MemoryBlock(**arguments, name="memory")
        config = json.loads(
            json.dumps(keras.saving.serialize_keras_object(layer))
        )
        revived = keras.saving.deserialize_keras_object(config, safe_mode=True)
        assert set(arguments) <= set(config["config"])
        assert revived.get_config() == layer.get_config()


@pytest.mark.parametrize("dtype", ["float16", "mixed_bfloat16"])
def test_lower_precision(dtype, compiled):
    layer = MemoryBlock(3, vocabulary_size=V, dtype=dtype)
    outputs, token_ids = inputs_of(3, 2, 4, 3)
    composed, state, weights = compiled(everything(layer))(outputs, token_ids)
    for value in (composed, weights):
        found = keras.backend.standardize_dtype(value.dtype)
        assert found == layer.compute_dtype
    assert keras.backend.standardize_dtype(state["window"].dtype) == "int32"
    assert np.all(np.isfinite(arrays(keras.ops.cast(composed, "float32"))))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"vocabulary_size": 0}, "`vocabulary_size`.*Received: "),
        ({"window": 0}, "`window`.*Received: "),
        ({"composition": "sum"}, "`composition`.*'gated'.*'sum'"),
        (
            {"composition": "linear", "gate_bias": True},
            "`gate_bias=True` needs.*'linear'",
        ),
        ({"linear_kernel": True}, "`linear_kernel=True` needs.*'gated'"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        MemoryBlock(**{"vocabulary_size": V, **arguments})


def test_words_must_be_given():
    with pytest.raises(ValueError, match="`token_ids` must be given"):
        MemoryBlock(vocabulary_size=V)(np.ones((1, 2, 3), "float32"))


def test_the_vocabulary_is_that_of_the_model():
    model = memlm_keras.LanguageModel(
        V, 4, [keras.layers.LSTM(4)], MemoryBlock(window=2)
    )
    assert model.memory.vocabulary_size == V
    assert model.memory.input_embeddings.shape == (V, 4)
    outputs, token_ids = inputs_of(3, 2, 4, 3)
    with pytest.raises(ValueError, match="`vocabulary_size` must be given"):
        MemoryBlock(window=2)(outputs, token_ids)
    with pytest.raises(ValueError, match="`memory`.*size 12.*=11"):
        memlm_keras.LanguageModel(
            V + 1, 4, [keras.layers.LSTM(4)], MemoryBlock(2, vocabulary_size=V)
        )
