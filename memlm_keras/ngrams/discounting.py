"""Absolute discounting: from counts to the tables of a back-off model."""

import numbers
import warnings

import numpy as np

from memlm_keras.ngrams.counts import NGramTable

KINDS = ("modified", "original")

# Those of KenLM's `--discount_fallback`, and their analogue for one discount.
_FALLBACKS = {"modified": (0.5, 1.0, 1.5), "original": (0.5, 0.5, 0.5)}


def explicit_discounts(discounts, order):
    """Checks the argument `discounts` of `KneserNey`.

    Args:
        discounts: `"modified"`, `"original"`, a number, or for each order a
            number or three.
        order: integer.

    Returns:
        `None` for a string, otherwise a list of three floats for each order.

    Raises:
        ValueError: for anything else, and for a discount that is negative or
            larger than the count that it is taken from.
    """
    if isinstance(discounts, str) and discounts in KINDS:
        return None
    received = f"Received: discounts={discounts!r}"
    expected = (
        '`discounts` must be "modified", "original", one number, or a list '
        f"of {order} entries, a number or three numbers for each order."
    )
    if isinstance(discounts, numbers.Real):
        discounts = [discounts] * order
    if isinstance(discounts, str):
        raise ValueError(f"{expected} {received}")
    try:
        triples = [np.broadcast_to(entry, 3) for entry in discounts]
        triples = [tuple(map(float, triple)) for triple in triples]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{expected} {received}") from error
    if len(triples) != order:
        raise ValueError(f"{expected} {received}")
    for triple in triples:
        if not all(0 <= d <= count for count, d in enumerate(triple, start=1)):
            raise ValueError(
                "Each of `discounts` must be at least 0 and at most the count "
                f"that it is taken from (1, 2, 3). {received}"
            )
    return triples


def estimated_discounts(levels, kind):
    """Estimates discounts from counts of counts, for each order.

    With n_i the number of n-grams of a count of exactly i and
    Y = n_1 / (n_1 + 2 n_2), the original discount (Kneser and Ney, 1995) is

        D = Y

    and the modified ones (Chen and Goodman, 1998, Section 3) are

        D_1  = 1 - 2 Y n_2 / n_1
        D_2  = 2 - 3 Y n_3 / n_2
        D_3+ = 3 - 4 Y n_4 / n_3

    Where one of the n_i is zero, or a discount does not lie above 0, those of
    this order are 0.5, 1 and 1.5, or 0.5 in place of the original one.

    Args:
        levels: list of `Counts`, from order 1 on.
        kind: `"modified"` or `"original"`.

    Returns:
        Tuple of a list of three floats for each order, what is taken off
        counts of 1, 2, and 3 or more; and a list of the orders for which
        counts of counts did not do.
    """
    found, fallen_back = [], []
    for order, level in enumerate(levels, start=1):
        discounts = _discounts(level.modified, kind)
        if discounts is None:
            discounts = _FALLBACKS[kind]
            fallen_back.append(order)
        found.append(discounts)
    return found, fallen_back


def warn_of_fallback(levels, orders, kind):
    """Warns that discounts of some orders are not estimated."""
    described = "; ".join(
        f"order {order}: n_1 .. n_4 = {_counts_of_counts(level.modified)}"
        for order, level in enumerate(levels, start=1)
        if order in orders
    )
    warnings.warn(
        f"Counts of counts give no {kind} Kneser-Ney discounts here "
        f"({described}), so {_FALLBACKS[kind]} are used in their place. This "
        "is usual for order 1 where the vocabulary is limited; for other "
        "orders the text may be too small, or artificial. To choose discounts "
        "yourself, give `discounts` as numbers."
    )


def discounted(counts, discounts):
    """Discounted counts: c - D_c, with D_3 for all above, at least 0.

    Args:
        counts: integer array.
        discounts: three floats.

    Returns:
        float64 array of the same shape.
    """
    table = np.array([0.0, *discounts])
    return np.maximum(counts - table[np.minimum(counts, 3)], 0.0)


def _counts_of_counts(counts):
    return [int(np.count_nonzero(counts == i)) for i in range(1, 5)]


def _discounts(counts, kind):
    n = dict(enumerate(_counts_of_counts(counts), start=1))
    needed = (1, 2) if kind == "original" else (1, 2, 3, 4)
    if not all(n[i] for i in needed):
        return None
    y = n[1] / (n[1] + 2 * n[2])
    if kind == "original":
        return (y, y, y)
    triple = tuple(i - (i + 1) * y * n[i + 1] / n[i] for i in (1, 2, 3))
    return triple if all(discount > 0 for discount in triple) else None


def smoothed_tables(levels, discounts, cut_offs):
    """Smooths counts as `KneserNey` says.

    Args:
        levels: list of `Counts`, from order 1 on.
        discounts: list of three floats for each order.
        cut_offs: list of an integer for each order, the least number of
            occurrences of n-grams to keep, none smaller than the one before.

    Returns:
        List of `NGramTable`, from order 1 on.
    """
    vocabulary_size = levels[0].keys.size
    probabilities, backoffs = [], []
    below = np.array([1.0 / vocabulary_size])
    for level, triple, cut_off in zip(levels, discounts, cut_offs):
        weights, below = _interpolate(
            level, triple, cut_off, below, vocabulary_size
        )
        backoffs.append(weights)
        probabilities.append(below)
    # The weight of the uniform distribution is in the probabilities of order
    # 1, and no context is as long as the longest n-grams.
    del backoffs[0]
    backoffs.append(np.ones(levels[-1].keys.size))
    return _tables(levels, probabilities, backoffs, cut_offs)


def _interpolate(level, discounts, cut_off, below, vocabulary_size):
    """Returns the probabilities of one order, from those of the order below.

    Args:
        level: `Counts`.
        discounts: three floats.
        cut_off: integer.
        below: float64 array, the probabilities of the order below; one number,
            1 / vocabulary_size, below order 1.
        vocabulary_size: integer.

    Returns:
        float64 arrays: the back-off weight of each n-gram of the order below,
        and the probability of each of this order.
    """
    prefixes = level.keys // vocabulary_size
    kept = level.occurrences >= cut_off
    remaining = np.where(kept, discounted(level.modified, discounts), 0.0)
    totals = np.bincount(prefixes, level.modified, below.size)
    taken = np.bincount(prefixes, level.modified - remaining, below.size)
    # In one stream, what occurs only at its beginning follows nothing.
    seen = totals > 0
    weights = np.divide(taken, totals, out=np.ones(below.size), where=seen)
    totals[~seen] = 1.0
    values = remaining / totals[prefixes]
    values += weights[prefixes] * below[level.suffixes]
    return weights, values


def _tables(levels, probabilities, backoffs, cut_offs):
    """Leaves out what is under the cut-offs, and numbers the rest anew."""
    vocabulary_size = levels[0].keys.size
    # Every word stays: its probability is then all from the order below.
    kept = np.ones(vocabulary_size, "bool")
    keys = levels[0].keys
    tables = []
    for level, cut_off in zip(levels, cut_offs):
        if tables:
            # The first words of an n-gram occur as often as it, or more, and
            # so are still there.
            places = np.cumsum(kept) - 1
            kept = level.occurrences >= cut_off
            prefixes, words = np.divmod(level.keys[kept], vocabulary_size)
            keys = places[prefixes] * vocabulary_size + words
        # Given up one by one, for they are as large as the tables.
        values = probabilities.pop(0)[kept]
        weights = backoffs.pop(0)[kept]
        with np.errstate(divide="ignore"):
            np.log(values, out=values)
            np.log(weights, out=weights)
        tables.append(NGramTable(keys, values, weights))
    return tables
