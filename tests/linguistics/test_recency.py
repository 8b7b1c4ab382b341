"""Tests perplexity by the distance to a word's last occurrence."""

import math

import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras.data import Batches
from memlm_keras.data import Vocabulary
from memlm_keras.data import load_text
from memlm_keras.evaluation import perplexity
from memlm_keras.linguistics import perplexity_by_recency
from memlm_keras.ngrams import KneserNey

END, UNKNOWN = 0, 1
EDGES = (2, 5)
BINS = ("never before", "1 to 2", "3 to 5", "more than 5")


@pytest.fixture
def tokens():
    tokens = np.random.default_rng(0).integers(0, 12, 80).astype("int32")
    tokens[-1] = END
    return tokens


@pytest.fixture
def model(tokens):
    """Trains a bigram model, whose probabilities depend on the previous
    word."""
    return KneserNey(12, order=2, discounts=0.5).fit(tokens, verbose=0)


def reference(tokens, starts, losses):
    """Computes the tokens and losses of each bin, token by token."""
    bins = {name: [] for name in (*BINS, "unknown word", "end of sentence")}
    for place, token in enumerate(tokens):
        if place in starts:
            last = {}
        back = place - last.get(token, -math.inf)
        last[token] = place
        if token == END:
            name = "end of sentence"
        elif token == UNKNOWN:
            name = "unknown word"
        elif back == math.inf:
            name = "never before"
        else:
            name = BINS[1 + (back > 2) + (back > 5)]
        bins[name].append(losses[place])
    return bins


@pytest.mark.parametrize("rows, time", [(1, 7), (3, 4)])
@pytest.mark.parametrize("starts", [None, [0, 13, 14, 50]])
def test_bins_are_those_of_the_reference(model, tokens, rows, time, starts):
    batches = Batches(tokens, rows, time, document_starts=starts)
    batches.vocabulary = Vocabulary([*"abcdefghij"])
    starts = starts or [0]
    documents = np.split(tokens, starts[1:])
    losses = -np.concatenate([*map(model.score, documents)])
    expected = reference(tokens, starts, losses)
    result = perplexity_by_recency(model, batches, EDGES, verbose=0)
    assert result.bins == tuple(expected)
    assert result.tokens.tolist() == [*map(len, expected.values())]
    sums = [sum(each) for each in expected.values()]
    np.testing.assert_allclose(result.losses, sums, rtol=1e-12)
    assert result.shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(
        result.perplexities,
        [np.exp(np.mean(each)) for each in expected.values()],
    )
    whole = perplexity(model, batches, verbose=0)
    assert result.total.perplexity == pytest.approx(whole.perplexity)
    assert whole.protocol in result.total.protocol


def test_documents_count_where_the_state_is_carried(tmp_path):
    lines = ["# one", "the sea the man", "# two", "the man"]
    path = tmp_path / "text.txt"
    path.write_text("\n".join(lines * 2))
    corpus = load_text(path, path, path, document_start="#", cache_dir=tmp_path)
    size = len(corpus.vocabulary)
    lm = LanguageModel(size, 4, [keras.layers.LSTM(4)])
    results = [
        perplexity_by_recency(lm, batches, verbose=0)
        for batches in (
            corpus.batches("test", 1, 5),
            corpus.batches("test", 2, 5, documents=True),
            corpus.batches("test", 2, 5, sentences=True),
            corpus.sentence_batches("test", 2),
        )
    ]
    assert len(corpus.test.document_starts) == 4
    for result in results:
        np.testing.assert_array_equal(result.tokens, results[0].tokens)
        assert "in the same document" in result.total.protocol
    # The two documents have five and four different words.
    assert results[0].tokens[0] == 2 * (5 + 4)
    np.testing.assert_allclose(results[2].losses, results[3].losses, rtol=1e-5)


def test_it_prints_a_line_for_each_bin(model, tokens, capsys):
    result = perplexity_by_recency(model, Batches(tokens, 1, 9), EDGES)
    printed = capsys.readouterr().out
    assert str(result) in printed
    assert "never before" in printed and "in the same text" in printed
    # Without a vocabulary, no word counts as unknown.
    assert result.tokens[-2] == 0 and np.isnan(result.perplexities[-2])


@pytest.mark.parametrize("edges", [(5, 2), (0, 3), (2.5,), (3, 3)])
def test_wrong_edges(model, tokens, edges):
    with pytest.raises(ValueError, match="`edges` must be increasing integers"):
        perplexity_by_recency(model, Batches(tokens, 1, 9), edges)
