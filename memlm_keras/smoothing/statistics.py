"""Statistics of a training stream, from which noise and smoothing follow."""

import dataclasses
import functools

import numpy as np

from memlm_keras.arguments import require_positive_integer

# Tokens counted at once: what lies on disk is never read as a whole.
_PIECE = 1 << 24


@dataclasses.dataclass(frozen=True, eq=False)
class StreamStatistics:
    """How often words occur in a stream, and beside how many others.

    With c(v) the number of times that the word v occurs among N tokens, ends
    of sentences included, and c(v w) that of v followed by w,

        u_v      = c(v) / N
        N1+(v .) = |{w : c(v w) > 0}|
        N1+(. v) = |{w : c(w v) > 0}|, or 1 if nothing comes before v
        r_v      = N1+(. v) / sum_w N1+(. w)

    as Xie et al. (2017, Section 3) and Kong et al. (2019, Section 2) take them.
    Made by `count`; statistics of consecutive shards of a stream are added up:
    `first + second` is what `count` finds in both, the two tokens at the seam
    included. All that is held is plain arrays.

    Attributes:
        counts: int64 array `(vocabulary_size,)`, c(v).
        bigrams: int64 array, sorted, `v * vocabulary_size + w` of each distinct
            pair of neighbours.
        first_token, last_token: integers, where shards are joined.

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
        """Counts a stream.

        Args:
            tokens: 1-D integer array or memory map, at least one token; a
                `memlm_keras.data.Split` has it as `tokens`.
            vocabulary_size: integer, V.

        Returns:
            `StreamStatistics`.

        Raises:
            ValueError: for other tokens, ids outside the vocabulary, or a size
                that is not a positive integer.
        """
        require_positive_integer("vocabulary_size", vocabulary_size)
        tokens = np.asanyarray(tokens)
        if tokens.ndim != 1 or not np.issubdtype(tokens.dtype, np.integer):
            raise ValueError(
                "`tokens` must be a 1-D array of integers. Received: shape "
                f"{tokens.shape} and dtype {tokens.dtype}"
            )
        if not len(tokens):
            raise ValueError("`tokens` must not be empty. Received: no tokens")
        pieces = (
            _count(tokens[begin : begin + _PIECE], vocabulary_size)
            for begin in range(0, len(tokens), _PIECE)
        )
        return functools.reduce(cls.__add__, pieces)

    def __add__(self, following):
        if self.vocabulary_size != following.vocabulary_size:
            raise ValueError(
                "Statistics that are added up must be of one vocabulary. "
                f"Received: sizes {self.vocabulary_size} and "
                f"{following.vocabulary_size}"
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
        """u_v, float64 array `(vocabulary_size,)`."""
        return self.counts / self.counts.sum()

    @property
    def followers(self):
        """N1+(v .), int64 array `(vocabulary_size,)`."""
        words = self.bigrams // self.vocabulary_size
        return np.bincount(words, minlength=self.vocabulary_size)

    @property
    def preceders(self):
        """N1+(. v), at least 1, int64 array `(vocabulary_size,)`."""
        words = self.bigrams % self.vocabulary_size
        found = np.bincount(words, minlength=self.vocabulary_size)
        return np.maximum(found, 1)

    @property
    def continuation(self):
        """r_v, float64 array `(vocabulary_size,)`."""
        return self.preceders / self.preceders.sum()

    @property
    def discounts(self):
        """N1+(v .) / c(v), 0 for words that do not occur, float64 `(V,)`."""
        return self.followers / np.maximum(self.counts, 1)


def _count(tokens, vocabulary_size):
    smallest, largest = int(tokens.min()), int(tokens.max())
    if smallest < 0 or largest >= vocabulary_size:
        raise ValueError(
            "`tokens` must be at least 0 and below vocabulary_size="
            f"{vocabulary_size}. Received: the token id "
            f"{smallest if smallest < 0 else largest}"
        )
    tokens = tokens.astype(np.int64)
    return StreamStatistics(
        np.bincount(tokens, minlength=vocabulary_size),
        np.unique(tokens[:-1] * vocabulary_size + tokens[1:]),
        int(tokens[0]),
        int(tokens[-1]),
    )
