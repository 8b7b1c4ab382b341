import dataclasses

import numpy as np
import pytest
from language_models import V
from language_models import make

from memlm_keras.data import Batches
from memlm_keras.evaluation import choose_cache
from memlm_keras.evaluation import perplexity
from memlm_keras.evaluation.neural_cache import CacheChoice
from memlm_keras.mixtures import NeuralCache


def batches_of(documents, rows):
    tokens = np.random.default_rng(1).integers(V, size=60).astype("int32")
    starts = np.array([0, 11, 40]) if documents else None
    return Batches(tokens, rows, segment_length=7, document_starts=starts)


@pytest.mark.parametrize("documents, rows", [(False, 1), (True, 2)])
def test_one_pass_gives_every_perplexity(documents, rows, capsys):
    model, batches = make("lstm", "none"), batches_of(documents, rows)
    thetas, weights = (0.0, 1.5), (0.1, 0.6)
    known = {"scores": model.score_batches(batches)} if documents else {}
    choice = choose_cache(model, batches, 6, thetas, weights, 0, **known)
    for row, column in ((0, 1), (1, 0)):
        cache = NeuralCache(6, thetas[row], weights[column])
        cached = perplexity(model.with_mixture(cache), batches, verbose=0)
        np.testing.assert_allclose(
            choice.perplexities[row, column], cached.perplexity, rtol=1e-5
        )
    plain = perplexity(model, batches, verbose=0)
    np.testing.assert_allclose(choice.without, plain.perplexity, rtol=1e-5)
    assert choice.predicted_tokens == plain.predicted_tokens
    best = choice.perplexities.min()
    place = thetas.index(choice.cache.theta), weights.index(choice.cache.weight)
    assert choice.perplexities[place] == best
    assert not capsys.readouterr().out
    said = str(choice)
    assert f"perplexity {best:.2f} with theta={choice.cache.theta:g}" in said
    assert "without; the best of 2 x 2 on 60 tokens" in said


@pytest.mark.parametrize("other", [np.nan, np.inf])
def test_a_perplexity_that_is_not_finite_is_not_chosen(other):
    grid = np.array([[other, 3.0], [2.0, other]])
    choice = CacheChoice(6, (0.1, 0.2), (0.3, 0.4), grid, 5.0, 60)
    assert (choice.cache.theta, choice.cache.weight) == (0.2, 0.3)
    assert "perplexity 2.00 with theta=0.2" in str(choice)
    none = dataclasses.replace(choice, perplexities=grid * other)
    with pytest.raises(ValueError, match="one perplexity must be finite"):
        _ = none.cache


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"thetas": ()}, "`thetas` must hold at least one number"),
        ({"weights": [0.1, 1.0]}, "`weight` must be at least 0.*weight=1.0"),
        ({"size": 0}, "`size` must be an integer of at least 1"),
        ({"mixture": NeuralCache(3)}, "`model` must have no mixture"),
    ],
)
def test_bad_arguments(arguments, message):
    model = make("lstm", "none", mixture=arguments.pop("mixture", None))
    with pytest.raises(ValueError, match=message):
        choose_cache(model, batches_of(False, 1), verbose=0, **arguments)
