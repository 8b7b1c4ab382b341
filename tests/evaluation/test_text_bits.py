"""Compares bits per word and per character with values computed by hand."""

import math
from collections import Counter

import pytest

from memlm_keras.data import Split
from memlm_keras.data import SubwordVocabulary
from memlm_keras.data import load_text
from memlm_keras.evaluation import text_bits

LINES = ["the cat  sat", "the\tcat ran off", " the zebra", "a cat"]


@pytest.fixture
def read(tmp_path):
    """`read(**arguments)`: loads one text as all three splits of a corpus."""
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n")

    def call(**arguments):
        return load_text(path, path, path, cache_dir=tmp_path, **arguments)

    return call


def spelled(word, words):
    """Returns the bits of the spelling of `word`, computed by the formula."""
    seen = [("\0\0" + each + "\n") for each in words]
    trigrams = [t[i - 2 : i + 1] for t in seen for i in range(2, len(t))]

    def p(context, character):
        below = p(context[1:], character) if context else 1 / 1114113
        size = len(context) + 1
        grams = [t[-size:] for t in trigrams if t[-size:-1] == context]
        kinds = len(set(grams))
        if not grams:
            return below
        count = grams.count(context + character)
        return (count + kinds * below) / (len(grams) + kinds)

    text = "\0\0" + word + "\n"
    chances = [p(text[i - 2 : i], text[i]) for i in range(2, len(text))]
    return -sum(map(math.log2, chances))


def test_an_unknown_word_costs_its_letters(read):
    corpus = read(minimum_count=2)
    counts = corpus.test.counts
    assert counts.unknown == Counter("sat ran off zebra a".split())
    bits = text_bits(10 * math.log(2), corpus.test, corpus.vocabulary)
    expected = sum(spelled(word, ["the", "cat"]) for word in counts.unknown)
    assert bits.spelling == pytest.approx(expected)
    assert bits.bits == pytest.approx(10 + expected)
    assert bits.per_word == pytest.approx(bits.bits / 11)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"minimum_count": 2},
        {"tokenize": "characters"},
        {"vocabulary": SubwordVocabulary(["</s>", "<unk>", "▁the", "▁", "a"])},
    ],
)
def test_every_vocabulary_divides_by_the_same_numbers(read, arguments):
    corpus = read(**arguments)
    bits = text_bits(0.0, corpus.test, corpus.vocabulary)
    text = "".join(" ".join(line.split()) + "\n" for line in LINES)
    assert (bits.words, bits.characters) == (11, len(text))


def test_fewer_lines_make_words_unknown_and_ids_have_no_text(read):
    corpus = read(minimum_count=2).with_first_lines(1)
    assert corpus.test.counts.unknown["zebra"] == 1
    fewer = read(minimum_count=1).with_first_lines(1)
    assert fewer.test.counts.unknown == Counter("ran off zebra a".split())
    with pytest.raises(ValueError, match="loaded from text"):
        text_bits(1.0, Split(corpus.test.tokens), corpus.vocabulary)
