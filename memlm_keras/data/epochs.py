"""The base of all batches: epochs, orders and positions."""

import zlib

import keras
import numpy as np

_CHUNK = 1 << 20


class EpochBatches(keras.utils.PyDataset):
    """Batches of token ids that can begin at any batch of any epoch.

    Subclasses implement `batches_per_epoch`, `identity`, `_shuffle` and
    `_batch`, and call `_reorder` once they are made.

    Args:
        tokens: 1-D integer array or memory map.
        batch_size: Number of rows.
        shuffle: Whether there is another order every epoch.
        seed: Integer from which the orders follow.
        end_of_sentence_id: Input before the first token, and padding.

    Attributes:
        vocabulary: `None`, or the `Vocabulary` of the tokens, as a corpus sets
            it: a model that has another one refuses the batches.
    """

    vocabulary = None

    def __init__(self, tokens, batch_size, shuffle, seed, end_of_sentence_id):
        super().__init__()
        check_positive("batch_size", batch_size)
        self.tokens = _check_tokens(tokens)
        self.batch_size = int(batch_size)
        self.shuffle = shuffle
        self.seed = int(seed)
        self.end_of_sentence_id = int(end_of_sentence_id)
        self.epoch = 0
        self.start_batch = 0
        self._largest_id = None
        self._checksum = None

    @property
    def num_tokens(self):
        """Number of tokens of the text."""
        return len(self.tokens)

    @property
    def predicted_tokens(self):
        """Number of targets of a whole epoch."""
        return self.num_tokens

    @property
    def largest_id(self):
        """Largest token id, the end of a sentence included.

        Found by one pass over the tokens, which also refuses negative ids.
        """
        self._read_once()
        return self._largest_id

    @property
    def batches_per_epoch(self):
        """Number of batches of a whole epoch."""
        raise NotImplementedError(
            f"{type(self).__name__} must implement `batches_per_epoch`."
        )

    def identity(self):
        """Plain values that say which batches these are, for checkpoints."""
        self._read_once()
        return {
            "num_tokens": int(self.num_tokens),
            "checksum_of_tokens": self._checksum,
            "batch_size": self.batch_size,
            "seed": self.seed,
            "shuffle": self.shuffle,
        }

    def _read_once(self):
        if self._largest_id is not None:
            return
        largest, sum_ = self.end_of_sentence_id, 0
        for begin in range(0, self.num_tokens, _CHUNK):
            chunk = self.tokens[begin : begin + _CHUNK]
            if chunk.min() < 0:
                raise ValueError(
                    "`tokens` must not be negative. Received: the token id "
                    f"{chunk.min()}"
                )
            largest = max(largest, int(chunk.max()))
            sum_ = checksum(chunk, sum_)
        self._largest_id, self._checksum = largest, sum_

    def __len__(self):
        return self.batches_per_epoch - self.start_batch

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(
                f"`index` must lie in 0 .. {len(self) - 1}. Received: {index}"
            )
        return self._batch(index + self.start_batch)

    def start_at(self, epoch, batch=0):
        """Moves to a batch of an epoch, from which `fit` then goes on.

        Item `i` is then batch `batch + i` of the epoch. The `fit` of this
        package's models moves to the beginning of each later epoch by itself.

        Args:
            epoch: Integer from 0.
            batch: Integer from 0, below `batches_per_epoch`.

        Raises:
            ValueError: There is no such epoch or batch.
        """
        check_position(epoch, batch, self.batches_per_epoch)
        self.epoch = epoch
        self.start_batch = batch
        self._reorder()

    def _reorder(self):
        if self.shuffle:
            self._shuffle(np.random.default_rng([self.seed, self.epoch]))


def checksum(integers, start=0):
    """Checksum of integers, whatever their dtype and where they are stored."""
    return zlib.crc32(np.ascontiguousarray(integers, "<i8"), start)


def check_positive(name, value):
    """Raises `ValueError` unless `value` is an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"`{name}` must be an integer. Received: {value!r}")
    if value < 1:
        raise ValueError(f"`{name}` must be at least 1. Received: {value}")


def check_position(epoch, batch, batches_per_epoch):
    """Raises `ValueError` unless there are such an epoch and such a batch."""
    if epoch < 0:
        raise ValueError(f"`epoch` must be 0 or more. Received: epoch={epoch}")
    if not 0 <= batch < batches_per_epoch:
        raise ValueError(
            f"`batch` must lie in 0 .. {batches_per_epoch - 1}, as an epoch "
            f"has {batches_per_epoch} batches. Received: batch={batch}"
        )


def _check_tokens(tokens):
    # `asanyarray` leaves a memory map what it is.
    tokens = np.asanyarray(tokens)
    if tokens.ndim != 1 or not np.issubdtype(tokens.dtype, np.integer):
        raise ValueError(
            "`tokens` must be a 1-D array of integers. Received: shape "
            f"{tokens.shape} and dtype {tokens.dtype}"
        )
    if not len(tokens):
        raise ValueError("`tokens` must not be empty. Received: no tokens")
    return tokens
