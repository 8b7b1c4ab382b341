"""How often each word is replaced, and by what: one place for noise and
smoothing."""

from typing import NamedTuple

import numpy as np

from memlm_keras.smoothing.statistics import StreamStatistics

SCHEMES = (
    "blank",
    "linear_interpolation",
    "absolute_discounting",
    "kneser_ney",
)


class Replacement(NamedTuple):
    """What a scheme makes of the statistics of a stream.

    Attributes:
        rates: float64 array `(vocabulary_size,)`, gamma_v, the probability
            that the word v is replaced.
        proposal: float64 array `(words,)`, q_k, the probability that the word
            k is what replaces it.
    """

    rates: np.ndarray
    proposal: np.ndarray


def replacement(scheme, rate, statistics, blank_id=None):
    """Rates and proposal of a scheme (Xie et al., 2017, Table 1).

    | scheme | gamma_v | q |
    |---|---|---|
    | `blank` | gamma_0 | the blank token |
    | `linear_interpolation` | gamma_0 | u |
    | `absolute_discounting` | gamma_0 N1+(v .) / c(v) | u |
    | `kneser_ney` | gamma_0 N1+(v .) / c(v) | r |

    Args:
        scheme: string, one of `SCHEMES`.
        rate: float in [0, 1], gamma_0.
        statistics: `StreamStatistics`.
        blank_id: integer, the blank token, for the scheme `blank` only.

    Returns:
        `Replacement`.

    Raises:
        ValueError: for arguments other than these.
    """
    require_scheme(scheme, SCHEMES)
    require_gamma(rate)
    if not isinstance(statistics, StreamStatistics):
        raise ValueError(
            "`statistics` must be `memlm_keras.smoothing.StreamStatistics`, "
            "such as `StreamStatistics.count(tokens, vocabulary_size)`. "
            f"Received: {statistics!r}"
        )
    is_id = (
        isinstance(blank_id, (int, np.integer))
        and not isinstance(blank_id, bool)
        and blank_id >= 0
    )
    if (scheme == "blank") != is_id or (blank_id is not None) != is_id:
        raise ValueError(
            "`blank_id` must be the id of the blank token, an integer of at "
            "least 0, for the scheme 'blank', and None for the others. "
            f"Received: scheme={scheme!r} and blank_id={blank_id!r}"
        )
    rates = np.full(statistics.vocabulary_size, float(rate))
    if scheme in ("absolute_discounting", "kneser_ney"):
        rates = rate * statistics.discounts
    if scheme == "blank":
        proposal = np.zeros(max(statistics.vocabulary_size, blank_id + 1))
        proposal[blank_id] = 1.0
    elif scheme == "kneser_ney":
        proposal = statistics.continuation
    else:
        proposal = statistics.unigram
    return Replacement(rates, proposal)


def require_scheme(scheme, schemes):
    """Raises `ValueError` unless a scheme is one of some."""
    if scheme not in schemes:
        raise ValueError(
            f"`scheme` must be one of {', '.join(map(repr, schemes))}. "
            f"Received: scheme={scheme!r}"
        )


def require_gamma(rate):
    """Raises `ValueError` unless a rate of replacement is in [0, 1]."""
    if not 0 <= rate <= 1:
        raise ValueError(
            f"`rate` must be at least 0 and at most 1. Received: rate={rate!r}"
        )
