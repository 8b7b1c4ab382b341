"""Batches of pairs of sentences."""

import numpy as np

from memlm_keras.arguments import require_integers
from memlm_keras.arguments import require_positive_integer
from memlm_keras.data.batches import EpochBatches
from memlm_keras.data.batches import checksum


class PairBatches(EpochBatches):
    """Batches of pairs of sentences with their lengths.

    Item `index` is `(inputs, labels, sample_weight)`:

    * `inputs["premise"]`, `inputs["hypothesis"]`: int32 `(batch_size, time)`
    * `inputs["premise_length"]`, `inputs["hypothesis_length"]`: int32
      `(batch_size,)`, number of tokens of each sentence
    * `labels`: int32 `(batch_size,)`
    * `sample_weight`: float32 `(batch_size,)`, 0 in rows without a pair

    Each pair is in exactly one batch of a pass. Within chunks of
    `bucket_batches` batches, pairs are sorted by length, so the lengths in a
    batch are similar. The number of time steps is rounded up to a multiple of
    `length_multiple`, to compile few shapes. Padding changes no results.

    An epoch of `fit` is one pass over all pairs, or `batches_per_epoch`
    batches of consecutive passes. With models of other packages, call
    `start_at` before each epoch.

    Args:
        premises, hypotheses: Sequences of non-empty 1-D arrays of token ids.
        labels: 1-D integer array.
        shuffle: Whether to shuffle the pairs before each pass, by `seed` and
            the number of the pass; if not, all pairs are sorted by length.
        bucket_batches: Number of batches whose pairs are sorted together.
        batches_per_epoch: Number of batches in an epoch; `None` for one pass.

    Attributes:
        varies_in_time: True, because the number of time steps varies.
        largest_id: Largest token id.

    Raises:
        ValueError: An argument is invalid.

    Example:

    >>> batches = PairBatches(
    ...     [[5, 7], [6]], [[7], [8, 9, 5]], [0, 2], batch_size=2
    ... )
    >>> inputs, labels, sample_weight = batches[0]
    >>> inputs["premise_length"]
    array([2, 1], dtype=int32)
    """

    varies_in_time = True

    def __init__(
        self,
        premises,
        hypotheses,
        labels,
        batch_size=50,
        shuffle=False,
        seed=0,
        bucket_batches=20,
        length_multiple=4,
        batches_per_epoch=None,
    ):
        super().__init__(batch_size, shuffle, seed)
        require_positive_integer("bucket_batches", bucket_batches)
        require_positive_integer("length_multiple", length_multiple)
        self.premises = _sentences("premises", premises)
        self.hypotheses = _sentences("hypotheses", hypotheses)
        labels = require_integers("labels", labels, minimum_size=0)
        self.labels = labels.astype("int32")
        counts = {len(self.premises), len(self.hypotheses), len(self.labels)}
        if len(counts) > 1 or not len(self.labels):
            raise ValueError(
                "`premises`, `hypotheses` and `labels` must have equal "
                f"lengths, at least 1. Received: {len(self.premises)}, "
                f"{len(self.hypotheses)} and {len(self.labels)}"
            )
        if self.labels.min() < 0:
            raise ValueError(
                "`labels` must not be negative. Received: the label "
                f"{self.labels.min()}"
            )
        self.bucket_batches = int(bucket_batches)
        self.length_multiple = int(length_multiple)
        if batches_per_epoch is None:
            batches_per_epoch = self.batches_per_pass
        require_positive_integer("batches_per_epoch", batches_per_epoch)
        self.batches_per_epoch = int(batches_per_epoch)
        both = (*self.premises, *self.hypotheses)
        lengths = np.array([len(sentence) for sentence in both])
        self._longest = lengths.reshape(2, -1).max(axis=0)
        token_ids = np.concatenate(both)
        if token_ids.min() < 0:
            index = next(i for i, ids in enumerate(both) if ids.min() < 0)
            name = "premises" if index < self.num_pairs else "hypotheses"
            raise ValueError(
                f"`{name}` must not be negative. Received: "
                f"{both[index].tolist()} at position {index % self.num_pairs}"
            )
        self.largest_id = int(token_ids.max())
        self._checksum = 0
        for integers in (token_ids, lengths, self.labels):
            self._checksum = checksum(integers, self._checksum)
        self._orders = {}

    @property
    def num_pairs(self):
        """Number of pairs in a pass."""
        return len(self.labels)

    @property
    def pairs_per_epoch(self):
        """Mean number of pairs per epoch. The last batch of a pass over all
        pairs may be smaller, so the number can differ between epochs."""
        return self.num_pairs * self.batches_per_epoch / self.batches_per_pass

    @property
    def batches_per_pass(self):
        """Number of batches in a pass."""
        return -(-self.num_pairs // self.batch_size)

    @property
    def order(self):
        """Index of the pair in each row of all batches, -1 in empty rows."""
        indices = range(self.start_batch, self.batches_per_epoch)
        return np.concatenate([self._rows(index) for index in indices])

    def identity(self):
        return {
            **super().identity(),
            "num_pairs": self.num_pairs,
            "checksum_of_pairs": self._checksum,
            "batches_per_epoch": self.batches_per_epoch,
            "bucket_batches": self.bucket_batches,
            "length_multiple": self.length_multiple,
        }

    def _batch(self, index):
        rows = self._rows(index)
        filled = rows >= 0
        inputs = {
            **self._padded("premise", self.premises, rows),
            **self._padded("hypothesis", self.hypotheses, rows),
        }
        labels = np.where(filled, self.labels[rows], 0).astype("int32")
        return inputs, labels, filled.astype("float32")

    def _rows(self, index):
        """Returns the indices of a batch's pairs; -1 marks an empty row."""
        position = self.epoch * self.batches_per_epoch + index
        number, index = divmod(position, self.batches_per_pass)
        if number not in self._orders:
            # An epoch can have batches of two passes: keep the previous order.
            self._orders = {
                n: order for n, order in self._orders.items() if n == number - 1
            }
            self._orders[number] = self._order(number)
        return self._orders[number][index]

    def _order(self, number):
        """Returns the pairs of a pass, int `(batches_per_pass, batch_size)`."""
        order = np.arange(self.num_pairs)
        chunk = self.num_pairs
        random = np.random.default_rng([self.seed, number])
        if self.shuffle:
            order = random.permutation(order)
            chunk = self.bucket_batches * self.batch_size
        order = np.concatenate(
            [
                part[np.argsort(self._longest[part], kind="stable")]
                for part in np.split(order, range(chunk, len(order), chunk))
            ]
        )
        missing = self.batches_per_pass * self.batch_size - self.num_pairs
        order = np.concatenate([order, np.full(missing, -1)])
        batches = order.reshape(self.batches_per_pass, self.batch_size)
        return random.permutation(batches) if self.shuffle else batches

    def _padded(self, name, sentences, rows):
        empty = np.zeros(1, "int32")
        chosen = [sentences[row] if row >= 0 else empty for row in rows]
        lengths = np.array([len(sentence) for sentence in chosen], "int32")
        multiple = self.length_multiple
        padded = np.zeros(
            (self.batch_size, -(-lengths.max() // multiple) * multiple), "int32"
        )
        for row, sentence in enumerate(chosen):
            padded[row, : len(sentence)] = sentence
        return {name: padded, f"{name}_length": lengths}


def _sentences(name, sentences):
    arrays = [np.asanyarray(sentence) for sentence in sentences]
    for index, array in enumerate(arrays):
        # Format the name only for invalid arrays, because formatting is slow.
        if array.ndim != 1 or not array.size or array.dtype.kind not in "iu":
            require_integers(f"{name}[{index}]", array)
    return arrays
