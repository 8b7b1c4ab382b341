"""Tests cloze accuracy against scores of single sentences."""

import keras
import numpy as np
import pytest
from language_models import VOCABULARY
from language_models import WORDS
from language_models import V
from language_models import shared

from memlm_keras import LanguageModel
from memlm_keras.data import ClozeQuestion
from memlm_keras.data import Split
from memlm_keras.data import SubwordVocabulary
from memlm_keras.data import Vocabulary
from memlm_keras.evaluation import ClozeAccuracy
from memlm_keras.evaluation import cloze_accuracy
from memlm_keras.evaluation import cloze_scores
from memlm_keras.memory import BidirectionalMemoryBlock
from memlm_keras.ngrams import KneserNey
from memlm_keras.ngrams import with_cache

MODELS = ("lstm", "none"), ("lstm", "key_value_predict"), ("gru_rnn", "ngram")


def bidirectional(**arguments):
    """Returns a model with large weights, so that sentences differ in score."""
    large = keras.initializers.RandomUniform(-0.7, 0.7)
    memory = BidirectionalMemoryBlock(2, kernel_initializer=large, **arguments)
    return LanguageModel(
        V, 6, [keras.layers.LSTM(5)], memory, initializer=large
    )


def make_questions(count, seed=0, sentences=20):
    """Makes questions of many lengths, some with repeated or unknown
    candidates."""
    random = np.random.default_rng(seed)

    def sentence(longest):
        return tuple(random.choice(WORDS, random.integers(1, longest)))

    questions = []
    for index in range(count):
        query = list(sentence(4 + index))
        query.insert(random.integers(len(query) + 1), "XXXXX")
        candidates = tuple(random.choice([*WORDS, "yes", "no"], 10))
        questions.append(
            ClozeQuestion(
                tuple(sentence(4 + index) for _ in range(sentences)),
                tuple(query),
                str(candidates[index % 10]),
                candidates,
            )
        )
    return questions


def scored_one_by_one(model, question):
    """Returns each candidate's score, for which the model reads the whole text
    from the initial state."""
    end = VOCABULARY.end_of_sentence
    scores = []
    for candidate in question.candidates:
        sentence = [*question.filled(candidate), end]
        before = [end]
        for words in question.context:
            before += [*words, end]
        ids = VOCABULARY.encode([*before, *sentence])
        score = model.score(ids[None])[0].astype("float64")
        scores.append(score[-len(sentence) :].sum())
    return scores


@pytest.mark.parametrize("names", MODELS)
def test_scores_are_those_of_whole_sentences(names):
    model, questions = shared(*names), make_questions(5)
    lengths = {len(sum(question.context, ())) for question in questions}
    assert len(lengths) == 5
    expected = [scored_one_by_one(model, each) for each in questions]
    for batch_size in (3, 32):
        asked = iter(questions)
        found = cloze_scores(model, asked, VOCABULARY, batch_size, 0)
        assert all(scores.dtype == np.float64 for scores in found)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("batch_size", [3, 32])
def test_a_bidirectional_model_scores_each_sentence_by_itself(batch_size):
    model, questions = bidirectional(), make_questions(5, 0, 0)
    found = cloze_scores(model, questions, VOCABULARY, batch_size, 0)
    expected = [scored_one_by_one(model, each) for each in questions]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
    result = cloze_accuracy(model, questions, VOCABULARY, batch_size, 0)
    assert "given the words before and after" in result.protocol


def test_wrong_questions_for_a_bidirectional_model():
    questions = [*make_questions(2, 0, 0), *make_questions(1, 0, 3)]
    with pytest.raises(ValueError, match="no context.* question 2 .* of 3 sen"):
        cloze_scores(bidirectional(), questions, VOCABULARY)
    model = bidirectional(end_of_sentence_id=1)
    with pytest.raises(ValueError, match="`vocabulary` must have .*, 1. .*=0"):
        cloze_scores(model, questions[:1], VOCABULARY)


def test_a_cache_of_documents_reads_each_question_as_one():
    text = np.random.default_rng(0).integers(V, size=60).astype("int32")
    documents = Split(text, np.array([0, 25], "int64"))
    counts = KneserNey(V, order=2, discounts=0.5).fit(text, verbose=0)
    cached = with_cache(counts, documents, documents=True, verbose=0)
    (question,) = make_questions(1, 0, 3)
    (found,) = cloze_scores(cached, [question], VOCABULARY, verbose=0)
    context = sum(((*each, "<eos>") for each in question.context), ())
    for candidate, score in zip(question.candidates, found):
        ids = VOCABULARY.encode(
            [*context, *question.filled(candidate), "<eos>"]
        )
        whole = cached.score(Split(ids, np.zeros(1, "int64")))
        assert score == pytest.approx(whole[len(context) :].sum())


def test_a_context_is_read_once_and_few_shapes_are_compiled(monkeypatch):
    model = shared()
    questions = [*make_questions(30), *make_questions(3, 1, 3)]
    read, attend, score = model.read, model._attend, model._score
    rows, attended, scored = [], [], []

    def read_rows(arrays):
        rows.extend(len(row) for row in arrays if len(row))
        return read(arrays)

    def attend_to(tokens, *others):
        attended.append(tuple(tokens.shape))
        return attend(tokens, *others)

    def score_of(tokens, *others):
        scored.append(tuple(tokens.shape))
        return score(tokens, *others)

    monkeypatch.setattr(model, "read", read_rows)
    monkeypatch.setattr(model, "_attend", attend_to)
    monkeypatch.setattr(model, "_score", score_of)
    cloze_scores(model, questions, VOCABULARY, 4, 0)
    # An end-of-sentence token follows each sentence of a context.
    lengths = [sum(len(s) + 1 for s in each.context) for each in questions]
    assert sorted(rows) == sorted(lengths)
    powers = {2**exponent for exponent in range(8)}
    assert {rows for rows, _ in attended + scored} == {4}
    assert {time for _, time in attended} <= powers
    assert {time for _, time in scored} <= {8, 16, 32, 64, 128}


@pytest.mark.parametrize(
    "rows, message",
    [
        ([], r"`rows` must be of shape .* shape \(0, 1\)"),
        ([[[1]]], r"`rows` must hold arrays .*\[\(1, 1\)\]"),
        ([[0.5], [1]], "`rows` must be integers. Received: dtype float64"),
        ([[0], [1, V]], "`rows` must be .*below the vocabulary size 23.*: 23"),
    ],
)
def test_wrong_rows(rows, message):
    with pytest.raises(ValueError, match=message):
        shared().read(rows)


def test_scores_go_on_from_a_state():
    model = shared()
    ids = np.random.default_rng(1).integers(V, size=(2, 12)).astype("int32")
    state = model.read(ids[:, :5])
    np.testing.assert_allclose(
        model.score(ids[:, 5:], state), model.score(ids)[:, 5:], atol=1e-5
    )
    with pytest.raises(ValueError, match=r"row of tokens, .*the shape \(1, "):
        model.score(ids[:1], state)


def test_the_most_probable_candidate_is_chosen(capsys):
    # The model ignores the context, and gives words with larger ids a larger
    # probability.
    model = LanguageModel(V, 4, [keras.layers.LSTM(4)])
    kernel, bias = model.head.weights
    kernel.assign(np.zeros(kernel.shape))
    bias.assign(np.arange(V, dtype="float32") / 4)
    questions = [
        ClozeQuestion((("w1",),), ("a", "XXXXX"), "w9", ("w3", "w9", "w2")),
        ClozeQuestion((), ("XXXXX", "w2"), "w0", ("w0", "w20")),
        ClozeQuestion((("w4",),) * 20, ("XXXXX",), "w5", ("no", "w5", "w5")),
        # In a tie, the first candidate is chosen.
        ClozeQuestion((), ("XXXXX",), "you", ("you", "me", "them")),
        ClozeQuestion((), ("XXXXX",), "you", ("me", "you", "them")),
        # The vocabulary has the answer "w3", but not the word "w3's".
        ClozeQuestion((), ("w1", "XXXXX's"), "w3", ("w2", "w3")),
    ]
    result = cloze_accuracy(model, questions, VOCABULARY)
    assert result.chosen == ("w9", "w20", "w5", "you", "me", "w2")
    assert (result.correct, result.questions) == (3, 6)
    assert result.accuracy == 1 / 2 and result.unknown_answers == 3
    assert str(result) in capsys.readouterr().out
    scores = cloze_scores(model, questions, VOCABULARY, 2, 0)
    logits = np.arange(V) / 4
    logs = logits - np.log(np.sum(np.exp(logits)))
    expected = [
        logs[1] + logs[VOCABULARY[word]] + logs[0]
        for word in ("w3", "w9", "w2")
    ]
    np.testing.assert_allclose(scores[0], expected, rtol=1e-5)


def test_equals_are_exactly_equal():
    question = make_questions(1)[0]
    names = ("yes", "w1", "no", "w1", "never")
    question = ClozeQuestion(question.context, question.query, "no", names)
    (scores,) = cloze_scores(shared(), [question], VOCABULARY, 2, 0)
    assert scores[0] == scores[2] == scores[4]
    assert scores[1] == scores[3] != scores[0]


def test_the_result_has_counts():
    text = str(ClozeAccuracy(1320, 2500, ("a",) * 2500, 12))
    assert text.startswith("accuracy 0.5280 = 1320 / 2500 questions, 95% ")
    assert "12 answers out of vocabulary" in text
    assert "0.5084 to 0.5475 (Wilson)" in text


def test_wrong_arguments():
    model, questions = shared(), make_questions(1)
    for arguments, message in (
        (([], VOCABULARY), "`questions` must hold at least one"),
        ((questions, VOCABULARY, 0), "`batch_size` must be .*: batch_size=0"),
        ((questions, Vocabulary([])), "vocabulary_size=23. .* of 2 tokens"),
    ):
        with pytest.raises(ValueError, match=message):
            cloze_scores(model, *arguments)
    tokens = [str(id) for id in range(V)]
    other = SubwordVocabulary(tokens, unknown="1", end_of_sentence="6")
    with pytest.raises(ValueError, match="the model's KneserNey, 0. Received"):
        cloze_scores(KneserNey(V), questions, other)
