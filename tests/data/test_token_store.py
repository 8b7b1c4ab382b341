import multiprocessing
import os
import warnings

import numpy as np
import pytest

from memlm_keras.data import Vocabulary
from memlm_keras.data import text_store
from memlm_keras.data.corpus import stored_vocabulary
from memlm_keras.data.text_store import TextSource

VOCABULARY = Vocabulary(["=", "A", "B", "x", "y"])
TEXT = "intro\n= A =\nx y\n= B =\ny\n"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


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
    # The line before the first title belongs to the first document.
    assert split.document_starts.dtype == np.int64
    assert split.document_starts.tolist() == [0, 9]


def test_no_documents(path, cache):
    assert stored(path, cache).document_starts is None


def test_encoded_once(path, cache, monkeypatch):
    first = stored(path, cache)
    monkeypatch.setattr(text_store, "_write", pytest.fail)
    np.testing.assert_array_equal(stored(path, cache).tokens, first.tokens)


def test_every_change_encodes_anew(path, cache):
    stored(path, cache)
    stored(path, cache, document_start="= ")
    stored(path, cache, Vocabulary(["x"]))
    os.utime(path, ns=(1, 1))
    stored(path, cache)
    path.write_text("x y x\n")
    assert stored(path, cache).tokens.tolist() == [5, 6, 5, 0]
    assert len(folders(cache)) == 5
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
    """Wherever the damage is, there is one line, and all is right again."""
    source = TextSource(path, document_start="= ")

    def read():
        if kind == "tokens":
            split = text_store.stored_split(source, VOCABULARY, cache, "name")
            return [split.tokens.tolist(), split.document_starts.tolist()]
        if kind == "vocabularies":
            return stored_vocabulary(source, cache, "name").tokens
        return text_store.stored_document_lengths(
            source, VOCABULARY.tokenizer, cache, "name"
        ).tolist()

    expected = read()
    files = sorted((cache / kind).glob("*/*"))
    assert len(files) == (3 if kind == "tokens" else 2)
    for file in files:
        whole = file.read_bytes()
        for _ in range(6):
            file.write_bytes(harm(whole, random))
            if file.name == "checksums.json" and harm is flip:
                # A changed sum is as bad as a changed file.
                file.write_bytes(whole.replace(b": ", b": 1"))
            with pytest.warns(UserWarning, match="damaged.*It is made anew"):
                assert read() == expected
            assert file.read_bytes() == whole
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read() == expected


def test_processes_that_make_the_same_cache(path, cache):
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(4)
    expected = VOCABULARY.encode(TEXT.replace("\n", " <eos> ")).tolist()

    def build():
        for number in range(12):
            barrier.wait(60)
            split = stored(path, cache / str(number))
            assert split.tokens.tolist() == expected

    processes = [context.Process(target=build) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    for number in range(12):
        assert len(list((cache / str(number) / "tokens").iterdir())) == 1


@pytest.mark.parametrize(
    "content, options, message",
    [
        (b"", {}, "text.txt is empty"),
        (b"\n \n", {}, "text.txt is empty"),
        (b"x\ny\n", {"document_start": "= "}, "No line of .*text.txt .*'= '"),
        (b"x\n\xff\n", {}, "text.txt is not UTF-8.*byte offset 2"),
    ],
)
def test_bad_text_leaves_nothing(path, cache, content, options, message):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        stored(path, cache, **options)
    assert folders(cache) == []


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
    monkeypatch.setattr(text_store, "_TOKENS_BEFORE_PROGRESS", 5)
    stored(path, cache, document_start="= ")
    assert "15/Unknown" in capsys.readouterr().out
