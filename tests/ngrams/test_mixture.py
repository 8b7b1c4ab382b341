"""Tests the cache by brute force, and the weights by a grid search."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlm_keras.data import Split
from memlm_keras.ngrams import KneserNey
from memlm_keras.ngrams import Mixture
from memlm_keras.ngrams import UnigramCache
from memlm_keras.ngrams import mix
from memlm_keras.ngrams import mixture_weights
from memlm_keras.ngrams import with_cache

SIZE = 9


def cached_naively(tokens, size, decay, starts=(0,)):
    """Computes each token's probability from a list of previous words."""
    probabilities = []
    for time, token in enumerate(tokens):
        article = max(start for start in starts if start <= time)
        recent = tokens[max(article, time - size) : time][::-1]
        weights = [decay**age for age in range(len(recent))]
        same = sum(w for w, word in zip(weights, recent) if word == token)
        probabilities.append(same / sum(weights) if recent else 1 / SIZE)
    return probabilities


TEXTS = st.lists(st.integers(0, SIZE - 1), max_size=40)


@given(TEXTS, st.integers(1, 50), st.sampled_from([1.0, 0.7]))
def test_the_cache_by_brute_force(tokens, size, decay):
    scores = UnigramCache(SIZE, size, decay).score(tokens)
    np.testing.assert_allclose(
        np.exp(scores), cached_naively(tokens, size, decay), rtol=1e-12
    )


def test_the_cache_is_emptied_at_documents(random):
    tokens, starts = random.integers(0, SIZE, 50), np.array([0, 3, 30])
    cache = UnigramCache(SIZE, 8, documents=True)
    found = np.exp(cache.score(Split(tokens, starts)))
    expected = cached_naively(tokens.tolist(), 8, 1.0, starts)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    with pytest.raises(ValueError, match="`Split` with documents.*ndarray"):
        cache.score(tokens)


@pytest.mark.parametrize("models", [2, 3])
def test_weights_are_the_best(random, models):
    scores = np.log(random.dirichlet(np.ones(4), (models, 50))[..., 0])
    weights = mixture_weights(scores)
    assert weights.sum() == pytest.approx(1)
    mean = np.mean(np.log(weights @ np.exp(scores)))
    others = random.dirichlet(np.ones(models), 3000)
    others = np.log(others @ np.exp(scores)).mean(axis=1)
    assert mean >= others.max() - 1e-9
    # The weights are not much better than the best point of the grid.
    assert mean - others.max() < 1e-2


def test_weights_at_the_edge():
    better, worse = np.log([0.5, 0.4, 0.6]), np.log([0.1, 0.2, 0.3])
    found = mixture_weights([better, worse])
    np.testing.assert_allclose(found, [1, 0], atol=1e-6)
    impossible = np.array([-np.inf, -1.0])
    weights = mixture_weights([impossible, [-2.0, -2.0]])
    assert 0 < weights[0] < 1
    # These probabilities are too small for a float.
    scores = np.array([[-5000.0, -1.0], [-5001.0, 0.0]])
    found, expected = mixture_weights(scores), mixture_weights(scores + 4000)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.fixture
def model(random):
    text = random.zipf(1.3, 3000) % SIZE
    return KneserNey(SIZE, order=3, discounts=0.7).fit(text, verbose=0)


def test_a_mixture(model, random):
    tokens = np.repeat(random.integers(0, SIZE, 100), 3)
    cache = UnigramCache(SIZE, 20)
    mixture = mix([model, cache], tokens, verbose=0)
    weights = mixture.weights
    expected = weights[0] * np.exp(model.score(tokens))
    expected += weights[1] * np.exp(cache.score(tokens))
    np.testing.assert_allclose(np.exp(mixture.score(tokens)), expected)
    distributions = mixture.log_probabilities(tokens[None, :30])
    np.testing.assert_allclose(np.exp(distributions).sum(axis=1), 1)
    result = mixture.perplexity(tokens, verbose=0)
    assert result.perplexity < model.perplexity(tokens, verbose=0).perplexity
    assert f"{weights[1]:.4f} * (unigram cache of the last 20" in str(result)


def test_the_best_cache_is_chosen(model, random):
    tokens = np.repeat(random.integers(0, SIZE, 100), 3)
    best = with_cache(model, tokens, (1, 2, 30), (1.0, 0.5), verbose=0)
    losses = {}
    for size, decay in itertools.product((1, 2, 30), (1.0, 0.5)):
        models = [model, UnigramCache(SIZE, size, decay)]
        mixture = mix(models, tokens, verbose=0)
        losses[size, decay] = -mixture.score(tokens).sum()
    cache = best.models[1]
    assert (cache.size, cache.decay) == min(losses, key=losses.get)


def test_what_they_refuse(model):
    two = [model, UnigramCache(SIZE, 5)]
    others = [model, UnigramCache(4, 5)]
    for call, arguments, message in (
        (UnigramCache, (SIZE, 0), "size.*at least 1.*=0"),
        (UnigramCache, (SIZE, 5, 1.5), "`decay` must be above 0.*1.5"),
        (Mixture, (others, [0.5, 0.5]), r"same vocabulary.*\[9, 4\]"),
        (Mixture, (two, [0.5, 0.6]), "`weights` must be 2 numbers"),
        (Mixture, (two, [1.0]), "`weights` must be 2 numbers"),
        (Mixture, (two, [-0.5, 1.5]), "`weights` must be 2 numbers"),
        (Mixture, (two, [float("nan"), 1.0]), "`weights` must be 2 numbers"),
        (mixture_weights, ([[], []],), r"\(models, tokens\).*\(2, 0\)"),
        (mixture_weights, ([[-1.0, -np.inf]] * 2,), "-inf for the token at 1"),
        (with_cache, (model, [1, 2], []), "`sizes` and `decays`"),
    ):
        with pytest.raises(ValueError, match=message):
            call(*arguments)
