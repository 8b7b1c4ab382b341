"""Perplexity by samples of smoothed matrices, beside that of their mean."""

import math

import numpy as np

from memlm_keras.arguments import require_positive_integer
from memlm_keras.evaluation.perplexity import of_scores
from memlm_keras.evaluation.perplexity import require_beginning


def sampled_perplexity(model, batches, samples=20, seed=0, verbose=1):
    """Perplexity of a smoothed model that predicts by samples.

    The text is read as often as there are samples, with the rows of embedding
    and output projection drawn as in training, and no dropout. A token's
    probability is the mean of those of the samples,

        p(y) = 1/K sum_k p(y | E_k)

    (Kong et al., 2019, Section 3). Beside it is the perplexity by the mean of
    the samples' log-probabilities, which is how the paper's Section 5.4 puts
    it; that was far higher there than by the mean of the matrices, which
    `perplexity` takes. With the scheme `kneser_ney` a sample redraws the output
    vector of the target alone, as training does, so what all words would get
    does not sum to one: where the others have their means, the target stands
    out, and its probability comes out too high.

    Args:
        model: a `memlm_keras.LanguageModel` with a `smoothing`.
        batches: as of `perplexity`.
        samples: integer, K.
        seed: integer from which the draws follow.
        verbose: 0 prints nothing, 1 the result.

    Returns:
        `Perplexity`, with that of the mean log-probability as
        `others["mean_log_probability"]`.

    Raises:
        ValueError: for a model that is not smoothed, a number of samples that
            is not positive, and for batches that `perplexity` refuses.

    Example:

    >>> result = memlm_keras.evaluation.sampled_perplexity(
    ...     lm, batches, samples=20
    ... )
    """
    require_positive_integer("samples", samples)
    require_beginning(batches)
    read = model.sampled_score_batches(batches, samples, seed)
    scores, (weights, *_) = zip(*read)
    scores = np.stack(scores).astype("float64")

    def result(values, what, others=None):
        protocol = f"; the mean {what} of {samples} samples, seed {seed}"
        return of_scores(model, batches, values, weights, protocol, others)

    beside = result(scores.mean(axis=0), "log-probability")
    mean = np.logaddexp.reduce(scores, axis=0) - math.log(samples)
    found = result(mean, "probability", {"mean_log_probability": beside})
    if verbose:
        print(found)
    return found
