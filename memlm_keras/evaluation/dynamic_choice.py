"""Search for rate and decay of dynamic evaluation."""

import copy
import dataclasses

import numpy as np

from memlm_keras.evaluation.dynamic import DynamicEvaluator
from memlm_keras.evaluation.perplexity import require_beginning

# What is tried on development text: rates of each rule, and decays.
RATES = {"rms": (3e-5, 1e-4, 3e-4), "sgd": (0.01, 0.03, 0.1)}
DECAYS = (0.0, 1e-3, 1e-2)


@dataclasses.dataclass(frozen=True)
class DynamicChoice:
    """The perplexities of a text by dynamic evaluation, by rate and decay.

    Attributes:
        rates, decays: tuples of floats that were tried.
        perplexities: float64 array `(rates, decays)`.
        evaluator: `DynamicEvaluator` of the lowest perplexity.
    """

    rates: tuple
    decays: tuple
    perplexities: np.ndarray = dataclasses.field(repr=False)
    evaluator: DynamicEvaluator = dataclasses.field(repr=False)


def choose_dynamic(
    lm,
    batches,
    mean_squares=None,
    rates=None,
    decays=DECAYS,
    segments=None,
    verbose=1,
):
    """Finds rate and decay of dynamic evaluation on development text.

    Args:
        lm: `memlm_keras.LanguageModel` that is causal.
        batches: `memlm_keras.data.Batches` of one row.
        mean_squares: as for `DynamicEvaluator`.
        rates: sequence of floats to try; `None` for those of `RATES`.
        decays: sequence of floats to try.
        segments: integer, most segments to read; `None` for all.
        verbose: 0 prints nothing, 1 each pass with its progress bar and its
            result.

    Returns:
        `DynamicChoice`.

    Raises:
        ValueError: for nothing to try, and what `DynamicEvaluator` refuses.

    Example:

    >>> batches = corpus.batches("validation", batch_size=1, segment_length=5)
    >>> choice = memlm_keras.evaluation.choose_dynamic(
    ...     lm, batches, rates=(0.01, 0.1), decays=(0.0,), verbose=0
    ... )
    >>> choice.perplexities.shape
    (2, 1)
    """
    if rates is None:
        rates = RATES["sgd" if mean_squares is None else "rms"]
    rates, decays = tuple(rates), tuple(decays)
    if not (rates and decays):
        raise ValueError(
            "`rates` and `decays` must hold at least one number each. "
            f"Received: rates={rates}, decays={decays}"
        )
    require_beginning(batches)
    evaluator = DynamicEvaluator(lm, rates[0], decays[0], mean_squares)
    found = np.zeros((len(rates), len(decays)))
    for number, (row, column) in enumerate(np.ndindex(found.shape), 1):
        evaluator.set_rates(rates[row], decays[column])
        if verbose:
            print(f"Pass {number} of {found.size}, {evaluator.description}:")
        scores, weights = evaluator.score_batches(batches, verbose, segments)
        nats = -np.sum(scores.astype("float64") * weights) / weights.sum()
        found[row, column] = np.exp(nats)
        if verbose:
            print(f"perplexity {found[row, column]:.2f}")
    row, column = np.unravel_index(np.argmin(found), found.shape)
    best = copy.copy(evaluator)
    best.set_rates(rates[row], decays[column])
    return DynamicChoice(rates, decays, found, best)
