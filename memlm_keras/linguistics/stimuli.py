"""Surprisal of the words of experimental sentences, and of groups of words."""

import collections
import dataclasses
import math
import re

import numpy as np

from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_vocabulary
from memlm_keras.data import SubwordVocabulary
from memlm_keras.data import tables
from memlm_keras.data.text_store import unmarked
from memlm_keras.linguistics.minimal_pairs import TokenizedText
from memlm_keras.models.surprisal import Surprisal
from memlm_keras.models.surprisal import surprisal

MARKED = "marked"
_SPANS = re.compile(r"\d+(-\d+)?([ ,;]+\d+(-\d+)?)*")
_PUNCTUATION = "!\"'()*,-./:;?[]_`{|}\u2018\u2019\u201c\u201d\u2013\u2014\u2026"


@dataclasses.dataclass(frozen=True, eq=False)
class StimulusSurprisal(tables.ResultTable):
    """Surprisal of each word of the sentences of a table.

    Words are separated by white space. The surprisal of a word is the sum over
    its tokens; entropy and rank belong to its first token. A region is a group
    of adjacent words. The end of a sentence counts as a word without a region.

    Attributes:
        rows: tuple of dicts, the table of sentences.
        words: `Surprisal` of the words.
        region: int array, number of each word's region, from 1; 0 without one.
        log_frequency: float64 array, natural logarithm of each word's count in
            a text, or NaN for a count of zero; `None` without counts.
        spillover: integer, number of previous words that also have columns.
        reset: bool, whether each sentence was read from the initial state.
    """

    rows: tuple = dataclasses.field(repr=False)
    words: Surprisal
    region: np.ndarray
    log_frequency: np.ndarray | None
    spillover: int
    reset: bool

    def columns(self):
        """Returns a dict of columns, with one row per word.

        The first columns are those of `rows`, the table of sentences. A new
        column whose name is taken gets the prefix `memlm_`.
        """
        own = self.words.columns()
        end = np.diff(self.words.sentence, append=0) != 0
        length = [math.nan if e else len(w) for e, w in zip(end, own["word"])]
        described = {
            f"surprisal_{self.words.unit}": self.words.surprisal,
            "length": np.array(length, "float64"),
        }
        if self.log_frequency is not None:
            described["log_frequency"] = self.log_frequency
        own["region"] = ["" if not number else number for number in self.region]
        own |= described
        for back in range(1, self.spillover + 1):
            for name, values in described.items():
                before = np.full(len(values), math.nan)
                before[back:] = values[:-back]
                before[self.words.position <= back] = math.nan
                own[f"{name}_previous_{back}"] = before
        return self._with_rows(own, self.words.sentence - 1)

    def regions(self):
        """Returns a dict of columns, with one row per region.

        `surprisal` and `length` are sums over the words of a region, and
        `mean_surprisal` and `log_frequency` are means. Columns such as
        `length_previous_1` describe words before the region.
        """
        keys = np.stack([self.words.sentence, self.region])
        places = np.flatnonzero(self.region)
        if not len(places):
            raise ValueError("`regions` must be given. Received: regions=None")
        changes = (np.diff(keys[:, places]) != 0).any(axis=0)
        starts = np.flatnonzero([True, *changes])
        groups = np.split(places, starts[1:])
        first = places[starts]
        name = f"surprisal_{self.words.unit}"
        words = np.array(self.words.words, "object")
        sums = [self.words.surprisal[group].sum() for group in groups]
        columns = self.columns()
        own = {
            "region": self.region[first],
            "position": self.words.position[first],
            "words": [" ".join(words[group]) for group in groups],
            name: np.array(sums),
            f"mean_{name}": np.array(sums) / [*map(len, groups)],
            "unknown": [int(self.words.unknown[g].any()) for g in groups],
            "length": np.array(
                [sum(map(len, words[g])) for g in groups], "float64"
            ),
        }
        if self.log_frequency is not None:
            own["log_frequency"] = np.array(
                [self.log_frequency[group].mean() for group in groups]
            )
        own |= {
            each: values[first]
            for each, values in columns.items()
            if re.search(r"_previous_\d+$", each)
            and isinstance(values, np.ndarray)
        }
        return self._with_rows(own, self.words.sentence[first] - 1)

    def _with_rows(self, own, places):
        """Puts the columns of the user's table before the columns `own`."""
        table = {
            name: [self.rows[place][name] for place in places]
            for name in self.rows[0]
        }
        return table | {
            f"memlm_{name}" if name in table else name: values
            for name, values in own.items()
        }

    @property
    def notes(self):
        """Three lines that explain the columns."""
        state = (
            "each sentence is read from the initial state"
            if self.reset
            else "the state is carried from sentence to sentence"
        )
        return (
            f"# surprisal in {self.words.unit}; {state}, and its first word is "
            "predicted after an end of a sentence",
            "# words are separated by white space: surprisal is the sum over "
            "tokens, entropy and rank belong to the first token; "
            f"{self.words.words[-1]} is the end of a sentence, in no region",
            "# length in characters, with punctuation; log_frequency is the "
            "natural logarithm of a count, empty for a count of zero; "
            "previous_1 is the previous word in the sentence",
        )

    def to_tsv(self, by="word"):
        """Returns a table as tab-separated text, after `notes` and a header.
        The table is `columns()`, or `regions()` for `by="region"`."""
        columns = self.columns() if by == "word" else self.regions()
        return "\n".join([*self.notes, tables.table_text(columns)])


def stimulus_surprisal(
    model,
    rows,
    vocabulary=None,
    sentence="sentence",
    regions=None,
    unit="bits",
    reset=True,
    counts=None,
    spillover=0,
    segment_length=None,
):
    """Computes surprisal of words and regions of experimental sentences.

    Args:
        model, vocabulary, unit, segment_length: as for
            `memlm_keras.evaluation.surprisal`.
        rows: list of dicts with equal keys, as from `read_stimuli`.
        sentence: string, the key of the sentence.
        regions: string, the key of regions, as word positions from 1: `"7"`,
            `"7-9"`, or `"3-4, 7"` for two regions. `"marked"` for words between
            asterisks, as in `"the horse *raced* past"`. `None` for no regions.
        reset: bool, whether each sentence is read from the initial state.
        counts: dict from words to counts, as from `count_words`, or `None`.
        spillover: integer, number of previous words whose surprisal, length
            and log-frequency also get columns.

    Returns:
        `StimulusSurprisal`.

    Raises:
        ValueError: for no rows, a missing column, a sentence without a word,
            invalid positions, unpaired asterisks, and errors of `surprisal`.

    Example:

    >>> rows = [{"item": 1, "sentence": "the man *was born*"}]
    >>> found = stimulus_surprisal(lm, rows, regions="marked", spillover=1)
    >>> found.regions()["words"], found.region.tolist()
    (['was born'], [0, 0, 1, 1, 0])
    """
    if spillover:
        require_positive_integer("spillover", spillover)
    if not rows:
        raise ValueError("`rows` must hold a sentence. Received: none")
    vocabulary = require_vocabulary(model, vocabulary)
    needed = {sentence, regions} - {None, MARKED}
    for name in sorted(needed - set(rows[0])):
        raise ValueError(
            f"There is no column {name!r}. Received: {', '.join(rows[0])}"
        )
    words, in_region = [], []
    lines = getattr(rows, "lines", None)
    for number, row in enumerate(rows):
        place = f"line {lines[number]}" if lines else f"Row {number + 1}"
        with tables.naming(place):
            found, of_regions = _words(row, sentence, regions)
        words.append(found)
        in_region += [*of_regions, 0]
    if regions is not None and not any(in_region):
        raise ValueError(
            f"No word is in a region. Received: regions={regions!r}. Give word "
            "positions such as '7-9', or mark words, as in 'the *red* car'."
        )
    tokens = surprisal(
        model,
        [" ".join(each) for each in words],
        vocabulary,
        unit,
        reset,
        segment_length,
    )
    starts, offset = [], 0
    for each in words:
        text = TokenizedText(vocabulary, each)
        ends = [*text.starts, len(text.ids)]
        if 0 in np.diff(ends):
            raise ValueError(
                "The tokenizer must split each word into at least one token. "
                f"Received: no token for {each[np.argmin(np.diff(ends))]!r}"
            )
        starts += [offset + end for end in ends]
        offset += len(text.ids) + 1
    end = [vocabulary.end_of_sentence]
    joined = tokens.joined(starts, [w for each in words for w in [*each, *end]])
    frequencies = None
    if counts is not None:
        numbers = []
        for each in words:
            numbers += [*(_count(word, counts, vocabulary) for word in each), 0]
        frequencies = np.array(
            [math.log(n) if n else math.nan for n in numbers]
        )
    return StimulusSurprisal(
        rows=tuple(rows),
        words=joined,
        region=np.array(in_region),
        log_frequency=frequencies,
        spillover=spillover,
        reset=reset,
    )


def _words(row, sentence, regions):
    """Returns the words of a row, and the region number of each word (or 0)."""
    words = unmarked(str(row[sentence])).split()
    if regions != MARKED:
        if not words:
            raise ValueError(f"{sentence} has no word")
        text = "" if regions is None else str(row[regions]).strip()
        return words, _numbers_at(text, len(words), regions)
    found, numbers, number, inside = [], [], 0, False
    for word in words:
        first, *others = word.split("*")
        here = number if inside else 0
        for _ in others:
            inside = not inside
            if inside:
                number += 1
                here = number
        if bare := "".join([first, *others]):
            found.append(bare)
            numbers.append(here)
    if inside:
        raise ValueError(f"the asterisks of {row[sentence]!r} must be paired")
    if not found:
        raise ValueError(f"{sentence} has no word")
    return found, numbers


def _numbers_at(text, length, column):
    """Parses positions such as `3-4, 7`; returns each word's region number."""
    numbers = [0] * length
    if not text:
        return numbers
    if not _SPANS.fullmatch(text):
        raise ValueError(
            f"{column} must have positions of words, such as 7, 7-9 or 3-4, 7. "
            f"Received: {text!r}"
        )
    for number, span in enumerate(re.split("[ ,;]+", text), 1):
        first, _, last = span.partition("-")
        first, last = int(first), int(last or first)
        if not 1 <= first <= last <= length:
            raise ValueError(
                f"the region {span} is not within the {length} words of the "
                "sentence"
            )
        if any(numbers[first - 1 : last]):
            raise ValueError(f"{column}={text} has overlapping regions")
        numbers[first - 1 : last] = [number] * (last - first + 1)
    return numbers


def read_stimuli(path):
    """Reads a table of experimental sentences.

    Args:
        path: path of a table with a header: `.csv`, separated by commas,
            semicolons or tabs, or `.tsv`, where quotation marks are text.

    Returns:
        List of dicts with all columns. A column whose name is missing or
        repeated is named by its number.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for another kind of file, and for a damaged file.

    Example:

    >>> with open("items.csv", "w") as file:
    ...     file.write("item,sentence\\n1,the man *was* born\\n")
    >>> read_stimuli("items.csv")
    [{'item': '1', 'sentence': 'the man *was* born'}]
    """
    texts = tables.read_texts(path, tables.SUFFIXES)
    if len(texts) > 1:
        raise ValueError(f"{path} must be one table, not {len(texts)} tables")
    ((path, text),) = texts
    with tables.naming(path):
        rows = tables.read_rows(text.split("\n"), path)
        lines, found = zip(*rows)
    rows = _Rows(found)
    rows.lines = lines
    return rows


class _Rows(list):
    """Rows of a table, with the attribute `lines` for their line numbers."""


def count_words(text, vocabulary):
    """Counts the words of a text, for `stimulus_surprisal`.

    Words are tokens of the vocabulary's tokenizer. For a `SubwordVocabulary`,
    words are separated by white space, without punctuation at either end.

    Args:
        text: `memlm_keras.data.Split`, integers `(tokens,)`, or an iterable of
            lines.
        vocabulary: `memlm_keras.data.Vocabulary`.

    Returns:
        `collections.Counter` of strings.

    Example:

    >>> count_words(["the man", "The man."], corpus.vocabulary)["man"]
    1
    """
    ids = getattr(text, "tokens", text)
    pieces = isinstance(vocabulary, SubwordVocabulary)
    counts = collections.Counter()
    if isinstance(ids, np.ndarray) and not pieces:
        numbers = np.bincount(ids, minlength=len(vocabulary))
        counts.update(dict(zip(vocabulary.tokens, numbers.tolist())))
        for special in (vocabulary.unknown, vocabulary.end_of_sentence):
            del counts[special]
        return counts
    lines = ids
    if isinstance(ids, np.ndarray):
        end = vocabulary.end_of_sentence_id
        parts = np.split(ids, np.flatnonzero(ids == end) + 1)
        lines = (vocabulary.detokenize(p[p != end]) for p in parts if p.size)
    for line in lines:
        if pieces:
            counts.update(word.strip(_PUNCTUATION) for word in line.split())
        else:
            counts.update(vocabulary.tokenizer.tokenize(line))
    del counts[""]
    return counts


def _count(word, counts, vocabulary):
    """Returns the count of a word, or the lowest count of its tokens."""
    if isinstance(vocabulary, SubwordVocabulary):
        return counts.get(word.strip(_PUNCTUATION), 0)
    tokens = vocabulary.tokenizer.tokenize(word)
    named = [token for token in tokens if token.strip(_PUNCTUATION)] or tokens
    return min(counts.get(token, 0) for token in named)
