"""Tests text files: lines, sentences, documents, marks and characters; tests
the cache of tokens."""

import os
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlm_keras import LanguageModel
from memlm_keras import evaluation
from memlm_keras import ngrams
from memlm_keras.data import SubwordVocabulary
from memlm_keras.data import Vocabulary
from memlm_keras.data import load_text
from memlm_keras.data import text_store
from memlm_keras.data.corpus import stored_vocabulary
from memlm_keras.data.text_store import EnteredText
from memlm_keras.data.text_store import TextSource
from memlm_keras.data.text_store import read_lines
from memlm_keras.data.text_store import split_sentences
from memlm_keras.data.text_store import unmarked


@pytest.mark.parametrize(
    "text, lines",
    [
        # Only line feeds end lines, except in files without line feeds.
        ("a\u2028b\x0bc\r\nd\u0085e\nf", ["a\u2028b\x0bc", "d\u0085e", "f"]),
        ("a\rb\nc\rd", ["a\rb", "c\rd"]),
        ("a b\rc\r", ["a b", "c"]),
        ("a b\rc", ["a b", "c"]),
        # A byte order mark is not part of the text.
        ("\ufeffa b\rc\r", ["a b", "c"]),
        ("\ufeffà \ufeffb\n\ufeffc\n", ["à \ufeffb", "\ufeffc"]),
    ],
)
def test_lines(write, text, lines):
    assert list(read_lines(write(text))) == lines


def test_blank_lines(write):
    path = write(" \na b\n\nc\n")
    sentences = list(TextSource(path).sentences())
    assert sentences == [("a b", False), ("c", False)]
    kept = TextSource(path, keep_blank_lines=True).sentences()
    assert [line for line, _ in kept] == [" ", "a b", "", "c"]


def test_document_starts_match_from_the_first_character(write):
    path = write("= A =\nx = B =\n= C =\ny\n")
    source = TextSource(path, document_start="= .* =$")
    begins = [begins for _, begins in source.sentences()]
    assert begins == [True, False, True, False]
    assert source.has_documents
    # A lone title has a blank line before and after it.
    path = write("= A =\n\nx\n= B =\n\n\n= C =\ny\n\n= D =\n")
    source = TextSource(path, document_start="= .* =$", lone_titles=True)
    titles = [line for line, begins in source.sentences() if begins]
    assert titles == ["= A =", "= D ="]


def test_each_file_of_a_folder_is_a_document(write, tmp_path):
    write("\nc d\ne\n", "2.txt")
    write("a\nb\n", "1.txt")
    write("", "3.txt")
    write("not text", "notes.md")
    source = TextSource(tmp_path)
    assert source.has_documents
    lines, begins = zip(*source.sentences())
    assert lines == ("a", "b", "c d", "e")
    assert begins == (True, False, True, False)


def test_sources_that_cannot_be_read(write, tmp_path):
    with pytest.raises(FileNotFoundError, match="no file or folder .*nowhere"):
        TextSource(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="holds no .txt file"):
        TextSource(tmp_path)
    for start, message in (("(", r"a regular.*'\('"), (3, "as a string.*3")):
        with pytest.raises(ValueError, match=f"`document_start` .*{message}"):
            TextSource(write("a\n"), document_start=start)


# === Sentences ===

WORDS = """
    The cat <unk> @-@ @.@ @,@ 2 1990 U.S. St. . ? ! ... ; , " ' 's ( ) = –
""".split()


@given(st.lists(st.sampled_from(WORDS) | st.text(min_size=1), max_size=60))
def test_nothing_is_lost_or_changed(tokens):
    pytest.importorskip("syntok")
    sentences = list(split_sentences(tokens))
    assert [token for sentence in sentences for token in sentence] == tokens
    assert all(sentences)


@pytest.mark.parametrize(
    "text",
    [
        "The cat sat . | It ran 2 @.@ 5 km .",
        "= = Plot = =",
        "Infantry from No. 77 Squadron RAAF left St. Mary . | They returned .",
        "By U.S. Route 1 it is 5 km . | <unk> is far .",
        # A closing quotation mark belongs to its sentence, and an opening one
        # to the next.
        'He said , " I know . " | " The rest " followed .',
        'It was " the <unk> " . | The end came !',
        # Semicolons, and marks within a name, end no sentence.
        "It rained ; The cat slept .",
        "Yahoo ! is a name ( see <unk> . ) of a firm .",
        "Is it so ? | Yes , <unk> <unk> is ...",
    ],
)
def test_sentences_of_wikitext(text):
    pytest.importorskip("syntok")
    expected = [sentence.split() for sentence in text.split("|")]
    assert list(split_sentences(text.replace("|", "").split())) == expected


# === The cache ===

VOCABULARY = Vocabulary(["=", "A", "B", "x", "y"])
TEXT = "intro\n= A =\nx y\n= B =\ny\n"


@pytest.fixture
def path(write):
    return write(TEXT)


def stored(path, cache, vocabulary=VOCABULARY, **options):
    source = TextSource(path, **options)
    return text_store.stored_split(source, vocabulary, cache, "name")


def folders(cache):
    return sorted(folder.name for folder in (cache / "tokens").iterdir())


def test_tokens_are_memory_mapped(path, cache):
    split = stored(path, cache, document_start="= ")
    expected = VOCABULARY.encode(TEXT.replace("\n", " <eos> "))
    assert isinstance(split.tokens, np.memmap)
    assert split.tokens.dtype == np.int32
    np.testing.assert_array_equal(split.tokens, expected)
    assert len(split) == len(expected)
    # Lines before the first title belong to the first document.
    assert split.document_starts.dtype == np.int64
    assert split.document_starts.tolist() == [0, 9]
    lengths = text_store.stored_document_lengths(
        TextSource(path, document_start="= "),
        *(VOCABULARY.tokenizer, cache, "name"),
    )
    assert lengths.tolist() == [9, 6]


def test_encoded_once(path, cache, monkeypatch):
    first = stored(path, cache)
    assert first.document_starts is None
    monkeypatch.setattr(text_store, "_write", pytest.fail)
    np.testing.assert_array_equal(stored(path, cache).tokens, first.tokens)


def test_every_change_encodes_anew(path, cache):
    stored(path, cache)
    stored(path, cache, document_start="= ")
    stored(path, cache, keep_blank_lines=True)
    pytest.importorskip("syntok")
    stored(path, cache, by_sentence=True)
    identity = TextSource(path, by_sentence=True).identity()
    assert "syntok 1" in identity["splitter"]
    stored(path, cache, Vocabulary(["x"]))
    os.utime(path, ns=(1, 1))
    stored(path, cache)
    path.write_text("x y x\n")
    assert stored(path, cache).tokens.tolist() == [5, 6, 5, 0]
    assert len(folders(cache)) == 7
    assert all(name.startswith("name-") for name in folders(cache))


def cut(content, random):
    return content[: int(random.integers(len(content)))]


def flip(content, random):
    content = bytearray(content)
    content[random.integers(len(content))] ^= 1 << int(random.integers(8))
    return bytes(content)


@pytest.mark.parametrize("harm", [cut, flip])
@pytest.mark.parametrize("kind", ["tokens", "vocabularies", "documents"])
def test_damaged_cache_is_made_anew(path, cache, random, kind, harm):
    source = TextSource(path, document_start="= ")

    def read():
        if kind == "tokens":
            split = text_store.stored_split(source, VOCABULARY, cache, "name")
            starts = split.document_starts.tolist()
            return [split.tokens.tolist(), starts, split.counts]
        if kind == "vocabularies":
            return stored_vocabulary(source, cache, "name").tokens
        return text_store.stored_document_lengths(
            source, VOCABULARY.tokenizer, cache, "name"
        ).tolist()

    expected = read()
    files = sorted((cache / kind).glob("*/*"))
    assert len(files) == (4 if kind == "tokens" else 2)
    for file in files:
        whole = file.read_bytes()
        for _ in range(6):
            file.write_bytes(harm(whole, random))
            if file.name == "checksums.json" and harm is flip:
                # A changed checksum has the same effect as a changed file.
                file.write_bytes(whole.replace(b": ", b": 1"))
            with pytest.warns(UserWarning, match="damaged.*It is written"):
                assert read() == expected
            assert file.read_bytes() == whole
    with warnings.catch_warnings(action="error"):
        assert read() == expected


@pytest.mark.parametrize(
    "content, options, message",
    [
        (b"", {}, "text.txt is empty"),
        (b"\n \n", {}, "text.txt is empty"),
        (b"x\ny\n", {"document_start": "= "}, "No line of .*text.txt .*'= '"),
        (b"x\n\xff\n", {}, "text.txt is not UTF-8.*0xff at byte offset 2"),
        (b"x\ny\0\n", {}, "text.txt is not text: .* zero byte at .* offset 3"),
    ],
)
def test_bad_text_leaves_nothing(path, cache, content, options, message):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        stored(path, cache, **options)
    assert folders(cache) == []


def test_a_line_without_end_is_not_read_whole(path, cache, monkeypatch):
    monkeypatch.setattr(text_store, "_LONGEST_LINE", 2**20)
    # The limit of a line's bytes is in the middle of a character.
    path.write_bytes(b"x\n" + "é".encode() * 2**20 + b"\nz\n")
    with pytest.raises(ValueError, match="more than 1 MiB at byte offset 2"):
        stored(path, cache)
    path.write_bytes(b"x\n" + b"y" * (2**20 - 1) + b"\nz\n")
    assert len(stored(path, cache)) == 6


def test_unwritable_cache_is_named(path):
    with pytest.raises(OSError, match="Cannot write .*text.txt/tokens/name"):
        stored(path, path)


def test_vocabulary_is_built_once(path, cache, monkeypatch):
    def build(**options):
        return stored_vocabulary(TextSource(path), cache, "name", **options)

    first = build(size=4)
    assert first.tokens == ("<eos>", "<unk>", "=", "y")
    assert len(build(size=5)) == 5
    monkeypatch.setattr(Vocabulary, "build", pytest.fail)
    assert build(size=4) == first


def test_long_work_shows_progress(path, cache, monkeypatch, capsys):
    stored(path, cache)
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(text_store, "_LEAST_PROGRESS", 5)
    stored(path, cache, document_start="= ")
    out = capsys.readouterr().out
    assert f"Reading {path.name}:" in out and "1/1" in out


# === Boundary marks and unknown characters of other programs ===

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
    # With boundary marks, an empty sentence is equal to a blank line.
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


def test_characters_that_are_read_as_bytes():
    english = LanguageModel.from_preset("memlm/english").vocabulary
    entered = EnteredText(english)
    with pytest.raises(ValueError, match=r"caf.udce9.*is not UTF-8"):
        entered.line(b"caf\xe9".decode("utf-8", "surrogateescape"))
    entered.line("In 1915 \u2014 a na\u00efve \ufb01sh \u201cswam\u201d")
    assert entered.unseen == {"1": 2, "9": 1, "5": 1, "\u00ef": 1}
    entered = EnteredText(english)
    entered.line("the cat " * 500 + "9")
    assert not list(entered.notes())


def test_a_text_says_which_characters_training_lacks(write, tmp_path, capsys):
    texts = ("don't go\n", "don't go\n", "don\u2019t go\n")
    paths = [write(text * 3, f"{name}.txt") for name, text in enumerate(texts)]
    with pytest.warns(UserWarning, match="no model can learn"):
        load_text(*paths, cache_dir=tmp_path / "cache")
    said = capsys.readouterr().out
    assert "3 of 81 characters are in no word" in said
    assert "'\u2019' (3)" in said
    # Characters that occur only in rare words count as known.
    path = write("go\ngo\nwhat?\n")
    load_text(path, path, path, minimum_count=2, cache_dir=tmp_path / "cache")
    assert "are in no word" not in capsys.readouterr().out
