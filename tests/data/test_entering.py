"""Boundary marks and unknown characters of texts of other programs."""

import numpy as np
import pytest

from memlm_keras import evaluation
from memlm_keras import ngrams
from memlm_keras.data import SubwordVocabulary
from memlm_keras.data import Vocabulary
from memlm_keras.data import load_text
from memlm_keras.data.text_store import EnteredText
from memlm_keras.data.text_store import unmarked

LINES = [f"the cat {number % 4} sat on a mat" for number in range(60)]


@pytest.mark.parametrize(
    "line, bare",
    [
        ("<s> the cat </s>", " the cat "),
        ("<s> <s> the cat", " the cat"),
        (" <S>\tthe cat <EOS> \n", "\tthe cat "),
        ("<bos> the cat <eos> </s>", " the cat "),
        ("</s>", ""),
        ("the <eos> cat <s>", "the <eos> cat <s>"),
        ("<s>the cat</s>", "<s>the cat</s>"),
        ("<unk> the < cat", "<unk> the < cat"),
    ],
)
def test_marks_around_a_line(line, bare):
    assert unmarked(line) == bare


def load(tmp_path, form, **options):
    path = tmp_path / "text.txt"
    # An empty sentence is a blank line.
    lines = [*LINES, ""] if form.startswith("<s>") else LINES
    path.write_text("".join(form.format(line) + "\n" for line in lines))
    return load_text(path, cache_dir=tmp_path / "cache", **options)


@pytest.mark.parametrize("vocabulary", [None, Vocabulary(["cat", "sat"])])
@pytest.mark.parametrize("form", ["{} <eos>", "<s> {} </s>", "<s>  {}"])
@pytest.mark.filterwarnings("ignore:Counts of counts")
def test_marked_texts_are_the_same_text(tmp_path, capsys, form, vocabulary):
    plain = load(tmp_path, "{}", vocabulary=vocabulary)
    assert "marks" not in capsys.readouterr().out
    marked = load(tmp_path, form, vocabulary=vocabulary)
    said = capsys.readouterr().out
    assert said.startswith("text: Lines that begin with <s> or ")
    assert "or <eos>: 60. These marks" in said
    assert marked.fingerprint == plain.fingerprint
    for split in ("train", "validation", "test"):
        counts = getattr(marked, split).counts._replace(marked=0)
        assert counts == getattr(plain, split).counts
    model = ngrams.KneserNey(len(plain.vocabulary), order=2)
    model.fit(plain.train, verbose=0)
    found, expected = (
        evaluation.surprisal(model, text, plain.vocabulary)
        for text in ([form.format(line) for line in LINES], LINES)
    )
    np.testing.assert_array_equal(found.surprisal, expected.surprisal)


@pytest.mark.parametrize(
    "vocabulary, text, unseen, share",
    [
        (
            Vocabulary(["don't", "go"]),
            "don\u2019t go \u201cgo\u201d x",
            {"\u2019": 1, "\u201c": 1, "\u201d": 1, "x": 1},
            "4 of 12 characters are in no word",
        ),
        (Vocabulary(["don't", "go"]), "dog not", {}, None),
        (
            SubwordVocabulary(["<unk>", "</s>", "\u2581the", "s", "\u2581"]),
            "thes 9\u00ad",
            {"9": 1, "\u00ad": 1},
            "2 of 6 characters are in no piece",
        ),
    ],
)
def test_characters_that_no_token_has(vocabulary, text, unseen, share):
    entered = EnteredText(vocabulary)
    assert entered.line(text) == text
    assert entered.unseen == unseen
    said = " ".join(entered.notes())
    assert share is None and not said or share in said
    assert all(repr(character) in said for character in unseen)


def test_characters_that_are_read_as_bytes(english_vocabulary):
    entered = EnteredText(english_vocabulary)
    entered.line("In 1915 \u2014 a na\u00efve \ufb01sh \u201cswam\u201d")
    assert entered.unseen == {"1": 2, "9": 1, "5": 1, "\u00ef": 1}
    entered = EnteredText(english_vocabulary)
    entered.line("the cat " * 500 + "9")
    assert not list(entered.notes())


def test_a_text_says_which_characters_training_lacks(tmp_path, capsys):
    for name, text in (
        ("train", "don't go\n"),
        ("valid", "don't go\n"),
        ("test", "don\u2019t go\n"),
    ):
        (tmp_path / name).write_text(text * 3, "utf-8")
    paths = [tmp_path / name for name in ("train", "valid", "test")]
    with pytest.warns(UserWarning, match="no model can learn"):
        load_text(*paths, cache_dir=tmp_path / "cache")
    said = capsys.readouterr().out
    assert "3 of 81 characters are in no word" in said
    assert "'\u2019' (3)" in said


@pytest.fixture(scope="module")
def english_vocabulary():
    pytest.importorskip("tensorflow_text", reason="it reads the pieces")
    import memlm_keras

    return memlm_keras.LanguageModel.from_preset("memlm/english").vocabulary
