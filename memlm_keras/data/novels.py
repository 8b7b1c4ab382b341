"""Novels of Project Gutenberg, prepared as text to train on."""

import codecs
import pathlib
import re
import warnings

import keras

from memlm_keras.data.tokenizer import load_syntok
from memlm_keras.data.tokenizer import sentences_of
from memlm_keras.data.tokenizer import word_splitter
from memlm_keras.files import atomic_path

_GUTENBERG = r"(THE |THIS )?(COPYRIGHTED )?PROJECT GUTENBERG"
_HEADER = re.compile(
    rf"\s*(\*{{3}} ?START OF {_GUTENBERG}|\*END ?\*? ?THE SMALL PRINT)", re.I
)
_FOOTER = re.compile(rf"\s*(\*{{3}} ?)?(THE )?END OF {_GUTENBERG}", re.I)
_MARKER_END = re.compile(r"(\*{3}|\*END\*)\s*$")


def prepare_novels(
    folder,
    output,
    lowercase=True,
    tokenize="syntok",
    encoding="cp1252",
    verbose=1,
):
    """Prepares novels of Project Gutenberg as text to train on.

    Each `.txt` file becomes one of the same name with a sentence a line, its
    tokens separated by spaces, so that `load_documents(output)` splits the
    novels into training, validation and testing and `load_text` reads such
    folders. Marker lines, if there are any, tell header and footer from the
    text. Lines without a letter or digit are no sentences. With
    `tokenize="syntok"` underscores, which mark italics, are removed, dashes
    are tokens, and quotes become straight, as with `completion_questions`.

    The questions of the challenge come from *The Sign of the Four*, *The Hound
    of the Baskervilles*, *The Adventures* and *The Memoirs of Sherlock Holmes*
    and *The Valley of Fear*: by its rules these must not be among the novels.

    Args:
        folder: Path of the folder with the novels.
        output: Path of the folder to make. It is made whole or not at all.
        lowercase: Whether to lower-case the text.
        tokenize: As for `completion_questions`; it is given a sentence.
        encoding: How to read a file that is not UTF-8.
        verbose: 0 or 1, whether to show a progress bar.

    Returns:
        Two integers, the sentences and the tokens that were written.

    Raises:
        FileNotFoundError: There is no `.txt` file in `folder`.
        FileExistsError: `output` exists.
        ValueError: Two files would get the same name, there is no such
            encoding, or a novel is not in it or has no sentence.
        ImportError: `syntok`, which splits sentences, is not installed.
        OSError: `output` cannot be written.

    Warns:
        UserWarning: Files lack one of the markers. They are read from the
            first line, or to the last.

    Example:

    >>> prepare_novels("Holmes_Training_Data", "novels")
    >>> corpus = memlm_keras.data.load_documents(
    ...     "novels", validation=0.01, test=0.01, vocabulary_size=64_000
    ... )
    """
    # Raises at once if syntok, which splits sentences, is not installed.
    load_syntok("segmenter")
    split = word_splitter(tokenize)
    case = str.lower if lowercase else str
    output = pathlib.Path(output)
    files = _novels(pathlib.Path(folder), output)
    _check_novels(files, encoding)
    sentences = tokens = 0
    progress = keras.utils.Progbar(
        len(files), verbose=verbose, unit_name="novel"
    )
    with atomic_path(output) as temporary:
        temporary.mkdir()
        for file in files:
            text, _ = _read_novel(file, encoding)
            lines = [split(case(sentence)) for sentence in sentences_of(text)]
            if not lines:
                raise ValueError(
                    f"The novel {file} holds no sentence, or none between its "
                    "markers. Correct it, or take it out of the folder."
                )
            written = "".join(f"{' '.join(line)}\n" for line in lines)
            path = temporary / f"{file.stem}.txt"
            path.write_bytes(written.encode())
            sentences += len(lines)
            tokens += sum(map(len, lines))
            progress.add(1)
    return sentences, tokens


def _novels(folder, output):
    if output.exists():
        raise FileExistsError(
            f"`output` must be a new folder. Received: {output}, which exists. "
            "Remove it, or choose another."
        )
    # The names of the challenge's own end with `.TXT`.
    files = sorted(
        path
        for path in folder.glob("*")
        if path.suffix.lower() == ".txt" and path.is_file()
    )
    if not files:
        raise FileNotFoundError(
            f"`folder` must be a folder of novels, .txt files. Received: "
            f"{folder}, which has none."
        )
    if len({path.stem for path in files}) < len(files):
        raise ValueError(
            f"`folder` must not hold two files that differ only in `.txt` and "
            f"`.TXT`. Received: {folder}. Rename one of them."
        )
    return files


def _check_novels(files, encoding):
    """Checks encoding and marker lines before any novel is written."""
    try:
        codecs.lookup(encoding)
    except LookupError as error:
        raise ValueError(
            "`encoding` must be one that Python knows. Received: "
            f"encoding={encoding!r}. Try 'cp1252' or 'latin-1'."
        ) from error
    unmarked = [
        file.name for file in files if not _read_novel(file, encoding)[1]
    ]
    if unmarked:
        warnings.warn(
            f"{len(unmarked)} of {len(files)} novels lack a marker line of "
            "Project Gutenberg, and are read from the first line, or to the "
            f"last: {', '.join(unmarked[:10])}",
            stacklevel=3,
        )


def _read_novel(file, encoding):
    """Returns what is between the markers, and whether both are there."""
    data = file.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"The novel {file} is neither UTF-8 nor {encoding}: byte "
                f"0x{data[error.start]:02x} at byte offset {error.start}. "
                "Give another `encoding`, such as 'latin-1'."
            ) from error
    lines = re.split("\r\n|\r|\n", text)
    # Some small print stands at the end: the last header before the footer.
    footers = (at for at, line in enumerate(lines) if _FOOTER.match(line))
    end = next(footers, None)
    headers = [at for at, line in enumerate(lines[:end]) if _HEADER.match(line)]
    begin = headers[-1] + 1 if headers else 0
    if headers:
        # A long title breaks a marker into lines, the last of them with stars.
        marker = lines[begin - 1 : begin + 3]
        ends = (
            at for at, line in enumerate(marker) if _MARKER_END.search(line)
        )
        begin += next(ends, 0)
    return "\n".join(lines[begin:end]), bool(headers) and end is not None
