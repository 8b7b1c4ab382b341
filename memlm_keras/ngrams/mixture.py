"""Unigram caches, and linear mixtures of models."""

import itertools

import keras
import numpy as np

from memlm_keras.arguments import require_number
from memlm_keras.arguments import require_positive_integer
from memlm_keras.ngrams.backoff import Scorer
from memlm_keras.ngrams.backoff import token_ids

_CACHE_SIZES = (100, 200, 300, 500, 1000, 2000, 5000)
# Tolerance of the mean log-probability in nats.
_TOLERANCE = 1e-9
_MOST_ITERATIONS = 10_000


class UnigramCache(Scorer):
    """Unigram distribution over the most recent tokens.

        p(w_t) = sum_i decay^(i - 1) [w_(t-i) = w_t] / sum_i decay^(i - 1)

    for the t-th token in a text, with i from 1 to `size` or to the beginning of
    the text. End-of-sentence tokens are included. The first token has
    probability 1 / vocabulary_size. Tokens that are not in the cache have
    probability 0: mix the cache with another model (Kuhn and De Mori, 1990).

    Args:
        size: Integer, number of tokens in the cache.
        decay: Float in (0, 1] that multiplies the weights of cached tokens at
            each step (Clarkson and Robinson, 1997).
        documents: Boolean, whether each document begins with an empty cache.
            `documents=True` needs `memlm_keras.data.Split`s with documents.

    Raises:
        ValueError: An argument is invalid.

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
        require_number("decay", decay, above=0, at_most=1)
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
        """Computes the natural-log probability of each token, -inf for words
        that are not cached.

        See `Scorer.score`; `verbose` is ignored. The time grows with `size`, to
        about a second for 100,000 tokens and a size of 5,000. With
        `documents=True`, a text without documents raises `ValueError`."""
        tokens = token_ids(text, self.vocabulary_size)
        starts = 0
        if self.documents:
            starts = getattr(text, "document_starts", None)
            if starts is None:
                raise ValueError(
                    "`text` must be a `Split` with documents if the cache has "
                    "`documents=True`. Received: "
                    f"{type(text).__name__} without documents"
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
        """Computes the natural-log probability of every word, -inf for words
        that are not cached.

        See `Scorer.log_probabilities`. Each context fills a cache."""
        contexts = token_ids(contexts, self.vocabulary_size, "contexts", ndim=2)
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


class Mixture(Scorer):
    """Weighted mean of the probabilities from several models.

        p(w | c) = sum_k weights_k p_k(w | c)

    Args:
        models: List of models with `score` and the same vocabulary, such as
            `KneserNey` and `UnigramCache`.
        weights: List of numbers of at least 0, one per model, that sum to 1.

    Raises:
        ValueError: The vocabularies differ, or the weights are invalid.

    Example:

    >>> cache = UnigramCache(kneser_ney.vocabulary_size, size=500)
    >>> mixture = Mixture([kneser_ney, cache], [0.9, 0.1])
    """

    def __init__(self, models, weights):
        sizes = [model.vocabulary_size for model in models]
        if len(set(sizes)) != 1:
            raise ValueError(
                "`models` must have the same vocabulary. Received: models with "
                f"vocabulary_size {sizes}"
            )
        weights = np.asarray(weights, "float64")
        if (
            weights.shape != (len(models),)
            or not np.all(weights >= 0)
            or abs(weights.sum() - 1) > 1e-6
        ):
            raise ValueError(
                f"`weights` must be {len(models)} numbers of at least 0 that "
                f"sum to 1. Received: weights={weights.tolist()}"
            )
        self.models = list(models)
        self.weights = weights
        self.vocabulary_size = sizes[0]

    @property
    def description(self):
        parts = " + ".join(
            f"{weight:.4f} * ({model.description})"
            for weight, model in zip(self.weights, self.models)
        )
        return f"mixture {parts}"

    def score(self, text, verbose=0):
        return self._mixed(lambda model: model.score(text, verbose=verbose))

    def log_probabilities(self, contexts):
        return self._mixed(lambda model: model.log_probabilities(contexts))

    def log_probabilities_at(self, text, begin, end):
        return self._mixed(
            lambda model: model.log_probabilities_at(text, begin, end)
        )

    def _mixed(self, score):
        return mixed([score(model) for model in self.models], self.weights)


def mix(models, text, verbose=1):
    """Mixes models with the weights that give a text the highest probability.

    Args:
        models: List of models; see `Mixture`.
        text: `memlm_keras.data.Split`, or integers `(tokens,)`, on which the
            models were not trained.

    Returns:
        `Mixture`.

    Raises:
        ValueError: See `Mixture` and `mixture_weights`.

    Example:

    >>> cache = UnigramCache(kneser_ney.vocabulary_size, size=500)
    >>> mixture = mix([kneser_ney, cache], corpus.validation)
    """
    scores = [model.score(text, verbose=verbose) for model in models]
    return Mixture(models, mixture_weights(scores))


def mixture_weights(scores):
    """Computes the best weights for a mixture by expectation maximization.

    Starts from equal weights, and repeats, at most 10,000 times,

        weights_k <- mean_t weights_k p_k(t) / sum_j weights_j p_j(t)

    until no weight grows by a factor above 1 + 1e-9. The mean log-probability,
    concave in the weights, is then within 1e-9 nats of the maximum.

    Args:
        scores: Floats `(models, tokens)`, natural-log probabilities of tokens.

    Returns:
        float64 array `(models,)` that sums to 1.

    Raises:
        ValueError: There are no scores, or the probability of some token is 0
            in all models.

    Example:

    >>> mixture_weights(np.log([[0.2, 0.3, 0.1], [0.1, 0.1, 0.4]])).round(3)
    array([0.654, 0.346])
    """
    scores = np.asarray(scores, "float64")
    if scores.ndim != 2 or not scores.size:
        raise ValueError(
            "`scores` must have the shape (models, tokens), with at least one "
            f"model and one token. Received: an array of shape {scores.shape}"
        )
    best = scores.max(axis=0)
    if not np.all(np.isfinite(best)):
        raise ValueError(
            "`scores` must have a finite number for each token from at least "
            f"one model. Received: {best[~np.isfinite(best)][0]} for the token "
            f"at {int(np.argmin(np.isfinite(best)))}"
        )
    # Dividing by each token's highest probability avoids overflow and
    # underflow, and does not change the result.
    ratios = np.exp(scores - best)
    weights = np.full(len(scores), 1 / len(scores))
    for _ in range(_MOST_ITERATIONS):
        growth = (ratios / (weights @ ratios)).mean(axis=1)
        if growth.max() - 1 < _TOLERANCE:
            break
        weights *= growth
    return weights / weights.sum()


def with_cache(
    model, text, sizes=_CACHE_SIZES, decays=(1.0,), documents=False, verbose=1
):
    """Mixes a model with the best unigram cache for a text.

    Tries a cache of each size and decay with its best mixture weights, and
    chooses the mixture that gives the text the highest probability.

    Args:
        model: Model with `score`, such as `KneserNey`.
        text: See `mix`.
        sizes: Integers, cache sizes to try.
        decays: Floats, decays to try with each size.
        documents: See `UnigramCache`.

    Returns:
        `Mixture` of the model and the cache.

    Raises:
        ValueError: There are no sizes or decays, or an argument of `mix` is
            invalid.

    Example:

    >>> cached = with_cache(kneser_ney, corpus.validation)
    >>> result = cached.perplexity(corpus.test)
    """
    settings = list(itertools.product(sizes, decays))
    if not settings:
        raise ValueError(
            "`sizes` and `decays` must not be empty. Received: "
            f"sizes={sizes!r}, decays={decays!r}"
        )
    scores = model.score(text, verbose=0)
    progress = keras.utils.Progbar(
        len(settings), verbose=verbose, unit_name="cache"
    )
    best, best_sum = None, -np.inf
    for size, decay in settings:
        cache = UnigramCache(model.vocabulary_size, size, decay, documents)
        both = [scores, cache.score(text)]
        weights = mixture_weights(both)
        total = mixed(both, weights).sum()
        if total > best_sum:
            best, best_sum = Mixture([model, cache], weights), total
        progress.add(1)
    return best


def mixed(scores, weights):
    """Computes log sum_k weights_k exp(scores_k)."""
    with np.errstate(divide="ignore"):
        terms = [
            np.log(weight) + score for weight, score in zip(weights, scores)
        ]
    return np.logaddexp.reduce(terms, axis=0)
