import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layers import assert_shares

from memlm_keras.smoothing import StreamStatistics
from memlm_keras.smoothing import statistics as statistics_module
from memlm_keras.smoothing.statistics import AliasTable
from references import smoothing as reference

NAMES = ("counts", "unigram", "followers", "preceders", "continuation")
SIZE = 6
streams = st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=40)


def assert_statistics(found, tokens):
    expected = reference.statistics(tokens, SIZE)
    for name in NAMES:
        np.testing.assert_allclose(getattr(found, name), expected[name])


@given(streams)
def test_equals_a_brute_force_count(tokens):
    found = StreamStatistics.count(np.array(tokens), SIZE)
    assert_statistics(found, tokens)
    for word in range(SIZE):
        ratio = found.followers[word] / max(tokens.count(word), 1)
        assert found.discounts[word] == ratio <= 1


@given(st.lists(streams, min_size=1, max_size=4))
def test_shards_add_up(shards):
    found, *others = (StreamStatistics.count(np.array(s), SIZE) for s in shards)
    for other in others:
        found = found + other
    assert_statistics(found, sum(shards, []))


@given(tokens=streams, piece=st.integers(1, 10))
def test_counted_in_pieces(tokens, piece):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics_module, "_PIECE", piece)
        found = StreamStatistics.count(np.array(tokens, "int32"), SIZE)
    assert_statistics(found, tokens)


def test_plain_arrays():
    found = StreamStatistics.count(np.array([0, 1, 1, 2]), SIZE)
    assert_statistics(pickle.loads(pickle.dumps(found)), [0, 1, 1, 2])


@pytest.mark.parametrize(
    "tokens, size, message",
    [
        (np.array([[1]]), 3, r"`tokens` must be a 1-D.*shape \(1, 1\)"),
        (np.array([1.0]), 3, "integers.*float64"),
        (np.array([], int), 3, "not empty"),
        (np.array([1, 3]), 3, "below the vocabulary size 3.*: 3"),
        (np.array([1, -2]), 3, "at least 0.*: -2"),
        (np.array([1]), 0, "`vocabulary_size` must be an integer"),
    ],
)
def test_wrong_arguments(tokens, size, message):
    with pytest.raises(ValueError, match=message):
        StreamStatistics.count(tokens, size)


def test_shards_of_two_vocabularies():
    first, second = (StreamStatistics.count(np.array([0]), n) for n in (2, 3))
    with pytest.raises(ValueError, match="one vocabulary.*2 and 3"):
        first + second


# === Drawing ===


@given(
    weights=st.lists(
        st.floats(0, 1).map(lambda x: x**4), min_size=1, max_size=30
    ).filter(lambda weights: sum(weights) > 0)
)
def test_a_table_has_the_probabilities_it_was_made_of(weights):
    probabilities = np.array(weights) / np.sum(weights)
    table = AliasTable.of(probabilities)
    found = table.thresholds.copy()
    np.add.at(found, table.aliases, 1.0 - table.thresholds)
    np.testing.assert_allclose(found / len(weights), probabilities, atol=1e-12)
    drawn = table.draw(np.random.default_rng(0), (50,))
    assert np.all(probabilities[drawn] > 0)


def test_draws_are_distributed_as_asked(random):
    probabilities = np.array([0.5, 0.2, 0.0, 0.29, 0.01])
    drawn = AliasTable.of(probabilities).draw(random, (200, 500))
    assert drawn.shape == (200, 500) and drawn.dtype == np.int32
    shares = np.bincount(drawn.ravel(), minlength=5) / drawn.size
    assert_shares(shares, probabilities, drawn.size)
