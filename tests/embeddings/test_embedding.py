"""Tests that all backends train repeated words in the same way."""

import keras
import numpy as np
import pytest
from layers import dtype_of
from layers import revived as revived_layer

from memlm_keras import LanguageModel
from memlm_keras.embeddings import Embedding
from memlm_keras.embeddings import look_up
from memlm_keras.heads import TiedProjection
from memlm_keras.memory import MemoryBlock
from memlm_keras.memory import MemoryNetwork
from memlm_keras.smoothing import SmoothedEmbedding
from memlm_keras.smoothing import StreamStatistics
from memlm_keras.smoothing import VariationalSmoothing

pytestmark = pytest.mark.backend

V = 7
MODELS = {
    "lstm": lambda: LanguageModel(V, 4, [keras.layers.LSTM(4)]),
    "tied": lambda: LanguageModel(
        V, 4, [keras.layers.LSTM(4)], tie_embeddings=True
    ),
    "memory_block": lambda: LanguageModel(
        V, 4, [keras.layers.LSTM(4)], MemoryBlock(3)
    ),
    "memory_network": lambda: LanguageModel(V, 4, [], MemoryNetwork(3)),
    "sampled": lambda: LanguageModel(
        V, 4, [keras.layers.LSTM(4)], head=TiedProjection(num_sampled=5)
    ),
}
every_model = pytest.mark.parametrize("name", MODELS)


def trained_once(model, optimizer, jit_compile):
    """Returns the weights before and after one step on a batch of few words."""
    tokens = np.array([[3, 3, 3, 3, 3, 3, 5, 3], [3, 3, 5, 3, 3, 3, 3, 3]])
    targets = np.roll(tokens, -1, axis=1)
    model.compile(optimizer, jit_compile=jit_compile)
    before = [variable.numpy() for variable in model.trainable_variables]
    model.fit(tokens, targets, batch_size=2, verbose=0)
    return before, [variable.numpy() for variable in model.trainable_variables]


@pytest.mark.backend(one_in=2)
@every_model
@pytest.mark.parametrize("jit_compile", [False, True])
def test_adam_moves_no_weight_by_more_than_its_rate(name, jit_compile):
    """In the first step, Adam changes each weight by the rate, for any
    gradient."""
    if jit_compile and keras.backend.backend() == "torch":
        pytest.skip("torch compiles with a C++ compiler, of which none is sure")
    before, after = trained_once(
        MODELS[name](), keras.optimizers.Adam(0.001, epsilon=1e-12), jit_compile
    )
    for old, new in zip(before, after):
        assert 0.00099 < np.abs(new - old).max() < 0.00101


def test_the_gradient_of_a_row_is_summed_over_its_occurrences(gradients):
    table = np.arange(8, dtype="float32").reshape(4, 2)
    token_ids = np.array([[1, 3, 1], [1, 0, 3]])
    (found,) = gradients(
        lambda tensors: keras.ops.sum(look_up(tensors[0], token_ids) ** 2),
        [table],
    )
    counts = np.array([1, 3, 0, 2])
    np.testing.assert_allclose(found, 2 * table * counts[:, None])


def test_an_embedding_survives_its_configuration():
    layer = Embedding(5, 3, word_dropout=0.25, seed=7, dtype="mixed_bfloat16")
    revived = revived_layer(layer)
    assert (revived.word_dropout, revived.seed) == (0.25, 7)
    vectors = revived(np.array([[1]]), training=True)
    assert dtype_of(vectors) == "bfloat16"


def test_a_word_is_dropped_wherever_it_occurs_in_a_row():
    layer = Embedding(50, 3, word_dropout=0.4, seed=1)
    layer.build()
    token_ids = np.random.default_rng(0).integers(50, size=(40, 60))
    table = keras.ops.convert_to_numpy(layer.embeddings)
    vectors = keras.ops.convert_to_numpy(layer(token_ids, training=True))
    factors = vectors / table[token_ids]
    np.testing.assert_allclose(factors, factors[..., :1].repeat(3, -1), 1e-4)
    places = np.arange(40)[:, None], token_ids
    kept = np.full((40, 50), np.nan)
    kept[places] = factors[..., 0]
    np.testing.assert_allclose(factors[..., 0], kept[places], rtol=1e-4)
    drawn = kept[~np.isnan(kept)]
    is_dropped = np.isclose(drawn, 0.0)
    np.testing.assert_allclose(drawn[~is_dropped], 1 / 0.6, rtol=1e-4)
    # The mean is over more than a thousand pairs of a row and a word.
    np.testing.assert_allclose(is_dropped.mean(), 0.4, atol=0.05)
    np.testing.assert_array_equal(
        keras.ops.convert_to_numpy(layer(token_ids)), table[token_ids]
    )


def test_wrong_rate_of_words_that_are_dropped():
    with pytest.raises(ValueError, match="`word_dropout`.*word_dropout=1.0"):
        Embedding(5, 3, word_dropout=1.0)


@pytest.mark.parametrize("smoothed", [False, True])
def test_zeros_are_masked_like_in_keras(smoothed):
    arguments = {}
    layer = Embedding
    if smoothed:
        smoothing = VariationalSmoothing("linear_interpolation", 0.0)
        smoothing.adapt(StreamStatistics.count(np.arange(V), V))
        layer, arguments = SmoothedEmbedding, {"smoothing": smoothing}
    embedding = layer(V, 4, mask_zero=True, **arguments)
    expected = keras.layers.ReversibleEmbedding(V, 4, mask_zero=True)
    lstm = keras.layers.LSTM(5)
    token_ids = np.array([[1, 0, 2, 0], [0, 0, 3, 4]])
    embedding.build()
    expected.build()
    embedding.embeddings.assign(expected.embeddings)
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(lstm(embedding(token_ids))),
        keras.ops.convert_to_numpy(lstm(expected(token_ids))),
        rtol=1e-6,
    )
