"""Perplexity averaged over samples of dropout masks or of weights."""

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
    """Computes perplexity with probabilities averaged over dropout masks.

    Gal and Ghahramani (2016) average the probabilities from a trained model
    over random dropout masks, each fixed for the whole text. The result equals
    that of an `Ensemble` of `model.with_fixed_dropout(s)` for consecutive seeds
    `s`, but only one network is in memory.

    Args:
        model: `memlm_keras.LanguageModel`.
        batches, verbose, also: See `perplexity`.
        samples: Integer, number of networks with fixed dropout.
        seed: Integer, seed for the first network.

    Raises:
        ValueError: `samples` is not a positive integer, the model has no
            dropout, or an argument of `LanguageModel.with_fixed_dropout` or
            `perplexity` is invalid.

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
            "`model` must have dropout. Received: a model whose dropout "
            "rates are zero"
        )
    average = _Average(model, samples, seed, verbose)
    result = perplexity(average, batches, verbose=0, also=also)
    if verbose:
        print(result)
    return result


class _Average:
    """Model whose probabilities are means over copies with fixed dropout."""

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
    """Computes the perplexity of a smoothed or noised model from samples.

    Each sample scores the text with rows of the embedding and the output
    projection drawn as in training, without dropout. A token's probability is
    the mean over the samples (Kong et al., 2019, Section 3),

        p(y) = 1/K sum_k p(y | E_k)

    The result also has the perplexity from the mean log-probability (Section
    5.4), which is far higher than what the function `perplexity` returns. With
    the scheme `kneser_ney`, the target's output vector is drawn separately, as
    in training, so probabilities do not sum to one. `other_words="mean"` makes
    the target's probability too high: other words get vectors of smaller norm.

    With `NoisedBatches`, all samples use the same weights, and only the noise
    in the input tokens differs. If noise of the scheme `kneser_ney` replaces a
    word, it also replaces the target, the next word, as in training. The score
    of such a target is the log-probability of its replacement.

    Args:
        model: `memlm_keras.LanguageModel`. Its embedding must be a
            `SmoothedEmbedding(smoothing=...)`, except for `NoisedBatches`.
        batches: See `perplexity`; or `memlm_keras.smoothing.NoisedBatches` with
            the statistics of the training text.
        verbose: 0 prints nothing, 1 the result.

    Returns:
        `Perplexity` from mean probabilities; `others["mean_log_probability"]`
        is the `Perplexity` from mean log-probabilities.

    Raises:
        ValueError: The model is not smoothed, `samples` is not positive, or an
            argument of `perplexity` is invalid.

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
