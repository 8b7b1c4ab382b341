"""Tests the embedded corpus and its exact perplexity limit."""

import math

import numpy as np
import pytest

from memlm_keras.data import embedded
from memlm_keras.data.embedded import FACTS
from memlm_keras.data.embedded import Grammar
from memlm_keras.data.embedded import Speaker

WORDS = {name: words.split() for name, words in FACTS.items()}


def tiny_grammar(words=2, **sizes):
    facts = {name: " ".join(found[:words]) for name, found in WORDS.items()}
    sizes = {"min_people": 1, "max_people": 2, "length": 3} | sizes
    return Grammar(facts, **sizes)


def every_document(grammar):
    """Yields all texts of a grammar with their probabilities."""
    pending = [()]
    while pending:
        path, others, probabilities = list(pending.pop()), [], []

        def choose(weights, path=path, others=others, seen=probabilities):
            if len(seen) == len(path):
                first, *rest = weights
                others.extend((*path, token) for token in rest)
                path.append(first)
            token = path[len(seen)]
            seen.append(weights[token] / sum(weights.values()))
            return token

        speaker = Speaker(choose)
        grammar.document(speaker)
        pending.extend(others)
        yield speaker, math.prod(probabilities)


@pytest.fixture(scope="module")
def sample():
    return embedded.generate(3000, seed=5)


@pytest.mark.parametrize(
    "sizes", [{"length": 4}, {"words": 3, "length": 2, "min_people": 2}]
)
def test_entropy_equals_enumeration_of_every_document(sizes):
    grammar = tiny_grammar(**sizes)
    texts, probabilities, nats, tokens = set(), [], [], []
    for speaker, probability in every_document(grammar):
        texts.add(" ".join(speaker.tokens))
        # A text has one sequence of choices, so the recorded log-probabilities
        # must sum to the logarithm of the text's probability.
        recorded = -math.fsum(speaker.log_probabilities)
        assert recorded == pytest.approx(-math.log(probability))
        probabilities.append(probability)
        nats.append(-probability * math.log(probability))
        tokens.append(probability * len(speaker.tokens))

    assert len(texts) == len(probabilities) > 1000
    assert math.fsum(probabilities) == pytest.approx(1, abs=1e-9)
    exact = embedded.entropy(grammar)
    assert exact.nats == pytest.approx(math.fsum(nats), abs=1e-9)
    assert exact.tokens == pytest.approx(math.fsum(tokens), abs=1e-9)


def test_scoring_repeats_the_recorded_log_probabilities(sample):
    documents, log_probabilities = (part[:50] for part in sample)
    for document, recorded in zip(documents, log_probabilities):
        found = embedded.log_probabilities(document)
        np.testing.assert_array_equal(found, recorded)
    total = sum(values.sum() for values in log_probabilities)
    num_tokens = sum(len(document) for document in documents)
    assert embedded.optimal_perplexity(documents) == pytest.approx(
        math.exp(-total / num_tokens)
    )


def test_scoring_refuses_other_texts(sample):
    document = sample[0][0]
    with pytest.raises(ValueError, match="'zebra' as token 3"):
        embedded.log_probabilities([*document[:3], "zebra", *document[4:]])
    with pytest.raises(ValueError, match="'its end' as token"):
        embedded.log_probabilities(document[:-1])
    with pytest.raises(ValueError, match="Score each document by itself"):
        embedded.log_probabilities([*document, "the"])
    with pytest.raises(ValueError, match="at least one document"):
        embedded.optimal_perplexity([])
    # A fact that was said before may not change.
    document = list(next(text for text in sample[0] if "where" in text))
    place = document.index("in", document.index("where")) + 1
    home = document[place]
    document[place] = next(city for city in WORDS["city"] if city != home)
    with pytest.raises(ValueError, match=f"allows one of .'{home}'"):
        embedded.log_probabilities(document)


def test_generation_is_fixed_by_its_seed():
    documents, _ = embedded.generate(6, seed=7)
    assert documents == embedded.generate(6, seed=7)[0]
    assert documents[:4] == embedded.generate(4, seed=7)[0]
    assert documents != embedded.generate(6, seed=8)[0]
    assert embedded.generate(0, seed=7) == ([], [])
    first = " ".join(embedded.generate(1, seed=0)[0][0])
    assert first.startswith("john foster was born in wells in 1882 <eos>")
    assert first.endswith("where was grace barker born ? in truro <eos>")


def test_all_words_and_no_others_are_spoken(sample):
    spoken = {token for document in sample[0] for token in document}
    words = embedded.GRAMMAR.words
    assert len(words) == len(set(words))
    assert spoken == set(words)
    assert words[0] == "<eos>"


def test_load_makes_a_corpus():
    corpus = embedded.load(30, 4, 5, seed=3)
    assert corpus.name == "embedded"
    assert len(corpus.vocabulary) == len(embedded.GRAMMAR.words) + 1  # <unk>
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
    with pytest.raises(ValueError, match="`min_people`.*0"):
        Grammar(FACTS, min_people=0)
    with pytest.raises(ValueError, match="in this order.*min_people=5"):
        Grammar(FACTS, min_people=5)
    with pytest.raises(ValueError, match="a string of at least 3 words"):
        tiny_grammar(words=2, max_people=3)
    for word in ("york", "where"):
        with pytest.raises(ValueError, match="All words must differ"):
            Grammar({**FACTS, "first": f"alice jane ruth rose {word}"})
