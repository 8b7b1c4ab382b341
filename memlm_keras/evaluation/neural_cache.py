"""Chooses theta and weight for a neural cache (Grave et al., 2017)."""

import dataclasses
import functools

import numpy as np
from keras import ops

from memlm_keras.evaluation.perplexity import lowest
from memlm_keras.evaluation.perplexity import require_beginning
from memlm_keras.evaluation.perplexity import require_method
from memlm_keras.masking import masked_softmax
from memlm_keras.mixtures.grave2017 import THETAS
from memlm_keras.mixtures.grave2017 import WEIGHTS
from memlm_keras.mixtures.grave2017 import NeuralCache
from memlm_keras.models.backbone import compile_inference
from memlm_keras.models.backbone import pack_named
from memlm_keras.models.backbone import unpack_named
from memlm_keras.models.streaming import read_batches


@dataclasses.dataclass(frozen=True)
class CacheChoice:
    """Perplexities with a neural cache, by theta and weight.

    Attributes:
        size: Integer, number of outputs in the cache.
        thetas, weights: Tuples of floats, the grid.
        perplexities: float64 array `(thetas, weights)`.
        without: Float, perplexity without a cache.
        predicted_tokens: Integer, number of predicted tokens.
    """

    size: int
    thetas: tuple
    weights: tuple
    perplexities: np.ndarray = dataclasses.field(repr=False)
    without: float
    predicted_tokens: int

    @property
    def cache(self):
        """The `NeuralCache` with the lowest perplexity."""
        row, column = lowest(self.perplexities)
        return NeuralCache(self.size, self.thetas[row], self.weights[column])

    @property
    def perplexity(self):
        """The lowest perplexity."""
        return float(self.perplexities[lowest(self.perplexities)])

    def __str__(self):
        cache, tried = self.cache, ""
        if self.perplexities.size > 1:
            tried = f"the best of {len(self.thetas)} x {len(self.weights)} on "
        return (
            f"cache of {self.size}: perplexity {self.perplexity:.2f} "
            f"with theta={cache.theta:g} and weight={cache.weight:g}, "
            f"{self.without:.2f} without; {tried}{self.predicted_tokens} tokens"
        )


def choose_cache(
    model,
    batches,
    size=500,
    thetas=THETAS,
    weights=WEIGHTS,
    verbose=1,
    scores=None,
):
    """Chooses theta and weight for a neural cache in one pass over a text.

    Args:
        model: `memlm_keras.LanguageModel` without a mixture.
        batches: `memlm_keras.data.Batches` of the whole development text.
        size: Integer, number of outputs in the cache.
        thetas, weights: Sequences of floats to try; see `NeuralCache`.
        verbose: 0 prints nothing, 1 a progress bar and the result.
        scores: Result of `model.score_batches(batches)`, if known. The output
            layer, slow for a large vocabulary, is then not computed.

    Raises:
        ValueError: The model has a mixture, `thetas` or `weights` are invalid,
            ids are outside the vocabulary, or batches start in mid-epoch.

    Example:

    >>> batches = corpus.batches("validation", batch_size=1, segment_length=20)
    >>> choice = memlm_keras.evaluation.choose_cache(
    ...     lm, batches, size=5, thetas=(0.1, 0.3), weights=(0.1, 0.2)
    ... )
    >>> cached = lm.with_mixture(choice.cache)
    """
    thetas, weights = tuple(thetas), tuple(weights)
    _require_choices(model, thetas, weights)
    require_beginning(batches)
    cache = NeuralCache(size)
    cache.build(model.head.input.shape)
    start = {
        **model.initial_state(batches.batch_size),
        **pack_named("mixture", cache.initial_state(batches.batch_size)),
    }

    @functools.partial(compile_inference, model)
    def compare(token_ids, targets, state):
        (outputs, plain), new_state = model.backbone.outputs(
            token_ids, targets if scores is None else None, state
        )
        products, words, seen, cache_state = cache.compare(
            outputs, unpack_named(state, "mixture"), token_ids
        )
        cached = []
        for theta in thetas:
            attention = masked_softmax(theta * products, seen)
            attention = cache.weights_of_words(attention, words)
            cached.append(cache.copy_probability(attention, words, targets))
        filled = ops.any(seen, axis=-1)
        new_state |= pack_named("mixture", cache_state)
        return (plain, ops.stack(cached), filled), new_state

    losses = np.zeros((len(thetas), len(weights)))
    without = predicted = 0.0
    for index, (result, sample_weight) in enumerate(
        read_batches(model, compare, batches, start, verbose=verbose)
    ):
        plain, *others = result
        if scores is not None:
            rows, steps = sample_weight.shape
            plain = scores[0][index * rows : (index + 1) * rows, :steps]
        plain, cached, filled = (
            ops.convert_to_numpy(part).astype("float64")
            for part in (plain, *others)
        )
        for column, weight in enumerate(weights):
            mixed = (1 - weight * filled) * np.exp(plain) + weight * cached
            nats = -np.log(mixed) * sample_weight
            losses[:, column] += nats.sum(axis=(1, 2))
        without -= np.sum(plain * sample_weight)
        predicted += float(sample_weight.sum())
    choice = CacheChoice(
        size=size,
        thetas=thetas,
        weights=weights,
        perplexities=np.exp(losses / predicted),
        without=float(np.exp(without / predicted)),
        predicted_tokens=int(predicted),
    )
    if verbose:
        print(choice)
    return choice


def _require_choices(model, thetas, weights):
    require_method("outputs_batches", model)
    if model.mixture is not None:
        raise ValueError(
            "`model` must have no mixture of its own; try "
            "`model.with_mixture(None)`. Received: a model with mixture="
            f"{model.mixture}"
        )
    for name, values in (("thetas", thetas), ("weights", weights)):
        if not values:
            raise ValueError(
                f"`{name}` must hold at least one number. Received: none"
            )
        for value in values:
            NeuralCache(**{name.removesuffix("s"): value})
