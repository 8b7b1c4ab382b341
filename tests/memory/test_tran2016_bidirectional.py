import inspect
import json

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlm_keras.memory import BidirectionalMemoryBlock
from references import tran2016 as reference
from references.finite_differences import assert_derivatives
from references.results import everything

pytestmark = pytest.mark.backend

V = 7
every_variant = pytest.mark.parametrize("variant", reference.VARIANTS)


def make(variant, d, window=2, end=0):
    layer = BidirectionalMemoryBlock(
        window,
        end_of_sentence_id=end,
        **reference.VARIANTS[variant],
        vocabulary_size=V,
        kernel_initializer=keras.initializers.RandomUniform(-1, 1),
    )
    layer.build((None, None, d))
    return layer


def inputs_of(seed, batch_size, time, d, words=V):
    """Ends of sentences anywhere, or with `words=V - 1` none of id V - 1."""
    random = np.random.default_rng(seed)
    outputs = random.normal(size=(batch_size, time, d)).astype("float32")
    token_ids = random.integers(words, size=(batch_size, time))
    return outputs, token_ids.astype("int32")


def arrays(nest):
    return keras.tree.map_structure(keras.ops.convert_to_numpy, nest)


@every_variant
@given(
    batch_size=st.integers(1, 3),
    time=st.integers(1, 7),
    d=st.integers(1, 4),
    window=st.integers(1, 4),
    end=st.integers(0, V - 1),
    seed=st.integers(0, 2**16),
)
def test_outputs_equal_the_reference(
    variant, compiled, batch_size, time, d, window, end, seed
):
    layer = make(variant, d, window, end)
    outputs, token_ids = inputs_of(seed, batch_size, time, d)
    composed, state, weights = arrays(
        compiled(everything(layer))(outputs, token_ids)
    )
    expected, attention = reference.bidirectional_memory_block(
        outputs.astype("float64"),
        token_ids,
        reference.symbols(layer),
        window,
        end,
    )
    np.testing.assert_allclose(composed, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(weights, attention, rtol=1e-4, atol=1e-5)
    assert state == layer.initial_state(batch_size) == {}


@every_variant
def test_gradients_equal_finite_differences(variant, gradients):
    d, window, end = 3, 2, 4
    layer = make(variant, d, window, end)
    outputs, token_ids = inputs_of(5, 2, 5, d)
    # An end within a window, and none.
    token_ids[0], token_ids[1] = [0, 1, 2, 4, 4], [0, 3, 1, 5, 3]
    direction = np.random.default_rng(6).normal(size=(2, 5, d))
    direction = direction.astype("float32")

    def loss(tensors):
        outputs, *weights = tensors
        (composed, _, _), _ = everything(layer.stateless_call)(
            weights, [], outputs, token_ids
        )
        return keras.ops.sum(keras.ops.multiply(composed, direction))

    def reference_loss(values):
        outputs, *weights = values
        composed, _ = reference.bidirectional_memory_block(
            outputs, token_ids, reference.symbols(layer, weights), window, end
        )
        return np.sum(composed * direction)

    values = [outputs, *layer.get_weights()]
    assert_derivatives(gradients, loss, reference_loss, values)


@given(
    time=st.integers(1, 6),
    padding=st.integers(1, 6),
    window=st.integers(1, 4),
    seed=st.integers(0, 2**16),
)
def test_nothing_behind_the_sentence_changes_anything(
    compiled, time, padding, window, seed
):
    """Neither padding, nor, but where the end is predicted, other words."""
    layer = make("tm_gated", 3, window, end=V - 1)
    outputs, token_ids = inputs_of(seed, 2, time, 3, words=V - 1)
    expected = arrays(compiled(everything(layer))(outputs, token_ids))
    more, others = inputs_of(seed + 1, 2, padding, 3)
    for behind, steps in (
        (np.full_like(others, V - 1), time),
        (others, time - 1),
    ):
        behind[:, 0] = V - 1
        found = arrays(
            compiled(everything(layer))(
                np.concatenate([outputs, more], axis=1),
                np.concatenate([token_ids, behind], axis=1),
            )
        )
        for place in (0, 2):
            np.testing.assert_allclose(
                found[place][:, :steps], expected[place][:, :steps], atol=1e-6
            )


@every_variant
def test_which_words_a_step_reads(variant, compiled):
    """All that are near, but never the one that it predicts."""
    time, window = 9, 2
    layer = make(variant, 3, window, end=V - 1)
    outputs, token_ids = inputs_of(3, 1, time, 3, words=V - 1)
    outputs = np.repeat(outputs, time, axis=0)
    token_ids = np.repeat(token_ids, time, axis=0)
    changed = token_ids.copy()
    # One word a row is another one.
    np.fill_diagonal(changed, (np.diag(changed) + 1) % (V - 1))
    before = arrays(compiled(everything(layer))(outputs, token_ids))
    after = arrays(compiled(everything(layer))(outputs, changed))
    for place in (0, 2):
        differs = np.any(after[place] != before[place], axis=-1)
        for word, step in np.ndindex(time, time):
            distance = word - (step + 1)
            near = distance != 0 and abs(distance) <= window
            assert differs[word, step] == near, (word, step)


def test_an_end_that_is_to_be_predicted_is_as_any_word(compiled):
    """Or attention would tell that the sentence ends."""
    layer = make("tm_gated", 3, window=2)
    outputs, _ = inputs_of(3, 2, 5, 3)
    token_ids = np.array([[0, 1, 2, 3, 4], [0, 1, 0, 3, 4]], "int32")
    outputs[1] = outputs[0]
    composed, _, weights = arrays(
        compiled(everything(layer))(outputs, token_ids)
    )
    for value in (composed, weights):
        np.testing.assert_allclose(value[0, 1], value[1, 1], atol=1e-6)


def test_the_middle_rows_of_the_temporal_matrix_are_the_neighbours():
    layer = make("tm_linear", 2, window=3)
    layer.set_weights([np.zeros_like(value) for value in layer.get_weights()])
    outputs = np.ones((1, 6, 2), "float32")
    token_ids = np.arange(1, 7, dtype="int32")[None] % V
    for row, steps in ((2, range(6)), (3, range(4))):
        temporal = np.zeros((6, 2), "float32")
        temporal[row] = 50.0
        layer.temporal_kernel.assign(temporal)
        _, _, weights = arrays(everything(layer)(outputs, token_ids))
        for step in steps:
            np.testing.assert_allclose(
                weights[0, step], np.eye(6)[row], atol=1e-6
            )


def test_no_copy_of_the_tables_for_each_slot():
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
    assert shapes == [(2, 4 + 2 * 5)] * 2


def test_every_argument_survives_its_configuration():
    arguments = {"window": 3, "end_of_sentence_id": 2}
    signature = inspect.signature(BidirectionalMemoryBlock.__init__).parameters
    assert set(signature) - {"self", "kwargs"} == set(arguments)
    layer = BidirectionalMemoryBlock(
        **arguments,
        temporal_context=True,
        gate_bias=True,
        vocabulary_size=V,
        name="memory",
    )
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    revived = keras.saving.deserialize_keras_object(config, safe_mode=True)
    assert type(revived) is BidirectionalMemoryBlock
    assert revived.get_config() == layer.get_config()
    for name in (*arguments, "temporal_context", "gate_bias"):
        assert getattr(revived, name) == getattr(layer, name)


@pytest.mark.parametrize("dtype", ["float16", "mixed_bfloat16"])
def test_lower_precision(dtype, compiled):
    layer = BidirectionalMemoryBlock(3, vocabulary_size=V, dtype=dtype)
    composed, _, weights = compiled(everything(layer))(*inputs_of(3, 2, 4, 3))
    for value in (composed, weights):
        found = keras.backend.standardize_dtype(value.dtype)
        assert found == layer.compute_dtype
    assert np.all(np.isfinite(arrays(keras.ops.cast(composed, "float32"))))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"window": 0}, "`window`.*Received: "),
        ({"composition": "sum"}, "`composition`.*'gated'.*'sum'"),
        ({"end_of_sentence_id": -1}, "`end_of_sentence_id`.*at least 0.*-1"),
        (
            {"end_of_sentence_id": V},
            f"`end_of_sentence_id` must be below the vocabulary size {V}. .*",
        ),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        layer = BidirectionalMemoryBlock(**{"vocabulary_size": V, **arguments})
        layer.build((None, None, 3))


def test_words_must_be_given():
    layer = BidirectionalMemoryBlock(vocabulary_size=V)
    with pytest.raises(ValueError, match="`token_ids` must be given"):
        layer(np.ones((1, 2, 3), "float32"))


def test_slots_lie_on_both_sides():
    layer = BidirectionalMemoryBlock(vocabulary_size=V)
    assert layer.steps_back is None
    assert not layer.causal
