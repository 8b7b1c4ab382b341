"""ARPA files, the common format of n-gram toolkits."""

import array
import itertools
import math
import pathlib
import re

import keras
import numpy as np

from memlm_keras.arguments import require_vocabulary
from memlm_keras.files import atomic_path
from memlm_keras.ngrams.backoff import END_OF_SENTENCE
from memlm_keras.ngrams.backoff import BackoffModel
from memlm_keras.ngrams.backoff import NGramTable
from memlm_keras.ngrams.backoff import find
from memlm_keras.ngrams.backoff import words_of

BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
LN_10 = math.log(10.0)
# Stands for log10(0) in ARPA files.
LOG_ZERO = -99.0
_COUNT = re.compile(rb"ngram\s+(\d+)\s*=\s*(\d+)")
_NGRAMS_AT_ONCE = 2**16


def read_arpa(path, vocabulary, verbose=1):
    """Reads an ARPA file of any program.

    A file with the word `<s>` has sentence boundaries; its `</s>` is the
    vocabulary's end of sentence, and `<unk>` the unknown token.

    Args:
        vocabulary: `memlm_keras.data.Vocabulary`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is not an ARPA file, is damaged, has other words
            than the vocabulary, or has an n-gram without its first words.

    Example:

    >>> memlm_keras.ngrams.write_arpa(
    ...     kneser_ney, "kn5.arpa", corpus.vocabulary
    ... )
    >>> model = memlm_keras.ngrams.read_arpa("kn5.arpa", corpus.vocabulary)
    """
    with open(path, "rb") as file:
        return _Reader(pathlib.Path(path), file, vocabulary, verbose).model()


class _Reader:
    """Reads one ARPA file, line by line."""

    def __init__(self, path, file, vocabulary, verbose):
        self.path = path
        self.vocabulary = vocabulary
        self.verbose = verbose
        self.number = 0
        self.lines = self._not_blank(file)

    def model(self):
        counts = self._header()
        self.progress = keras.utils.Progbar(
            sum(counts), verbose=self.verbose, unit_name="ngram"
        )
        tables = []
        for order, count in enumerate(counts, start=1):
            self._expect(f"\\{order}-grams:".encode())
            entries = self._entries(order, count, order == len(counts))
            if order == 1:
                tables.append(self._words(entries))
            else:
                tables.append(self._ngrams(order, count, entries, tables))
        self._expect(b"\\end\\")
        return BackoffModel(
            len(self.vocabulary), self.sentence_boundaries, tables
        )

    def _not_blank(self, file):
        for self.number, line in enumerate(file, start=1):
            # Of bytes, this strips ASCII white space only; other white space
            # may be part of a word.
            line = line.strip()
            if line:
                yield line

    def _damaged(self, what):
        return ValueError(
            f"The file {self.path} cannot be read as an ARPA file: {what}, at "
            f"line {self.number}."
        )

    def _expect(self, expected):
        line = next(self.lines, b"the end of the file")
        if line != expected:
            raise self._damaged(
                f"expected {expected.decode()}, found {_shown(line)}"
            )

    def _header(self):
        if b"\\data\\" not in self.lines:
            raise self._damaged("there is no line \\data\\")
        counts = []
        for line in self.lines:
            match = _COUNT.fullmatch(line)
            if not match:
                self.lines = itertools.chain([line], self.lines)
                break
            order, count = map(int, match.groups())
            if order != len(counts) + 1:
                raise self._damaged(f"ngram {order} is out of order")
            counts.append(count)
        if not counts:
            raise self._damaged("expected lines ngram 1=..., found none")
        return counts

    def _entries(self, order, count, highest):
        """Yields the log-probability, words and back-off of each n-gram."""
        for position in range(count):
            line = next(self.lines, b"the end of the file")
            fields = line.split()
            try:
                # Only the highest order never has back-off weights; a word
                # may look like one.
                if not order < len(fields) < order + 3 - highest:
                    raise ValueError
                probability = float(fields[0])
                backoff = float(fields[-1]) if len(fields) > order + 1 else 0.0
            except ValueError as error:
                raise self._damaged(
                    f"expected the n-gram {position + 1} of {count} of order "
                    f"{order}, found {_shown(line)}"
                ) from error
            yield probability, fields[1 : order + 1], backoff
            if (position + 1) % _NGRAMS_AT_ONCE == 0:
                self.progress.add(_NGRAMS_AT_ONCE)
        self.progress.add(count % _NGRAMS_AT_ONCE)

    def _words(self, entries):
        """Table of order 1, whose words must be those of the vocabulary."""
        entries = {
            words[0].decode("utf-8", errors="replace"): (probability, backoff)
            for probability, words, backoff in entries
        }
        beginning = entries.pop(BEGIN, None)
        self.sentence_boundaries = beginning is not None
        names = list(self.vocabulary.tokens)
        names[self.vocabulary.unknown_id] = UNKNOWN
        if self.sentence_boundaries:
            names[self.vocabulary.end_of_sentence_id] = END
        known = set(names)
        extra = [name for name in entries if name not in known]
        if extra:
            raise ValueError(
                f"`vocabulary` must have all words of {self.path}. Received: "
                f"one that lacks {len(extra)}, such as {extra[:5]}"
            )
        missing = [name for name in names if name not in entries]
        if missing:
            raise ValueError(
                f"`vocabulary` must have no words that are not in {self.path}. "
                f"Received: one with {len(missing)} more, such as "
                f"{missing[:5]}"
            )
        values = np.array([entries[name] for name in names])
        self.ids = {name.encode(): id for id, name in enumerate(names)}
        if self.sentence_boundaries:
            values[END_OF_SENTENCE, 1] = beginning[1]
            self.ids[BEGIN.encode()] = END_OF_SENTENCE
        return _table(np.arange(len(names)), *values.T)

    def _ngrams(self, order, count, entries, tables):
        """Table of an order from 2 on."""
        words = array.array("i")
        values = array.array("d")
        begin, end = BEGIN.encode(), END.encode()
        for probability, ngram, backoff in entries:
            try:
                words.extend([self.ids[word] for word in ngram])
            except KeyError as error:
                raise self._damaged(
                    f"{_shown(error.args[0])} is not among the 1-grams"
                ) from error
            if self.sentence_boundaries and (
                begin in ngram[1:] or end in ngram[:-1]
            ):
                raise self._damaged(
                    f"{BEGIN} must begin an n-gram and {END} end it, found "
                    f"{_shown(b' '.join(ngram))}"
                )
            values.extend((probability, backoff))
        words = np.array(words, "int64").reshape(count, order)
        values = np.array(values).reshape(count, 2)
        size = len(self.vocabulary)
        prefixes = words[:, 0]
        for column, table in enumerate(tables[1:], start=1):
            prefixes = find(table.keys, prefixes, words[:, column], size)
        if count and prefixes.min() < 0:
            ngram = words[np.argmin(prefixes)]
            raise self._damaged(
                f"the {order}-gram of the ids {ngram.tolist()} is there, but "
                f"not the {order - 1}-gram of its first words"
            )
        keys = prefixes * size + words[:, -1]
        sorting = np.argsort(keys)
        keys = keys[sorting]
        if np.any(keys[1:] == keys[:-1]):
            raise self._damaged(f"a {order}-gram is there twice")
        return _table(keys, *values[sorting].T)


def _table(keys, log_probabilities, log_backoffs):
    """Makes a table of base-10 logarithms."""
    log_probabilities = np.where(
        log_probabilities <= LOG_ZERO, -np.inf, log_probabilities
    )
    return NGramTable(keys, log_probabilities * LN_10, log_backoffs * LN_10)


def _shown(line):
    return line[:80].decode("utf-8", errors="replace")


def write_arpa(model, path, vocabulary, verbose=1):
    """Writes a back-off model as an ARPA file, whole or not at all.

    The scores of any reader equal `model.score` to nine digits. With sentence
    boundaries the end of a sentence is written `<s>`
    where it begins an n-gram and `</s>` where it ends one; without, it is a
    word like others, and a reader must be set to use no begin and end of
    sentences. The unknown token is written `<unk>`.

    Args:
        model: `memlm_keras.ngrams.BackoffModel`.
        vocabulary: `memlm_keras.data.Vocabulary` of the model's size.

    Raises:
        ValueError: if the vocabulary is not the model's, or has a token that
            cannot be written, or the model is not trained.
        OSError: if the folder cannot be written.

    Example:

    >>> memlm_keras.ngrams.write_arpa(
    ...     kneser_ney, "kn5.arpa", corpus.vocabulary
    ... )
    """
    require_vocabulary(model, vocabulary)
    model.require_trained()
    names = _names(vocabulary, model.sentence_boundaries)
    beginning = int(model.sentence_boundaries)
    progress = keras.utils.Progbar(
        sum(model.num_ngrams), verbose=verbose, unit_name="ngram"
    )
    with (
        atomic_path(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as file,
    ):
        file.write("\\data\\\n")
        for order, count in enumerate(model.num_ngrams, start=1):
            count += beginning if order == 1 else 0
            file.write(f"ngram {order}={count}\n")
        for order in range(1, model.order + 1):
            file.write(f"\n\\{order}-grams:\n")
            if order == 1 and beginning:
                backoff = model.tables[0].log_backoffs[END_OF_SENTENCE] / LN_10
                # The highest order has none.
                weight = f"\t{backoff:.9g}" if model.order > 1 else ""
                file.write(f"{LOG_ZERO:.9g}\t{BEGIN}{weight}\n")
            _write_ngrams(file, model, order, names, progress)
        file.write("\n\\end\\\n")


def _names(vocabulary, sentence_boundaries):
    """Returns how each id is written, `<s>` excepted."""
    names = list(vocabulary.tokens)
    reserved = {BEGIN, END, UNKNOWN}
    names[vocabulary.unknown_id] = UNKNOWN
    if sentence_boundaries:
        names[vocabulary.end_of_sentence_id] = END
    for id, name in enumerate(names):
        special = id == vocabulary.unknown_id or (
            sentence_boundaries and id == vocabulary.end_of_sentence_id
        )
        blank = any(space in name for space in " \t\n\r\v\f")
        if blank or (name in reserved and not special):
            raise ValueError(
                f"`vocabulary` has a token that an ARPA file cannot hold. "
                f"Received: {name!r}. Tokens must have no white space, and "
                f"not be one of {sorted(reserved)} unless they are the "
                "unknown token or the end of a sentence."
            )
    return names


def _write_ngrams(file, model, order, names, progress):
    table = model.tables[order - 1]
    words = words_of(model.tables, order, model.vocabulary_size)
    first_names = np.array(names, object)
    last_names = first_names
    backoffs = table.log_backoffs / LN_10
    if model.sentence_boundaries:
        if order > 1:
            first_names = first_names.copy()
            first_names[END_OF_SENTENCE] = BEGIN
        # `</s>` has no weight: only `<s>` is a context.
        backoffs = np.where(words[:, -1] == END_OF_SENTENCE, 0.0, backoffs)
    for begin in range(0, len(words), _NGRAMS_AT_ONCE):
        part = slice(begin, begin + _NGRAMS_AT_ONCE)
        columns = [first_names[column] for column in words[part, :-1].T]
        columns.append(last_names[words[part, -1]])
        probabilities = table.log_probabilities[part] / LN_10
        for probability, backoff, *ngram in zip(
            np.maximum(probabilities, LOG_ZERO).tolist(),
            backoffs[part].tolist(),
            *columns,
        ):
            # Readers read a missing back-off weight as 0.
            weight = f"\t{backoff:.9g}" if backoff else ""
            file.write(f"{probability:.9g}\t{' '.join(ngram)}{weight}\n")
        progress.add(len(columns[-1]))
