"""Reads treebanks in CoNLL-U, the format of Universal Dependencies."""

import dataclasses
import itertools
import pathlib
import re

import numpy as np

from memlm_keras.data.corpus import SPLITS
from memlm_keras.data.corpus import encode_sources
from memlm_keras.data.corpus import name_of
from memlm_keras.data.text_store import FileSource
from memlm_keras.data.text_store import read_lines

_COLUMNS = 10
# Ids of multiword tokens (`3-4`) and empty nodes (`5.1`).
_SKIPPED = re.compile(r"\d+(-\d+|\.\d+)")
_FORM, _HEAD, _RELATION = 1, 6, 7


def load_conllu(
    train,
    validation,
    test,
    *,
    vocabulary=None,
    vocabulary_size=None,
    minimum_count=None,
    numbers=None,
    cache_dir=None,
):
    """Loads a corpus from CoNLL-U files, such as a treebank.

    A sentence is read as its word forms and an end-of-sentence token. The
    words are the nodes of the tree: multiword tokens are split into their parts
    (Italian `del` into `di` and `il`), and empty nodes are skipped.

    Args:
        train, validation, test: Path of a UTF-8 file, or list of such paths.
        vocabulary, vocabulary_size, minimum_count, numbers, cache_dir: See
            `memlm_keras.data.load_text`.

    Returns:
        `Corpus`.

    Raises:
        FileNotFoundError: A file does not exist.
        ValueError: A file is not UTF-8 or not CoNLL-U, a text has no sentence,
            or `vocabulary` is combined with arguments that build one.
        OSError: The cache cannot be written.

    Example:

    >>> corpus = load_conllu(
    ...     "de_gsd-ud-train.conllu",
    ...     "de_gsd-ud-dev.conllu",
    ...     "de_gsd-ud-test.conllu",
    ...     minimum_count=6,
    ... )
    """
    sources = {}
    for split, paths in zip(SPLITS, (train, validation, test)):
        if isinstance(paths, (str, pathlib.Path)):
            paths = [paths]
        files = [pathlib.Path(path) for path in paths]
        if not files:
            raise ValueError(
                f"`{split}` must have at least one CoNLL-U file. Received: []"
            )
        for file in files:
            if not file.is_file():
                raise FileNotFoundError(f"There is no CoNLL-U file {file}.")
        sources[split] = FileSource("conllu", files, _words)
    return encode_sources(
        name_of(sources["train"].path).partition("-ud-")[0],
        sources,
        cache_dir,
        vocabulary,
        vocabulary_size,
        minimum_count,
        numbers=numbers,
    )


def _words(path):
    """Yields `(words, False)` per sentence: no sentence begins a document."""
    for rows in _sentence_rows(path):
        yield [columns[_FORM] for _, columns in rows], False


# === Parses ===


@dataclasses.dataclass(frozen=True, eq=False)
class ParsedSentence:
    """A sentence with its dependency tree.

    Attributes:
        words: Tuple of strings, the word forms.
        heads: Integer array `(words,)`, index of the head of each word; -1 for
            the root.
        relations: Tuple of strings, types of dependencies, such as `"nsubj"`.
    """

    words: tuple
    heads: np.ndarray
    relations: tuple


def read_conllu(path):
    """Reads a list of `ParsedSentence`s from a UTF-8 CoNLL-U file.

    Comments, ranges of multiword tokens (`3-4`) and empty nodes (`5.1`) are
    skipped, because they are not nodes of the tree.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is not UTF-8 or has no sentence, a line is not
            CoNLL-U, or heads do not form a tree; the message names the line.

    Example:

    >>> sentences = memlm_keras.analysis.read_conllu("de_gsd-ud-dev.conllu")
    >>> sentences[0].words[:3], sentences[0].heads[:3]
    (('Manasse', 'ist', 'ein'), array([4, 4, 4]))
    """
    sentences = [_sentence(rows, path) for rows in _sentence_rows(path)]
    if not sentences:
        raise ValueError(
            f"{path} holds no sentence. Expected lines with {_COLUMNS} columns "
            "separated by tabs."
        )
    return sentences


# === Lines ===


def _sentence_rows(path):
    """Yields a list per sentence: `(line number, columns)` of each word."""
    rows = []
    lines = itertools.chain(read_lines(path), [""])
    for number, line in enumerate(lines, start=1):
        if not line.strip() and rows:
            yield rows
            rows = []
        if not line.strip() or line.startswith("#"):
            continue
        where, columns = f"{path}, line {number}", line.split("\t")
        if len(columns) != _COLUMNS:
            raise ValueError(
                f"{where}: a line must have {_COLUMNS} columns with tabs "
                f"between them. Received: {len(columns)} in "
                f"{columns[0][:60]!r}"
            )
        if _SKIPPED.fullmatch(columns[0]):
            continue
        if columns[0] != str(len(rows) + 1):
            raise ValueError(
                f"{where}: the words of a sentence must be numbered from 1. "
                f"Expected {len(rows) + 1}. Received: {columns[0]!r}"
            )
        if not columns[_FORM].strip():
            raise ValueError(
                f"{where}: column {_FORM + 1} must hold the word as it is "
                f"written. Received: {columns[_FORM]!r}"
            )
        rows.append((number, columns))


def _sentence(rows, path):
    for number, columns in rows:
        head, relation = columns[_HEAD], columns[_RELATION]
        if not relation or relation == "_":
            raise ValueError(
                f"{path}, line {number}: column {_RELATION + 1} must name a "
                f"dependency relation, such as 'nsubj'. Received: {relation!r}"
            )
        if not re.fullmatch(r"[0-9]+", head):
            raise ValueError(
                f"{path}, line {number}: the head must be the number of a "
                f"word, or 0 for the root. Received: {head!r}"
            )
    words, heads, relations = (
        tuple(columns[at] for _, columns in rows)
        for at in (_FORM, _HEAD, _RELATION)
    )
    heads = [int(head) for head in heads]
    where = f"{path}, line {rows[0][0]}"
    if max(heads) > len(words):
        raise ValueError(
            f"{where}: the heads of this sentence must be from 0 to "
            f"{len(words)}, the number of its words. Received: {max(heads)}"
        )
    # Following the heads from any word must lead to the root, index 0.
    reached = np.array([0, *heads])
    for _ in range(len(words).bit_length()):
        reached = reached[reached]
    if reached.any():
        raise ValueError(
            f"{where}: the heads of this sentence must form a tree. Received: "
            f"a cycle at the word {int(np.flatnonzero(reached)[0])}"
        )
    return ParsedSentence(words, np.array(heads) - 1, relations)
