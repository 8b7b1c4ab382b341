"""Batches of sentence pairs of about equal lengths."""

import keras
import numpy as np

from memlm_keras.data.epochs import check_positive


class PairBatches(keras.utils.PyDataset):
    """Batches of pairs of sentences, with explicit lengths.

    Item `index` is `(inputs, labels, sample_weight)`:

    * `inputs["premise"]`, `inputs["hypothesis"]`: int32 `(batch_size, time)`
    * `inputs["premise_length"]`, `inputs["hypothesis_length"]`: int32
      `(batch_size,)`, how many tokens of a row are its sentence
    * `labels`: int32 `(batch_size,)`
    * `sample_weight`: float32 `(batch_size,)`, 0 in the rows that fill up the
      last batch

    Pairs of about equal lengths go together: an epoch's pairs are taken in
    chunks of `bucket_batches` batches in the order drawn, and each chunk is
    sorted by length. Every pair is in exactly one batch of an epoch. Times are
    rounded up to a multiple of `length_multiple`, so that few shapes are ever
    compiled. What is padded is told by the lengths, and changes nothing.

    Args:
        premises, hypotheses: Sequences of 1-D integer arrays, none empty.
        labels: 1-D integer array.
        batch_size: Number of rows.
        shuffle: Whether to draw the order anew every epoch, by `seed` and
            epoch alone; otherwise pairs are sorted by length, all in one chunk.
        seed: Integer from which the orders follow.
        bucket_batches: Batches of a chunk.
        length_multiple: Integer, times are a multiple of it.

    Attributes:
        varies_in_time: True, as the batches have different times.
        order: int array, the pair that each row holds, -1 where it holds none.

    Raises:
        ValueError: An argument is not as described above.

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
    ):
        super().__init__()
        check_positive("batch_size", batch_size)
        check_positive("bucket_batches", bucket_batches)
        check_positive("length_multiple", length_multiple)
        self.premises = _sentences("premises", premises)
        self.hypotheses = _sentences("hypotheses", hypotheses)
        self.labels = np.asarray(labels, "int32")
        counts = {len(self.premises), len(self.hypotheses), len(self.labels)}
        if len(counts) > 1 or not len(self.labels):
            raise ValueError(
                "`premises`, `hypotheses` and `labels` must be of one number, "
                f"at least 1. Received: {len(self.premises)}, "
                f"{len(self.hypotheses)} and {len(self.labels)}"
            )
        self.batch_size = int(batch_size)
        self.shuffle = shuffle
        self.seed = int(seed)
        self.bucket_batches = int(bucket_batches)
        self.length_multiple = int(length_multiple)
        self.epoch = 0
        self._lengths = np.array(
            [list(map(len, self.premises)), list(map(len, self.hypotheses))]
        )
        self._reorder()

    @property
    def num_pairs(self):
        return len(self.labels)

    @property
    def largest_id(self):
        """Largest token id."""
        both = (*self.premises, *self.hypotheses)
        return max(int(sentence.max()) for sentence in both)

    def __len__(self):
        return -(-self.num_pairs // self.batch_size)

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(
                f"`index` must lie in 0 .. {len(self) - 1}. Received: {index}"
            )
        rows = self.order[index * self.batch_size :][: self.batch_size]
        premise, premise_length = self._padded(self.premises, rows)
        hypothesis, hypothesis_length = self._padded(self.hypotheses, rows)
        held = rows >= 0
        inputs = {
            "premise": premise,
            "premise_length": premise_length,
            "hypothesis": hypothesis,
            "hypothesis_length": hypothesis_length,
        }
        labels = np.where(held, self.labels[rows], 0).astype("int32")
        return inputs, labels, held.astype("float32")

    def on_epoch_end(self):
        self.start_at(self.epoch + 1)

    def start_at(self, epoch):
        """Moves to an epoch, from 0."""
        self.epoch = epoch
        self._reorder()

    def _reorder(self):
        order = np.arange(self.num_pairs)
        longest = self._lengths.max(axis=0)
        chunk = self.num_pairs
        random = np.random.default_rng([self.seed, self.epoch])
        if self.shuffle:
            order = random.permutation(order)
            chunk = self.bucket_batches * self.batch_size
        order = np.concatenate(
            [
                part[np.argsort(longest[part], kind="stable")]
                for part in np.split(order, range(chunk, len(order), chunk))
            ]
        )
        missing = len(self) * self.batch_size - self.num_pairs
        order = np.concatenate([order, np.full(missing, -1)])
        if self.shuffle:
            batches = order.reshape(len(self), self.batch_size)
            order = random.permutation(batches).reshape(-1)
        self.order = order

    def _padded(self, sentences, rows):
        chosen = [sentences[row] if row >= 0 else _FILLER for row in rows]
        lengths = np.array([len(sentence) for sentence in chosen], "int32")
        multiple = self.length_multiple
        padded = np.zeros(
            (self.batch_size, -(-lengths.max() // multiple) * multiple), "int32"
        )
        for row, sentence in enumerate(chosen):
            padded[row, : len(sentence)] = sentence
        return padded, lengths


# A row without a pair: a sentence as any other, which does not count.
_FILLER = np.zeros(1, "int32")


def _sentences(name, sentences):
    arrays = [np.asarray(sentence) for sentence in sentences]
    for index, array in enumerate(arrays):
        whole = np.issubdtype(array.dtype, np.integer)
        if array.ndim != 1 or not len(array) or not whole:
            raise ValueError(
                f"`{name}` must hold 1-D integer arrays with at least one "
                f"token each. Received: shape {array.shape} and dtype "
                f"{array.dtype} at position {index}"
            )
    return arrays
