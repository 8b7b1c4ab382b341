"""Reads and writes ARPA files, the common format of n-gram toolkits."""

import array
import contextlib
import itertools
import math
import re

import keras
import numpy as np

from memlm_keras.arguments import require_vocabulary
from memlm_keras.data import Vocabulary
from memlm_keras.files import atomic_path
from memlm_keras.files import open_lines
from memlm_keras.files import reading
from memlm_keras.ngrams.backoff import END_OF_SENTENCE
from memlm_keras.ngrams.backoff import BackoffModel
from memlm_keras.ngrams.backoff import NGramTable
from memlm_keras.ngrams.backoff import find
from memlm_keras.ngrams.backoff import require_end_of_sentence
from memlm_keras.ngrams.backoff import words_of

BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
_MARKS = (BEGIN, END)
_UNKNOWNS = (UNKNOWN, "<UNK>")
_SPACES = re.compile(rb"[ \t]+")
LN_10 = math.log(10.0)
# This number stands for log10(0) in ARPA files.
LOG_ZERO = -99.0
_COUNT = re.compile(rb"ngram\s+(\d+)\s*=\s*(\d+)")
_NGRAMS_AT_ONCE = 2**16


def read_arpa(path, vocabulary, verbose=1):
    """Reads an ARPA file from any program, plain or compressed with gzip.

    A file with the word `<s>` or `</s>` has sentence boundaries. `</s>` becomes
    the vocabulary's end-of-sentence token, and `<unk>` or `<UNK>` its unknown
    token; each has probability 0 if the file lacks it. N-grams with `<s>` after
    another word, or `</s>` before one, are skipped: no line contains them.

    Args:
        vocabulary: `memlm_keras.data.Vocabulary`, such as
            `arpa_vocabulary(path)`.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is not a complete ARPA file, its words differ from
            the vocabulary's, or an n-gram lacks its prefix.

    Example:

    >>> memlm_keras.ngrams.write_arpa(
    ...     kneser_ney, "kn5.arpa", corpus.vocabulary
    ... )
    >>> model = memlm_keras.ngrams.read_arpa("kn5.arpa", corpus.vocabulary)
    """
    ids, boundaries = _ids(_words(path), vocabulary, path)
    with _reading(path, verbose) as reader:
        values = np.tile([-np.inf, 0.0], (len(vocabulary), 1))
        for probability, (word,), backoff in reader.entries():
            # `<s>` is only a context, and `</s>` is never a context.
            id = ids[word]
            if not (boundaries and word == BEGIN.encode()):
                values[id, 0] = probability
            if not (boundaries and word == END.encode()):
                values[id, 1] = backoff
        tables = [_table(np.arange(len(values)), *values.T)]
        while len(tables) < len(reader.counts):
            tables.append(_ngrams(reader, ids, boundaries, tables))
        reader.expect("\\end\\")
    if verbose and reader.left_out:
        print(
            f"{reader.left_out:,} n-grams with {BEGIN} or {END} inside are "
            "left out."
        )
    return BackoffModel(len(vocabulary), boundaries, tables)


def arpa_vocabulary(path):
    """Reads the words in an ARPA file as a `memlm_keras.data.Vocabulary`.

    Words keep the file's order. `</s>`, if present, ends sentences.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is not a complete ARPA file.

    Example:

    >>> memlm_keras.ngrams.write_arpa(
    ...     kneser_ney, "kn5.arpa", corpus.vocabulary
    ... )
    >>> vocabulary = memlm_keras.ngrams.arpa_vocabulary("kn5.arpa")
    >>> model = memlm_keras.ngrams.read_arpa("kn5.arpa", vocabulary)
    >>> len(vocabulary) == len(corpus.vocabulary)
    True
    """
    words = _words(path)
    unknown = next((name for name in _UNKNOWNS if name in words), UNKNOWN)
    end = {"end_of_sentence": END} if END in words else {}
    tokens = [word for word in words if word not in _MARKS]
    return Vocabulary(tokens, unknown, **end)


@contextlib.contextmanager
def _reading(path, verbose=0):
    """Opens an ARPA file as an `_ArpaReader`; errors name the file."""
    remedy = "Put an intact copy in its place."
    with reading(path, "ARPA file", remedy), open_lines(path) as (file, _):
        yield _ArpaReader(file, verbose)


class _ArpaReader:
    """Reads an ARPA file line by line, first the counts and then each order."""

    def __init__(self, file, verbose):
        self.number = self.order = self.left_out = 0
        self.lines = self._not_blank(file)
        self.counts = self._header()
        self.progress = keras.utils.Progbar(
            sum(self.counts), verbose=verbose, unit_name="ngram"
        )

    def _not_blank(self, file):
        for self.number, line in enumerate(file, start=1):
            # Strip only ASCII blanks: other white space may be part of words.
            line = line.strip(b" \t\r\n")
            if line:
                yield line

    def error(self, what):
        return ValueError(f"line {self.number}: {what}")

    def expect(self, expected):
        line = next(self.lines, b"") or b"the end of the file"
        if line != expected.encode():
            raise self.error(f"expected {expected}, found {_shown(line)}")

    def _header(self):
        if b"\\data\\" not in self.lines:
            raise self.error("there is no line \\data\\")
        counts = []
        for line in self.lines:
            match = _COUNT.fullmatch(line)
            if not match:
                self.lines = itertools.chain([line], self.lines)
                break
            order, count = map(int, match.groups())
            if order != len(counts) + 1:
                raise self.error(f"ngram {order} is out of order")
            counts.append(count)
        if not counts:
            raise self.error("expected lines ngram 1=..., found none")
        return counts

    def entries(self):
        """Yields a log-probability, words and a back-off for each n-gram."""
        count, self.order = self.counts[self.order], self.order + 1
        section = f"\\{self.order}-grams:"
        if not count:
            # Some programs omit the section of an order without n-grams.
            line = next(self.lines, b"")
            if line != section.encode():
                self.lines = itertools.chain([line], self.lines)
            return
        self.expect(section)
        for position in range(count):
            line = next(self.lines, b"the end of the file")
            fields = _SPACES.split(line)
            try:
                probability, *backoff = map(
                    float, [fields[0], *fields[self.order + 1 :]]
                )
                if len(fields) <= self.order or len(backoff) > 1:
                    raise ValueError
                # Rounded log-probabilities may be slightly above zero.
                if not (probability < 1e-3 and backoff < [math.inf]):
                    raise ValueError
            except ValueError as error:
                raise self.error(
                    f"expected n-gram {position + 1} of the {count} of order "
                    f"{self.order}, found {_shown(line)}"
                ) from error
            words = fields[1 : self.order + 1]
            yield probability, words, backoff[0] if backoff else 0.0
            if (position + 1) % _NGRAMS_AT_ONCE == 0:
                self.progress.add(_NGRAMS_AT_ONCE)
        self.progress.add(count % _NGRAMS_AT_ONCE)
        line = next(self.lines, b"")
        if line and not line.startswith(b"\\"):
            raise self.error(
                f"\\data\\ declares {count} of order {self.order}, but the "
                f"file has more: {_shown(line)}"
            )
        self.lines = itertools.chain([line], self.lines)


def _words(path):
    """Reads the words in a file as keys of a dict."""
    words = {}
    with _reading(path) as reader:
        for _, (word,), _ in reader.entries():
            try:
                name = word.decode()
            except UnicodeDecodeError as error:
                raise reader.error(f"{_shown(word)} is not UTF-8") from error
            if name in words:
                raise reader.error(f"the 1-gram {name} occurs twice")
            words[name] = None
    return words


def _ids(words, vocabulary, path):
    """Returns a dict from the file's words, as bytes, to ids, and whether the
    file has sentence boundaries. Raises `ValueError` if the words differ."""
    boundaries = not words.keys().isdisjoint(_MARKS)
    special = {vocabulary.unknown_id}
    ids = {token: id for id, token in enumerate(vocabulary.tokens)}
    for name in _UNKNOWNS:
        ids.setdefault(name, vocabulary.unknown_id)
    if boundaries:
        require_end_of_sentence("vocabulary", vocabulary)
        special.add(vocabulary.end_of_sentence_id)
        ids.update(dict.fromkeys(_MARKS, vocabulary.end_of_sentence_id))
    extra = [name for name in words if name not in ids]
    if extra:
        raise ValueError(
            f"`vocabulary` must have all words of {path}. Received: "
            f"one without {len(extra)} of them, such as {extra[:5]}"
        )
    names = {}
    # `<s>` is only a context.
    for name in (name for name in words if name != BEGIN):
        if (other := names.setdefault(ids[name], name)) != name:
            raise ValueError(
                f"`vocabulary` must tell {other} and {name} apart, because "
                f"{path} has both. Use `arpa_vocabulary(path)`. Received: one "
                f"with the id {ids[name]} for both"
            )
    missing = [
        token
        for id, token in enumerate(vocabulary.tokens)
        if id not in special
        and (token not in words or (boundaries and token in _MARKS))
    ]
    if missing:
        raise ValueError(
            f"`vocabulary` must have no words that are not in {path}. "
            f"Received: {len(missing)} other words, such as "
            f"{missing[:5]}. Use `arpa_vocabulary(path)`"
        )
    return {name.encode(): id for name, id in ids.items()}, boundaries


def _ngrams(reader, ids, boundaries, tables):
    """Reads the n-grams of order `len(tables) + 1`, at least 2, as a table."""
    order, size = len(tables) + 1, len(tables[0].keys)
    words = array.array("i")
    values = array.array("d")
    begin, end = BEGIN.encode(), END.encode()
    for probability, ngram, backoff in reader.entries():
        if boundaries and (begin in ngram[1:] or end in ngram[:-1]):
            reader.left_out += 1
            continue
        try:
            words.extend([ids[word] for word in ngram])
        except KeyError as error:
            raise reader.error(
                f"{_shown(error.args[0])} is not among the 1-grams"
            ) from error
        values.extend((probability, backoff))
    words = np.array(words, "int64").reshape(-1, order)
    values = np.array(values).reshape(-1, 2)
    prefixes = words[:, 0]
    for column, table in enumerate(tables[1:], start=1):
        prefixes = find(table.keys, prefixes, words[:, column], size)
    if prefixes.size and prefixes.min() < 0:
        ngram = words[np.argmin(prefixes)]
        raise ValueError(
            f"the file has the {order}-gram with the ids {ngram.tolist()}, "
            f"but not the {order - 1}-gram of its first words"
        )
    keys = prefixes * size + words[:, -1]
    sorting = np.argsort(keys)
    keys = keys[sorting]
    if np.any(keys[1:] == keys[:-1]):
        raise ValueError(f"a {order}-gram occurs twice")
    return _table(keys, *values[sorting].T)


def _table(keys, log_probabilities, log_backoffs):
    """Makes an `NGramTable` from base-10 logarithms."""
    log_probabilities = np.where(
        log_probabilities <= LOG_ZERO, -np.inf, log_probabilities
    )
    return NGramTable(keys, log_probabilities * LN_10, log_backoffs * LN_10)


def _shown(line):
    return line[:80].decode("utf-8", errors="replace")


def write_arpa(model, path, vocabulary, verbose=1):
    """Writes a back-off model as an ARPA file, atomically.

    Numbers have nine significant digits; the unknown token becomes `<unk>`.
    With sentence boundaries, the end-of-sentence token is `<s>` at the
    beginning of an n-gram and `</s>` at its end. Without boundaries, the file
    lacks `<s>` and `</s>`; programs that read it must not add these to a text.

    Args:
        model: `memlm_keras.ngrams.BackoffModel`.
        vocabulary: `memlm_keras.data.Vocabulary` of the model's size.

    Raises:
        ValueError: The vocabulary has another size or a token that cannot be
            written, or the model is not trained.
        OSError: The folder cannot be written.

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
                # N-grams of the highest order are never contexts.
                weight = f"\t{backoff:.9g}" if model.order > 1 else ""
                file.write(f"{LOG_ZERO:.9g}\t{BEGIN}{weight}\n")
            _write_ngrams(file, model, order, names, progress)
        file.write("\n\\end\\\n")


def _names(vocabulary, sentence_boundaries):
    """Returns the word to write for each id; `<s>` is handled separately."""
    names = list(vocabulary.tokens)
    reserved = {BEGIN, END, UNKNOWN}
    names[vocabulary.unknown_id] = UNKNOWN
    if sentence_boundaries:
        require_end_of_sentence("vocabulary", vocabulary)
        names[END_OF_SENTENCE] = END
    for id, name in enumerate(names):
        special = id == vocabulary.unknown_id or (
            sentence_boundaries and id == vocabulary.end_of_sentence_id
        )
        blank = any(space in name for space in " \t\n\r")
        if blank or (name in reserved and not special):
            raise ValueError(
                "`vocabulary` has a token that an ARPA file cannot hold. "
                f"Received: {name!r}. Tokens must have no white space, and "
                f"only special tokens may be one of {sorted(reserved)}."
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
        # `</s>` is never a context, so it has no back-off weight.
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
