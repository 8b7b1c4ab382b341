"""Reads text files line by line, and caches their tokens on disk."""

import collections
import dataclasses
import functools
import hashlib
import importlib.metadata
import itertools
import json
import pathlib
import re
import warnings
import zlib
from typing import NamedTuple

import numpy as np

from memlm_keras.files import atomic_path
from memlm_keras.files import import_package
from memlm_keras.files import read_json
from memlm_keras.files import reading

_FORMAT_VERSION = 5
_SUMS = "checksums.json"
_TRIES = 3
# Maximum number of bytes in a line; a longer line raises an error.
_LONGEST_LINE = 2**26
# Texts of at least `_LEAST_PROGRESS` bytes get a progress bar. The bar appears
# after `_BEFORE_PROGRESS` bytes, since some callers read only the first lines.
_LEAST_PROGRESS, _BEFORE_PROGRESS = 20_000_000, 10_000_000
# `notes` reports unknown characters only above this share of a text.
_LEAST_SHARE = 0.001
_EXAMPLES = 5
_MARKS = re.compile(
    r"^(\s*<(s|bos|sos)>(?!\S))+|((?<!\S)<(/s|eos)>\s*)+$", re.IGNORECASE
)


# === Boundary marks and unknown characters ===


def unmarked(line):
    """Removes the boundary marks that some programs write: `<s>` at the
    beginning of a line, and `</s>` or `<eos>` at its end."""
    return _MARKS.sub("", line) if "<" in line else line


class EnteredText:
    """Removes boundary marks, such as `<s>`, from lines. Counts the lines with
    boundary marks, and the characters that no token of the vocabulary has."""

    def __init__(self, vocabulary):
        self.vocabulary = vocabulary
        self.marked = self.characters = 0
        self.unseen = collections.Counter()

    def line(self, text):
        """Returns a line without boundary marks. Raises `ValueError` for lone
        surrogates, which stand for bytes that are not UTF-8."""
        if re.search("[\ud800-\udfff]", text):
            raise ValueError(f"{text!r} is not UTF-8. Convert it to UTF-8.")
        bare = unmarked(text)
        self.marked += bare != text
        self.characters += sum(map(len, bare.split()))
        self.unseen.update(self.vocabulary.unseen_characters(bare))
        return bare

    def notes(self):
        """Yields messages about boundary marks and about unseen characters."""
        if self.marked:
            yield (
                "Lines that begin with <s> or end with </s> or <eos>: "
                f"{self.marked:,}. These marks are left out, as each line is a "
                "sentence."
            )
        number = self.unseen.total()
        if number > _LEAST_SHARE * self.characters:
            unit = getattr(self.vocabulary, "unit", "words").removesuffix("s")
            examples = ", ".join(
                f"{character!r} ({count})"
                for character, count in self.unseen.most_common(_EXAMPLES)
            )
            yield (
                f"{number:,} of {self.characters:,} characters are in no "
                f"{unit} of the vocabulary: {examples}. If the training text "
                "writes them in another way, do the same."
            )


# === Sources ===

# A source has the attributes `path` and `has_documents`. `identity()` returns
# JSON values that differ between different texts. `sentences()` yields pairs: a
# line (a string or a list of tokens), and whether the line begins a document.


@dataclasses.dataclass(eq=False)
class TextSource:
    """The lines of a UTF-8 file, or of a folder with one `.txt` file per
    document. A line that matches `document_start` begins a document."""

    path: pathlib.Path
    keep_blank_lines: bool = False
    document_start: str | None = None
    lone_titles: bool = False
    drop_titles: bool = False
    by_sentence: bool = False

    def __post_init__(self):
        self.path, start = pathlib.Path(self.path), self.document_start
        self.files = _list_files(self.path)
        self.has_documents = self.path.is_dir() or start is not None
        # Fail early if syntok is not installed.
        self._splitter = splitter_version() if self.by_sentence else None
        try:
            # "(?!)" never matches.
            self._pattern = re.compile("(?!)" if start is None else start)
        except (re.error, TypeError) as error:
            raise ValueError(
                "`document_start` must be a regular expression, as a string. "
                f"Received: document_start={start!r} ({error})"
            ) from error

    def identity(self):
        return {
            "files": files_identity(self.files),
            "keep_blank_lines": self.keep_blank_lines,
            "document_start": self.document_start,
            "lone_titles": self.lone_titles,
            "drop_titles": self.drop_titles,
            **({"splitter": self._splitter} if self.by_sentence else {}),
        }

    def sentences(self):
        for line, begins in self._lines():
            parts = [line]
            if self.by_sentence:
                parts = split_sentences(line.split())
            for part in parts:
                yield part, begins
                begins = False

    def documents(self):
        """Yields each document as a list of sentences."""
        document, begun = [], 0
        for sentence, begins in self.sentences():
            begun += begins
            # Lines before the first title belong to the first document.
            if begins and begun > 1:
                yield document
                document = []
            document.append(sentence)
        _check(self, 1, begun)
        yield document

    def _lines(self):
        advance = _progress(self.path.name, self.files)
        for file in self.files:
            begins = self.path.is_dir()
            before, at, after = itertools.tee(read_lines(file, advance), 3)
            next(after, None)
            for previous, line, following in zip(
                itertools.chain([""], before), at, itertools.chain(after, [""])
            ):
                if not (self.keep_blank_lines or unmarked(line).strip()):
                    continue
                title = self._pattern.match(line)
                if title and self.lone_titles:
                    title = not (previous.strip() or following.strip())
                begins = begins or bool(title)
                if title and self.drop_titles:
                    continue
                yield line, begins
                begins = False


class TextPart:
    """Part of a source: the documents with the indices `units`. If the source
    has no documents, `units` are the indices of lines that are not blank."""

    def __init__(self, source, units):
        self.source = source
        self.path = source.path
        self.has_documents = source.has_documents
        self.document_start = source.document_start
        self.units = np.asarray(units, np.int64)

    def identity(self):
        digest = hashlib.sha256(self.units.astype("<i8").tobytes())
        return {**self.source.identity(), "units": digest.hexdigest()}

    def sentences(self):
        kept = np.zeros(self.units.max(initial=0) + 1, bool)
        kept[self.units] = True
        unit = -1
        for line, begins in self.source.sentences():
            unit += begins or not self.has_documents
            # Lines before the first title belong to the first document.
            if max(unit, 0) < len(kept) and kept[max(unit, 0)]:
                yield line, begins


class FileSource:
    """A source with the sentences that the function `read` yields per file."""

    def __init__(self, kind, files, read, has_documents=False):
        self.kind = kind
        self.files = files
        self.path = files[0]
        self.has_documents = has_documents
        self._read = read

    def identity(self):
        return {self.kind: files_identity(self.files)}

    def sentences(self):
        for file in self.files:
            yield from self._read(file)


def files_identity(files):
    """Returns a list `[path, size, modification time]` for each file."""
    stats = [(file.resolve(), file.stat()) for file in files]
    return [[str(file), stat.st_size, stat.st_mtime_ns] for file, stat in stats]


def read_documents(paths, document_start=None, part=1, parts=1):
    """Iterates over documents as pairs `(name, lines)`; `paths` are files and
    folders of `.txt` files. Reads only part number `part`, from 1, of `parts`
    equal parts. With `document_start`, a file may have many documents."""
    sources = [
        TextSource(file, document_start=document_start)
        for path in paths
        for file in TextSource(path).files
    ]
    counts = [1] * len(sources)
    if document_start is not None:
        counts = [sum(1 for _ in source.documents()) for source in sources]
    places = [
        (place, number)
        for place, count in enumerate(counts)
        for number in range(count)
    ]
    if parts > len(places):
        raise ValueError(
            f"{len(places)} documents cannot be divided into {parts} parts: "
            "each part needs a document."
        )
    bounds = [len(places) * each // parts for each in (part - 1, part)]
    chosen = set(places[slice(*bounds)])
    return _chosen_documents(sources, chosen, document_start is not None)


def _chosen_documents(sources, chosen, numbered):
    for place in sorted({place for place, _ in chosen}):
        source = sources[place]
        for number, lines in enumerate(source.documents()):
            if (place, number) in chosen:
                yield f"{source.path}{f':{number + 1}' * numbered}", lines


def _progress(name, files):
    """Returns a callback that counts bytes; large files get a progress bar."""
    size = sum(file.stat().st_size for file in files)
    if size < _LEAST_PROGRESS:
        return lambda count: None
    from keras.utils import Progbar

    total, unit, read, bar = -(-size // 2**20), 2**20, 0, None

    def advance(count):
        nonlocal read, bar
        before, read = read // unit, read + count
        if (read // unit > before and read > _BEFORE_PROGRESS) or read == size:
            if bar is None:
                print(f"Reading {name}:")
                bar = Progbar(total, unit_name="MiB")
            bar.update(total if read == size else read // unit)

    return advance


def read_lines(path, advance=lambda count: None):
    """Yields the lines of a UTF-8 file, without line ends. For each line, calls
    `advance` with the number of its bytes."""
    # Lines end with line feeds, or carriage returns if a file has no line feed.
    # Other characters at which `str.splitlines` splits may be in sentences.
    offset = 0
    with open(path, "rb") as file:
        read_line = functools.partial(file.readline, _LONGEST_LINE + 1)
        for line in iter(read_line, b""):
            if len(line) > _LONGEST_LINE:
                raise ValueError(
                    f"The file {path} has a line of more than "
                    f"{_LONGEST_LINE // 2**20} MiB at byte offset {offset}. "
                    "Divide it into lines, each a sentence or a paragraph."
                )
            text = _decode(line, path, offset)
            if offset or line.endswith(b"\n"):
                yield text.rstrip("\r\n")
            else:
                yield from text.removesuffix("\r").split("\r")
            offset += len(line)
            advance(len(line))


def read_text(path):
    """Returns the text of a UTF-8 file."""
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
    if (zero := data.find(0)) >= 0:
        raise ValueError(
            f"The file {path} is not text: it has a zero byte at byte offset "
            f"{offset + zero}."
        )
    # Some editors begin a file with a byte order mark.
    return text if offset else text.removeprefix("\ufeff")


def _list_files(path):
    if path.is_file():
        return (path,)
    if not path.is_dir():
        raise FileNotFoundError(
            f"There is no file or folder {path}. Expected a text file, or a "
            "folder of .txt files with one document each."
        )
    if not (files := tuple(sorted(path.glob("*.txt")))):
        raise FileNotFoundError(
            f"The folder {path} holds no .txt file. Expected one per document."
        )
    return files


# === Sentences by syntok ===


def load_syntok(module):
    """Imports a module of syntok; an error says how to install it."""
    return import_package(
        f"syntok.{module}",
        "Splitting into sentences, or questions without `tokenize=None`,",
        "syntok",
    )


def split_sentences(tokens):
    """Splits a list of tokens into sentences; yields lists of tokens. A full
    stop at the end of a sentence must be a token by itself."""
    segment = load_syntok("segmenter").segment
    token_of = load_syntok("tokenizer").Token
    seen, offset, quoting = [], 0, False
    for token in tokens:
        quotes = token == '"'
        # For syntok, a quotation mark after a space opens a quotation.
        space = "" if quotes and quoting else " "
        quoting ^= quotes
        value = "," if token == ";" else token
        seen.append(token_of(space, value, offset))
        offset += len(token) + 1
    begin = 0
    for sentence in segment(iter(seen)):
        yield tokens[begin : begin + len(sentence)]
        begin += len(sentence)


def splitter_version():
    """Returns the name and version of syntok, which splits sentences."""
    load_syntok("segmenter")
    return f"syntok {importlib.metadata.version('syntok')}"


# === Encoded text on disk ===


class TextCounts(NamedTuple):
    """Counts of words and characters in the text before it was encoded."""

    words: int  # separated by white space
    characters: int  # a space or line end is one
    unknown: dict  # from unknown tokens to counts
    marked: int = 0  # number of lines with boundary marks


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
    """One part of a corpus, such as the training text, as token ids.

    Args:
        tokens: 1-D int32 array or memory map of token ids, including
            end-of-sentence tokens.
        document_starts: 1-D int64 array of the positions in `tokens` at which
            documents begin, in ascending order from 0; or `None`.
        counts: `TextCounts` of the original text, which
            `memlm_keras.evaluation.text_bits` needs; or `None`.

    Example:

    >>> split = Split(np.array([5, 3, 0, 4, 0], "int32"), np.array([0, 3]))
    >>> len(split)
    5
    """

    tokens: np.ndarray
    document_starts: np.ndarray | None = None
    counts: TextCounts | None = None

    def __len__(self):
        return len(self.tokens)

    def longest_first(self):
        """Returns a `Split` with the longest documents first, so that rows of
        batches have similar lengths. Without documents, raises `ValueError`."""
        if self.document_starts is None:
            raise ValueError(
                "`longest_first` needs a split with `document_starts`. "
                "Received: document_starts=None"
            )
        documents = np.split(self.tokens, self.document_starts[1:])
        documents.sort(key=len, reverse=True)
        starts = np.cumsum([0, *map(len, documents[:-1])])
        return Split(np.concatenate(documents), starts)


def stored_split(source, vocabulary, cache_dir, name):
    """Returns a memory-mapped `Split`, encoded now or from the cache."""
    key = fingerprint(source.identity(), vocabulary.get_config())

    def read(folder):
        tokens = np.load(folder / "tokens.npy", mmap_mode="r")
        starts = None
        if source.has_documents:
            starts = np.load(folder / "document_starts.npy")
        counts = json.loads((folder / "counts.json").read_text("utf-8"))
        return Split(tokens, starts, TextCounts(**counts))

    make = functools.partial(_write, source, vocabulary)
    return stored(cache_dir, "tokens", f"{name}-{key}", make, read)


def _write(source, vocabulary, folder):
    count, starts = 0, []
    words, characters, marked, unknown = 0, 0, 0, collections.Counter()
    tokenizer, unknown_id = vocabulary.tokenizer, vocabulary.unknown_id
    end_id = vocabulary.end_of_sentence_id
    header = {"descr": "<i4", "fortran_order": False, "shape": (0,)}
    with open(folder / "tokens.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for line, begins in source.sentences():
            if begins:
                starts.append(count)
            if isinstance(line, str):
                bare = unmarked(line)
                marked += bare != line
                line = bare
                parts, tokens = line.split(), tokenizer.tokenize(line)
            else:
                parts, tokens = line, tokenizer.normalize(line)
            words += len(parts)
            characters += sum(map(len, parts)) + max(len(parts), 1)
            ids = [vocabulary[token] for token in tokens]
            if unknown_id in ids:
                unknown.update(t for t in tokens if t not in vocabulary)
            file.write(np.array([*ids, end_id], "<i4").tobytes())
            count += len(ids) + 1
        # NumPy pads the header, so that a larger shape fits into its place.
        file.seek(0)
        header["shape"] = (count,)
        np.lib.format.write_array_header_1_0(file, header)
    _check(source, count, starts)
    counts = TextCounts(words, characters, unknown, marked)._asdict()
    (folder / "counts.json").write_text(
        json.dumps(counts, ensure_ascii=False), "utf-8"
    )
    if source.has_documents:
        # Lines before the first title belong to the first document.
        starts[0] = 0
        np.save(folder / "document_starts.npy", np.array(starts, np.int64))


def stored_document_lengths(source, tokenizer, cache_dir, name):
    """Returns the numbers of tokens of the documents, counted or cached."""
    key = fingerprint(source.identity(), tokenizer)

    def make(folder):
        count, starts = 0, []
        for line, begins in source.sentences():
            if begins:
                starts.append(count)
            count += len(tokenizer.tokenize(unmarked(line))) + 1
        _check(source, count, starts)
        # As in `_write`, the first document begins at offset 0.
        np.save(folder / "lengths.npy", np.diff([0, *starts[1:], count]))

    def read(folder):
        return np.load(folder / "lengths.npy")

    return stored(cache_dir, "documents", f"{name}-{key}", make, read)


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


# === The cache ===


def fingerprint(*parts):
    """Returns a hash of `parts`, which are JSON values or have `get_config`."""
    text = json.dumps(
        [_FORMAT_VERSION, *parts],
        sort_keys=True,
        default=lambda value: value.get_config(),
    )
    return hashlib.sha256(text.encode()).hexdigest()


def stored(cache_dir, kind, name, make, read):
    """Returns `read(folder)` for the cache folder `kind/name`. If the folder
    is missing or damaged, `make(folder)` writes it first. An intact folder is
    not written again, so `name` must identify the contents."""
    folder = pathlib.Path(cache_dir) / kind / name
    for _ in range(_TRIES):
        try:
            _check_sums(folder)
            return read(folder)
        except FileNotFoundError:
            pass  # The folder is missing, or another process replaces it.
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
    remedy = "It is written again."
    sums = read_json(folder / _SUMS, "cache", remedy)
    with reading(folder, "cache", remedy):
        for name, expected in sums.items():
            if _sum(folder / name) != expected:
                raise ValueError(f"the checksum of {name} is wrong")


def _sum(path):
    """Returns the CRC-32 of a file."""
    sum_ = 0
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            sum_ = zlib.crc32(chunk, sum_)
    return sum_
