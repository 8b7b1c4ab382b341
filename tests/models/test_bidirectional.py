"""Tests models whose memory also reads words after the word to predict."""

import keras
import numpy as np
import pytest
from language_models import array
from scipy.special import log_softmax

from memlm_keras import Ensemble
from memlm_keras import LanguageModel
from memlm_keras import analysis
from memlm_keras import evaluation
from memlm_keras import memory as memories
from memlm_keras import serving
from memlm_keras.data import Batches
from memlm_keras.data import SentenceBatches
from memlm_keras.data import Vocabulary
from memlm_keras.mixtures import NeuralCache

pytestmark = pytest.mark.backend

V = 9
WINDOW = 2
VOCABULARY = Vocabulary([f"w{number}" for number in range(V - 2)])
SENTENCES = [[3, 4, 1, 8], [5], [2, 2, 6], [], [7, 3, 3, 1, 4, 5, 6], [4, 1]]
TOKENS = np.array(sum(([*each, 0] for each in SENTENCES), []), "int32")


def make(**arguments):
    keras.utils.set_random_seed(11)
    uniform = keras.initializers.RandomUniform(-0.9, 0.9)
    arguments = {
        "memory": memories.BidirectionalMemoryBlock(
            WINDOW, kernel_initializer=uniform
        ),
        "initializer": uniform,
        **arguments,
    }
    layers = [keras.layers.LSTM(4), keras.layers.LSTM(5)]
    return LanguageModel(V, 3, layers, **arguments)


@pytest.fixture(scope="module")
def model():
    return make()


def rows_of(sentences, padding=0):
    """Puts sentences between two ends of a sentence, and pads rows with
    ends."""
    longest = max(map(len, sentences)) + 2 + padding
    rows = np.zeros((len(sentences), longest), "int32")
    for row, sentence in zip(rows, sentences):
        row[1 : 1 + len(sentence)] = sentence
    return rows


def scores_of(model, sentence):
    """Computes log-probabilities of a sentence's words and its end."""
    row = rows_of([sentence])
    logs = log_softmax(array(model(row[:, :-1]))[0], axis=-1)
    return logs[np.arange(len(sentence) + 1), row[0, 1:]]


@pytest.mark.parametrize("padding", [0, 5])
def test_scores_are_those_of_each_sentence_by_itself(model, padding):
    found = model.score(rows_of(SENTENCES, padding))
    for sentence, scores in zip(SENTENCES, found):
        expected = scores_of(model, sentence)
        np.testing.assert_allclose(scores[: len(expected)], expected, atol=1e-4)
    attention = model.attention(rows_of(SENTENCES, padding))
    assert attention.shape == (6, 9 + padding, 2 * WINDOW)


def test_only_empty_rows_can_be_read(model):
    state = model.read([[], []])
    assert set(state) == set(model.initial_state(2))
    assert not [name for name in state if name.startswith("memory")]


@pytest.mark.backend("torch")
def test_evaluation_equals_the_scores(capsys):
    model = make()
    expected = np.concatenate([scores_of(model, each) for each in SENTENCES])
    batches = SentenceBatches(TOKENS, 2, length_multiple=4)
    scores, weights = model.score_batches(batches)
    assert weights.sum() == len(TOKENS)
    np.testing.assert_allclose(
        np.sort(scores[weights > 0]), np.sort(expected), atol=1e-4
    )
    result = evaluation.perplexity(model, batches, verbose=1)
    assert result.loss == pytest.approx(-expected.sum(), rel=1e-4)
    printed = capsys.readouterr().out
    assert "pseudo-perplexity " in printed
    assert "NO PERPLEXITY OF A LANGUAGE MODEL" in printed
    model.compile("sgd")
    logs = model.evaluate(batches, verbose=0, return_dict=True)
    assert logs["perplexity"] == pytest.approx(result.perplexity, rel=1e-4)


FORWARD = {
    "step": lambda lm: lm.step(np.array([[1]]), lm.initial_state(1)),
    "read": lambda lm: lm.read([[], [0, 3]]),
    "score": lambda lm: lm.score(rows_of([[1]]), lm.initial_state(1)),
    "generate": lambda lm: lm.generate(np.array([0, 3]), 5),
    "Ensemble": lambda lm: Ensemble([make(), lm]),
    "export": lambda lm: serving.export(lm, "1", VOCABULARY),
    "mean_attention": lambda lm: analysis.mean_attention(
        lm, SentenceBatches(TOKENS)
    ),
    "sentence_predictions": lambda lm: analysis.sentence_predictions(
        lm, "w1 w2", VOCABULARY
    ),
    "Attention by distance": lambda lm: analysis.attention_columns(
        lm, TOKENS, VOCABULARY, 3
    ),
}


@pytest.mark.parametrize("name", FORWARD)
def test_methods_that_read_forward_only_are_refused(name, model):
    with pytest.raises(ValueError, match=f"{name}.* needs a causal model"):
        FORWARD[name](model)


@pytest.mark.parametrize(
    "call",
    [
        lambda lm, batches: lm.fit(batches, verbose=0),
        lambda lm, batches: lm.fit(
            SentenceBatches(TOKENS), validation_data=batches, verbose=0
        ),
        lambda lm, batches: lm.evaluate(batches, verbose=0),
        lambda lm, batches: lm.predict(batches, verbose=0),
        lambda lm, batches: lm.score_batches(batches),
        lambda lm, batches: next(lm.attention_batches(batches)),
        lambda lm, batches: evaluation.perplexity(lm, batches, verbose=0),
    ],
)
def test_batches_that_cut_sentences_are_refused(call):
    model = make()
    model.compile("sgd")
    with pytest.raises(ValueError, match="whole sentences.*Received: Batches"):
        call(model, Batches(TOKENS, 2, 4))
    others = SentenceBatches((TOKENS + 1) % V, 2, end_of_sentence_id=1)
    with pytest.raises(ValueError, match="end_of_sentence_id=0.*Received: .*1"):
        call(model, others)


def test_rows_of_several_sentences_are_refused(model):
    rows = rows_of([[1, 2, 3, 4], [1, 2, 3, 4]])
    rows[1, 2] = 0
    for call in (model.score, model.attention):
        with pytest.raises(ValueError, match="one sentence per row.*in row 1"):
            call(rows)


@pytest.mark.parametrize(
    "layer",
    [{"recurrent_above": [keras.layers.LSTM(3)]}, {"mixture": NeuralCache(3)}],
)
def test_layers_after_a_bidirectional_memory_are_refused(layer):
    (name,) = layer
    with pytest.raises(ValueError, match=f"`{name}` cannot follow a memory"):
        make(**layer)
