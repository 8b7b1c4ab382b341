"""Tests the perplexity of texts and the losses of sentences."""

import types

import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras.data import Batches
from memlm_keras.data import SentenceBatches
from memlm_keras.data import Split
from memlm_keras.data import sentence_starts
from memlm_keras.evaluation import Perplexity
from memlm_keras.evaluation import choose_cache
from memlm_keras.evaluation import perplexity
from memlm_keras.evaluation import sentence_losses
from memlm_keras.memory import KeyValue
from memlm_keras.ngrams import KneserNey

pytestmark = pytest.mark.backend


@pytest.fixture(scope="module")
def model():
    """Returns a model that tests share, so no test may change the model."""
    return LanguageModel(13, 6, [keras.layers.LSTM(8)], KeyValue(3))


@pytest.fixture
def tokens():
    return np.random.default_rng(0).integers(0, 13, 101).astype("int32")


def by_sentence(tokens, batch_size=2, segment_length=2):
    options = {"context_of": "sentence"}
    options["document_starts"] = sentence_starts(tokens)
    return Batches(tokens, batch_size, segment_length, **options)


@pytest.mark.parametrize("segment_length", [1, 7, 200])
def test_one_row_equals_the_score_of_a_text(model, tokens, segment_length):
    result = perplexity(model, Batches(tokens, 1, segment_length), verbose=0)
    scores = model.score(np.concatenate([[0], tokens])[None])
    assert result.loss == pytest.approx(-scores.sum(), rel=1e-5)


@pytest.mark.backend("torch")
def test_whole_sentences_equal_sentences_in_segments(model, tokens):
    tokens[-1] = 0
    expected = perplexity(model, by_sentence(tokens, 4, 3), verbose=0)
    batches = SentenceBatches(tokens, 4, length_multiple=4)
    assert len({batches[at][1].shape[1] for at in range(len(batches))}) > 1
    found = perplexity(model, batches, verbose=0)
    assert found.loss == pytest.approx(expected.loss, rel=1e-5)
    assert found.predicted_tokens == found.total_tokens == 101
    assert found.protocol == expected.protocol


def test_wrong_batches(model, tokens):
    batches = Batches(tokens, 4, 7)
    batches.start_at(0, 2)
    for wrong in (batches, tokens, Split(tokens), "test"):
        for call in (perplexity, sentence_losses, choose_cache):
            with pytest.raises(ValueError, match="first batch, 0. Received: "):
                call(model, wrong)
    with pytest.raises(ValueError, match="below vocabulary_size=13.*id 13"):
        perplexity(model, Batches(np.array([1, 13]), 1, 2), verbose=0)


def test_the_result_is_arithmetic():
    result = Perplexity(np.log(8.0) * 50, 50, 60, "protocol of a test")
    assert result.perplexity == pytest.approx(8.0)
    assert str(result).startswith("perplexity 8.00 = exp(104.0 nats / 50")
    diverged = Perplexity(1e5, 50, 60, "", words=20)
    assert diverged.perplexity == diverged.per_word == np.inf


# === Pieces of words ===


class Pieces:
    """A vocabulary of pieces of words, of which ids from 5 on begin a word."""

    def count_words(self, ids):
        return int(np.sum((ids >= 5) | (ids == 0)))


def test_pieces_of_words_are_counted_by_word_as_well(tokens):
    model = KneserNey(13, order=1, discounts=0.5).fit(tokens, verbose=0)
    batches = Batches(tokens, 4, 7)
    plain = perplexity(model, batches, verbose=0)
    assert plain.words is None
    assert plain.per_word == plain.perplexity
    assert "per word" not in str(plain)
    model.vocabulary = Pieces()
    result = perplexity(model, batches, verbose=0)
    words = int(np.sum((tokens >= 5) | (tokens == 0)))
    assert (result.words, result.perplexity) == (words, plain.perplexity)
    assert result.per_word == pytest.approx(np.exp(plain.loss / words))
    counted = f"{words} words and ends of sentences"
    assert f"{result.per_word:.2f} per word of {counted}" in str(result)
    given = perplexity(model, batches, verbose=0, words=50)
    assert given.per_word == pytest.approx(np.exp(plain.loss / 50))
    with pytest.raises(ValueError, match="`words` must be an integer.*words=0"):
        perplexity(model, batches, verbose=0, words=0)


# === Other protocols ===


def test_salton_leaves_first_words_out_and_divides_by_all_tokens(model, capsys):
    tokens = np.array([5, 7, 8, 0, 0, 6, 0], "int32")
    batches, also = by_sentence(tokens), ("salton2017",)
    result = perplexity(model, batches, verbose=1, also=also)
    *_, printed, other = capsys.readouterr().out.strip().splitlines()
    assert "7 predicted tokens of 7); protocol standard" in printed
    assert "2 rows" in printed
    assert "7 tokens, 4 predicted); protocol salton2017" in other
    first, second, third = (
        model.score(np.array([[0, *sentence]])).astype("float64")[0]
        for sentence in ([5, 7, 8, 0], [0], [6, 0])
    )
    # The protocol omits the first token of each sentence: 5, 0 and 6.
    loss = -(first[1] + first[2] + first[3] + third[1])
    found = result.others["salton2017"]
    assert found.loss == pytest.approx(loss, rel=1e-5)
    assert (found.predicted_tokens, found.total_tokens) == (4, 7)
    assert found.nats == pytest.approx(loss / 7, rel=1e-5)
    assert found.perplexity == pytest.approx(np.exp(loss / 7), rel=1e-5)
    # `also` does not change the result of the standard protocol.
    assert result.predicted_tokens == result.total_tokens == 7
    whole = -(first.sum() + second.sum() + third.sum())
    assert result.loss == pytest.approx(whole, rel=1e-5)


def test_wrong_batches_for_other_protocols(model, tokens):
    for also in (("merity2017",), "salton2017"):
        with pytest.raises(ValueError, match="`also` must be a tuple.*Receiv"):
            perplexity(model, Batches(tokens, 4, 7), verbose=0, also=also)
    for starts in (None, [0, 20]):
        batches = Batches(tokens, 4, 7, document_starts=starts)
        with pytest.raises(ValueError, match="sentence from the initial state"):
            perplexity(model, batches, verbose=0, also=("salton2017",))


# === Losses of sentences ===

# Two sentences of this text are equal, and one sentence is empty.
TOKENS = np.array([5, 3, 0, 7, 0, 5, 3, 0, 0, 9, 8, 4, 6, 2, 0], "int32")
STARTS = sentence_starts(TOKENS)


@pytest.fixture(scope="module")
def seeded_model():
    uniform = keras.initializers.RandomUniform(-1, 1, seed=0)
    return LanguageModel(11, 6, [keras.layers.LSTM(8)], initializer=uniform)


@pytest.mark.parametrize("rows, time", [(1, 4), (1, 20), (3, 2)])
def test_sums_are_those_of_the_perplexity(seeded_model, rows, time):
    batches = Batches(TOKENS, rows, time)
    losses, tokens = sentence_losses(seeded_model, batches)
    assert tokens.tolist() == [3, 2, 3, 1, 6]
    total = perplexity(seeded_model, batches, verbose=0)
    assert losses.sum() == pytest.approx(total.loss, rel=1e-6)
    if rows == 1:
        scores = seeded_model.score(np.concatenate([[0], TOKENS])[None])[0]
        expected = -np.add.reduceat(scores, STARTS)
        np.testing.assert_allclose(losses, expected, rtol=1e-5)


@pytest.mark.parametrize(
    "batches",
    [
        Batches(TOKENS, 1, 4, document_starts=STARTS),
        Batches(TOKENS, 3, 2, document_starts=STARTS),
        SentenceBatches(TOKENS, 2, equal_lengths=False),
        SentenceBatches(TOKENS, 2, shuffle=True, seed=3),
    ],
    ids=["a_row", "rows", "sentences", "shuffled"],
)
def test_the_order_is_that_of_the_text(seeded_model, batches):
    expected = [
        -seeded_model.score(np.concatenate([[0], sentence])[None]).sum()
        for sentence in np.split(TOKENS, STARTS[1:])
    ]
    losses, tokens = sentence_losses(seeded_model, batches)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_array_equal(tokens, np.diff([*STARTS, len(TOKENS)]))


def test_odd_numbers_of_tokens_above_those_of_float32():
    tokens = np.zeros(2**24 + 1, "int8")
    batches = Batches(TOKENS, 1, 4)
    batches.num_tokens = len(tokens)
    model = types.SimpleNamespace(causal=True)
    weights = np.ones(len(tokens), "float32")
    found = Perplexity.from_scores(model, batches, tokens, weights)
    assert found.predicted_tokens == len(tokens) and found.perplexity == 1


def test_sentences_that_are_cut_are_refused(seeded_model):
    batches = SentenceBatches(TOKENS, 2, longest=4)
    with pytest.raises(ValueError, match="each sentence of the text once"):
        sentence_losses(seeded_model, batches)
