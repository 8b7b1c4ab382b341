"""Reading text files line by line, with their documents."""

import hashlib
import itertools
import pathlib
import re

import numpy as np

from memlm_keras.data.segmentation import split_sentences
from memlm_keras.data.segmentation import splitter_version


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
    characters that Python takes for line ends occur within real sentences.

    Args:
        path: Path of the file.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is not UTF-8.
    """
    offset = 0
    with open(path, "rb") as file:
        for line in file:
            yield _decode(line, path, offset).rstrip("\r\n")
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
