"""Perplexity of Monte Carlo averages, over dropout or smoothed matrices."""

import math

import keras
import numpy as np

from memlm_keras.arguments import require_positive_integer
from memlm_keras.evaluation.perplexity import Perplexity
from memlm_keras.evaluation.perplexity import perplexity
from memlm_keras.evaluation.perplexity import require_beginning
from memlm_keras.evaluation.perplexity import require_method
from memlm_keras.models import variants


def monte_carlo_perplexity(
    model, batches, samples=100, seed=0, verbose=1, also=()
):
    """Perplexity of the mean prediction of networks with fixed dropout.

    Gal and Ghahramani (2016) average the probabilities of a trained model with
    random dropout masks, one set for the whole text. This is the perplexity of
    an `Ensemble` of `model.with_fixed_dropout(seed)` and the next seeds, but
    only one of them is in memory at a time.

    Args:
        model: `memlm_keras.LanguageModel`.
        batches, verbose, also: as for `perplexity`.
        samples: integer, number of networks with fixed dropout.
        seed: integer, that of the first.

    Raises:
        ValueError: if `samples` is not a positive integer, for a model without
            dropout, and for what `LanguageModel.with_fixed_dropout` and
            `perplexity` refuse.

    Example:

    >>> batches = corpus.batches("test", batch_size=1, segment_length=100)
    >>> model = memlm_keras.LanguageModel(
    ...     len(corpus.vocabulary), 4, [keras.layers.LSTM(6)], dropout=0.5
    ... )
    >>> result = memlm_keras.evaluation.monte_carlo_perplexity(
    ...     model, batches, samples=3
    ... )
    """
    require_positive_integer("samples", samples)
    require_method("with_fixed_dropout", model)
    if not variants.drops(model):
        raise ValueError(
            "`model` must have dropout, as all its networks with fixed dropout "
            "are equal otherwise. Received: a model whose rates of dropout are "
            "zero"
        )
    average = _Average(model, samples, seed, verbose)
    result = perplexity(average, batches, verbose=0, also=also)
    if verbose:
        print(result)
    return result


class _Average:
    """Mean of networks with fixed dropout, a model for `perplexity`."""

    def __init__(self, model, samples, seed, verbose):
        self.model = model
        self.samples = samples
        self.seed = seed
        self.verbose = verbose
        self.memory = model.memory
        self.causal = model.causal
        self.vocabulary = getattr(model, "vocabulary", None)
        self.description = f"mean of {samples} networks with fixed dropout"

    def score_batches(self, batches, verbose=0):
        total, copy = -np.inf, None
        progress = keras.utils.Progbar(self.samples, verbose=self.verbose)
        for index in range(self.samples):
            copy = self.model.with_fixed_dropout(self.seed + index, into=copy)
            scores, weights = copy.score_batches(batches)
            total = np.logaddexp(total, scores.astype("float64"))
            progress.add(1)
        return total - math.log(self.samples), weights


def sampled_perplexity(model, batches, samples=20, seed=0, verbose=1):
    """Perplexity of a smoothed or noised model that predicts by samples.

    The text is read once for each sample, with the rows of embedding and output
    projection drawn as in training, without dropout. A token's probability is
    the mean over the samples,

        p(y) = 1/K sum_k p(y | E_k)

    (Kong et al., 2019, Section 3). The result also has the perplexity by the
    mean of the samples' log-probabilities, as in the paper's Section 5.4, where
    it is far higher than by the mean of the matrices, which `perplexity` uses.
    With the scheme `kneser_ney` a sample draws the output vector of the target
    separately from all others, as in training, so the probabilities of all
    words do not sum to one: where the others have their means, the probability
    of the target is too high.

    If the batches are noised, each sample has new noise, and the matrices are
    those of `perplexity`. With `kneser_ney`, the target of a replaced word is
    replaced too, as in training: its score is that of another word.

    Args:
        model: a `memlm_keras.LanguageModel`, with a `smoothing` if the batches
            have no noise.
        batches: as for `perplexity`, or `memlm_keras.smoothing.NoisedBatches`
            of them, with the statistics of the training text.
        verbose: 0 prints nothing, 1 the result.

    Returns:
        `Perplexity`, with that of the mean log-probability as
        `others["mean_log_probability"]`.

    Raises:
        ValueError: for a model that is not smoothed, a number of samples that
            is not positive, and for batches that `perplexity` refuses.

    Example:

    >>> result = memlm_keras.evaluation.sampled_perplexity(
    ...     smoothed, batches, samples=3
    ... )
    >>> other = result.others["mean_log_probability"]
    >>> other.perplexity > result.perplexity
    True
    """
    require_positive_integer("samples", samples)
    require_beginning(batches)
    if hasattr(batches, "samples"):
        read = map(model.score_batches, batches.samples(samples, seed))
    else:
        require_method("sampled_score_batches", model)
        read = model.sampled_score_batches(batches, samples, seed)
    scores, (weights, *_) = zip(*read)
    scores = np.stack(scores).astype("float64")

    def perplexity_of_mean(name, values, **fields):
        note = f"; the mean {name} of {samples} samples, seed {seed}"
        return Perplexity.from_scores(
            model, batches, values, weights, note, **fields
        )

    other = perplexity_of_mean("log-probability", scores.mean(axis=0))
    mean = np.logaddexp.reduce(scores, axis=0) - math.log(samples)
    result = perplexity_of_mean(
        "probability", mean, others={"mean_log_probability": other}
    )
    if verbose:
        print(result)
    return result
