import keras
import numpy as np
import pytest
from hypothesis import strategies as st
from layers import arrays
from layers import assert_arguments_survive
from layers import assert_close
from layers import assert_memory_gradients
from layers import everything
from layers import given_sizes
from layers import uniform

import memlm_keras
from memlm_keras.memory import BidirectionalMemoryBlock
from memlm_keras.memory import MemoryBlock
from references import tran2016 as reference

pytestmark = pytest.mark.backend

V = 11
every_variant = pytest.mark.parametrize("variant", reference.VARIANTS)


def make(variant, d, window=3, kind=MemoryBlock, **arguments):
    layer = kind(
        window,
        **arguments,
        **reference.VARIANTS[variant],
        vocabulary_size=V,
        kernel_initializer=uniform(),
    )
    layer.build((None, None, d))
    return layer


def make_bidirectional(variant, d, window=2, end=0):
    return make(
        variant, d, window, BidirectionalMemoryBlock, end_of_sentence_id=end
    )


def inputs_of(seed, batch_size, time, d):
    random = np.random.default_rng(seed)
    outputs = random.normal(size=(batch_size, time, d)).astype("float32")
    token_ids = random.integers(V, size=(batch_size, time))
    return outputs, token_ids.astype("int32")


@pytest.mark.backend(one_in=2)
@every_variant
@given_sizes(
    d=st.integers(1, 4), window=st.integers(1, 4), history=st.integers(0, 5)
)
def test_outputs_equal_the_reference(
    variant, compiled, batch_size, time, d, window, history, seed
):
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
    assert_close((composed, weights), (expected, attention))
    filled = min(history + time, window - 1)
    np.testing.assert_array_equal(state["filled"], filled)
    assert state["window"].shape == (batch_size, window - 1)
    words = np.concatenate([earlier_ids, token_ids], axis=1)
    np.testing.assert_array_equal(
        state["window"][:, window - 1 - filled :],
        words[:, words.shape[1] - filled :],
    )


@pytest.mark.backend(one_in=2)
@every_variant
@pytest.mark.parametrize("kind", [MemoryBlock, BidirectionalMemoryBlock])
def test_gradients_equal_finite_differences(kind, variant, gradients):
    outputs, token_ids = inputs_of(5, 2, 5, 3)
    layer = make(variant, 3, 3)
    block, others = reference.memory_block, (3, [[], []])
    if kind is BidirectionalMemoryBlock:
        layer = make_bidirectional(variant, 3, window=2, end=4)
        block, others = reference.bidirectional_memory_block, (2, 4)
        # Row 0 has an end of a sentence within a window, and row 1 has none.
        token_ids[0], token_ids[1] = [0, 1, 2, 4, 4], [0, 3, 1, 5, 3]

    def expected(outputs, weights):
        symbols = reference.symbols(layer, weights)
        return block(outputs, token_ids, symbols, *others)[0]

    assert_memory_gradients(gradients, layer, outputs, expected, token_ids)


@pytest.mark.backend("torch")
@pytest.mark.parametrize(
    "kind, words", [(MemoryBlock, 4), (BidirectionalMemoryBlock, 2 * 5)]
)
def test_no_copy_of_the_tables_for_each_slot(kind, words):
    layer = make("tm_gated", 3, window=5, kind=kind)
    outputs, token_ids = inputs_of(3, 2, 4, 3)
    shapes = []
    take = keras.ops.take

    def spy(table, words, axis=None):
        shapes.append(tuple(words.shape))
        return take(table, words, axis=axis)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras.ops, "take", spy)
        everything(layer)(outputs, token_ids)
    assert shapes == [(2, 4 + words)] * 2


@pytest.mark.backend("torch")
@pytest.mark.parametrize("kind", [MemoryBlock, BidirectionalMemoryBlock])
@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"composition": "sum"}, "`composition`.*'gated'.*'sum'"),
        (
            {"composition": "linear", "gate_bias": True},
            "`gate_bias=True` needs.*'linear'",
        ),
        ({"linear_kernel": True}, "`linear_kernel=True` needs.*'gated'"),
    ],
)
def test_wrong_arguments(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        kind(**{"vocabulary_size": V, **arguments})


def test_the_vocabulary_is_that_of_the_model():
    model = memlm_keras.LanguageModel(
        V, 4, [keras.layers.LSTM(4)], MemoryBlock(window=2)
    )
    assert model.memory.vocabulary_size == V
    assert model.memory.input_embeddings.shape == (V, 4)
    outputs, token_ids = inputs_of(3, 2, 4, 3)
    with pytest.raises(ValueError, match="`vocabulary_size` must be given"):
        MemoryBlock(window=2)(outputs, token_ids)
    with pytest.raises(ValueError, match="`memory`.*size=12.*=11"):
        memlm_keras.LanguageModel(
            V + 1, 4, [keras.layers.LSTM(4)], MemoryBlock(2, vocabulary_size=V)
        )
    message = f"`end_of_sentence_id` must be below the vocabulary size {V}. "
    with pytest.raises(ValueError, match=message):
        make_bidirectional("tm_gated", 3, end=V)


# === Memories of words on both sides ===


@pytest.mark.backend(one_in=2)
@every_variant
@given_sizes(
    d=st.integers(1, 4), window=st.integers(1, 4), end=st.integers(0, V - 1)
)
def test_bidirectional_outputs_equal_the_reference(
    variant, compiled, batch_size, time, d, window, end, seed
):
    layer = make_bidirectional(variant, d, window, end)
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
    assert_close((composed, weights), (expected, attention))
    assert state == layer.initial_state(batch_size) == {}
    assert layer.steps_back is None and not layer.causal


def test_every_argument_of_a_bidirectional_block_survives():
    arguments = {"window": 3, "end_of_sentence_id": 2}
    others = {"gate_bias": True, "vocabulary_size": V}
    _, revived = assert_arguments_survive(
        BidirectionalMemoryBlock, arguments, **others
    )
    assert {**arguments, **others}.items() <= revived.get_config().items()
