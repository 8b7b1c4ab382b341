"""Encoded text on disk, so that a corpus need not fit in memory."""

import dataclasses
import hashlib
import json
import pathlib

import keras
import numpy as np

from memlm_keras.data.vocabulary import Vocabulary
from memlm_keras.files import atomic_path

_FORMAT_VERSION = 1
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
    so a change to any of them makes a new one.

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
    folder = pathlib.Path(cache_dir) / "tokens" / f"{name}-{key}"
    try:
        return _open(folder, source.has_documents)
    except (OSError, ValueError, EOFError):
        # Never made, or damaged since: both are cured by making it.
        with atomic_path(folder) as temporary:
            temporary.mkdir()
            _write(source, vocabulary, temporary)
    return _open(folder, source.has_documents)


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
    file = pathlib.Path(cache_dir) / "vocabularies" / f"{name}-{key}.json"
    try:
        return Vocabulary.from_file(file)
    except (OSError, ValueError):
        lines = (tokens for tokens, _ in source.sentences())
        vocabulary = Vocabulary.build(lines, **options)
        vocabulary.save(file)
        return vocabulary


def stored_document_lengths(source, cache_dir, name):
    """Counts the tokens of each document once, and reads them from then on.

    Args:
        source: `TextSource` with documents.
        cache_dir: Folder of the cache.
        name: First part of the file's name, for a human reader.

    Returns:
        1-D int64 array, the tokens of each document, ends of sentences counted.

    Raises:
        ValueError: The text is not UTF-8, has no tokens, or no line begins
            a document.
        OSError: The cache cannot be written.
    """
    key = _fingerprint(source.identity())
    file = pathlib.Path(cache_dir) / "documents" / f"{name}-{key}.npy"
    try:
        return np.load(file)
    except (OSError, ValueError, EOFError):
        # Never made, or damaged since: both are cured by making it.
        lengths = _count_documents(source)
        with atomic_path(file) as temporary:
            np.save(temporary, lengths)
        return lengths


def _fingerprint(*parts):
    text = json.dumps([_FORMAT_VERSION, *parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _open(folder, has_documents):
    return Split(
        np.load(folder / "tokens.npy", mmap_mode="r"),
        np.load(folder / "document_starts.npy") if has_documents else None,
    )


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


def _count_documents(source):
    count, starts = 0, []
    for tokens, begins_document in source.sentences():
        if begins_document:
            starts.append(count)
        count += len(tokens) + 1
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
    for tokens, begins_document in source.sentences():
        if begins_document:
            starts.append(count)
        ids = vocabulary.encode([*tokens, vocabulary.end_of_sentence])
        file.write(ids.astype("<i4").tobytes())
        count += len(ids)
        if count >= next_update:
            progress.update(count)
            next_update = count + _TOKENS_PER_UPDATE
    if count >= _TOKENS_BEFORE_PROGRESS:
        progress.update(count, finalize=True)
    return count, starts
