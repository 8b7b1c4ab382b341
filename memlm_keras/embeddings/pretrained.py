"""Pretrained word vectors, such as GloVe's."""

import contextlib
import io
import os
import pathlib
import zipfile
from typing import NamedTuple

import keras
import numpy as np

from memlm_keras.files import reading


class WordVectors(NamedTuple):
    """Vectors of the words of a vocabulary.

    Attributes:
        values: float32 array `(V, dimension)`, zeros for missing words.
        found: boolean array `(V,)`, the words that have vectors.
    """

    values: np.ndarray
    found: np.ndarray

    def assign_to(self, embedding):
        """Assigns the vectors to an embedding; missing words keep their own.

        Args:
            embedding: `memlm_keras.embeddings.Embedding`, or Keras layer with
                a weight `embeddings` `(V, dimension)`.

        Raises:
            ValueError: if the embedding is of another shape.
        """
        shape = tuple(embedding.embeddings.shape)
        if shape != self.values.shape:
            raise ValueError(
                f"`embedding` must be of shape {self.values.shape}, as the "
                f"vectors are. Received: {shape}"
            )
        table = np.array(keras.ops.convert_to_numpy(embedding.embeddings))
        table[self.found] = self.values[self.found]
        embedding.embeddings.assign(table)


def read_vectors(path, words, verbose=1):
    r"""Reads the vectors of some words from a file in GloVe's format.

    A line has a word and its numbers, separated by single spaces; the first
    line sets their number, and a word may contain spaces. A first line of two
    integers, as in word2vec's files, is skipped. The file is read once, and
    only vectors of `words` are kept, so memory does not grow with its length.
    If a word occurs twice, the first vector counts.

    Args:
        path: path of a text file, UTF-8, or of a `.zip` archive of one.
        words: sequence of different strings, such as `vocabulary.tokens`.
        verbose: 0 silent, else a progress bar.

    Returns:
        `WordVectors`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if a word occurs twice in `words`; if the file has no
            vectors, too few numbers in a line or numbers that are not finite;
            or if the archive is damaged or does not have exactly one file.

    Example:

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "vectors.txt")
    >>> _ = path.write_text("the 0.25 -1\ncat 0.5 2\n")
    >>> read_vectors(path, ["cat", "dog"], verbose=0).values.tolist()
    [[0.5, 2.0], [0.0, 0.0]]
    """
    rows = {word.encode(): row for row, word in enumerate(words)}
    if len(rows) < len(words):
        raise ValueError(
            f"`words` must be different. Received: {len(words)} words, "
            f"{len(rows)} of them different"
        )
    values = found = None
    with reading(path, "file of word vectors", "Download it again."):
        for number, line in enumerate(_lines(path, verbose), 1):
            fields = line.rstrip(b" \r\n").split(b" ")
            is_header = len(fields) == 2 and all(map(bytes.isdigit, fields))
            if number == 1 and is_header:
                continue
            if values is None:
                dimension = len(fields) - 1
                values = np.zeros((len(rows), dimension), "float32")
                found = np.zeros(len(rows), bool)
            if len(fields) <= dimension or not dimension:
                raise ValueError(
                    f"line {number}: a word and {dimension} numbers are "
                    f"expected. Received {len(fields)} fields"
                )
            row = rows.get(b" ".join(fields[:-dimension]))
            if row is None or found[row]:
                continue
            try:
                values[row] = [float(field) for field in fields[-dimension:]]
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from error
            if not np.isfinite(values[row]).all():
                raise ValueError(
                    f"line {number}: numbers must be finite. "
                    f"Received: {values[row].tolist()}"
                )
            found[row] = True
        if values is None:
            raise ValueError("it has no vectors")
    return WordVectors(values, found)


def _lines(path, verbose):
    """Yields lines of a text file, or of the one file of an archive."""
    with contextlib.ExitStack() as stack:
        if pathlib.Path(path).suffix == ".zip":
            archive = stack.enter_context(zipfile.ZipFile(path))
            members = [info for info in archive.infolist() if not info.is_dir()]
            if len(members) != 1:
                raise ValueError(
                    "the archive must hold one file. Received: "
                    f"{[info.filename for info in members]}"
                )
            size = members[0].file_size
            file = io.BufferedReader(
                stack.enter_context(archive.open(members[0]))
            )
        else:
            size = os.path.getsize(path)
            file = stack.enter_context(open(path, "rb"))
        megabytes = max(1, size >> 20)
        bar = keras.utils.Progbar(
            megabytes, unit_name="MiB", verbose=1 if verbose else 0
        )
        read = shown = 0
        for line in file:
            yield line
            read += len(line)
            if shown < read >> 20 < megabytes:
                shown = read >> 20
                bar.update(shown)
        bar.update(megabytes, finalize=True)
