"""Tests ARPA files from this package and from other programs."""

import functools
import gzip
import re

import numpy as np
import pytest

from memlm_keras import ngrams
from memlm_keras.data import SubwordVocabulary
from memlm_keras.data import Vocabulary
from memlm_keras.ngrams import KneserNey

pytestmark = pytest.mark.filterwarnings("ignore:Counts of counts")

# A no-break space does not separate words in an ARPA file.
VOCABULARY = Vocabulary(["a", "b", "c\u00a0c", "-1.5", "é", "never"])


@pytest.fixture
def text(random):
    return random.integers(0, 7, 400)


@pytest.fixture(params=[True, False], ids=["lines", "stream"])
def model(request, text):
    options = {"order": 4, "minimum_counts": [1, 1, 1, 2]}
    options["sentence_boundaries"] = request.param
    return KneserNey(len(VOCABULARY), **options).fit(text, verbose=0)


def test_it_reads_what_it_wrote(model, random, tmp_path):
    path = tmp_path / "model.arpa"
    ngrams.write_arpa(model, path, VOCABULARY, verbose=0)
    text = path.read_text(encoding="utf-8")
    # Tabs separate columns, and n-grams that are no contexts have no weight.
    assert re.search(r"^-[\d.]+\ta b\t-?[\d.]+$", text, re.M)
    assert text.startswith("\\data\\\nngram 1=") and "</s>\t" not in text
    read = ngrams.read_arpa(path, VOCABULARY, verbose=0)
    assert read.num_ngrams == model.num_ngrams
    assert read.sentence_boundaries == model.sentence_boundaries
    assert "back-off model of order 4" in read.description
    tokens = random.integers(0, len(VOCABULARY), 300)
    np.testing.assert_allclose(read.score(tokens), model.score(tokens))
    read.save(tmp_path / "read.npz")
    loaded = ngrams.load(tmp_path / "read.npz")
    assert type(loaded) is ngrams.BackoffModel
    np.testing.assert_array_equal(loaded.score(tokens), read.score(tokens))
    ngrams.write_arpa(read, tmp_path / "again.arpa", VOCABULARY, verbose=0)
    assert (tmp_path / "again.arpa").read_bytes() == path.read_bytes()


def test_impossible_words_stay_impossible(tmp_path):
    model = KneserNey(8, order=2, discounts=[0.0, 0.5]).fit([2, 3, 0], 0)
    ngrams.write_arpa(model, tmp_path / "model.arpa", VOCABULARY, verbose=0)
    assert "-99\tnever" in (tmp_path / "model.arpa").read_text("utf-8")
    read = ngrams.read_arpa(tmp_path / "model.arpa", VOCABULARY, verbose=0)
    assert read.score([7, 2])[0] == model.score([7, 2])[0] == -np.inf


WRITTEN_ELSEWHERE = """
Whatever comes before.

\\data\\
ngram 1=5
ngram  2 = 3
ngram 3=1
\\1-grams:
-1.0 <unk>
-99 <s> -0.25
-0.5 b -0.125
-0.5 </s>
-0.75 a -0.5

\\2-grams:
-0.1 b a
-0.2 <s> b
-0.3 a </s>

\\3-grams:
-0.1 <s> b a

\\end\\
"""


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("\\data\\", "data", "no line .data."),
        ("ngram 1=5", "", "ngram 2 is out of order"),
        ("-0.3 a </s>\n", "", r"line 19: .*n-gram 3 of the 3 .*found .*3-gr"),
        ("\\end\\", "", "found the end of the file"),
        ("-0.2 <s> b", "-0.2 <s>", "n-gram 2 of the 3 of order 2"),
        ("-0.2 <s> b", "x <s> b", "line 17: .*n-gram 2 of the 3.*x <s> b"),
        ("-0.2 <s> b", "-0.2 <s> d", "d is not among the 1-grams"),
        ("-0.2 <s> b", "nan <s> b", "line 17: .*nan <s> b"),
        ("-0.2 <s> b", "0.2 <s> b", "line 17: .*0.2 <s> b"),
        ("-0.2 <s> b", "-0.2 <s> b nan", "line 17: .*b nan"),
        ("-0.2 <s> b", "-0.2 <s> b inf", "line 17: .*b inf"),
        (
            "ngram  2 = 3",
            "ngram 2=2",
            "line 18: .*2 of order 2, .*more: -0.3 a",
        ),
        ("ngram 1=5", "ngram 1=4", "4 of order 1, .*more: -0.75 a -0.5"),
        ("-0.75 a -0.5", "-0.75 b", "line 13: the 1-gram b occurs twice"),
        ("-0.2 <s> b", "-0.2 b a", "occurs twice"),
        ("-0.5 b -0.125", "-0.5 d -0.125", "without 1 .*as .'d'"),
        ("-0.1 <s> b a", "-0.1 a b a", "not the 2-gram of its first words"),
    ],
)
def test_files_that_it_refuses(old, new, message, tmp_path):
    assert old in WRITTEN_ELSEWHERE
    path = tmp_path / "other.arpa"
    path.write_text(WRITTEN_ELSEWHERE.replace(old, new))
    with pytest.raises(ValueError, match=message):
        ngrams.read_arpa(path, Vocabulary(["a", "b"]), verbose=0)


UNIGRAMS = "-1 <unk>|-99 <s> -0.3|-0.8 </s>|-0.5 the -0.2|-0.7 cat -0.1"
BIGRAMS = "-0.2 <s> the|-0.3 the cat|-0.4 cat </s>"
# Scores of `the cat </s>`, `cat the </s>` and `dog </s>`, computed by hand.
WITHOUT_BIGRAMS = [-0.3 - 0.5, -0.2 - 0.7, -0.1 - 0.8]
OF_BIGRAMS = [-0.2, -0.3, -0.4, -0.3 - 0.7, -0.1 - 0.5, -0.2 - 0.8]
UNKNOWN_WORD = [-0.3 - 1.0, -0.8]
ALL = OF_BIGRAMS + UNKNOWN_WORD


def arpa(*orders, counts=None):
    """Makes an ARPA file's text; `|` separates the n-grams of an order."""
    orders = [[line for line in order.split("|") if line] for order in orders]
    lines = ["\\data\\"]
    for order, count in enumerate(counts or map(len, orders), 1):
        lines.append(f"ngram {order}={count}")
    for order, ngrams_ in enumerate(orders, 1):
        lines += ["", f"\\{order}-grams:"]
        for probability, *words in (line.split(" ") for line in ngrams_):
            backoff = words[order:]
            columns = [probability, " ".join(words[:order]), *backoff]
            lines.append("\t".join(columns))
    return "\n".join([*lines, "", "\\end\\", ""])


@pytest.mark.parametrize(
    "content, expected",
    [
        (arpa(UNIGRAMS, BIGRAMS), ALL),
        ("\ufeff" + arpa(UNIGRAMS, BIGRAMS), ALL),
        (arpa(UNIGRAMS.replace("<unk>", "<UNK>"), BIGRAMS), ALL),
        (
            arpa(UNIGRAMS.replace("-1 <unk>|", ""), BIGRAMS),
            [*OF_BIGRAMS, -np.inf, -0.8],
        ),
        (
            arpa(UNIGRAMS.replace("-0.8 </s>|", ""), "-0.2 <s> the"),
            [-0.2, -0.9, -np.inf, -1.0, -0.6, -np.inf, -1.3, -np.inf],
        ),
        (
            arpa(UNIGRAMS.replace("-99 <s> -0.3|", ""), "-0.3 the cat"),
            [-0.5, -0.3, -0.9, -0.7, -0.6, -1.0, -1.0, -0.8],
        ),
        # No line has words after `</s>` or before `<s>`.
        (
            arpa(
                UNIGRAMS,
                BIGRAMS + "|-0.9 </s> <s>|-0.9 </s> the -1|-9 <s> <s>|-7 <s> "
                "</s>",
                "-5 <s> <s> the|-5 the </s> <s>|-5 <s> </s> cat|-0.1 <s> the "
                "cat",
            ),
            [-0.2, -0.1, *OF_BIGRAMS[2:], *UNKNOWN_WORD],
        ),
        (arpa(UNIGRAMS, BIGRAMS, counts=[5, 3, 0]), ALL),
        (arpa(UNIGRAMS, BIGRAMS, ""), ALL),
        (arpa(UNIGRAMS, counts=[5, 0]), WITHOUT_BIGRAMS),
        (arpa(UNIGRAMS, BIGRAMS.replace("cat|", "cat 0|")), ALL),
        # A file cut from a larger model has back-off weights in its highest
        # order.
        (arpa(UNIGRAMS, BIGRAMS.replace("cat|", "cat -0.5|")), ALL),
        (
            arpa(UNIGRAMS + "|-2 \v -1|-3 a\x85b|-3 5 -9", BIGRAMS + "|-1 5 5"),
            ALL,
        ),
        (arpa(UNIGRAMS, BIGRAMS).replace("\t", " ").replace("\n", "\r\n"), ALL),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_files_as_other_programs_write_them(tmp_path, content, expected, pack):
    path = tmp_path / "other.arpa"
    path.write_bytes(pack(content.encode()))
    vocabulary = ngrams.arpa_vocabulary(path)
    model = ngrams.read_arpa(path, vocabulary, verbose=0)
    lines = ["the cat", "cat the", "dog"]
    tokens = np.concatenate([*map(vocabulary.encode_sentence, lines)])
    scores = model.score(tokens)[: len(expected)] / np.log(10)
    np.testing.assert_allclose(scores, expected)
    other = Vocabulary(vocabulary.tokens[:1:-1])
    tokens = np.concatenate([*map(other.encode_sentence, lines)])
    scores = ngrams.read_arpa(path, other, verbose=0).score(tokens)
    np.testing.assert_allclose(scores[: len(expected)] / np.log(10), expected)


def test_the_vocabulary_of_a_file(model, tmp_path, capsys):
    path = tmp_path / "model.arpa"
    ngrams.write_arpa(model, path, VOCABULARY, verbose=0)
    read = ngrams.arpa_vocabulary(path)
    assert read.tokens[1:] == VOCABULARY.tokens[1:]
    boundaries = model.sentence_boundaries
    assert read.end_of_sentence == ("</s>" if boundaries else "<eos>")
    path.write_text(
        arpa(UNIGRAMS + "|-1 <eos> -0.1|-2 \v", BIGRAMS + "|-9 </s> <s>")
    )
    read = ngrams.arpa_vocabulary(path)
    assert read.tokens == ("</s>", "<unk>", "the", "cat", "<eos>", "\v")
    assert ngrams.read_arpa(path, read).num_ngrams == (6, 3)
    assert "1 n-grams with <s> or </s> inside" in capsys.readouterr().out


def test_vocabularies_that_it_refuses(model, tmp_path):
    path = tmp_path / "model.arpa"
    with pytest.raises(ValueError, match="=8. Received: a.* of 3"):
        ngrams.write_arpa(model, path, Vocabulary(["a"]))
    for token in ("two words", "<s>"):
        vocabulary = Vocabulary(["a", "b", "c", "d", "e", token])
        with pytest.raises(ValueError, match=f"cannot hold.*'{token}'"):
            ngrams.write_arpa(model, path, vocabulary)
    assert not path.exists()
    ngrams.write_arpa(model, path, VOCABULARY, verbose=0)
    with pytest.raises(ValueError, match="no words.*1 other .*as .'more'"):
        ngrams.read_arpa(path, Vocabulary([*VOCABULARY.tokens, "more"]))
    for marks in ("<s>", "</s>"):
        path.write_text(arpa(UNIGRAMS, BIGRAMS))
        with pytest.raises(ValueError, match=f"no words.*'{marks}'"):
            ngrams.read_arpa(path, Vocabulary(["the", "cat", marks]))
    path.write_text(arpa(UNIGRAMS + "|-0.6 <eos> -0.2", BIGRAMS))
    with pytest.raises(ValueError, match="tell </s> and <eos> apart.*id 0"):
        ngrams.read_arpa(path, Vocabulary(["the", "cat"]))
    path.write_text(arpa(UNIGRAMS, BIGRAMS))
    other = SubwordVocabulary(("the", "cat", "<unk>", "</s>"))
    model = ngrams.read_arpa(path, Vocabulary(["the", "cat"]), verbose=0)
    for use in (ngrams.read_arpa, functools.partial(ngrams.write_arpa, model)):
        arguments = (path, other)
        with pytest.raises(ValueError, match="`vocabulary` must end .*id 0.*3"):
            use(*arguments)
    path.write_bytes(gzip.compress(path.read_bytes())[:60])
    with pytest.raises(ValueError, match="model.arpa is damaged"):
        ngrams.read_arpa(path, VOCABULARY)
    with pytest.raises(FileNotFoundError):
        ngrams.read_arpa(tmp_path / "none.arpa", VOCABULARY)
