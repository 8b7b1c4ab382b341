"""Tests corpora by name and from files, and downloads."""

import dataclasses
import hashlib
import pathlib
import zipfile

import keras
import numpy as np
import pytest
from corpus_files import shared_data

from memlm_keras import data
from memlm_keras.data import SubwordVocabulary
from memlm_keras.data import corpora
from memlm_keras.data.corpora import download

pytestmark = pytest.mark.usefixtures("cache")


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def real(name, **options):
    return data.load(name, data_dir=shared_data(name).parent, **options)


def lengths(corpus):
    return [len(corpus.train), len(corpus.validation), len(corpus.test)]


def test_penn_treebank_has_the_usual_counts(cache):
    corpus = real("ptb")
    assert lengths(corpus) == [929_589, 73_760, 82_430]
    assert len(corpus.vocabulary) == 10_000
    assert corpus.train.document_starts is None
    first = corpus.vocabulary.decode(corpus.validation.tokens[:5])
    assert first == "consumers may want to move".split()
    ends = np.count_nonzero(corpus.validation.tokens == 0)
    assert ends == 73_760 - 70_390
    assert corpus.batches("train", 20, 35).largest_id == 9_999
    again = data.load("ptb", data_dir=shared_data("ptb"))
    assert again.train.tokens.filename == corpus.train.tokens.filename
    assert cache in pathlib.Path(corpus.train.tokens.filename).parents


@pytest.mark.slow
def test_wikitext_2_has_the_usual_counts_and_documents():
    corpus = real("wikitext-2")
    assert lengths(corpus) == [2_088_628, 217_646, 245_569]
    assert len(corpus.vocabulary) == 33_278
    equals = corpus.vocabulary["="]
    for split, documents in (("train", 600), ("validation", 60), ("test", 60)):
        split = getattr(corpus, split)
        assert len(split.document_starts) == documents
        assert split.document_starts[0] == 0
        assert (split.tokens[split.document_starts[1:]] == equals).all()
    batches = corpus.batches("validation", 8, 35, documents=True)
    assert sum(weight.sum() for _, _, weight in batches) == 217_646
    assert sum(x["reset"].sum() for x, _, _ in batches) == 60


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Replaces WikiText-2 by a small corpus with other sizes and checksums."""
    folder = tmp_path / "data" / "wikitext-2"
    folder.mkdir(parents=True)
    public, files = corpora._PUBLIC["wikitext-2"], []
    for split, (name, _, _) in zip(("train", "valid", "test"), public.files):
        content = f" \n = A = \n \n the {split} text \n".encode()
        (folder / name).write_bytes(content)
        files.append((name, len(content), sha256(content)))
    small = dataclasses.replace(public, files=files)
    monkeypatch.setitem(corpora._PUBLIC, "wikitext-2", small)
    return folder


def test_folder_or_its_parent(folder):
    here = data.load("wikitext-2", data_dir=folder)
    above = data.load("wikitext-2", data_dir=str(folder.parent))
    assert here.vocabulary == above.vocabulary
    assert here.name == "wikitext-2"
    text = "<eos> = A = <eos> <eos> the train text <eos>"
    assert here.vocabulary.decode(here.train.tokens) == text.split()
    assert here.test.document_starts.tolist() == [0]


def test_paragraphs_by_sentence(folder):
    pytest.importorskip("syntok")
    for name in ("wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"):
        text = " \n = A . It = \n \n the text ends . It does . \n"
        (folder / name).write_text(text)
    settings = {"data_dir": folder, "verify": False}
    plain = data.load("wikitext-2", **settings)
    settings["sentences"] = True
    corpus = data.load("wikitext-2", **settings)
    assert corpus.vocabulary == plain.vocabulary
    assert " ".join(corpus.vocabulary.decode(corpus.test.tokens)) == (
        "= A . <eos> It = <eos> the text ends . <eos> It does . <eos>"
    )
    assert corpus.test.document_starts.tolist() == [0]
    small = data.load("wikitext-2", **settings, vocabulary_size=4)
    assert small.vocabulary.tokens == corpus.vocabulary.tokens[:4]
    given = data.load("wikitext-2", **settings, vocabulary=small.vocabulary)
    np.testing.assert_array_equal(given.test.tokens, small.test.tokens)


def test_lines_that_are_sentences_stay(tmp_path):
    folder = tmp_path / "ptb"
    folder.mkdir()
    for split in ("train", "valid", "test"):
        (folder / f"ptb.{split}.txt").write_text(" the cat . It ran \n")
    settings = {"data_dir": folder, "verify": False}
    corpus = data.load("ptb", **settings, sentences=True)
    assert corpus.name == "ptb"
    assert corpus.fingerprint == data.load("ptb", **settings).fingerprint


def test_vocabularies_are_given_or_limited(folder):
    given = data.Vocabulary(["text"])
    corpus = data.load("wikitext-2", folder, vocabulary=given)
    assert corpus.vocabulary is given
    assert corpus.test.tokens.tolist() == [0, 1, 1, 1, 0, 0, 1, 1, 2, 0]
    everything = data.load("wikitext-2", data_dir=folder)
    corpus = data.load("wikitext-2", data_dir=folder, vocabulary_size=3)
    assert corpus.vocabulary.tokens == everything.vocabulary.tokens[:3]
    assert len(corpus.train) == len(everything.train)
    assert corpus.train.tokens.max() == 2
    for sentences in (False, True):
        with pytest.raises(ValueError, match="`vocabulary` cannot be combined"):
            both = {"vocabulary": given, "vocabulary_size": 3}
            data.load("wikitext-2", folder, **both, sentences=sentences)
    with pytest.raises(ValueError, match="`vocabulary_size` must be None"):
        data.load("embedded", vocabulary_size=100)


def test_unknown_names_and_missing_files_are_named(folder):
    with pytest.raises(ValueError, match="'ptb'.*'embedded'.*name='text8'"):
        data.load("text8")
    (folder / "wiki.valid.tokens").unlink()
    with pytest.raises(FileNotFoundError, match="wiki.valid.tokens in "):
        data.load("wikitext-2", data_dir=folder)
    with pytest.raises(FileNotFoundError, match="data_dir=.*nowhere"):
        data.load("wikitext-2", data_dir=folder / "nowhere")


def test_other_files_are_reported_and_can_be_overruled(folder):
    file = folder / "wiki.train.tokens"
    whole = file.read_bytes()
    expected = f"Expected {len(whole)} bytes with sha256 {sha256(whole)}"
    for content in (whole[:-5], whole.replace(b"the", b"THE")):
        file.write_bytes(content)
        received = f"Received {len(content)} bytes with sha256"
        with pytest.raises(ValueError) as caught:
            data.load("wikitext-2", data_dir=folder)
        for part in [file, expected, received, sha256(content), "verify=False"]:
            assert str(part) in str(caught.value)
    corpus = data.load("wikitext-2", data_dir=folder, verify=False)
    assert "THE" in corpus.vocabulary


def test_download_goes_to_the_cache(folder, cache, monkeypatch, tmp_path):
    archive = tmp_path / "archive.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in folder.iterdir():
            file.write(path, f"wikitext-2/{path.name}")
    public, urls = corpora._PUBLIC["wikitext-2"], (archive.as_uri(),)
    checksum = sha256(archive.read_bytes())
    small = dataclasses.replace(public, urls=urls, archive_checksum=checksum)
    monkeypatch.setitem(corpora._PUBLIC, "wikitext-2", small)
    assert lengths(data.load("wikitext-2")) == [10, 10, 10]
    # The second call downloads nothing.
    archive.unlink()
    assert lengths(data.load("wikitext-2", cache_dir=cache)) == [10, 10, 10]


def test_any_text_with_options(write):
    text = {
        name: write(f"# 1\nthe {name} 12\n\n# 2\nthe the\n", f"{name}.txt")
        for name in ("train", "validation", "test")
    }
    text["test"] = str(text["test"])
    options = {"vocabulary_size": 4, "minimum_count": 2, "numbers": "N"}
    corpus = data.load_text(**text, **options, document_start="# ")
    assert corpus.name == text["train"].parent.name
    assert corpus.vocabulary.tokens == ("<eos>", "<unk>", "N", "the")
    expected = [1, 2, 0, 3, 1, 2, 0, 1, 2, 0, 3, 3, 0]
    assert corpus.test.tokens.tolist() == expected
    assert corpus.test.document_starts.tolist() == [0, 7]


def corpus_of(words, tokens, starts=None):
    starts = None if starts is None else np.array(starts)
    split = data.Split(np.array(tokens, "int32"), starts)
    return data.Corpus("tiny", data.Vocabulary(words), split, split, split)


def test_corpus_of_arrays():
    corpus = corpus_of(["a", "b"], range(6), [0, 3])
    assert len(corpus.test) == 6
    options = {"documents": True, "shuffle": True, "seed": 5}
    batches = corpus.batches(corpus.test, 2, 3, **options)
    assert (len(batches), batches.seed) == (1, 5)
    with pytest.raises(ValueError, match="`documents=True` needs .*'tiny'"):
        corpus.batches(data.Split(np.arange(6)), 2, 3, documents=True)
    for call, n in ((corpus.batches, (2, 3)), (corpus.sentence_batches, ())):
        with pytest.raises(ValueError, match="`split` must be one of .*'dev'"):
            call("dev", *n)


def test_fingerprints_of_other_corpora_differ():
    words, tokens = ["a", "b", "c"], [3, 4, 0]
    found = [
        corpus_of(words, tokens, [0]).fingerprint,
        corpus_of(["a", "b", "d"], tokens, [0]).fingerprint,
        corpus_of(words, [3, 2, 0], [0]).fingerprint,
        corpus_of(words, tokens, [0, 1]).fingerprint,
    ]
    assert len(set(found)) == 4 and len(found[0]) == 16
    assert corpus_of(words, tokens, [0]).fingerprint == found[0]


def test_first_lines_of_a_corpus():
    """The result omits a document that begins just after the last line."""
    corpus = corpus_of([*"abcd"], [2, 3, 0, 4, 0, 2, 5, 0], [0, 5])
    first = corpus.with_first_lines(2)
    assert first.vocabulary.tokens == ("<eos>", "<unk>", "a", "b", "c")
    assert first.train.tokens.tolist() == [2, 3, 0, 4, 0]
    assert first.train.document_starts.tolist() == [0]
    assert first.test.tokens.tolist() == [2, 3, 0, 4, 0, 2, 1, 0]
    for lines in (0, 4):
        with pytest.raises(ValueError, match=f"1 .. 3.*lines={lines}"):
            corpus.with_first_lines(lines)
    pieces = SubwordVocabulary(corpus.vocabulary.tokens)
    other = dataclasses.replace(corpus, vocabulary=pieces)
    with pytest.raises(ValueError, match="`Vocabulary` of words. Received"):
        other.with_first_lines(2)


def test_batches_of_sentences():
    corpus = corpus_of([*"abc"], [3, 4, 0, 2, 0])
    batches = corpus.batches("test", 2, 3, sentences=True)
    assert batches.context_of == "sentence"
    inputs, targets, _ = batches[0]
    assert inputs["reset"].all()
    assert targets.tolist() == [[3, 4, 0], [2, 0, 0]]
    training = corpus.sentence_batches("train", 2, length_multiple=1)
    assert [targets.tolist() for _, targets, _ in training] == [
        [[2, 0], [0, 0]],
        [[3, 4, 0], [0, 0, 0]],
    ]
    with pytest.raises(ValueError, match="`documents` and `sentences` cannot"):
        corpus.batches("test", 2, 3, documents=True, sentences=True)


def test_documents_longest_first():
    split = data.Split(np.arange(9), np.array([0, 2, 6]))
    found = split.longest_first()
    assert found.tokens.tolist() == [2, 3, 4, 5, 6, 7, 8, 0, 1]
    assert found.document_starts.tolist() == [0, 4, 7]
    with pytest.raises(ValueError, match="needs a split with `document_st"):
        data.Split(np.arange(9)).longest_first()


def test_default_cache_is_in_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("MEMLM_KERAS_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = tmp_path / ".keras" / "memlm_keras"
    assert corpora.cache_folder(None) == expected


# === Downloads ===

CONTENT = b"some text\n" * 100


@pytest.fixture
def asked(monkeypatch):
    """Records the requested addresses, and the seconds of waiting between
    them."""
    asked, get_file = [], keras.utils.get_file
    monkeypatch.setattr(corpora.time, "sleep", asked.append)
    monkeypatch.setattr(
        keras.utils,
        "get_file",
        lambda **given: asked.append(given["origin"]) or get_file(**given),
    )
    return asked


def test_mirrors_are_tried_in_order(write, asked, tmp_path):
    urls = [write(b"damaged", "first").as_uri(), write(CONTENT, "2nd").as_uri()]
    md5 = hashlib.md5(CONTENT).hexdigest()
    target = download(urls, tmp_path / "new" / "a.txt", md5)
    assert target.read_bytes() == CONTENT
    assert list(target.parent.iterdir()) == [target]
    assert asked == urls


def test_failure_leaves_nothing(write, asked, tmp_path):
    damaged = write(b"damaged").as_uri()
    urls = [damaged, f"{damaged}.none", "http://127.0.0.1:9/a"]
    with pytest.raises(OSError) as caught:
        download(urls, tmp_path / "new" / "a.txt", sha256(CONTENT))
    reasons = ("hash does not match", "No such file", "refused")
    for part in (*urls, *reasons, "after 3 tries", "`data_dir`"):
        assert part in str(caught.value)
    assert asked == [*urls, 1.0, *urls, 2.0, *urls]
    assert list((tmp_path / "new").iterdir()) == []


def test_what_is_no_archive_is_an_error(write, asked, tmp_path):
    urls, folder = [write(CONTENT).as_uri()], tmp_path / "new"
    with pytest.raises(OSError, match="Could not extract archive"):
        download(urls, folder / "a", sha256(CONTENT), extract=True)
    assert list(folder.iterdir()) == []
