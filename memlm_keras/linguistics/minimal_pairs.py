"""Minimal pairs: a model should prefer the good sentence of each pair."""

import dataclasses
import math
import pathlib
import statistics

import keras
import numpy as np

from memlm_keras import files
from memlm_keras.arguments import require_one_of
from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_streaming
from memlm_keras.arguments import require_vocabulary
from memlm_keras.data import Split
from memlm_keras.data import tables
from memlm_keras.data.text_store import unmarked
from memlm_keras.evaluation.cloze import Z_95
from memlm_keras.evaluation.cloze import require_end_of_reader
from memlm_keras.evaluation.cloze import wilson_interval
from memlm_keras.models.streaming import StreamingModel
from memlm_keras.models.surprisal import surprisal

SUFFIXES = (".jsonl", *tables.SUFFIXES)
SENTENCES = ("sentence_good", "sentence_bad")
# Other names of the columns in `SENTENCES`.
_COLUMNS = {
    f"sentence_{side}": (side, f"{side}_sentence", *others)
    for side, others in {
        "good": ("grammatical", "acceptable", "grammatical_sentence"),
        "bad": ("ungrammatical", "unacceptable", "ungrammatical_sentence"),
    }.items()
}
# Levels of BLiMP's results, and the names of their fields.
LEVELS = {
    "field": ("field",),
    "phenomenon": ("linguistics_term", "phenomenon"),
    "paradigm": ("UID", "paradigm"),
}
# Maps each method to two tuples of fields, for the good and for the bad text. A
# text joins the values of its fields, and only the last value is scored.
METHODS = {
    "simple": (("sentence_good",), ("sentence_bad",)),
    "one_prefix": (
        ("one_prefix_prefix", "one_prefix_word_good"),
        ("one_prefix_prefix", "one_prefix_word_bad"),
    ),
    "two_prefix": (
        ("two_prefix_prefix_good", "two_prefix_word"),
        ("two_prefix_prefix_bad", "two_prefix_word"),
    ),
}
_PROTOCOLS = {
    "simple": "of a sentence from its first word on",
    "one_prefix": "of each word after the same prefix",
    "two_prefix": "of the same word after each prefix",
}
# Models in BLiMP's summary file, and their names in the paper.
PUBLISHED = {
    "ngram": "5-gram",
    "lstm": "LSTM",
    "txl": "Transformer-XL",
    "gpt2": "GPT-2",
}
# Batch size of neural models.
_ROWS = 128

# === Results ===


@dataclasses.dataclass(frozen=True)
class PairAccuracy:
    """Accuracy over minimal pairs, averaged over their paradigms.

    A pair is right if the good sentence has the higher score, and a tie if both
    scores are equal. Sentences that differ only in unknown words are the same
    for the model, and always tie.

    Attributes:
        pairs, paradigms: integers, the numbers of pairs and paradigms.
        accuracy: float; a tie counts as wrong.
        half_credit: float, accuracy if a tie counts as one half.
        ties: integer, number of pairs with equal scores.
        same: integer, number of ties whose two sentences have equal token ids.
        accuracy_of_rest: float, `accuracy` of the pairs whose two sentences
            have different token ids; NaN without such pairs.
        interval: two floats, 95% interval of `accuracy` over pairs. Accuracy on
            one paradigm has Wilson's (1927) interval. A mean over paradigms
            has a normal interval, from the variance within each paradigm.
    """

    pairs: int
    paradigms: int
    accuracy: float
    half_credit: float
    ties: int
    same: int
    accuracy_of_rest: float
    interval: tuple

    def __str__(self):
        low, high = self.interval
        return (
            f"accuracy {self.accuracy:.4f}, 95% interval over pairs {low:.4f} "
            f"to {high:.4f}; {self.half_credit:.4f} with half credit for "
            f"{self.ties} ties; {self.same} of {self.pairs} pairs are the same "
            f"for the model, and accuracy of the rest is "
            f"{self.accuracy_of_rest:.4f}"
        )


class GroupedResults(tables.ResultTable):
    """Base class of results with groups, such as phenomena. `levels` has the
    names of the groupings, the finest last. An accuracy is the mean over the
    accuracies of the finest groups."""

    @property
    def accuracy(self):
        """Accuracy of all rows."""
        return self._accuracy(range(len(self)))

    def by(self, name):
        """Computes accuracies of groups.

        Args:
            name: string, one of `levels`, or a field of the pairs.

        Returns:
            Dict from the values of the field `name`, in order, to accuracies.
            Pairs without the field are left out.

        Example:

        >>> pairs = [
        ...     {
        ...         "sentence_good": "the man was born",
        ...         "sentence_bad": "the man born was",
        ...         "paradigm": "order",
        ...     }
        ... ]
        >>> result = memlm_keras.linguistics.minimal_pairs(lm, pairs, verbose=0)
        >>> result.by("paradigm")["order"].pairs
        1
        """
        groups = self._groups(name)
        return {value: self._accuracy(group) for value, group in groups.items()}

    def paradigms(self, name):
        """Returns a dict from field values to sets of paradigms or suites."""
        lowest = self.levels[-1]
        return {
            value: set(self._groups(lowest, group))
            for value, group in self._groups(name).items()
        }

    def _groups(self, name, places=None, default=None):
        """Maps each value of a field to the indices that have this value."""
        groups = {}
        for place in range(len(self)) if places is None else places:
            value = self._value(place, name)
            value = default if value is None else value
            value = str(value) if isinstance(value, (dict, list)) else value
            if value is not None:
                groups.setdefault(value, []).append(place)
        return groups


@dataclasses.dataclass(frozen=True, eq=False)
class MinimalPairs(GroupedResults):
    """Scores of both sentences of each pair.

    Attributes:
        pairs: tuple of dicts, the fields of each pair.
        good, bad: float64 arrays `(pairs,)`, natural-log probabilities.
        same: bool array `(pairs,)`, whether both sentences have equal token
            ids.
        unknown_good, unknown_bad: tuples of strings, the unknown words of each
            sentence, joined by spaces.
        protocol: string, how the scores were computed.
    """

    pairs: tuple = dataclasses.field(repr=False)
    good: np.ndarray
    bad: np.ndarray
    same: np.ndarray
    unknown_good: tuple = dataclasses.field(repr=False)
    unknown_bad: tuple = dataclasses.field(repr=False)
    protocol: str

    levels = tuple(LEVELS)

    def __len__(self):
        return len(self.pairs)

    def _value(self, place, name):
        pair, names = self.pairs[place], LEVELS.get(name, (name,))
        return next((pair[n] for n in names if n in pair), None)

    def _accuracy(self, places):
        places = np.array(places)
        right = (self.good > self.bad).astype("float64")
        tie, same = self.good == self.bad, self.same
        groups = self._groups("paradigm", places, default="")
        paradigms = [np.array(each) for each in groups.values()]
        accuracy, interval = mean_accuracy([right[each] for each in paradigms])
        rest = [each[~same[each]] for each in paradigms]
        rest = [right[each].mean() for each in rest if each.size]
        halves = [(right + tie / 2)[each].mean() for each in paradigms]
        return PairAccuracy(
            pairs=len(places),
            paradigms=len(paradigms),
            accuracy=accuracy,
            half_credit=float(np.mean(halves)),
            ties=int(tie[places].sum()),
            same=int(same[places].sum()),
            accuracy_of_rest=float(np.mean(rest)) if rest else math.nan,
            interval=interval,
        )

    @property
    def difference(self):
        """Score of each good sentence minus the score of the bad one."""
        with np.errstate(invalid="ignore"):
            return self.good - self.bad

    def columns(self):
        """Returns the columns of a table, a dict: fields of the pairs, scores,
        unknown words, and `same`, 1 if both sentences have equal token ids."""
        names = dict.fromkeys(name for pair in self.pairs for name in pair)
        return {
            **{n: [pair.get(n, "") for pair in self.pairs] for n in names},
            "score_good": self.good,
            "score_bad": self.bad,
            "score_difference": self.difference,
            "unknown_good": self.unknown_good,
            "unknown_bad": self.unknown_bad,
            "same": self.same.astype("int64"),
        }


# === Measuring ===


def minimal_pairs(
    model,
    pairs,
    vocabulary=None,
    method="simple",
    eos=False,
    mean=False,
    batch_size=_ROWS,
    verbose=1,
):
    """Compares the probabilities of the sentences of minimal pairs.

    Each sentence is read from the initial state, after an end-of-sentence
    token. A sentence's score is the sum of the natural-log probabilities of its
    words, in float64, without the end of the sentence. Boundary marks (`<s>`
    before, `</s>` or `<eos>` after the words) are left out.

    Args:
        model: any model that `memlm_keras.evaluation.surprisal` accepts, such
            as a causal `memlm_keras.LanguageModel`. A `DynamicEvaluator` starts
            each sentence with the trained weights, and updates them within it.
        pairs: list of pairs of strings, or of dicts with `"sentence_good"` and
            `"sentence_bad"`, as from `read_minimal_pairs`.
        vocabulary: `memlm_keras.data.Vocabulary` of the model's size; `None`
            for the model's own.
        method: `"simple"`; or, for pairs with BLiMP's fields, `"one_prefix"`,
            which compares two words after the same prefix, or `"two_prefix"`,
            which compares a word after two prefixes. Pairs that lack a field
            which `method` needs are left out.
        eos: bool, whether the end of the sentence is scored too.
        mean: bool, whether scores are divided by the number of tokens.
        batch_size: integer, rows that a neural model reads at once; another
            value changes scores only by rounding.
        verbose: 0 prints nothing, 1 a progress bar and the result.

    Returns:
        `MinimalPairs`.

    Raises:
        ValueError: for an unknown `method`, `eos` with a method other than
            `"simple"`, no pairs, a pair without two sentences, or only unknown
            words; for a vocabulary that is missing or has another size; for a
            token that spans the boundary between a prefix and the next word;
            and for a model that is not causal or has no probabilities.

    Example:

    >>> pairs = [("the man was born", "the man was was")]
    >>> result = memlm_keras.linguistics.minimal_pairs(lm, pairs, verbose=0)
    >>> result.good.shape, result.accuracy.pairs
    ((1,), 1)
    """
    require_one_of("method", method, METHODS)
    require_streaming("`minimal_pairs`", model)
    if eos and method != "simple":
        raise ValueError(
            "`eos` needs method='simple', as the other methods score only one "
            f"word of a text. Received: eos={eos!r} and method={method!r}"
        )
    pairs = [_as_dict(f"Pair {n}", pair) for n, pair in enumerate(pairs, 1)]
    needed = set().union(*METHODS[method])
    pairs = [pair for pair in pairs if all(map(pair.get, needed))]
    if not pairs:
        raise ValueError(
            "`pairs` must hold at least one pair with the fields "
            f"{', '.join(sorted(needed))}. Received: none"
        )
    vocabulary = require_vocabulary(model, vocabulary)
    sides = []
    for fields in METHODS[method]:
        texts = []
        for pair in pairs:
            parts = [pair[field] for field in fields]
            texts.append(TokenizedText(vocabulary, parts, eos))
            if len(texts[-1].ids) == texts[-1].starts[-1] + eos:
                raise ValueError(
                    "The tokenizer must split each text into at least one "
                    f"token. Received: no token for {parts[-1]!r}"
                )
        sides.append(texts)
    if all(len(t.unknown) == len(t.ids) - eos for side in sides for t in side):
        raise ValueError(
            "`pairs` must have at least one word of the vocabulary. Received: "
            f"only unknown words, such as {sides[0][0].unknown[0]!r}"
        )
    ids = [text.ids for side in sides for text in side]
    scores = token_scores(model, ids, vocabulary, batch_size, verbose)
    combine, rows = np.mean if mean else np.sum, iter(scores)
    good, bad = (
        np.array([combine(next(rows)[text.starts[-1] :]) for text in side])
        for side in sides
    )
    unknown_good, unknown_bad = (
        tuple(" ".join(text.unknown) for text in side) for side in sides
    )
    result = MinimalPairs(
        pairs=tuple(pairs),
        good=good,
        bad=bad,
        same=np.array([np.array_equal(a.ids, b.ids) for a, b in zip(*sides)]),
        unknown_good=unknown_good,
        unknown_bad=unknown_bad,
        protocol=(
            f"{'mean' if mean else 'sum'} of natural-log probabilities "
            f"{_PROTOCOLS[method]}, {'with' if eos else 'without'} <eos>, "
            "state reset before each sentence"
        ),
    )
    if verbose:
        print(f"{result.accuracy}; {result.protocol}")
    return result


def mean_accuracy(groups):
    """Returns the mean accuracy over `groups`, arrays with 1 for right answers
    and 0 for wrong answers, and the 95% interval as in `PairAccuracy`."""
    means = np.array([group.mean() for group in groups])
    accuracy = float(means.mean())
    if len(groups) == 1:
        return accuracy, wilson_interval(int(groups[0].sum()), len(groups[0]))
    sizes = np.array([len(group) for group in groups])
    spread = Z_95 * math.sqrt(np.sum(means * (1 - means) / sizes)) / len(groups)
    return accuracy, (max(0.0, accuracy - spread), min(1.0, accuracy + spread))


def _as_dict(where, pair):
    """Converts a pair of sentences to a dict, or raises `ValueError`."""
    if not isinstance(pair, dict):
        pair = () if isinstance(pair, str) else tuple(pair)
        pair = dict(zip(SENTENCES, pair)) if len(pair) == 2 else {}
    for name in SENTENCES:
        sentence = pair.get(name)
        if not isinstance(sentence, str) or not sentence.strip():
            raise ValueError(
                f"{where} must have {SENTENCES[0]} and {SENTENCES[1]}, "
                f"strings with at least one word. Received: {name}={sentence!r}"
            )
    return pair


class TokenizedText:
    """Token ids of a text in parts, without boundary marks such as `<s>`.

    Attributes:
        ids: int32 array `(tokens,)`.
        starts: list of integers, the index of each part's first token.
        unknown: list of strings, the tokens that are not in the vocabulary.
    """

    def __init__(self, vocabulary, parts, eos=False):
        tokenize = vocabulary.tokenizer.tokenize
        parts = list(parts)
        parts[0] = unmarked(parts[0])
        parts[-1] = unmarked(parts[-1])
        tokens = tokenize(" ".join(filter(None, parts)))
        self.starts = [0]
        for number in range(1, len(parts)):
            before = " ".join(filter(None, parts[:number]))
            start = tokenize(before) if before else []
            if tokens[: len(start)] != start:
                raise ValueError(
                    f"The tokenizer must split at the space after {before!r}. "
                    f"Received: tokens {tokens}. Use another `vocabulary`."
                )
            self.starts.append(len(start))
        ids = [vocabulary[token] for token in tokens]
        unknown = vocabulary.unknown_id
        self.unknown = [t for t, id in zip(tokens, ids) if id == unknown]
        if eos:
            ids.append(vocabulary.end_of_sentence_id)
        self.ids = np.array(ids, "int32")


def token_scores(model, sentences, vocabulary, batch_size=_ROWS, verbose=0):
    """Returns a list with a float64 array `(tokens,)` for each sentence, the
    natural-log probabilities of its tokens, as in `minimal_pairs`. `sentences`
    are int32 arrays; equal ones get exactly equal scores."""
    require_positive_integer("batch_size", batch_size)
    require_end_of_reader(model, vocabulary)
    distinct = {ids.tobytes(): ids for ids in sentences}
    # Sentences are sorted by length, so that batches have little padding.
    keys = sorted(distinct, key=len)
    rows = batch_size if isinstance(model, StreamingModel) else 1
    rows = min(rows, len(keys))
    progress = keras.utils.Progbar(
        len(keys), verbose=verbose, unit_name="sentence"
    )
    scores = {}
    for begin in range(0, len(keys), rows):
        chunk = [distinct[key] for key in keys[begin : begin + rows]]
        scores |= zip(keys[begin:], _score(chunk, model, vocabulary, rows))
        progress.add(len(chunk))
    return [scores[ids.tobytes()] for ids in sentences]


def _score(sentences, model, vocabulary, rows):
    end = np.int32(vocabulary.end_of_sentence_id)
    if isinstance(model, StreamingModel):
        # All batches have the same number of rows, to compile fewer shapes.
        steps = len(sentences[-1])
        tokens = np.full((rows, steps + 1), end, "int32")
        for row, ids in zip(tokens, sentences):
            row[1 : len(ids) + 1] = ids
        scores = model.score(tokens).astype("float64")
        return [row[: len(ids)] for row, ids in zip(scores, sentences)]
    (ids,) = sentences
    if hasattr(model, "score"):
        return [model.score(Split(ids, np.zeros(1, "int64")))]
    nats = surprisal(model, np.append(ids, end), vocabulary, "nats").surprisal
    return [-nats[: len(ids)]]


# === Files ===


def read_minimal_pairs(path):
    """Reads minimal pairs, with all their fields.

    Args:
        path: path of a file, of a folder of files, or of a `.zip` archive:

            * `.jsonl`: one object per line, as in BLiMP;
            * `.csv`, `.tsv`: a table with a header; without one, the columns
              are good and bad sentences. In `.tsv`, quotation marks are text.

            The required fields are `sentence_good` and `sentence_bad`, or
            `good` and `bad`, or `grammatical` and `ungrammatical`. A pair
            without `UID` gets its `paradigm` or the file's name as `UID`.

    Returns:
        List of dicts.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if no file has a suffix from the list above, a file is
            damaged or lacks a column, or a pair lacks a sentence.

    Example:

    >>> with open("pairs.tsv", "w") as file:
    ...     print("she runs", "she run", sep="\\t", file=file)
    >>> memlm_keras.linguistics.read_minimal_pairs("pairs.tsv")[0]["UID"]
    'pairs'
    """
    pairs, texts = [], tables.read_texts(path, SUFFIXES)
    names = tables.names_of([file for file, _ in texts])
    for name, (file, text) in zip(names, texts):
        with tables.naming(file):
            rows = tables.read_rows(text.split("\n"), file, _COLUMNS)
            for line, pair in rows:
                pair = _as_dict(f"line {line}", pair)
                if not pair.get("UID"):
                    pair["UID"] = pair.get("paradigm") or name
                pairs.append(pair)
    if not pairs:
        raise ValueError(f"{path} has no pair of sentences.")
    return pairs


def read_published(path):
    """Reads published accuracies as `{model: {paradigm: accuracy}}`. The file
    is like BLiMP's `models_summary.jsonl`, or a `.csv` table of items with the
    columns model, suite and correct."""
    remedy = (
        "Expected BLiMP's models_summary.jsonl, or a .csv with the columns "
        "model, suite and correct."
    )
    published = {}
    with files.reading(path, "summary of models", remedy):
        text = tables.decode(pathlib.Path(path).read_bytes(), path)
        lines = text.split("\n")
        if str(path).lower().endswith(".csv"):
            fields = dict.fromkeys(("model", "suite", "correct"), ())
            return _items_of(tables.read_rows(lines, path, fields))
        for _, row in tables.read_rows(lines, "summary.jsonl"):
            paradigm = row["UID"]
            for name, value in row.items():
                if isinstance(value, (int, float)):
                    model = PUBLISHED.get(name, name)
                    published.setdefault(model, {})[paradigm] = value
        if not published:
            raise ValueError("the file has no accuracy")
    return published


def _items_of(rows):
    """Computes the share of correct items for each model and suite."""
    items = {}
    for line, row in rows:
        suites = items.setdefault(row["model"], {})
        correct = {"true": 1.0, "false": 0.0}.get(row["correct"].lower())
        if correct is None:
            raise ValueError(
                f"line {line}: correct must be true or false. Received: "
                f"{row['correct']}"
            )
        suites.setdefault(row["suite"], []).append(correct)
    return {
        model: {suite: statistics.mean(each) for suite, each in suites.items()}
        for model, suites in items.items()
    }


def published_mean(accuracies, paradigms):
    """Returns the mean accuracy over paradigms, or `None` if any is missing."""
    values = [accuracies.get(name) for name in paradigms]
    return None if None in values else statistics.mean(values)
