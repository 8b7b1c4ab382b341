"""Claims of the papers, and how they are decided.

A claim compares two models. Its verdict follows from an interval of the
difference of their losses: seeds of both are drawn anew, and so are the
sentences of the test text, the same for both (a paired bootstrap).
"""

import dataclasses

import numpy as np

HOLDS = "holds"
DOES_NOT_HOLD = "does not hold"
NOT_DECIDED = "not decided at this size"
NOT_RUN = "not run"
SEEN = "seen, not compared"

_SAMPLES = 2000
_PROBABILITY = 0.95
# Nats a token, or shares of pairs, that are not worth a claim.
_SMALLEST = 0.005


@dataclasses.dataclass(frozen=True)
class Setting:
    """A corpus and sizes that all runs of some claims have in common.

    Args:
        name: string.
        description: string, in words.
        small, paper: strings, flags of `memlm train` at a size that a machine
            without an accelerator bears, and at the paper's.
        seeds: integer, how many runs of a model decide; what is kept of
            more counts as well.
    """

    name: str
    description: str
    small: str
    paper: str
    seeds: int = 3


@dataclasses.dataclass(frozen=True)
class Claim:
    """A statement of a paper that two models decide.

    Args:
        name: string.
        paper: string, name of the paper's presets.
        where: string, where in the paper it is made.
        statement: string.
        published: string, the numbers that it rests on, and of what text.
        settings: tuple of names of `Setting`s; none where it cannot be tested.
        better, than: strings, preset and own flags of the model that is said to
            be better, and of the other.
        margin: float, of the claim that neither is better: the difference of
            losses that makes no difference; `None` for that one is better.
        missing: string, why it cannot be tested, and what could.
        seen: string, where it is of no two models, what our models show of it
            and where.
        caution: string, what a verdict at the small size does not tell.
    """

    name: str
    paper: str
    where: str
    statement: str
    published: str
    settings: tuple = ()
    better: str | None = None
    than: str | None = None
    margin: float | None = None
    missing: str = ""
    seen: str = ""
    caution: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class Losses:
    """Losses of a model on each sentence of a test text, or on each pair.

    Args:
        losses: float array `(seeds, sentences)`.
        counts: integer array `(sentences,)`, the predictions in each.
        parameters: integer, how many the model has, or `None`.
    """

    losses: np.ndarray
    counts: np.ndarray
    parameters: int | None = None

    @property
    def seeds(self):
        """Number of runs."""
        return len(self.losses)

    @property
    def by_seed(self):
        """Mean loss of a prediction, `(seeds,)`."""
        return self.losses.sum(axis=1) / self.counts.sum()


@dataclasses.dataclass(frozen=True)
class Difference:
    """The difference between two models, with its interval.

    Attributes:
        mean: float, in nats a token, or in shares of pairs.
        low, high: floats, the interval of 95%.
        seeds: integer, of the model that has fewer.
    """

    mean: float
    low: float
    high: float
    seeds: int


def difference(better, than, seed=0):
    """Compares two models by all seeds and sentences.

    Args:
        better, than: `Losses` on the same text.
        seed: integer, of the draws.

    Returns:
        `Difference`, positive where `better` is.

    Raises:
        ValueError: if they are of different texts.

    Example:

    >>> counts = np.array([3, 4, 2])
    >>> good = Losses(np.array([[2.0, 3.0, 1.5], [2.2, 2.9, 1.4]]), counts)
    >>> poor = Losses(good.losses + counts, counts)
    >>> round(difference(good, poor).mean, 6)
    1.0
    """
    if not np.array_equal(better.counts, than.counts):
        raise ValueError(
            "`better` and `than` must be of the same sentences. Received: "
            f"{len(better.counts)} sentences of {better.counts.sum()} "
            f"predictions, and {len(than.counts)} of {than.counts.sum()}"
        )
    random = np.random.default_rng(seed)
    sentences = len(better.counts)
    drawn = np.empty(_SAMPLES)
    for sample in range(_SAMPLES):
        times = np.bincount(
            random.integers(sentences, size=sentences), minlength=sentences
        )
        means = []
        for side in (better, than):
            seeds = random.integers(side.seeds, size=side.seeds)
            means.append((side.losses[seeds] @ times).mean())
        drawn[sample] = (means[1] - means[0]) / (times @ better.counts)
    outside = (1 - _PROBABILITY) / 2
    low, high = np.quantile(drawn, [outside, 1 - outside])
    return Difference(
        mean=float(than.by_seed.mean() - better.by_seed.mean()),
        low=float(low),
        high=float(high),
        seeds=min(better.seeds, than.seeds),
    )


def verdict(claim, found, seeds):
    """The verdict on a claim, from a difference.

    Args:
        claim: `Claim`.
        found: `Difference`, or `None` where there is none.
        seeds: integer, the least number that decides.

    Returns:
        `HOLDS`, `DOES_NOT_HOLD` or `NOT_DECIDED`.

    Example:

    >>> claim = Claim("a", "b", "c", "d", "e")
    >>> verdict(claim, Difference(0.1, 0.05, 0.15, seeds=3), seeds=3)
    'holds'
    >>> verdict(claim, Difference(0.1, 0.05, 0.15, seeds=1), seeds=3)
    'not decided at this size'
    """
    if found is None or found.seeds < seeds:
        return NOT_DECIDED
    if claim.margin is not None:
        if -claim.margin < found.low and found.high < claim.margin:
            return HOLDS
        apart = found.low > claim.margin or found.high < -claim.margin
        return DOES_NOT_HOLD if apart else NOT_DECIDED
    if found.low > 0:
        return HOLDS
    return DOES_NOT_HOLD if found.high < _SMALLEST else NOT_DECIDED
