"""Tests of the embedded corpus and of its exact perplexity limit."""

import dataclasses
import math

import numpy as np
import pytest

from memlm_keras.data import embedded
from memlm_keras.data.synthetic.grammar import Grammar
from memlm_keras.data.synthetic.interpreters import enumerate_paths
from memlm_keras.data.synthetic.story import Person
from memlm_keras.data.synthetic.story import Story
from memlm_keras.data.synthetic.story import Words

ONE_OF_EACH = {name: words[:1] for name, words in Words().lists().items()}


def tiny_grammar(max_people, **word_lists):
    words = ONE_OF_EACH | {
        "surnames": ("shaw", "lowe"),
        "cities": ("bath", "york", "derby")[: max_people + 1],
        "things": ("boat", "cart"),
    }
    words = Words(**words | word_lists)
    return Grammar(words, max_people=max_people, min_body=0, max_body=1)


@pytest.fixture(scope="module")
def sample():
    return embedded.generate(3000, seed=5)


def test_entropy_equals_enumeration_of_every_document():
    grammar = tiny_grammar(max_people=1)
    texts, probability, nats, tokens = set(), [], [], []
    for path, _ in enumerate_paths(grammar.document, expand_alike=True):
        texts.add(" ".join(path.tokens))
        # Each path is one text, so its information follows from its
        # probability, whatever was recorded along the way.
        assert path.nats == pytest.approx(-math.log(path.probability))
        probability.append(path.probability)
        nats.append(-path.probability * math.log(path.probability))
        tokens.append(path.probability * len(path.tokens))

    assert len(texts) == len(probability) > 10_000
    assert math.fsum(probability) == pytest.approx(1, abs=1e-9)
    exact = embedded.entropy(grammar)
    assert exact.nats == pytest.approx(math.fsum(nats), abs=1e-9)
    assert exact.tokens == pytest.approx(math.fsum(tokens), abs=1e-9)


@pytest.mark.parametrize("num_people", [0, 1, 2, 3])
def test_one_word_may_stand_for_all_that_are_alike(num_people):
    people = (
        Person("anna", "shaw", "bath", "1841", "baker", "she", "her"),
        Person("albert", "lowe", "york", "1846", "farmer", "he", "him"),
        Person("clara", "ellis", "derby", "1852", "miller", "she", "her"),
    )
    story = Story(people[:num_people], subject=max(0, num_people - 1))
    grammar = tiny_grammar(
        3,
        women=("anna", "clara"),
        men=("albert",),
        surnames=("shaw", "lowe", "ellis"),
        cities=("bath", "york", "derby", "leeds", "oxford"),
        years=("1841", "1846", "1852"),
        trades=("baker", "farmer", "miller"),
    )

    def by_shape(expand_alike):
        totals = {}
        for path, after in enumerate_paths(
            lambda interpreter: grammar.sentence(interpreter, story),
            expand_alike,
        ):
            values = np.array([1, path.nats, len(path.tokens)])
            total = totals.get(after.shape, 0)
            totals[after.shape] = total + path.probability * values
        return totals

    representatives, everything = by_shape(False), by_shape(True)
    assert representatives.keys() == everything.keys()
    for shape, expected in everything.items():
        np.testing.assert_allclose(representatives[shape], expected, rtol=1e-9)


def test_entropy_equals_the_mean_of_a_sample(sample):
    documents, log_probabilities = sample
    exact = embedded.entropy()
    for expected, values in (
        (exact.nats, [-values.sum() for values in log_probabilities]),
        (exact.tokens, [len(document) for document in documents]),
    ):
        standard_error = np.std(values, ddof=1) / math.sqrt(len(values))
        assert abs(np.mean(values) - expected) < 4 * standard_error


def test_sample_frequencies_equal_their_probabilities():
    grammar = tiny_grammar(max_people=1)
    documents, log_probabilities = embedded.generate(4000, 2, grammar)
    counts, expected = {}, {}
    for document, values in zip(documents, log_probabilities):
        text = " ".join(document)
        counts[text] = counts.get(text, 0) + 1
        expected[text] = 4000 * math.exp(values.sum())
    frequent = [text for text in counts if expected[text] > 20]
    assert frequent
    for text in frequent:
        deviation = abs(counts[text] - expected[text])
        assert deviation < 5 * math.sqrt(expected[text])


def test_scoring_repeats_the_recorded_log_probabilities(sample):
    documents, log_probabilities = (part[:50] for part in sample)
    for document, recorded in zip(documents, log_probabilities):
        np.testing.assert_array_equal(
            embedded.log_probabilities(document), recorded
        )
    total = sum(values.sum() for values in log_probabilities)
    num_tokens = sum(len(document) for document in documents)
    assert embedded.optimal_log_likelihood(documents) == pytest.approx(total)
    assert embedded.optimal_perplexity(documents) == pytest.approx(
        math.exp(-total / num_tokens)
    )


def test_scoring_refuses_other_texts(sample):
    document = sample[0][0]
    with pytest.raises(ValueError, match="'zebra' as token 3"):
        embedded.log_probabilities([*document[:3], "zebra", *document[4:]])
    with pytest.raises(ValueError, match="after which it must go on"):
        embedded.log_probabilities(document[:-1])
    with pytest.raises(ValueError, match="score each document by itself"):
        embedded.log_probabilities([*document, "the"])
    with pytest.raises(ValueError, match="at least one document"):
        embedded.optimal_perplexity([])


def test_scoring_refuses_a_forgotten_fact(sample):
    document = list(sample[0][0])
    home = document[-2]
    other = next(city for city in Words().cities if city != home)
    with pytest.raises(ValueError, match=f"allows one of .'{home}'"):
        embedded.log_probabilities([*document[:-2], other, "<eos>"])


def test_perplexity_is_low():
    assert 2 < embedded.optimal_perplexity() < 3
    assert embedded.optimal_perplexity() == embedded.entropy().perplexity


def test_documents_recall_facts_near_and_far(sample):
    lists = Words().lists()
    kinds = ("women", "men", "surnames", "cities", "years", "trades")
    facts = {word for kind in kinds for word in lists[kind]}
    distances = []
    for document, values in zip(*sample):
        last_seen = {}
        for place, (token, value) in enumerate(zip(document, values)):
            if token in facts:
                if value == 0 and token in last_seen:
                    distances.append(place - last_seen[token])
                last_seen[token] = place
    assert len(distances) > 12 * len(sample[0])
    assert np.mean(np.array(distances) <= 15) > 0.2
    assert np.mean(np.array(distances) <= 60) > 0.8
    assert np.mean(np.array(distances) > 20) > 0.4


def test_brackets_and_quotes_are_closed(sample):
    for document in sample[0]:
        open_brackets, deepest = [], 0
        for token in document:
            if token in "([":
                open_brackets.append(token)
            elif token in ")]":
                assert open_brackets.pop() + token in ("()", "[]")
            deepest = max(deepest, len(open_brackets))
            assert token != "<eos>" or not open_brackets
        assert deepest <= 2
        assert document.count('"') % 2 == 0


def test_generation_is_fixed_by_its_seed():
    documents, _ = embedded.generate(6, seed=7)
    assert documents == embedded.generate(6, seed=7)[0]
    assert documents[:4] == embedded.generate(4, seed=7)[0]
    assert documents != embedded.generate(6, seed=8)[0]
    assert embedded.generate(0, seed=7) == ([], [])
    opening = "george dawson was born in bath in 1882 and became a weaver <eos>"
    first = " ".join(embedded.generate(1, seed=0)[0][0])
    assert first.startswith(opening)
    assert first.endswith(
        "at last the weaver george dawson travelled home to bath <eos>"
    )


def test_all_words_and_no_others_are_spoken(sample):
    spoken = {token for document in sample[0] for token in document}
    words = Words().all()
    assert len(words) == len(set(words))
    assert spoken == set(words)
    assert words[0] == "<eos>"


def test_load_makes_a_corpus():
    corpus = embedded.load(30, 4, 5, seed=3)
    assert corpus.name == "embedded"
    assert len(corpus.vocabulary) == len(Words().all()) + 1  # <unk>
    for index, size in enumerate((30, 4, 5)):
        split = (corpus.train, corpus.validation, corpus.test)[index]
        assert split.tokens.dtype == np.int32
        assert split.document_starts.dtype == np.int64
        assert len(split.document_starts) == size
        documents = embedded.documents_of(split, corpus.vocabulary)
        assert documents == embedded.generate(size, [3, index])[0]
        assert corpus.vocabulary.unknown_id not in split.tokens
        assert embedded.optimal_perplexity(documents) > 1


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="`num_documents`.*-1"):
        embedded.generate(-1, seed=0)
    with pytest.raises(ValueError, match="`test_documents`.*0"):
        embedded.load(test_documents=0)
    with pytest.raises(ValueError, match="`max_people`.*0"):
        Grammar(max_people=0)
    with pytest.raises(ValueError, match="`min_body`.*5.*max_body=2"):
        Grammar(min_body=5, max_body=2)
    with pytest.raises(ValueError, match="at least 13 cities"):
        Grammar(max_people=12)
    with pytest.raises(ValueError, match="at least 1 places"):
        Grammar(dataclasses.replace(Words(), places=()))
    with pytest.raises(ValueError, match="`men`.*'anna'"):
        Words(men=("anna",))
