"""Interpolated Kneser-Ney language models."""

import dataclasses
import numbers
import warnings

import keras
import numpy as np

from memlm_keras.arguments import require_positive_integer
from memlm_keras.ngrams.backoff import END_OF_SENTENCE
from memlm_keras.ngrams.backoff import BackoffModel
from memlm_keras.ngrams.backoff import NGramTable
from memlm_keras.ngrams.backoff import contexts_of
from memlm_keras.ngrams.backoff import token_ids

# Discounts if estimation fails. "modified" has the three of KenLM's option
# `--discount_fallback`; "original" has a single discount, 0.5, for all counts.
_FALLBACKS = {"modified": (0.5, 1.0, 1.5), "original": (0.5, 0.5, 0.5)}


class KneserNey(BackoffModel):
    """Interpolated Kneser-Ney language model of any order.

    For a word w after a context c,

        p(w | c) = max(a(c w) - D(a(c w)), 0) / sum_v a(c v)
                   + backoff(c) p(w | c')
        backoff(c) = (sum of discounts taken from the counts) / sum_v a(c v)

    where c' is c without its first word, and a and D are the counts and
    discounts for the order of (c, w). In the highest order, a(c w) is the
    number of occurrences of (c, w). In lower orders, a(c w) is N1+(. c w), the
    number of distinct words before (c, w). Single words back off to the uniform
    distribution, p = 1 / vocabulary_size. An unseen context has backoff 1.

    **Sentences.** By default, lines are independent, and `<eos>`, id 0, ends
    each line. SRILM and KenLM write `</s>` for a predicted `<eos>`, and `<s>`
    for the `<eos>` of the line before, where contexts begin. `<s>` is not
    counted as a word. As in KenLM, the count of an n-gram that begins with
    `<s>` is its number of occurrences in every order, and N1+ counts `<s>` as
    a word before an n-gram. With `sentence_boundaries=False`, `<eos>` is an
    ordinary word of one long text. One `<eos>` is assumed before a text.

    **Cut-offs.** N-grams that occur fewer than `minimum_counts` times are left
    out and their probability goes to the order below, as with KenLM's
    `--prune`. Cut-offs do not change discounts or lower-order counts.

    The model ignores document boundaries.

    **Memory.** Training takes up to 60 bytes, and the model 24 bytes, for each
    distinct n-gram of any order; or, for texts with few distinct n-grams, up to
    75 bytes for each token. Penn Treebank at order 5 takes 130 MB.

    Args:
        vocabulary_size: Integer, at least 2.
        order: Integer, length of the longest n-grams.
        discounts: `"modified"` (three for each order, for counts of 1, 2, and 3
            or more; Chen and Goodman, 1998) or `"original"` (one), both
            estimated from counts of counts; or one number; or a list with one
            or three numbers for each order. If the discount for order 1 is 0,
            words that never occurred have probability 0. If n_i is the number
            of n-grams with count i and Y = n_1 / (n_1 + 2 n_2), `"original"` is
            Y and `"modified"` is

                D_1  = 1 - 2 Y n_2 / n_1
                D_2  = 2 - 3 Y n_3 / n_2
                D_3+ = 3 - 4 Y n_4 / n_3

            (Chen and Goodman, Section 3). If, for an order, an n_i in these
            formulas is zero or a discount is not positive, `fit` warns and
            uses 0.5, 1 and 1.5 for `"modified"`, or 0.5 for `"original"`.
        minimum_counts: Integer for all orders of at least 2, or a list of
            ascending integers, one for each order. 1 keeps all n-grams.
        sentence_boundaries: Whether lines are independent.

    Attributes:
        found_discounts: After `fit`, list of three floats for each order.

    Raises:
        ValueError: An argument is not as described above.

    Example:

    >>> model = KneserNey(len(corpus.vocabulary), order=5).fit(corpus.train)
    >>> result = model.perplexity(corpus.test)
    >>> result.predicted_tokens == len(corpus.test)
    True

    References: Kneser and Ney, 1995, *Improved backing-off for m-gram
    language modeling*; Chen and Goodman, 1998, *An empirical study of
    smoothing techniques for language modeling*, TR-10-98.
    """

    def __init__(
        self,
        vocabulary_size,
        order=5,
        discounts="modified",
        minimum_counts=1,
        sentence_boundaries=True,
    ):
        require_positive_integer("vocabulary_size", vocabulary_size, 2)
        require_positive_integer("order", order)
        super().__init__(vocabulary_size, sentence_boundaries)
        self._order = order
        self._explicit_discounts = _explicit_discounts(discounts, order)
        self.discounts = self._explicit_discounts or discounts
        self.minimum_counts = minimum_counts
        self._cut_offs = _cut_offs(minimum_counts, order)

    @property
    def order(self):
        return self._order

    @property
    def description(self):
        kind = "" if self._explicit_discounts else f" {self.discounts}"
        cut_offs = ""
        if max(self._cut_offs) > 1:
            cut_offs = f", cut-offs {'-'.join(map(str, self._cut_offs))}"
        return (
            f"interpolated{kind} Kneser-Ney of order {self.order}{cut_offs}, "
            f"{self._contexts()}"
        )

    def fit(self, text, verbose=1):
        """Counts n-grams in a text and smooths the counts; returns the model.

        Args:
            text: `memlm_keras.data.Split`, or integers `(tokens,)`.

        Raises:
            ValueError: The text has no token, is not one-dimensional, or has an
                id outside the vocabulary.
        """
        tokens = token_ids(text, self.vocabulary_size)
        if not tokens.size:
            raise ValueError("`text` must have a token. Received: none")
        progress = keras.utils.Progbar(
            self.order, verbose=verbose, unit_name="order"
        )
        levels = count_ngrams(
            tokens,
            self.order,
            self.vocabulary_size,
            self.sentence_boundaries,
            progress.update,
        )
        self.found_discounts = self._explicit_discounts
        if self.found_discounts is None:
            self.found_discounts = estimated_discounts(levels, self.discounts)
        self.tables = smoothed_tables(
            levels, self.found_discounts, self._cut_offs
        )
        return self

    def get_config(self):
        return {
            **super().get_config(),
            "order": self.order,
            "discounts": self.discounts,
            "minimum_counts": self.minimum_counts,
        }


def _cut_offs(minimum_counts, order):
    """Checks `minimum_counts`; returns the cut-off for each order."""
    cut_offs = minimum_counts
    if isinstance(minimum_counts, int):
        cut_offs = [1] + [minimum_counts] * (order - 1)
    valid = (
        isinstance(cut_offs, (list, tuple))
        and len(cut_offs) == order
        and all(isinstance(least, int) and least >= 1 for least in cut_offs)
        and list(cut_offs) == sorted(cut_offs)
        and (minimum_counts is cut_offs or minimum_counts >= 1)
    )
    if not valid:
        raise ValueError(
            "`minimum_counts` must be an integer of at least 1, or a list of "
            f"{order} such integers in ascending order. Received: "
            f"minimum_counts={minimum_counts!r}"
        )
    return list(cut_offs)


# === Counts ===


@dataclasses.dataclass(eq=False)
class Counts:
    """All n-grams of one order in a text, as arrays `(ngrams,)`."""

    keys: np.ndarray
    suffixes: np.ndarray  # indices of (n - 1)-grams, the last n - 1 words
    occurrences: np.ndarray
    # Counts to smooth: occurrences in the highest order and for n-grams that
    # begin sentences, otherwise N1+(. w_1 .. w_n) (Kneser and Ney, 1995).
    modified: np.ndarray


def count_ngrams(
    tokens,
    order,
    vocabulary_size,
    sentence_boundaries,
    update=lambda order: None,
):
    """Counts the n-grams in a text; returns a list of `Counts` from order 1.
    After each order, calls `update(order)`, for a progress bar."""
    # 32 bits suffice for all but the longest texts.
    small = np.int32 if tokens.size < np.iinfo(np.int32).max else np.int64
    # The token before the text is part of n-grams, but not counted as a word.
    tokens = np.concatenate([[END_OF_SENTENCE], tokens]).astype(small)
    occurrences = np.bincount(tokens[1:], minlength=vocabulary_size)
    words = np.arange(vocabulary_size)
    suffixes = np.zeros(vocabulary_size, small)
    levels = [Counts(words, suffixes, occurrences, occurrences)]
    begins = words == END_OF_SENTENCE
    ngrams = tokens
    for length in range(2, order + 1):
        update(length - 1)
        # One integer, the index among the (n - 1)-grams, represents all words
        # but the last, so n-grams are counted by sorting integers.
        prefixes = contexts_of(ngrams, tokens, length - 1, sentence_boundaries)
        level, ngrams = _count(prefixes, tokens, ngrams, vocabulary_size)
        # Count the distinct words before each (n - 1)-gram.
        below = levels[-1]
        preceding = np.bincount(level.suffixes, minlength=below.keys.size)
        preceding = preceding.astype(small)
        if length > 2:
            preceding = np.where(begins, below.occurrences, preceding)
        below.modified = preceding
        begins = begins[level.keys // vocabulary_size] & sentence_boundaries
        levels.append(level)
    update(order)
    return levels


def _count(prefixes, tokens, endings, vocabulary_size):
    """Returns the `Counts` for order n, and the index `(time,)` of the n-gram
    that ends with each token, or -1. `prefixes` are the indices of the
    (n - 1)-grams that end before each token, and `endings` are the indices of
    the (n - 1)-grams that end with each token."""
    there = np.flatnonzero(prefixes >= 0).astype(tokens.dtype)
    keys = prefixes[there].astype("int64") * vocabulary_size + tokens[there]
    keys, inverse, occurrences = np.unique(
        keys, return_inverse=True, return_counts=True
    )
    ngrams = np.full(tokens.size, -1, tokens.dtype)
    ngrams[there] = inverse
    # Any occurrence may set the n-gram's suffix: all have the same suffix.
    suffixes = np.zeros(keys.size, tokens.dtype)
    suffixes[inverse] = endings[there]
    occurrences = occurrences.astype(tokens.dtype)
    return Counts(keys, suffixes, occurrences, occurrences), ngrams


# === Discounts ===


def _explicit_discounts(discounts, order):
    """Checks `discounts`; returns three per order, or `None` to estimate."""
    if isinstance(discounts, str) and discounts in _FALLBACKS:
        return None
    received = f"Received: discounts={discounts!r}"
    expected = (
        '`discounts` must be "modified", "original", one number, or a list '
        f"of {order} entries, a number or three numbers for each order."
    )
    if isinstance(discounts, numbers.Real):
        discounts = [discounts] * order
    try:
        if isinstance(discounts, str) or len(discounts) != order:
            raise ValueError
        triples = [np.broadcast_to(entry, 3) for entry in discounts]
        triples = [tuple(map(float, triple)) for triple in triples]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{expected} {received}") from error
    for triple in triples:
        if not all(0 <= d <= count for count, d in enumerate(triple, start=1)):
            raise ValueError(
                "Each of `discounts` must be at least 0 and at most the count "
                f"that it is subtracted from (1, 2, 3). {received}"
            )
    return triples


def estimated_discounts(levels, kind):
    """Estimates three discounts for each order; see `KneserNey`."""
    estimated, poor = [], []
    for order, level in enumerate(levels, start=1):
        n = [np.count_nonzero(level.modified == i) for i in range(1, 5)]
        discounts = _discounts(*map(int, n), kind)
        if discounts is None:
            discounts = _FALLBACKS[kind]
            poor.append(f"order {order}: n_1 .. n_4 = {list(map(int, n))}")
        estimated.append(discounts)
    if poor:
        warnings.warn(
            f"Counts of counts give no {kind} Kneser-Ney discounts here "
            f"({'; '.join(poor)}), so the discounts are {_FALLBACKS[kind]}. "
            "This is usual for order 1 with a limited vocabulary; for other "
            "orders the text may be too small or artificial. To choose "
            "discounts yourself, give `discounts` as numbers."
        )
    return estimated


def _discounts(n1, n2, n3, n4, kind):
    """Returns three discounts, or `None` if they cannot be estimated."""
    if not (n1 and n2):
        return None
    y = n1 / (n1 + 2 * n2)
    if kind == "original":
        return (y, y, y)
    if not (n3 and n4):
        return None
    triple = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return triple if min(triple) > 0 else None


# === Smoothing ===


def smoothed_tables(levels, discounts, cut_offs):
    """Smooths a list of `Counts`; returns a list of `NGramTable`s."""
    vocabulary_size = levels[0].keys.size
    probabilities, backoffs = [], []
    below = np.array([1.0 / vocabulary_size])
    for level, triple, cut_off in zip(levels, discounts, cut_offs):
        weights, below = _interpolate(
            level, triple, cut_off, below, vocabulary_size
        )
        backoffs.append(weights)
        probabilities.append(below)
    # `backoffs[0]`, the weight of the uniform distribution, is already part of
    # the probabilities of 1-grams. No word follows the longest n-grams, so any
    # back-off weight would do: 1 has the logarithm 0.
    del backoffs[0]
    backoffs.append(np.ones(levels[-1].keys.size))

    # === Remove n-grams below the cut-offs, and number the rest ===
    # Single words below the cut-off stay, with their back-off probability.
    kept = np.ones(vocabulary_size, "bool")
    keys = levels[0].keys
    tables = []
    for level, cut_off in zip(levels, cut_offs):
        if tables:
            # A kept n-gram has a kept prefix, which occurs at least as often.
            places = np.cumsum(kept) - 1
            kept = level.occurrences >= cut_off
            prefixes, words = np.divmod(level.keys[kept], vocabulary_size)
            keys = places[prefixes] * vocabulary_size + words
        # `pop` frees memory: the arrays are as large as the new table.
        values = probabilities.pop(0)[kept]
        weights = backoffs.pop(0)[kept]
        with np.errstate(divide="ignore"):
            np.log(values, out=values)
            np.log(weights, out=weights)
        tables.append(NGramTable(keys, values, weights))
    return tables


def _interpolate(level, discounts, cut_off, below, vocabulary_size):
    """Returns the back-off weights of the contexts, and the probabilities of
    the n-grams, of one order. `below` has the probabilities of the order below;
    for order 1, it is one number."""
    prefixes = level.keys // vocabulary_size
    kept = level.occurrences >= cut_off
    # The discount D_3+ is subtracted from every count of at least 3.
    taken = np.array([0.0, *discounts])[np.minimum(level.modified, 3)]
    remaining = np.where(kept, np.maximum(level.modified - taken, 0.0), 0.0)
    totals = np.bincount(prefixes, level.modified, below.size)
    taken = np.bincount(prefixes, level.modified - remaining, below.size)
    # A count is the number of distinct words before an n-gram. In a continuous
    # text, this number is 0 for an n-gram that occurs only at the beginning.
    seen = totals > 0
    weights = np.divide(taken, totals, out=np.ones(below.size), where=seen)
    totals[~seen] = 1.0
    values = remaining / totals[prefixes]
    values += weights[prefixes] * below[level.suffixes]
    return weights, values
