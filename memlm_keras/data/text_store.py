"""Text files, read line by line, and their tokens in a cache on disk."""

import dataclasses
import hashlib
import itertools
import json
import pathlib
import re
import warnings
import zlib

import keras
import numpy as np

from memlm_keras.data.tokenizer import split_sentences
from memlm_keras.data.tokenizer import splitter_version
from memlm_keras.files import atomic_path
from memlm_keras.files import read_json
from memlm_keras.files import reading

_FORMAT_VERSION = 3
_SUMS = "checksums.json"
_TRIES = 3
_TOKENS_BEFORE_PROGRESS = 1_000_000
_TOKENS_PER_UPDATE = 100_000


class TextSource:
    """The lines of a text file, or of a folder of documents.

    Args:
        path: Path of a file, or of a folder in which every `.txt` file is
            one document (in the order of their names). UTF-8.
        keep_blank_lines: Whether a blank line counts as an empty sentence;
            otherwise it is passed over.
        document_start: `None`, or a regular expression; a line begins a
            document if it matches from its first character on (`re.match`;
            the line end is not part of the line).
        lone_titles: Whether a line must also stand between two blank lines
            to begin a document.
        drop_titles: Whether the lines that `document_start` matches are no
            text themselves; the document then begins with the line after.
        by_sentence: Whether lines, of tokens with white space between them,
            are split into sentences, of which a blank line has none, by
            `syntok`.

    Raises:
        FileNotFoundError: There is no such file, or no `.txt` file in the
            folder.
        ValueError: `document_start` is not one of the above, or `by_sentence`
            is given with `keep_blank_lines`.
        ImportError: Sentences need `syntok`, which is not installed.

    Example:

    >>> source = TextSource("train.txt")
    >>> next(source.sentences())
    ("no it was n't", False)
    """

    def __init__(
        self,
        path,
        keep_blank_lines=False,
        document_start=None,
        lone_titles=False,
        drop_titles=False,
        by_sentence=False,
    ):
        if by_sentence and keep_blank_lines:
            raise ValueError(
                "`by_sentence=True` needs `keep_blank_lines=False`: a blank "
                "line is no sentence. Received: keep_blank_lines=True"
            )
        self.path = pathlib.Path(path)
        self.files = _list_files(self.path)
        self.keep_blank_lines = keep_blank_lines
        self.document_start = document_start
        self.lone_titles = lone_titles
        self.drop_titles = drop_titles
        self.by_sentence = by_sentence
        # Its lack is told before all else.
        self._splitter = splitter_version() if by_sentence else None
        self._pattern = _compile(document_start)

    @property
    def has_documents(self):
        return self.path.is_dir() or self.document_start is not None

    def identity(self):
        """Describes files and options: equal as long as the text is."""
        return {
            "files": files_identity(self.files),
            "keep_blank_lines": self.keep_blank_lines,
            "document_start": self.document_start,
            "lone_titles": self.lone_titles,
            "drop_titles": self.drop_titles,
            **({"splitter": self._splitter} if self.by_sentence else {}),
        }

    def sentences(self):
        """Reads the text once, holding a few lines of it in memory.

        Yields:
            For each line, the line, which is for a vocabulary to tokenize, or
            for each sentence its list of tokens; and whether a document begins
            with it.

        Raises:
            ValueError: A file is not UTF-8.
        """
        marked = self._marked_lines()
        return _sentences(marked) if self.by_sentence else marked

    def _marked_lines(self):
        for file in self.files:
            begins = self.path.is_dir()
            for previous, line, following in _with_neighbours(read_lines(file)):
                if not (self.keep_blank_lines or line.strip()):
                    continue
                if self._is_title(previous, line, following):
                    begins = True
                    if self.drop_titles:
                        continue
                yield line, begins
                begins = False

    def _is_title(self, previous, line, following):
        if self._pattern is None or not self._pattern.match(line):
            return False
        return not (
            self.lone_titles and (previous.strip() or following.strip())
        )


class TextPart:
    """Some documents of a text, as `TextSource` gives a whole text.

    Args:
        source: `TextSource`.
        units: 1-D integer array, indices of the documents to keep or, in a text
            without documents, of the lines that are not blank.

    Example:

    >>> source = TextSource("documents.txt", document_start="= ")
    >>> next(TextPart(source, [1]).sentences())
    ('= York =', True)
    """

    def __init__(self, source, units):
        self.source = source
        self.path = source.path
        self.has_documents = source.has_documents
        self.document_start = source.document_start
        self.units = np.asarray(units, np.int64)

    def identity(self):
        """Describes text and selection: equal as long as both are."""
        digest = hashlib.sha256(self.units.astype("<i8").tobytes())
        return {**self.source.identity(), "units": digest.hexdigest()}

    def sentences(self):
        """Reads the text once, as `TextSource.sentences`."""
        kept = np.zeros(self.units.max(initial=0) + 1, bool)
        kept[self.units] = True
        unit = -1
        for line, begins in self.source.sentences():
            unit += begins or not self.has_documents
            # Lines before the first title belong to the first document.
            if max(unit, 0) < len(kept) and kept[max(unit, 0)]:
                yield line, begins


def _sentences(lines):
    """Splits lines as of `TextSource.sentences` into sentences."""
    for line, begins in lines:
        for sentence in split_sentences(line.split()):
            yield sentence, begins
            begins = False


def files_identity(files):
    """Describes files, for JSON: equal as long as they are not written to.

    Args:
        files: Iterable of `pathlib.Path`.

    Returns:
        List of `[absolute path, size, time of last change]`.
    """
    stats = [(file.resolve(), file.stat()) for file in files]
    return [[str(file), stat.st_size, stat.st_mtime_ns] for file, stat in stats]


def read_lines(path):
    """Yields the lines of a UTF-8 file, without their line ends.

    Only a line feed, or carriage return and line feed, ends a line: other
    characters that Python takes for line ends occur within real sentences. In a
    file without any line feed, as old Macs wrote them, a carriage return does.

    Args:
        path: Path of the file.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is not UTF-8.
    """
    offset = 0
    with open(path, "rb") as file:
        for line in file:
            text = _decode(line, path, offset)
            if offset or line.endswith(b"\n"):
                yield text.rstrip("\r\n")
            else:
                yield from text.removesuffix("\r").split("\r")
            offset += len(line)


def read_text(path):
    """Reads a small UTF-8 file whole; raises as `read_lines` does."""
    return _decode(pathlib.Path(path).read_bytes(), path, 0)


def _decode(data, path, offset):
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"The file {path} is not UTF-8 text: byte "
            f"0x{data[error.start]:02x} at byte offset "
            f"{offset + error.start} ({error.reason}). Convert it to UTF-8."
        ) from error
    # Some editors begin a file with a byte order mark, which is no text.
    return text if offset else text.removeprefix("\ufeff")


def _with_neighbours(lines):
    """Yields (previous, line, following), empty where there is none."""
    before, at, after = itertools.tee(lines, 3)
    next(after, None)
    return zip(itertools.chain([""], before), at, itertools.chain(after, [""]))


def _list_files(path):
    if path.is_file():
        return (path,)
    if not path.is_dir():
        raise FileNotFoundError(
            f"There is no file or folder {path}. Expected a text file, or a "
            "folder of .txt files with one document each."
        )
    files = tuple(sorted(path.glob("*.txt")))
    if not files:
        raise FileNotFoundError(
            f"The folder {path} holds no .txt file. Expected one per document."
        )
    return files


def _compile(document_start):
    if document_start is None:
        return None
    try:
        return re.compile(document_start)
    except (re.error, TypeError) as error:
        raise ValueError(
            "`document_start` must be a regular expression, as a string. "
            f"Received: document_start={document_start!r} ({error})"
        ) from error


# === Encoded text on disk ===


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
    key = fingerprint(source.identity(), vocabulary.get_config())

    def make(folder):
        _write(source, vocabulary, folder)

    def read(folder):
        tokens = np.load(folder / "tokens.npy", mmap_mode="r")
        starts = None
        if source.has_documents:
            starts = np.load(folder / "document_starts.npy")
        return Split(tokens, starts)

    return stored(cache_dir, "tokens", f"{name}-{key}", make, read)


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
    key = fingerprint(source.identity(), tokenizer)

    def make(folder):
        np.save(folder / "lengths.npy", _count_documents(source, tokenizer))

    def read(folder):
        return np.load(folder / "lengths.npy")

    return stored(cache_dir, "documents", f"{name}-{key}", make, read)


# === The cache ===


def stored(cache_dir, kind, name, make, read):
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


def fingerprint(*parts):
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
