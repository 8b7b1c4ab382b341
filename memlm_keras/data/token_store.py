"""Encoded text on disk, so that a corpus need not fit in memory."""

import dataclasses
import hashlib
import json
import pathlib
import warnings
import zlib

import keras
import numpy as np

from memlm_keras.data.vocabulary import Vocabulary
from memlm_keras.files import atomic_path
from memlm_keras.files import read_json
from memlm_keras.files import reading

_FORMAT_VERSION = 2
_SUMS = "checksums.json"
_TRIES = 3
_TOKENS_BEFORE_PROGRESS = 1_000_000
_TOKENS_PER_UPDATE = 100_000


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
    """One part of a corpus: its token ids and where its documents begin.

    Args:
        tokens: 1-D int32 array or memory map, the ids of all tokens, the ends
            of sentences among them.
        document_starts: 1-D int64 array of offsets into `tokens`, the first
            of them 0; or `None` for a text without documents.

    Example:

    >>> split = Split(np.array([5, 3, 0, 4, 0], "int32"), np.array([0, 3]))
    >>> len(split)
    5
    """

    tokens: np.ndarray
    document_starts: np.ndarray | None = None

    def __len__(self):
        return len(self.tokens)


def stored_split(source, vocabulary, cache_dir, name):
    """Opens the encoded text of `source`, encoding it if need be.

    The folder `tokens/<name>-<fingerprint>` of the cache is named after all
    that it depends on (files, their sizes and times, vocabulary, options),
    so a change to any of them makes a new one. A folder that was damaged since
    is made anew, with a warning.

    Args:
        source: `TextSource` to encode.
        vocabulary: `Vocabulary` that gives the ids.
        cache_dir: Folder of the cache.
        name: First part of the folder's name, for a human reader.

    Returns:
        `Split` whose tokens are memory-mapped.

    Raises:
        ValueError: The text is not UTF-8, has no tokens, or no line begins
            a document though a title pattern was given.
        OSError: The cache cannot be written.
    """
    key = _fingerprint(source.identity(), vocabulary.get_config())

    def make(folder):
        _write(source, vocabulary, folder)

    def read(folder):
        tokens = np.load(folder / "tokens.npy", mmap_mode="r")
        starts = None
        if source.has_documents:
            starts = np.load(folder / "document_starts.npy")
        return Split(tokens, starts)

    return _stored(cache_dir, "tokens", f"{name}-{key}", make, read)


def stored_vocabulary(source, cache_dir, name, **options):
    """Builds the vocabulary of `source` once, and reads it from then on.

    Args:
        source: `TextSource` to count.
        cache_dir: Folder of the cache.
        name: First part of the file's name, for a human reader.
        **options: Arguments of `Vocabulary.build`.

    Returns:
        `Vocabulary`.

    Raises:
        ValueError: The text is not UTF-8.
        OSError: The cache cannot be written.
    """
    key = _fingerprint(source.identity(), options)

    def make(folder):
        lines = (line for line, _ in source.sentences())
        Vocabulary.build(lines, **options).save(folder / "vocabulary.json")

    def read(folder):
        return Vocabulary.from_file(folder / "vocabulary.json")

    return _stored(cache_dir, "vocabularies", f"{name}-{key}", make, read)


def stored_document_lengths(source, tokenizer, cache_dir, name):
    """Counts the tokens of each document once, and reads them from then on.

    Args:
        source: `TextSource` with documents.
        tokenizer: `Tokenizer`, or what has its `tokenize` and `get_config`.
        cache_dir: Folder of the cache.
        name: First part of the file's name, for a human reader.

    Returns:
        1-D int64 array, the tokens of each document, ends of sentences counted.

    Raises:
        ValueError: The text is not UTF-8, has no tokens, or no line begins
            a document.
        OSError: The cache cannot be written.
    """
    key = _fingerprint(source.identity(), tokenizer)

    def make(folder):
        np.save(folder / "lengths.npy", _count_documents(source, tokenizer))

    def read(folder):
        return np.load(folder / "lengths.npy")

    return _stored(cache_dir, "documents", f"{name}-{key}", make, read)


# === The cache ===


def _stored(cache_dir, kind, name, make, read):
    """Reads a folder of the cache, which is made if need be.

    A damaged one is made anew, with a warning. Processes that want the same one
    at once each make it, and each replaces it whole.

    Args:
        cache_dir: Folder of the cache.
        kind: Folder in there.
        name: Folder in that one.
        make: Function that writes the files into a folder given.
        read: Function that reads them from the folder given.
    """
    folder = pathlib.Path(cache_dir) / kind / name
    for _ in range(_TRIES):
        try:
            _check_sums(folder)
            return read(folder)
        except FileNotFoundError:
            # Never made, or just being replaced by another process.
            pass
        except ValueError as error:
            warnings.warn(str(error), stacklevel=3)
        with atomic_path(folder) as temporary:
            temporary.mkdir()
            make(temporary)
            sums = {file.name: _sum(file) for file in temporary.iterdir()}
            (temporary / _SUMS).write_text(json.dumps(sums))
    _check_sums(folder)
    return read(folder)


def _check_sums(folder):
    remedy = "It is made anew."
    sums = read_json(folder / _SUMS, "cache", remedy)
    with reading(folder, "cache", remedy):
        for name, expected in sums.items():
            if _sum(folder / name) != expected:
                raise ValueError(f"the checksum of {name} is wrong")


def _sum(file):
    """CRC-32 of a file, at the speed of reading it."""
    sum_ = 0
    with open(file, "rb") as opened:
        while chunk := opened.read(1 << 20):
            sum_ = zlib.crc32(chunk, sum_)
    return sum_


def _fingerprint(*parts):
    text = json.dumps(
        [_FORMAT_VERSION, *parts],
        sort_keys=True,
        default=lambda value: value.get_config(),
    )
    return hashlib.sha256(text.encode()).hexdigest()


def _write(source, vocabulary, folder):
    with open(folder / "tokens.npy", "wb") as file:
        _write_header(file, 0)
        count, starts = _append_tokens(source, vocabulary, file)
        # NumPy pads the header so that a longer length fits in its place.
        file.seek(0)
        _write_header(file, count)
    _check(source, count, starts)
    if source.has_documents:
        # What stands before the first title belongs to the first document.
        starts[0] = 0
        np.save(folder / "document_starts.npy", np.array(starts, np.int64))


def _check(source, count, starts):
    if not count:
        raise ValueError(
            f"{source.path} is empty: expected at least one line of text."
        )
    if source.has_documents and not starts:
        raise ValueError(
            f"No line of {source.path} begins a document. Received: "
            f"document_start={source.document_start!r}. Give a pattern that "
            "matches the title lines, or None for a text without documents."
        )


def _count_documents(source, tokenizer):
    count, starts = 0, []
    for line, begins_document in source.sentences():
        if begins_document:
            starts.append(count)
        count += len(tokenizer.tokenize(line)) + 1
    _check(source, count, starts)
    # As in `_write`, the first document begins with the text.
    return np.diff([0, *starts[1:], count])


def _write_header(file, length):
    header = {"descr": "<i4", "fortran_order": False, "shape": (length,)}
    np.lib.format.write_array_header_1_0(file, header)


def _append_tokens(source, vocabulary, file):
    count, starts = 0, []
    progress = keras.utils.Progbar(None, unit_name="token")
    next_update = _TOKENS_BEFORE_PROGRESS
    for line, begins_document in source.sentences():
        if begins_document:
            starts.append(count)
        ids = vocabulary.encode_sentence(line)
        file.write(ids.astype("<i4").tobytes())
        count += len(ids)
        if count >= next_update:
            progress.update(count)
            next_update = count + _TOKENS_PER_UPDATE
    if count >= _TOKENS_BEFORE_PROGRESS:
        progress.update(count, finalize=True)
    return count, starts
