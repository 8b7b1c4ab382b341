"""A cache of recent words."""

import numpy as np

from memlm_keras.arguments import require_positive_integer
from memlm_keras.ngrams.backoff import Scorer
from memlm_keras.ngrams.backoff import token_ids


class UnigramCache(Scorer):
    """Unigram distribution of the recent text.

        p(w_t) = sum_i decay^(i - 1) [w_(t-i) = w_t] / sum_i decay^(i - 1)

    for the t-th token of a text, with i from 1 to `size`, or to the beginning
    of the text. Ends of sentences are tokens like others, and do not empty
    the cache. The first token has probability 1 / vocabulary_size, and words
    that are not in the cache have probability 0: mix the cache with another
    model (Kuhn and De Mori, 1990).

    Args:
        vocabulary_size: integer.
        size: integer, number of tokens that the cache goes back.
        decay: float above 0 and at most 1, factor of a token's weight for
            every token that follows it (Clarkson and Robinson, 1997).
        documents: boolean, whether the cache is emptied where a document
            begins. Texts must then be `memlm_keras.data.Split`s with documents.

    Raises:
        ValueError: for other arguments.

    Example:

    >>> cache = UnigramCache(vocabulary_size=10, size=3)
    >>> np.exp(cache.score([5, 5, 0, 5, 5])).round(2).tolist()
    [0.1, 1.0, 0.0, 0.67, 0.67]

    References: Kuhn and De Mori, 1990, *A cache-based natural language model
    for speech recognition*; Clarkson and Robinson, 1997, *Language model
    adaptation using mixtures and an exponentially decaying cache*.
    """

    def __init__(self, vocabulary_size, size, decay=1.0, documents=False):
        require_positive_integer("vocabulary_size", vocabulary_size, 2)
        require_positive_integer("size", size)
        if not 0 < decay <= 1:
            raise ValueError(
                "`decay` must be above 0 and at most 1. Received: "
                f"decay={decay!r}"
            )
        self.vocabulary_size = vocabulary_size
        self.size = size
        self.decay = decay
        self.documents = documents

    @property
    def context_length(self):
        return self.size

    @property
    def description(self):
        emptied = ", emptied at each document" if self.documents else ""
        decay = f", decay {self.decay}" if self.decay < 1 else ""
        return f"unigram cache of the last {self.size} tokens{decay}{emptied}"

    def score(self, text, verbose=0):
        """Natural-log probability of each token, -inf for words not cached.

        See `Scorer.score`. The time grows with `size`, to about a second for
        100,000 tokens and a size of 5,000. There is no progress bar.

        Raises:
            ValueError: as `Scorer.score`, and for a text without documents if
                `documents` is true.
        """
        tokens = token_ids(text, self.vocabulary_size)
        starts = 0
        if self.documents:
            starts = getattr(text, "document_starts", None)
            if starts is None:
                raise ValueError(
                    "`text` must be a `Split` with documents for a cache with "
                    f"`documents=True`. Received: {type(text).__name__} without"
                )
            starts = np.repeat(starts, np.diff(starts, append=len(text)))
        ages = np.arange(tokens.size) - starts
        ages = np.minimum(ages, self.size)
        weights = self.decay ** np.arange(ages.max(initial=0))
        counts = np.zeros(tokens.size)
        for lag, weight in enumerate(weights, start=1):
            same = tokens[lag:] == tokens[:-lag]
            counts[lag:] += weight * (same & (ages[lag:] >= lag))
        totals = np.cumsum(np.concatenate([[0.0], weights]))[ages]
        with np.errstate(divide="ignore"):
            scores = np.log(counts / np.where(ages > 0, totals, 1.0))
        scores[ages == 0] = -np.log(self.vocabulary_size)
        return scores

    def log_probabilities(self, contexts):
        """Natural-log probability of every word, -inf for words not cached.

        See `Scorer.log_probabilities`; a context is the content of the cache.
        """
        contexts = token_ids(contexts, self.vocabulary_size, "contexts", 2)
        contexts = contexts[:, -self.size :]
        rows, length = contexts.shape
        if not length:
            uniform = -np.log(self.vocabulary_size)
            return np.full((rows, self.vocabulary_size), uniform)
        weights = self.decay ** np.arange(length)[::-1]
        counts = np.zeros((rows, self.vocabulary_size))
        np.add.at(counts, (np.arange(rows)[:, None], contexts), weights)
        with np.errstate(divide="ignore"):
            return np.log(counts / weights.sum())
