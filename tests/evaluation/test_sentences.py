"""Losses of single sentences, however a text is read."""

import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras.data import Batches
from memlm_keras.data import SentenceBatches
from memlm_keras.data import sentence_starts
from memlm_keras.evaluation import perplexity
from memlm_keras.evaluation import sentence_losses

# Two sentences of the same words, and one that is empty.
TOKENS = np.array([5, 3, 0, 7, 0, 5, 3, 0, 0, 9, 8, 4, 6, 2, 0], "int32")
STARTS = sentence_starts(TOKENS)


@pytest.fixture(scope="module")
def model():
    uniform = keras.initializers.RandomUniform(-1, 1, seed=0)
    return LanguageModel(11, 6, [keras.layers.LSTM(8)], initializer=uniform)


@pytest.mark.parametrize("rows, time", [(1, 4), (1, 20), (3, 2)])
def test_sums_are_those_of_the_perplexity(model, rows, time):
    batches = Batches(TOKENS, rows, time)
    losses, tokens = sentence_losses(model, batches)
    assert tokens.tolist() == [3, 2, 3, 1, 6]
    total = perplexity(model, batches, verbose=0)
    assert losses.sum() == pytest.approx(total.loss, rel=1e-6)
    if rows == 1:
        scores = model.score(np.concatenate([[0], TOKENS])[None])[0]
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
def test_the_order_is_that_of_the_text(model, batches):
    """Where each sentence is read by itself, nothing else can matter."""
    expected = [
        -model.score(np.concatenate([[0], sentence])[None]).sum()
        for sentence in np.split(TOKENS, STARTS[1:])
    ]
    losses, tokens = sentence_losses(model, batches)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_array_equal(tokens, np.diff([*STARTS, len(TOKENS)]))


def test_sentences_that_are_cut_are_refused(model):
    batches = SentenceBatches(TOKENS, 2, longest=4)
    with pytest.raises(ValueError, match="each sentence of their text once"):
        sentence_losses(model, batches)
