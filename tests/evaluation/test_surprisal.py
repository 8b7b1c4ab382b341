"""Compares surprisal, entropy and rank with float64 sums over the
vocabulary."""

import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from language_models import KINDS
from language_models import VOCABULARY
from language_models import WORDS
from language_models import V
from language_models import array
from language_models import close
from language_models import counted
from language_models import make
from language_models import shared

from memlm_keras.data import Batches
from memlm_keras.data import Split
from memlm_keras.data import SubwordVocabulary
from memlm_keras.data import Tokenizer
from memlm_keras.data import Vocabulary
from memlm_keras.evaluation import DynamicEvaluator
from memlm_keras.evaluation import surprisal
from memlm_keras.ngrams import KneserNey
from memlm_keras.ngrams import UnigramCache

pytestmark = pytest.mark.backend

TEXT = "w1 w5 w5\nw3\nzebra w1 w5 w20\n\nw7 w7 w1"


def distributions(read, documents, rows, time):
    """Returns log-probabilities `(tokens + 1, V)` of each document.

    Inputs are padded to `rows` and `time`, so that one shape is compiled.
    """
    ids = np.zeros((rows, time), "int32")
    for row, document in zip(ids, documents, strict=False):
        row[1 : 1 + len(document)] = document
    logits = array(read(ids)).astype("float64")
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return [row[: len(d) + 1] for row, d in zip(logs, documents)]


def require_equal(found, tokens, documents, reset, unit=1.0, tolerance=1e-5):
    """Compares a result with loops over the words of `distributions`."""

    def entropy(row):
        return -sum(np.exp(p) * p for p in row if p > -np.inf)

    def near(number):
        return pytest.approx(number, rel=tolerance, abs=tolerance)

    first, place = entropy(documents[0][0]), 0
    for rows in documents:
        entropies = [entropy(row) for row in rows]
        if reset:
            entropies[-1] = first
        for row, before, after in zip(rows, entropies, entropies[1:]):
            word = row[tokens[place]]
            assert found.surprisal[place] * unit == near(-word)
            assert found.entropy[place] * unit == near(before)
            reduction = found.entropy_reduction[place] * unit
            assert reduction == near(before - after)
            # The ranks of words with almost equal probabilities may be swapped.
            least = 1 + np.sum(row > word + tolerance)
            most = np.sum(row >= word - tolerance)
            assert least <= found.rank[place] <= max(least, most)
            place += 1
    assert place == len(found) == len(tokens)


@pytest.mark.parametrize("name", ["cache", "ensemble"])
def test_it_is_the_sum_over_the_vocabulary(name):
    model = KINDS[name]()
    sentences = [VOCABULARY.encode_sentence(s) for s in TEXT.split("\n") if s]
    tokens = np.concatenate(sentences)
    each = distributions(model, sentences, 5, 17)
    text = distributions(model, [tokens], 5, 17)
    found = surprisal(model, TEXT, VOCABULARY)
    require_equal(found, tokens, text, False, unit=np.log(2))
    found = surprisal(model, TEXT, VOCABULARY, "nats", reset=True)
    require_equal(found, tokens, each, True)


lines = st.lists(
    st.lists(st.sampled_from([*WORDS, "other"]), min_size=1, max_size=17),
    min_size=1,
    max_size=40,
)


# Steps that are read at once; `None` chooses a number.
steps = st.sampled_from([None, 5])


@given(lines, st.booleans(), steps)
def test_any_text(sentences, reset, steps):
    model = shared("lstm", "none")
    text = [" ".join(sentence) for sentence in sentences]
    found = surprisal(model, text, VOCABULARY, "nats", reset, steps)
    ids = [VOCABULARY.encode_sentence(line) for line in text]

    def read(tokens):
        return model.step(tokens, model.initial_state(len(tokens)))[0]

    documents = ids if reset else [np.concatenate(ids)]
    shape = (40, 19) if reset else (1, 721)
    documents = distributions(read, documents, *shape)
    require_equal(found, np.concatenate(ids), documents, reset)
    assert list(found.words) == [
        word for sentence in sentences for word in [*sentence, "<eos>"]
    ]
    assert found.unknown.tolist() == [word == "other" for word in found.words]
    assert found.sentence.tolist() == [
        number for number, each in enumerate(ids, 1) for _ in each
    ]
    assert found.position.tolist() == [
        place for each in ids for place in range(1, len(each) + 1)
    ]


@pytest.mark.parametrize("kind", ["sentences", "continuous", "single", "mixed"])
@given(lines=lines, reset=st.booleans(), steps=steps)
def test_ngram_models(kind, lines, reset, steps):
    model = counted()
    if kind in ("continuous", "single"):
        model = KneserNey(
            V,
            order=1 if kind == "single" else 3,
            discounts=0.5,
            sentence_boundaries=kind == "single",
        ).fit(np.arange(99) ** 2 % V, verbose=0)
    elif kind == "mixed":
        model = KINDS[kind]()
    ids = [VOCABULARY.encode_sentence(words) for words in lines]
    tokens = np.concatenate(ids)
    text = Split(tokens)
    found = surprisal(model, text, VOCABULARY, "nats", reset, steps)
    documents = ids if reset else [tokens]
    scores = np.concatenate([model.score(document) for document in documents])
    np.testing.assert_allclose(-found.surprisal, scores, rtol=1e-9)
    expected = [
        [
            model.log_probabilities_at(
                np.append(document, 0).astype("int32"), place, place + 1
            )[0]
            for place in range(len(document) + 1)
        ]
        for document in documents
    ]
    require_equal(found, tokens, expected, reset, tolerance=1e-9)


def test_documents_begin_anew():
    model = shared("lstm", "none")
    tokens = np.array([3, 4, 7, 0, 5, 0, 3, 4, 8, 0], "int32")
    split = Split(tokens, np.array([0, 6]))
    found = surprisal(model, split, VOCABULARY)
    parts = [surprisal(model, t, VOCABULARY) for t in (tokens[:6], tokens[6:])]
    np.testing.assert_allclose(
        found.surprisal, np.concatenate([p.surprisal for p in parts]), rtol=1e-5
    )
    assert found.sentence.tolist() == [1, 1, 1, 1, 2, 2, 3, 3, 3, 3]
    # After a document, the next entropy is the entropy of a first word.
    expected = found.entropy[[5, 9]] - found.entropy[0]
    reductions = found.entropy_reduction[[5, 9]]
    np.testing.assert_allclose(reductions, expected, atol=1e-5)


@pytest.fixture(scope="module")
def evaluator():
    return DynamicEvaluator(make("lstm", "none"), rate=0.5, decay=0.1)


@pytest.mark.parametrize("reset", [False, True])
def test_a_model_that_goes_on_learning(reset, evaluator):
    text = ["w1 w5 w5 w2", "zebra w1 w5 w20", "w7 w7 w1 w1"]
    found = surprisal(evaluator, text, VOCABULARY, "nats", reset)
    learned = [array(weight) for weight in evaluator.weights]
    again = surprisal(evaluator, text, VOCABULARY, "nats", reset)
    np.testing.assert_array_equal(again.surprisal, found.surprisal)

    lines = [VOCABULARY.encode_sentence(line) for line in text]
    starts = np.array([0, 5, 10]) if reset else None
    batches = Batches(np.concatenate(lines), 1, 5, document_starts=starts)
    scores, _ = evaluator.score_batches(batches)
    np.testing.assert_allclose(-found.surprisal, scores.ravel(), rtol=1e-4)
    # The evaluator does not learn from padding after the text.
    for weight, value in zip(evaluator.weights, learned):
        close(weight, value, 1e-4)
    # The evaluator reads only the first segment with the model's weights.
    fixed = surprisal(evaluator.lm, text, VOCABULARY, "nats", reset).entropy
    np.testing.assert_allclose(found.entropy[:5], fixed[:5], rtol=1e-4)
    assert np.abs(found.entropy - fixed)[5:].min() > 1e-4


def test_the_table(tmp_path):
    rules = Tokenizer(lowercase=True, numbers="n")
    vocabulary = Vocabulary([*WORDS[:-2], '"', "n"], tokenizer=rules)
    model = shared("lstm", "none")
    found = model.surprisal('W1 " Zebra 12', vocabulary)
    assert found.words == ("w1", '"', "zebra", "n", "<eos>")
    header, *lines = found.to_tsv().splitlines()
    measures = ("surprisal_{0}", "entropy_{0}", "entropy_reduction_{0}")
    bits, nats = (
        [measure.format(unit) for measure in measures]
        for unit in ("bits", "nats")
    )
    words = ["sentence", "position", "word"]
    assert header.split("\t") == [*words, *bits, "rank", "unknown"]
    assert lines[1].split("\t")[:3] == ["1", "2", '""""']
    assert [line[-1] for line in lines] == ["0", "0", "1", "0", "0"]
    first = float(lines[0].split("\t")[3])
    assert first == pytest.approx(found.surprisal[0], abs=1e-6)
    found.write(tmp_path / "words.tsv")
    assert (tmp_path / "words.tsv").read_text() == found.to_tsv()
    found = model.surprisal('W1 " Zebra 12', vocabulary, "nats")
    assert list(found.columns())[3:6] == nats


def test_pieces_of_words_are_joined():
    pieces = [f"p{i}" for i in range(V - 6)]
    vocabulary = SubwordVocabulary(
        ["</s>", "<unk>", "\u2581the", "\u2581cat", "s", "\u2581", *pieces]
    )
    model = shared("lstm", "none")
    found = model.surprisal("the cats\ncat", vocabulary)
    assert " ".join(found.words) == "\u2581the \u2581cat s </s> \u2581cat </s>"
    joined = found.by_word(vocabulary)
    assert joined.words == ("the", "cats", "</s>", "cat", "</s>")
    assert joined.sentence.tolist() == [1, 1, 1, 2, 2]
    assert joined.position.tolist() == [1, 2, 3, 1, 2]
    assert len(joined) == len(joined.to_tsv().splitlines()) - 1
    first = [0, 1, 3, 4, 5]
    np.testing.assert_array_equal(joined.entropy, found.entropy[first])
    np.testing.assert_array_equal(joined.rank, found.rank[first])
    for name in ("surprisal", "entropy_reduction"):
        by_piece, by_word = getattr(found, name), getattr(joined, name)
        assert by_word[1] == by_piece[1] + by_piece[2]
        assert by_word.sum() == pytest.approx(by_piece.sum())
        np.testing.assert_array_equal(by_word[[0, 3]], by_piece[[0, 4]])
    # If all tokens are whole words, `by_word` changes nothing.
    found = model.surprisal("w1 w2", VOCABULARY)
    assert found.by_word(VOCABULARY).to_tsv() == found.to_tsv()


def test_an_impossible_word():
    cache = UnigramCache(V, size=4)
    found = surprisal(cache, "w1 w1 w2", VOCABULARY)
    assert found.surprisal[1:3].tolist() == [0.0, np.inf]
    assert found.entropy[:3] == pytest.approx([np.log2(V), 0, 0])
    assert found.rank.tolist()[1:3] == [1, 2]
    assert "inf" in found.to_tsv() and "-0.0" not in found.to_tsv()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("w1", VOCABULARY, "shannon"), "`unit` must be"),
        (("w1",), "`vocabulary` must be given"),
        ((" \n", VOCABULARY), "`text` must contain a word"),
        (([], VOCABULARY), "`text` must contain a word"),
        (([3, 4], VOCABULARY), "must end with the end"),
        (([V, 0], VOCABULARY), "below the vocabulary"),
        (("a", Vocabulary(["a", "b", "c"])), "of 5 tokens"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        shared().surprisal(*arguments)


def test_models_that_it_refuses():
    of_words = types.SimpleNamespace(causal=True, vocabulary_size=V)
    both = types.SimpleNamespace(causal=False, memory=None)
    pieces = SubwordVocabulary(["<unk>", "</s>", "a"])
    for model, vocabulary, message in (
        (of_words, VOCABULARY, "must have the method `measure_words`"),
        (both, VOCABULARY, "`surprisal` needs a causal model"),
        (UnigramCache(3, 4), pieces, "must end sentences with the id 0"),
    ):
        with pytest.raises(ValueError, match=message):
            surprisal(model, "a", vocabulary)
    with pytest.raises(ValueError, match="`segment_length` must be"):
        surprisal(shared(), "w1", VOCABULARY, segment_length=0)
