"""Drawing from a discrete distribution, at the same price whatever its size."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class AliasTable:
    """A distribution over K outcomes as K pairs of equal weight.

    An outcome k is drawn uniformly; it is kept with the probability
    `thresholds[k]`, and is `aliases[k]` otherwise (Walker, 1977; the tables by
    the algorithm of Vose, 1991). Numbers in float32 tell apart what would be
    one in a cumulative sum over a large vocabulary.

    Attributes:
        thresholds: float64 array `(outcomes,)`.
        aliases: int32 array `(outcomes,)`.

    Example:

    >>> table = AliasTable.of(np.array([0.5, 0.25, 0.25]))
    >>> table.draw(np.random.default_rng(0), (2, 3)).shape
    (2, 3)
    """

    thresholds: np.ndarray
    aliases: np.ndarray

    @classmethod
    def of(cls, probabilities):
        """Makes the table of probabilities `(outcomes,)` that sum to one."""
        outcomes = len(probabilities)
        remaining = (np.asarray(probabilities, np.float64) * outcomes).tolist()
        thresholds = np.ones(outcomes)
        aliases = np.arange(outcomes, dtype=np.int32)
        small = [k for k, value in enumerate(remaining) if value < 1.0]
        large = [k for k, value in enumerate(remaining) if value >= 1.0]
        while small and large:
            poor, rich = small.pop(), large[-1]
            thresholds[poor], aliases[poor] = remaining[poor], rich
            remaining[rich] -= 1.0 - remaining[poor]
            if remaining[rich] < 1.0:
                small.append(large.pop())
        return cls(thresholds, aliases)

    def draw(self, generator, shape):
        """Draws outcomes.

        Args:
            generator: `numpy.random.Generator`.
            shape: tuple of integers.

        Returns:
            int32 array of this shape.
        """
        outcomes = generator.integers(len(self.aliases), size=shape)
        kept = generator.random(shape) < self.thresholds[outcomes]
        return np.where(kept, outcomes, self.aliases[outcomes]).astype(np.int32)
