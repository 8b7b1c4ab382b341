"""Synthetic tasks that test a memory; a perfect memory makes no errors.

A task draws token ids, the time steps of queries, and their answers."""

import dataclasses
import itertools

import numpy as np

from memlm_keras.arguments import require_one_of
from memlm_keras.arguments import require_positive_integer
from memlm_keras.data.batches import EpochBatches

FILLERS = ("zeros", "uniform")
# The seeds of consecutive tasks in a mix differ by this number.
_SEED_STEP = 10_000_000


@dataclasses.dataclass(frozen=True)
class MQAR:
    """Multi-query associative recall (Arora et al., 2023, "Zoology").

    A row begins with D pairs of a key and a value, `k1 v1 .. kD vD`. The rest
    of the row is divided into slots of two tokens. D slots are drawn without
    replacement, slot i with a probability proportional to i^(a - 1). Each drawn
    slot begins with a key, the query. The target of a query is not the next
    token, but the value of the key. Ids from 1 to V // 2 - 1 are keys,
    larger ids are values. The D keys are all different, and so are the values.

    After the D pairs, `forgetting` of the keys are repeated, each with a new
    value. The new value is the answer to the query for this key.

    Args:
        vocabulary_size: Integer, V.
        length: Integer, T, number of tokens in a row.
        pairs: Integer, D, number of keys in a row, each queried once.
        filler: `"uniform"` fills all other steps with random ids, as the code
            of Arora et al. (2023) has done since 2024; `"zeros"` is easier.
        forgetting: Integer, number of keys whose value changes.
        power: Float, a.

    Raises:
        ValueError: The sizes are inconsistent, or the filler is unknown.

    Example:

    >>> task = memlm_keras.data.recall.MQAR(16, length=12, pairs=2)
    >>> token_ids, positions, targets = task.draw(3, np.random.default_rng(0))
    >>> token_ids.shape, positions.shape, targets.shape
    ((3, 12), (3, 2), (3, 2))
    >>> task.chance
    0.5
    """

    vocabulary_size: int = 8192
    length: int = 64
    pairs: int = 4
    filler: str = "uniform"
    forgetting: int = 0
    power: float = 0.01

    def __post_init__(self):
        _require_integers(self, vocabulary_size=4, length=4, pairs=1)
        require_positive_integer("forgetting", self.forgetting, minimum=0)
        require_one_of("filler", self.filler, FILLERS)
        if self.forgetting > self.pairs:
            raise ValueError(
                "`forgetting` must be at most `pairs`. Received: "
                f"forgetting={self.forgetting} and pairs={self.pairs}"
            )
        least = 2 * self._written + 2 * self.pairs
        if self.length < least or self.length % 2:
            raise ValueError(
                f"`length` must be even and at least {least}, two tokens for "
                "each pair and for each query. Received: "
                f"length={self.length}"
            )
        if self.vocabulary_size // 2 <= self._written:
            raise ValueError(
                f"`vocabulary_size` must be at least {2 * self._written + 2}, "
                "half of it keys and half values. Received: "
                f"vocabulary_size={self.vocabulary_size}"
            )

    @property
    def _written(self):
        return self.pairs + self.forgetting

    @property
    def queries(self):
        """Number of queries in a row."""
        return self.pairs

    @property
    def chance(self):
        """Accuracy of a random guess among the answers of a row."""
        return 1 / self.pairs

    def draw(self, rows, generator):
        """Draws rows with a `numpy.random.Generator`.

        Returns:
            int32 arrays: token ids `(rows, length)`, steps of the queries
            `(rows, queries)` and answers `(rows, queries)`.
        """
        half, context = self.vocabulary_size // 2, 2 * self._written
        values_left = self.vocabulary_size - half
        keys = 1 + _distinct(generator, rows, self.pairs, half - 1)
        values = half + _distinct(generator, rows, self._written, values_left)
        rewritten = _distinct(generator, rows, self.forgetting, self.pairs)
        rewritten_keys = np.take_along_axis(keys, rewritten, axis=1)
        token_ids = np.zeros((rows, self.length), np.int32)
        token_ids[:, 0:context:2] = np.concatenate(
            [keys, rewritten_keys], axis=1
        )
        token_ids[:, 1:context:2] = values
        # The slots with the largest sums of log weight and Gumbel noise are a
        # weighted draw without replacement.
        slots = (self.length - context) // 2
        log_weights = (self.power - 1) * np.log(np.arange(1, slots + 1))
        noisy = log_weights + generator.gumbel(size=(rows, slots))
        slots = np.argsort(-noisy, axis=1)[:, : self.pairs]
        positions = context + 2 * slots
        np.put_along_axis(token_ids, positions, keys, axis=1)
        if self.filler == "uniform":
            fillers = generator.integers(
                self.vocabulary_size, size=token_ids.shape
            )
            token_ids = np.where(token_ids == 0, fillers, token_ids)
        targets = values[:, : self.pairs].copy()
        np.put_along_axis(targets, rewritten, values[:, self.pairs :], axis=1)
        return _integers(token_ids, positions, targets)


@dataclasses.dataclass(frozen=True)
class MQARMix:
    """Several `MQAR` tasks of different lengths, on which one model is trained.

    The example in Zoology's README trains on 4 to 64 pairs, and tests on 4 to
    256 in rows of up to 1,024 tokens: `zoology_mix` in `recipes/recall.py`.

    Args:
        training, test: Tuples of `(pairs, length, rows)`; `rows` is the number
            of rows in an epoch.
        vocabulary_size, filler, forgetting: See `MQAR`.

    Raises:
        ValueError: See `MQAR`.

    Example:

    >>> task = memlm_keras.data.recall.MQARMix(
    ...     ((2, 16, 100),), ((2, 16, 50), (4, 32, 50)), vocabulary_size=64
    ... )
    >>> batches = task.batches("test", batch_size=25)
    >>> [batches[index][0]["token_ids"].shape for index in range(4)]
    [(25, 16), (25, 16), (25, 32), (25, 32)]
    """

    training: tuple
    test: tuple
    vocabulary_size: int = 8192
    filler: str = "uniform"
    forgetting: int = 0

    def __post_init__(self):
        for part in ("training", "test"):
            self.tasks(part)

    @property
    def length(self):
        """Number of tokens in the longest rows."""
        return max(length for _, length, _ in self.training + self.test)

    @property
    def chance(self):
        """Mean accuracy of a random guess among a test row's answers."""
        rows = sum(rows for _, _, rows in self.test)
        return sum(rows / pairs for pairs, _, rows in self.test) / rows

    def tasks(self, part):
        """Returns a list of `MQAR` tasks for `"training"` or `"test"`."""
        return [
            MQAR(
                self.vocabulary_size,
                length,
                pairs,
                self.filler,
                self.forgetting,
            )
            for pairs, length, _ in getattr(self, part)
        ]

    def batches(self, part, batch_size=64, seed=0, rows=None, **arguments):
        """Makes `MixedBatches` for `"training"` or `"test"`.

        Args:
            rows: Integer, rows of each task; `None` takes the task's own
                `rows`.
            **arguments: `fresh` and `shuffle` of `RecallBatches`.
        """
        seeds = itertools.count(seed, _SEED_STEP)
        parts = [
            RecallBatches(
                task, rows or number, batch_size, seed=own_seed, **arguments
            )
            for task, (_, _, number), own_seed in zip(
                self.tasks(part), getattr(self, part), seeds
            )
        ]
        return MixedBatches(parts, arguments.get("shuffle", False), seed)


@dataclasses.dataclass(frozen=True)
class Copy:
    """Recall of the token exactly `distance` steps before the current one.

    Tokens are drawn independently with equal probabilities, so a model can only
    guess a token that it has not stored.

    Args:
        distance: Integer of at least 1.
        vocabulary_size, length: See `MQAR`.
        queries: Integer, number of queries in a row.

    Raises:
        ValueError: The sizes are inconsistent.

    Example:

    >>> task = memlm_keras.data.recall.Copy(3, length=12, queries=2)
    >>> token_ids, positions, targets = task.draw(1, np.random.default_rng(0))
    >>> all(targets[0] == token_ids[0, positions[0] - 3])
    True
    """

    distance: int
    vocabulary_size: int = 64
    length: int = 64
    queries: int = 8

    def __post_init__(self):
        _require_integers(
            self, distance=1, vocabulary_size=2, length=2, queries=1
        )
        if self.distance + self.queries > self.length:
            raise ValueError(
                "`length` must be at least `distance + queries`, "
                f"{self.distance + self.queries}. Received: "
                f"length={self.length}"
            )

    @property
    def chance(self):
        """Accuracy of a random guess among all tokens."""
        return 1 / self.vocabulary_size

    def draw(self, rows, generator):
        """Draws rows; see `MQAR.draw`."""
        token_ids = generator.integers(
            self.vocabulary_size, size=(rows, self.length)
        )
        before = _distinct(
            generator, rows, self.queries, self.length - self.distance
        )
        targets = np.take_along_axis(token_ids, before, axis=1)
        return _integers(token_ids, before + self.distance, targets)


@dataclasses.dataclass(frozen=True)
class Binding:
    """Recall of the object that belongs to one of n people.

    A row is n sentences `person has object .` and the question `what person`;
    the target is the object. Id 0 ends a sentence, 1 is "has" and 2 is "what",
    followed by the ids of people and then of objects. The people and objects
    in a row are all different.

    Args:
        n: Integer, number of people; each row has a sentence about each person.
        names: Integer of at least `n`, number of people and of objects in the
            vocabulary.

    Raises:
        ValueError: The sizes are inconsistent.

    Example:

    >>> task = memlm_keras.data.recall.Binding(2, names=5)
    >>> task.draw(1, np.random.default_rng(0))[0].shape
    (1, 10)
    >>> task.chance, task.vocabulary_size
    (0.5, 13)
    """

    n: int
    names: int = 32

    def __post_init__(self):
        _require_integers(self, n=1, names=self.n)

    queries = 1

    @property
    def vocabulary_size(self):
        """Number of token ids."""
        return 3 + 2 * self.names

    @property
    def length(self):
        """Number of tokens in a row."""
        return 4 * self.n + 2

    @property
    def chance(self):
        """Accuracy of a random guess among the objects in a row."""
        return 1 / self.n

    def draw(self, rows, generator):
        """Draws rows; see `MQAR.draw`."""
        people = 3 + _distinct(generator, rows, self.n, self.names)
        objects = _distinct(generator, rows, self.n, self.names)
        objects += 3 + self.names
        token_ids = np.zeros((rows, self.length), np.int32)
        token_ids[:, 0:-2:4] = people
        token_ids[:, 1:-2:4] = 1
        token_ids[:, 2:-2:4] = objects
        asked = generator.integers(self.n, size=(rows, 1))
        token_ids[:, -2] = 2
        token_ids[:, -1:] = np.take_along_axis(people, asked, axis=1)
        targets = np.take_along_axis(objects, asked, axis=1)
        return _integers(
            token_ids, np.full((rows, 1), self.length - 1), targets
        )


class RecallBatches(EpochBatches):
    """Batches of the rows of a task, for `fit` and `evaluate`.

    Item `index` is `(inputs, targets, sample_weight)`:

    * `inputs["token_ids"]`: int32 `(batch_size, length)`
    * `inputs["positions"]`: int32 `(batch_size, queries)`, time steps of the
      queries, at which the loss is computed
    * `targets`: int32 `(batch_size, queries)`
    * `sample_weight`: float32 `(batch_size, queries)`, 0 in the empty rows of
      the last batch

    Each row begins with an empty context.

    Args:
        task: `MQAR`, `Copy`, `Binding`, or an object with their attributes.
        rows: Integer, number of rows in an epoch.
        fresh: Whether to draw new rows for every epoch.
        shuffle: Whether to change the order of the rows every epoch.

    Example:

    >>> task = memlm_keras.data.recall.Copy(5)
    >>> batches = memlm_keras.data.recall.RecallBatches(task, rows=100)
    >>> inputs, targets, sample_weight = batches[1]
    >>> len(batches), inputs["positions"].shape, int(sample_weight.sum())
    (2, (64, 8), 288)
    """

    def __init__(
        self, task, rows, batch_size=64, fresh=False, shuffle=False, seed=0
    ):
        super().__init__(batch_size, shuffle, seed)
        require_positive_integer("rows", rows)
        self.task = task
        self.rows = int(rows)
        self.fresh = fresh
        self.batches_per_epoch = -(-self.rows // self.batch_size)
        self._order = np.arange(self.rows)
        self._draw(0)
        self.start_at(0)

    @property
    def largest_id(self):
        """Largest token id in the vocabulary of the task."""
        return self.task.vocabulary_size - 1

    @property
    def predicted_tokens(self):
        """Number of targets in an epoch."""
        return self.rows * self.task.queries

    def identity(self):
        return {
            **super().identity(),
            "task": repr(self.task),
            "rows": self.rows,
            "fresh": self.fresh,
        }

    def start_at(self, epoch, batch=0):
        super().start_at(epoch, batch)
        if self.fresh and epoch != self._drawn:
            self._draw(epoch)

    def _draw(self, epoch):
        generator = np.random.default_rng([self.seed, epoch])
        self._drawn = epoch
        self._arrays = self.task.draw(self.rows, generator)

    def _shuffle(self, generator):
        self._order = generator.permutation(self.rows)

    def _batch(self, index):
        begin = index * self.batch_size
        chosen = self._order[begin : begin + self.batch_size]
        weights = np.ones((len(chosen), self.task.queries), np.float32)
        arrays = [array[chosen] for array in self._arrays]
        missing = [(0, self.batch_size - len(chosen)), (0, 0)]
        token_ids, positions, targets, weights = (
            np.pad(array, missing) for array in (*arrays, weights)
        )
        inputs = {"token_ids": token_ids, "positions": positions}
        return inputs, targets, weights


class MixedBatches(EpochBatches):
    """The batches of several `RecallBatches` in one dataset.

    Keras' accuracy weights all rows equally, whatever their number of queries.

    Args:
        parts: List of `RecallBatches` with the same batch size.
        shuffle: Whether to change the order of the batches every epoch.
    """

    varies_in_time = True

    def __init__(self, parts, shuffle=False, seed=0):
        super().__init__(parts[0].batch_size, shuffle, seed)
        self.parts = list(parts)
        self._edges = np.cumsum([part.batches_per_epoch for part in parts])
        self.batches_per_epoch = int(self._edges[-1])
        self._order = np.arange(self.batches_per_epoch)
        self.start_at(0)

    @property
    def largest_id(self):
        """Largest token id in the vocabularies of the tasks."""
        return max(part.largest_id for part in self.parts)

    @property
    def predicted_tokens(self):
        """Number of targets in an epoch."""
        return sum(part.predicted_tokens for part in self.parts)

    def identity(self):
        parts = [part.identity() for part in self.parts]
        return {**super().identity(), "parts": parts}

    def start_at(self, epoch, batch=0):
        super().start_at(epoch, batch)
        for part in self.parts:
            part.start_at(epoch)

    def _shuffle(self, generator):
        self._order = generator.permutation(self.batches_per_epoch)

    def _batch(self, index):
        index = self._order[index]
        number = np.searchsorted(self._edges, index, "right")
        part = self.parts[number]
        index -= self._edges[number] - part.batches_per_epoch
        return part[int(index)]


def _require_integers(task, **minima):
    for name, minimum in minima.items():
        require_positive_integer(name, getattr(task, name), minimum=minimum)


def _integers(*arrays):
    return tuple(np.asarray(array, np.int32) for array in arrays)


def _distinct(generator, rows, count, size):
    """Draws `count` different integers below `size` in each row."""
    chosen = np.zeros((rows, count), np.int64)
    for column in range(count):
        # Draw an index into the integers that are not chosen yet. Each chosen
        # integer up to the drawn integer increases the index by one.
        drawn = generator.integers(size - column, size=rows)
        for taken in np.sort(chosen[:, :column], axis=1).T:
            drawn += drawn >= taken
        chosen[:, column] = drawn
    return chosen
