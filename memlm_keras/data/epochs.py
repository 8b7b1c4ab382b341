"""The base of all batches: epochs, orders and positions."""

import functools
import zlib

import keras
import numpy as np

from memlm_keras.arguments import require_positive_integer

_CHUNK = 1 << 20


class EpochBatches(keras.utils.PyDataset):
    """Batches that can begin at any batch of any epoch.

    Subclasses set `batches_per_epoch` and implement `identity`, `_batch` and,
    where they shuffle, `_shuffle`.

    Args:
        batch_size: Number of rows.
        shuffle: Whether there is another order every epoch.
        seed: Integer from which the orders follow.

    Attributes:
        batches_per_epoch: Number of batches of a whole epoch.
        vocabulary: `None`, or the `Vocabulary` of the tokens, as a corpus sets
            it: a model that has another one refuses the batches.
    """

    vocabulary = None

    def __init__(self, batch_size, shuffle, seed):
        super().__init__()
        require_positive_integer("batch_size", batch_size)
        self.batch_size = int(batch_size)
        self.shuffle = shuffle
        self.seed = int(seed)
        self.epoch = 0
        self.start_batch = 0

    def identity(self):
        """Plain values that say which batches these are, for checkpoints."""
        return {
            "batch_size": self.batch_size,
            "seed": self.seed,
            "shuffle": self.shuffle,
        }

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
        if epoch < 0:
            raise ValueError(
                f"`epoch` must be 0 or more. Received: epoch={epoch}"
            )
        if not 0 <= batch < self.batches_per_epoch:
            raise ValueError(
                f"`batch` must lie in 0 .. {self.batches_per_epoch - 1}, as an "
                f"epoch has {self.batches_per_epoch} batches. Received: "
                f"batch={batch}"
            )
        self.epoch = epoch
        self.start_batch = batch
        if self.shuffle:
            self._shuffle(np.random.default_rng([self.seed, epoch]))


class TokenBatches(EpochBatches):
    """Batches of a text, each row a part of it.

    Args:
        tokens: 1-D integer array or memory map.
        batch_size, shuffle, seed: As of `EpochBatches`.
        end_of_sentence_id: Input before the first token, and padding.

    Attributes:
        num_tokens: Number of tokens of the text.
    """

    def __init__(self, tokens, batch_size, shuffle, seed, end_of_sentence_id):
        super().__init__(batch_size, shuffle, seed)
        self.tokens = _check_tokens(tokens)
        self.num_tokens = len(self.tokens)
        self.end_of_sentence_id = int(end_of_sentence_id)

    @property
    def predicted_tokens(self):
        """Number of targets of a whole epoch."""
        return self.num_tokens

    @property
    def largest_id(self):
        """Largest token id, the end of a sentence included.

        Found by one pass over the tokens, which also refuses negative ids.
        """
        return self._read_once[0]

    def identity(self):
        """Plain values that say which batches these are, for checkpoints."""
        return {
            **super().identity(),
            "num_tokens": self.num_tokens,
            "checksum_of_tokens": self._read_once[1],
        }

    @functools.cached_property
    def _read_once(self):
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
        return largest, sum_

    def _rows(self, begins, ends, time, reset, blind):
        """One batch, of a span of the text in each row.

        Args:
            begins, ends: Integer arrays `(batch_size,)`, or of fewer rows.
            time: Integer, at least as long as each span.
            reset: Boolean array `(batch_size,)`.
            blind: Boolean array, whether a row's first input is the end of a
                sentence instead of the token before.
        """
        shape = (self.batch_size, time)
        token_ids = np.full(shape, self.end_of_sentence_id, np.int32)
        targets = token_ids.copy()
        sample_weight = np.zeros(shape, np.float32)
        for row, (begin, end) in enumerate(zip(begins, ends)):
            length = end - begin
            if not length:
                continue
            targets[row, :length] = self.tokens[begin:end]
            token_ids[row, 1:length] = targets[row, : length - 1]
            if not blind[row]:
                token_ids[row, 0] = self.tokens[begin - 1]
            sample_weight[row, :length] = 1.0
        return {"token_ids": token_ids, "reset": reset}, targets, sample_weight


def checksum(integers, start=0):
    """Checksum of integers, whatever their dtype and where they are stored."""
    return zlib.crc32(np.ascontiguousarray(integers, "<i8"), start)


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
