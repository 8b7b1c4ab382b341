"""Tests that Python and a graph split any text into the same tokens."""

import itertools

import pytest
from hypothesis import example
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies
from layers import revived

from memlm_keras.data import Tokenizer
from memlm_keras.data import Vocabulary
from memlm_keras.data import vocabulary as module

tf = pytest.importorskip("tensorflow")

RULES = [*itertools.product(module.SPLITS, (False, True), (None, "<number>"))]
# All characters except surrogates, which do not occur in UTF-8 texts.
CHARACTERS = [
    *map(chr, range(0xD800)),
    *map(chr, range(0xE000, module._CODE_POINTS)),
]


@pytest.fixture(scope="module")
def in_graph():
    """Returns a function that tokenizes texts in a graph by given rules."""
    from memlm_keras.data.words_in_graph import Words

    functions = {}

    def run(rules, texts, method="tokenize"):
        if (rules, method) not in functions:
            words = Words(vocabulary(*rules))
            functions[rules, method] = (
                words,
                tf.function(
                    getattr(words, method),
                    input_signature=[tf.TensorSpec((None,), tf.string)],
                ),
            )
        return functions[rules, method][1](tf.constant(texts, tf.string))

    return run


def vocabulary(*rules):
    words = ["a", "b", "é", "я", "σ", "<number>", "."]
    return Vocabulary(words, tokenizer=Tokenizer(*rules))


@pytest.mark.parametrize("rules", RULES[::3])
def test_a_graph_gives_the_ids_of_python(in_graph, rules):
    expected = vocabulary(*rules)

    # Use few examples with many texts each, since a call of a graph is slow.
    @settings(max_examples=20, deadline=None)
    @given(strategies.lists(strategies.text(), max_size=12))
    @example(
        ["", "a.B 12, -3.5 Я\u2003é\x1c\n", "ΌΣΟΣ İ e\u0301", "\x00a\ufeff"]
    )
    @example(["\ufeffa", "ー ー", ", 12", "a\x85\u180eb"])
    @example(["7 -7 +1,000.50 1990-2000 12:30 3/4 7th - 1. .5 1..2 a1 ٣"])
    def check(texts):
        ids = in_graph(rules, texts, "encode").to_list()
        assert ids == [expected.encode(text).tolist() for text in texts]
        tokens = in_graph(rules, texts).to_list()
        assert tokens == [
            [token.encode() for token in expected.tokenizer.tokenize(text)]
            for text in texts
        ]

    check()


@pytest.mark.parametrize("split", module.SPLITS)
def test_every_character_is_read_alike(in_graph, split):
    # Put each character between two letters, and all characters in a row.
    texts = ["".join(f"{c}k" for c in CHARACTERS), "".join(CHARACTERS)]
    tokenizer = Tokenizer(split, lowercase=True)
    found = in_graph((split, True, None), texts).to_list()
    for text, tokens in zip(texts, found):
        assert tokens == [t.encode() for t in tokenizer.tokenize(text)]


def test_lower_case_is_that_of_each_character_by_itself():
    table = module.lower_case()
    for code, lower in table.items():
        # Python converts the dotted capital I to two characters.
        assert chr(code).lower()[0] == chr(lower)
    others = set(map(ord, CHARACTERS)) - table.keys()
    assert all(chr(code).lower() == chr(code) for code in others)
    lowered = Tokenizer(lowercase=True).tokenize("ÀÉ ΟΔΟΣ İ")
    assert lowered == ["àé", "οδοσ", "i"]


def test_scripts_separate_words_from_punctuation():
    tokenizer = Tokenizer("unicode_script")
    tokens = tokenizer.tokenize("Don't stop. привет мир")
    assert tokens == ["Don", "'", "t", "stop", ".", "привет", "мир"]
    # Spaces separate tokens of the same script.
    tokens = tokenizer.tokenize("<unk>, 12.50 -")
    assert tokens == ["<", "unk", ">,", "12.50", "-"]


def test_scripts_are_those_of_tensorflow_text():
    tensorflow_text = pytest.importorskip("tensorflow_text")
    texts = ["Don't; stop.", "日本語のテキスト", "naïve café", "a१२b", "٣abc"]
    expected = tensorflow_text.UnicodeScriptTokenizer().tokenize(texts)
    found = [Tokenizer("unicode_script").tokenize(text) for text in texts]
    assert [[t.encode() for t in row] for row in found] == expected.to_list()


def test_rules_of_case_come_before_those_of_numbers():
    tokenizer = Tokenizer(lowercase=True, numbers="N")
    assert tokenizer.tokenize("The 7 NS 1.5 N") == ["the", "N", "ns", "N", "n"]
    assert tokenizer.normalize(("A b", "7")) == ["a b", "N"]


@pytest.mark.parametrize("rules", RULES)
def test_config_round_trip(rules):
    tokenizer = Tokenizer(*rules)
    assert revived(tokenizer) == tokenizer
    assert hash(Tokenizer(*rules)) == hash(tokenizer)
    assert eval(repr(tokenizer)) == tokenizer
    assert tokenizer != Tokenizer(numbers="another")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"split": "bpe"}, "`split` must be one of .*'bpe'"),
        ({"numbers": ""}, "`numbers` must be None or a token.*''"),
        ({"numbers": 7}, "`numbers` must be None or a token.*7"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Tokenizer(**arguments)
