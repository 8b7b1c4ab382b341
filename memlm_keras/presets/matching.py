"""Counts the parameters of presets, and finds hidden sizes for a budget."""

import concurrent.futures
import itertools
import random

from memlm_keras import registry


def count_params(name, vocabulary_size, include_embeddings=True, **sizes):
    """Counts the parameters of a preset, without allocating weights.

    Args:
        name: string, one of `memlm_keras.presets.names()`.
        vocabulary_size: integer.
        include_embeddings: whether to count input embeddings that the output
            projection does not share.
        **sizes: sizes of the preset, as for `memlm_keras.presets.get`.

    Returns:
        Integer. For sizes other than the paper's, the function builds a model.

    Raises:
        ValueError: see `memlm_keras.presets.get`.

    Example:

    >>> memlm_keras.presets.count_params("daniluk2017/lstm", 77_003)
    47000003
    """
    row = registry.resized(name, registry.find(name)[1], sizes)
    model = row.preset()["model"]
    if row.parameters is None:
        config = {**model, "vocabulary_size": vocabulary_size}
        total = _count(row.kind, config)
    else:
        fixed, per_word = row.parameters
        total = fixed + per_word * vocabulary_size
    if include_embeddings or model.get("tie_embeddings", False):
        return total
    return total - vocabulary_size * model["embedding_dim"]


def _count(kind, config):
    """Builds a model without allocating its weights; counts its parameters."""
    import keras

    from memlm_keras import models

    def count():
        with keras.StatelessScope(initialize_variables=False):
            model = getattr(models, kind).from_config(config)
        return model.count_params()

    # Keras stores layer names and uninitialized variables by thread: building
    # in a new thread does not change the caller's. Layers draw from `random`.
    state = random.getstate()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        try:
            return pool.submit(count).result()
        finally:
            random.setstate(state)


def match_parameters(
    budget, name, vocabulary_size, include_embeddings=True, **sizes
):
    """Finds the hidden size whose number of parameters is closest to a budget.

    "We adjusted the hidden size of all models to have roughly the same total
    number of model parameters" (Daniluk et al., 2017, Section 5.1).

    Args:
        budget: integer, the number of parameters to reach.
        name: string, one of `memlm_keras.presets.names()`.
        vocabulary_size: integer.
        include_embeddings: whether `budget` counts the input embeddings.
        **sizes: sizes of the preset other than `units`.

    Returns:
        Integer, the `units` of the recurrent layer. This number is a multiple
        of the preset's `units_divisor`.

    Raises:
        ValueError: if the smallest model exceeds the budget by over 10%.

    Example:

    >>> units = memlm_keras.presets.match_parameters(
    ...     1_000_000, "daniluk2017/ngram_4", vocabulary_size=10_000,
    ...     embedding_dim=50)
    """
    divisor = registry.find(name)[1].units_divisor

    def count(multiple):
        return count_params(
            name,
            vocabulary_size,
            include_embeddings,
            units=multiple * divisor,
            **sizes,
        )

    # A weight has at most two axes, whose sizes are linear in the units. Three
    # small models therefore determine the parameters, a quadratic function.
    first, second, third = count(1), count(2), count(3)
    slope = second - first
    curvature = third - 2 * second + first

    def parameters(multiple):
        steps = multiple - 1
        return first + slope * steps + curvature * steps * (steps - 1) // 2

    if first > 1.1 * budget:
        raise ValueError(
            f"`budget` is too small for {name!r} with a vocabulary of "
            f"{vocabulary_size}: the smallest model has {first} parameters. "
            f"Received: budget={budget}"
        )
    larger = next(m for m in itertools.count(2) if parameters(m) >= budget)
    closest = min(larger - 1, larger, key=lambda m: abs(parameters(m) - budget))
    return closest * divisor
