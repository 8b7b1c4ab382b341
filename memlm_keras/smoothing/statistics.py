"""Word counts of a training text, and the random replacement of words."""

import dataclasses
import functools

import numpy as np

from memlm_keras.arguments import require_instance
from memlm_keras.arguments import require_integers
from memlm_keras.arguments import require_number
from memlm_keras.arguments import require_one_of
from memlm_keras.arguments import require_positive_integer

# Number of tokens counted at once, since a text may not fit in memory.
_PIECE = 1 << 24


@dataclasses.dataclass(frozen=True, eq=False)
class StreamStatistics:
    """Counts of the words of a text, and of their distinct neighbours.

    c(v) is the count of the word v among N tokens, including ends of sentences,
    and c(v w) is the count of v followed by w:

        u_v      = c(v) / N
        N1+(v .) = |{w : c(v w) > 0}|
        N1+(. v) = |{w : c(w v) > 0}|, or 1 if nothing comes before v
        r_v      = N1+(. v) / sum_w N1+(. w)

    See Xie et al. (2017, Section 3) and Kong et al. (2019, Section 2). Create
    statistics with `count`. If `first` and `second` are the statistics of two
    consecutive parts of a text, `first + second` are those of both together.

    Attributes:
        counts: int64 array `(vocabulary_size,)`, c(v).
        bigrams: int64 array, sorted, `v * vocabulary_size + w` of each distinct
            pair of neighbours.
        first_token, last_token: integers, ids of the first and last token.

    Example:

    >>> statistics = StreamStatistics.count(np.array([1, 2, 1, 0]), 3)
    >>> statistics.counts
    array([1, 2, 1])
    >>> statistics.followers
    array([0, 2, 1])
    """

    counts: np.ndarray
    bigrams: np.ndarray
    first_token: int
    last_token: int

    @classmethod
    def count(cls, tokens, vocabulary_size):
        """Counts the words and pairs of neighbours of a text.

        Args:
            tokens: 1-D integer array or memory map of at least one token, such
                as `memlm_keras.data.Split.tokens`.
            vocabulary_size: integer, V.

        Returns:
            `StreamStatistics`.

        Raises:
            ValueError: if an argument is not as described, or an id is outside
                the vocabulary.
        """
        require_positive_integer("vocabulary_size", vocabulary_size)
        tokens = require_integers(
            "tokens", tokens, vocabulary_size=vocabulary_size
        )
        pieces = (
            _count(tokens[begin : begin + _PIECE], vocabulary_size)
            for begin in range(0, len(tokens), _PIECE)
        )
        return functools.reduce(cls.__add__, pieces)

    def __add__(self, following):
        if self.vocabulary_size != following.vocabulary_size:
            raise ValueError(
                "Statistics to add must share one vocabulary. Received: sizes "
                f"{self.vocabulary_size} and {following.vocabulary_size}"
            )
        seam = self.last_token * self.vocabulary_size + following.first_token
        bigrams = (self.bigrams, following.bigrams, [seam])
        return StreamStatistics(
            self.counts + following.counts,
            np.unique(np.concatenate(bigrams)),
            self.first_token,
            following.last_token,
        )

    @property
    def vocabulary_size(self):
        """Number of words, V."""
        return len(self.counts)

    @property
    def unigram(self):
        """Unigram probabilities u_v, float64 array `(vocabulary_size,)`."""
        return self.counts / self.counts.sum()

    @property
    def followers(self):
        """Numbers N1+(v .) of distinct next words, int64 array `(V,)`."""
        words = self.bigrams // self.vocabulary_size
        return np.bincount(words, minlength=self.vocabulary_size)

    @property
    def preceders(self):
        """Numbers N1+(. v) of distinct previous words, int64, at least 1."""
        words = self.bigrams % self.vocabulary_size
        counts = np.bincount(words, minlength=self.vocabulary_size)
        return np.maximum(counts, 1)

    @property
    def continuation(self):
        """Kneser-Ney probabilities r_v, float64 array `(vocabulary_size,)`."""
        return self.preceders / self.preceders.sum()

    @property
    def discounts(self):
        """Distinct next words per occurrence, float64 `(V,)`; 0 if unseen."""
        return self.followers / np.maximum(self.counts, 1)


def _count(tokens, vocabulary_size):
    tokens = tokens.astype(np.int64)
    return StreamStatistics(
        np.bincount(tokens, minlength=vocabulary_size),
        np.unique(tokens[:-1] * vocabulary_size + tokens[1:]),
        int(tokens[0]),
        int(tokens[-1]),
    )


SCHEMES = (
    "blank",
    "linear_interpolation",
    "absolute_discounting",
    "kneser_ney",
)


def replacement(scheme, rate, statistics, blank_id=None):
    """Returns gamma_v, the probability that the word v is replaced, and q_k,
    the probability that k replaces it, in float64 (Xie et al., 2017, Table 1).
    """
    require_one_of("scheme", scheme, SCHEMES)
    require_number("rate", rate, at_least=0, at_most=1)
    require_instance(
        "statistics",
        statistics,
        StreamStatistics,
        "a result of `StreamStatistics.count(tokens, vocabulary_size)`",
    )
    is_id = (
        isinstance(blank_id, (int, np.integer))
        and not isinstance(blank_id, bool)
        and blank_id >= 0
    )
    if (scheme == "blank") != is_id or (blank_id is not None) != is_id:
        raise ValueError(
            "`blank_id` must be a token id for the scheme 'blank', and None "
            f"for other schemes. Received: scheme={scheme!r} and "
            f"blank_id={blank_id!r}"
        )
    rates = np.full(statistics.vocabulary_size, float(rate))
    if scheme in ("absolute_discounting", "kneser_ney"):
        rates = rate * statistics.discounts
    if scheme == "blank":
        proposal = np.zeros(max(statistics.vocabulary_size, blank_id + 1))
        proposal[blank_id] = 1.0
    elif scheme == "kneser_ney":
        proposal = statistics.continuation
    else:
        proposal = statistics.unigram
    return rates, proposal


@dataclasses.dataclass(frozen=True, eq=False)
class AliasTable:
    """Table for drawing from a distribution by the alias method (Walker, 1977;
    Vose, 1991): draw k uniformly, and replace k by `aliases[k]` except with
    probability `thresholds[k]`."""

    # In float32, cumulative sums could not tell many rare words apart.
    thresholds: np.ndarray
    aliases: np.ndarray

    @classmethod
    def of(cls, probabilities):
        """Creates a table from probabilities `(outcomes,)` that sum to one."""
        outcomes = len(probabilities)
        remaining = (np.asarray(probabilities, np.float64) * outcomes).tolist()
        thresholds = np.ones(outcomes)
        aliases = np.arange(outcomes, dtype=np.int32)
        small = [k for k, value in enumerate(remaining) if value < 1.0]
        large = [k for k, value in enumerate(remaining) if value >= 1.0]
        while small and large:
            poor, rich = small.pop(), large[-1]
            thresholds[poor], aliases[poor] = remaining[poor], rich
            remaining[rich] -= 1.0 - remaining[poor]
            if remaining[rich] < 1.0:
                small.append(large.pop())
        return cls(thresholds, aliases)

    def draw(self, generator, shape):
        """Draws an int32 array of outcomes with the given shape."""
        outcomes = generator.integers(len(self.aliases), size=shape)
        kept = generator.random(shape) < self.thresholds[outcomes]
        return np.where(kept, outcomes, self.aliases[outcomes]).astype(np.int32)
