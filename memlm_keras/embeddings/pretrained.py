"""Pretrained word vectors, such as GloVe's."""

import collections
import itertools
from typing import NamedTuple

import keras
import numpy as np

from memlm_keras.files import open_lines
from memlm_keras.files import reading

# Number of lines from which the dimension is inferred.
_FIRST_LINES = 100
# An error message shows this number of words.
_EXAMPLES = 3
# The progress bar is updated after this number of lines.
_LINES_A_STEP = 2**12


class WordVectors(NamedTuple):
    """Vectors for the words of a vocabulary.

    Attributes:
        values: float32 array `(V, dimension)`, zeros for missing words.
        found: boolean array `(V,)`, `True` for words that have vectors.
    """

    values: np.ndarray
    found: np.ndarray

    def assign_to(self, embedding):
        """Assigns the vectors to an embedding; other words keep their vectors.

        Args:
            embedding: `memlm_keras.embeddings.Embedding`, or a layer with
                a weight `embeddings` `(V, dimension)`.

        Raises:
            ValueError: if the embedding has another shape.
        """
        shape = tuple(embedding.embeddings.shape)
        if shape != self.values.shape:
            raise ValueError(
                f"`embedding` must be of shape {self.values.shape}, like the "
                f"vectors. Received: {shape}"
            )
        table = np.array(keras.ops.convert_to_numpy(embedding.embeddings))
        table[self.found] = self.values[self.found]
        embedding.embeddings.assign(table)


def read_vectors(path, words, verbose=1):
    r"""Reads vectors of given words from a GloVe, word2vec or fastText file.

    A line contains a word and its numbers, separated by spaces or tabs; a word
    may contain spaces. The first line may give the number of words and the
    dimension, as in `.vec` files; otherwise, the dimension is inferred from
    the first lines. Blank lines and a byte order mark are skipped. Only vectors
    of `words` are kept, so memory does not grow with the length of the file. If
    a word occurs twice, the first vector is used.

    Args:
        path: path of a UTF-8 text file, which may be compressed with gzip or
            be the only file in a zip archive.
        words: sequence of different strings, such as `vocabulary.tokens`.
        verbose: 0 for no progress bar.

    Returns:
        `WordVectors`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if a word occurs twice in `words`; if the file contains none
            of `words`; if a line does not have the right number of finite
            numbers; if the first line gives a wrong number of vectors; or if
            the file is empty, damaged or binary, or an archive that does not
            contain exactly one file.

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
            f"`words` must not repeat a word. Received: {len(words)} words, of "
            f"which {len(rows)} are different"
        )
    with reading(path, "file of word vectors", "Download it again."):
        lines = _lines(path, verbose)
        if not (first := list(itertools.islice(lines, _FIRST_LINES))):
            raise ValueError("it has no vectors")
        count, dimension = _shape([fields for _, fields in first])
        if count is not None:
            del first[0]
        if not dimension:
            raise ValueError(
                f"line {first[0][0]}: a word and numbers are expected, with "
                f"spaces or tabs between them. Received: {first[0][1][:4]}"
            )
        values = np.zeros((len(rows), dimension), "float32")
        found = np.zeros(len(rows), bool)
        examples, total = [], 0
        for number, fields in itertools.chain(first, lines):
            total += 1
            word = b" ".join(fields[:-dimension])
            # Some of GloVe's words contain spaces, but none ends in a number.
            extra = fields[1:-dimension]
            if len(fields) <= dimension or (extra and _is_number(extra[-1])):
                raise ValueError(
                    f"line {number}: a word and {dimension} numbers are "
                    f"expected. Received {len(fields)} fields"
                )
            if len(examples) < _EXAMPLES:
                examples.append(word.decode("utf-8", "replace"))
            row = rows.get(word)
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
        if count not in (None, total):
            raise ValueError(
                f"the first line says {count} vectors, but {total} follow"
            )
    if rows and not found.any():
        plain = [word for word in words if not word.startswith("<")]
        raise ValueError(
            f"None of the {len(rows)} `words` has a vector in {path}. "
            f"Received: words such as {plain[:_EXAMPLES]}, and {total} vectors "
            f"for words such as {examples}. Are both in the same language and "
            "case?"
        )
    return WordVectors(values, found)


def _lines(path, verbose):
    """Yields the number and the fields of each line that is not blank."""
    bar = keras.utils.Progbar(100, unit_name="%", verbose=1 if verbose else 0)
    shown = 0
    with open_lines(path) as (file, share_read):
        for number, line in enumerate(file, 1):
            word, *others = (
                line.rstrip(b" \t\r\n").replace(b"\t", b" ").split(b" ")
            )
            if word or others:
                yield number, [word, *filter(None, others)]
            if number % _LINES_A_STEP == 0 and (
                shown < (percent := int(100 * share_read())) < 100
            ):
                shown = percent
                bar.update(shown)
        bar.update(100, finalize=True)


def _shape(first):
    """Returns the number of vectors and their dimension. The number is `None`
    if the first line of the file does not contain the number."""
    numbers = [
        len(list(itertools.takewhile(_is_number, reversed(fields[1:]))))
        for fields in first
    ]
    header, *others = first
    if len(header) == 2 and all(map(bytes.isdigit, header)):
        count, dimension = map(int, header)
        # A line of two numbers may also be a word and a vector of size 1.
        if others and 1 not in numbers[1:] or dimension == 1:
            return count, dimension
    # A word may end in a number, so count the numbers in several lines: the
    # most frequent count is the dimension, or in a tie the largest.
    counts = collections.Counter(numbers)
    return None, max(counts, key=lambda number: (counts[number], number))


def _is_number(field):
    try:
        float(field)
    except ValueError:
        return False
    return True
