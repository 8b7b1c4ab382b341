"""Batches of a text: epochs, orders and positions; consecutive segments."""

import functools
import heapq
import zlib

import keras
import numpy as np

from memlm_keras.arguments import require_integers
from memlm_keras.arguments import require_positive_integer

_CHUNK = 1 << 20


class EpochBatches(keras.utils.PyDataset):
    """Batches that can begin at any batch of any epoch.

    Subclasses set `batches_per_epoch` and implement `identity`, `_batch` and,
    if they shuffle, `_shuffle`. A corpus sets `vocabulary`: a model with
    another vocabulary refuses the batches.
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
        """Plain values that identify the batches, for checkpoints."""
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
    """Batches of a text of `num_tokens` tokens, each row a part of it."""

    def __init__(self, tokens, batch_size, shuffle, seed, end_of_sentence_id):
        super().__init__(batch_size, shuffle, seed)
        self.tokens = require_integers("tokens", tokens)
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
        """One batch, with a span of the text in each row.

        `begins` and `ends` are `(batch_size,)`, or fewer rows. The first input
        of a `blind` row is the end of a sentence, not the token before.
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
    """Checksum of integers of any dtype."""
    return zlib.crc32(np.ascontiguousarray(integers, "<i8"), start)


class Batches(TokenBatches):
    """Cuts a token sequence into batches that `fit` and `evaluate` read.

    Item `index` is `(inputs, targets, sample_weight)`:

    * `inputs["token_ids"]`: int32 `(batch_size, segment_length)`
    * `inputs["reset"]`: bool `(batch_size,)`, where the state carried from the
      batch before must be forgotten
    * `targets`: int32 `(batch_size, segment_length)`
    * `sample_weight`: float32 `(batch_size, segment_length)`, 0 at padding

    Row `b` of a batch continues row `b` of the batch before. Every token is a
    target exactly once an epoch, whatever the two sizes, and its input is the
    token before it. All batches have the same shapes.

    Without `document_starts` the tokens are split into `batch_size`
    contiguous streams whose lengths differ by at most one. The first input of
    a row is the token before the row (the end of a sentence at the very
    beginning) and `reset` is true in the first batch only.

    With `document_starts` each document in turn goes to the row that is free
    first. Documents begin at the beginning of a segment, with the end of a
    sentence as first input and with `reset` true; their last segment is
    padded. `shuffle` reorders the documents within each row every epoch; the
    order depends on `seed` and epoch alone. Rows, and so the number of
    batches, stay the same.

    `memlm_keras.LanguageModel.fit` counts the epochs. There is no need to
    raise `workers`: the tokens are indexed in place.

    Args:
        tokens: 1-D integer array or memory map.
        batch_size: Number of rows.
        segment_length: Number of time steps of a batch.
        document_starts: `None`, or 1-D integer offsets into `tokens` at which
            documents begin: the first 0, each larger than the one before.
        shuffle: Whether to reorder documents every epoch.
        seed: Integer that determines the orders.
        end_of_sentence_id: Input before the first token, and padding.
        context_of: `"document"` or `"sentence"`, which of them begin at
            `document_starts`, for reports.

    Attributes:
        epoch: Current epoch, from 0.
        start_batch: Batch at which the current epoch begins, usually 0.
        has_documents: Whether the history ends where a document ends.

    Raises:
        ValueError: An argument is not as described above.

    Example:

    >>> batches = Batches(np.arange(1, 8), batch_size=2, segment_length=2)
    >>> inputs, targets, sample_weight = batches[1]
    >>> inputs["token_ids"]
    array([[2, 0],
           [5, 6]], dtype=int32)
    >>> targets
    array([[3, 0],
           [6, 7]], dtype=int32)
    """

    def __init__(
        self,
        tokens,
        batch_size=64,
        segment_length=20,
        document_starts=None,
        shuffle=False,
        seed=0,
        end_of_sentence_id=0,
        context_of="document",
    ):
        super().__init__(tokens, batch_size, shuffle, seed, end_of_sentence_id)
        require_positive_integer("segment_length", segment_length)
        self.segment_length = int(segment_length)
        self.has_documents = document_starts is not None
        self.context_of = context_of
        if document_starts is None:
            if shuffle:
                raise ValueError(
                    "`shuffle=True` needs `document_starts`: without documents "
                    "there is nothing to reorder. Received: "
                    "document_starts=None"
                )
            self._layout = _Streams(self.num_tokens, batch_size, segment_length)
        else:
            self._layout = _Documents(
                _check_document_starts(document_starts, self.num_tokens),
                self.num_tokens,
                batch_size,
                segment_length,
            )
        self.batches_per_epoch = self._layout.num_batches
        self.start_at(0)

    def identity(self):
        return {
            **super().identity(),
            "segment_length": self.segment_length,
            "checksum_of_documents": self._layout.checksum,
        }

    def _shuffle(self, generator):
        self._layout.shuffle(generator)

    def _batch(self, index):
        begins, ends, reset, blind = self._layout.spans(index)
        return self._rows(begins, ends, self.segment_length, reset, blind)


class _Streams:
    """Where the rows of each batch lie in a text without documents."""

    def __init__(self, num_tokens, batch_size, segment_length):
        edges = np.arange(batch_size + 1) * num_tokens // batch_size
        self._begins, self._ends = edges[:-1], edges[1:]
        self._segment_length = segment_length
        longest = int((self._ends - self._begins).max())
        self.num_batches = -(-longest // segment_length)
        self.checksum = None

    def spans(self, index):
        """int64 `begins` and `ends` of each row of a batch, bool `reset`, and
        bool `blind`: the row has no token before it."""
        begins = self._begins + index * self._segment_length
        begins = np.minimum(begins, self._ends)
        ends = np.minimum(begins + self._segment_length, self._ends)
        return begins, ends, np.full(len(begins), index == 0), begins == 0


class _Documents:
    """Where the rows of each batch lie in a text of documents.

    Holds a few integers per document and none per segment, for texts larger
    than memory.
    """

    def __init__(self, starts, num_tokens, batch_size, segment_length):
        self._starts = starts
        self.checksum = checksum(starts)
        self._ends = np.append(starts[1:], num_tokens)
        self._segment_length = segment_length
        self._segments = -(-(self._ends - starts) // segment_length)
        self._rows, totals = _deal(self._segments, batch_size)
        self.num_batches = max(totals)
        # Segments run on from row to row, so that one search serves all rows.
        self._row_edges = np.concatenate([[0], np.cumsum(totals)])
        self._place(np.argsort(self._rows, kind="stable"))

    def shuffle(self, generator):
        """Reorders the documents of each row, independent of earlier orders."""
        keys = generator.random(len(self._rows))
        self._place(np.lexsort((keys, self._rows)))

    def _place(self, order):
        self._order = order
        segments = self._segments[order]
        self._first_segments = np.cumsum(segments) - segments

    def spans(self, index):
        segment = self._row_edges[:-1] + index
        busy = segment < self._row_edges[1:]
        # Rows without documents left get an empty span of the first document.
        segment = np.where(busy, segment, 0)
        place = np.searchsorted(self._first_segments, segment, "right") - 1
        document = self._order[place]
        segment = segment - self._first_segments[place]
        begins = self._starts[document] + segment * self._segment_length
        ends = np.minimum(begins + self._segment_length, self._ends[document])
        reset = busy & (segment == 0)
        return begins, np.where(busy, ends, begins), reset, reset


def _deal(segments, batch_size):
    """Row of each document, int64, and the number of segments of each row.

    Each document goes to the row that is free first, the lowest of equals.
    `segments` are the numbers of segments of the documents.
    """
    free = [(0, row) for row in range(batch_size)]
    rows = np.empty(len(segments), np.int64)
    for document, length in enumerate(segments.tolist()):
        time, rows[document] = free[0]
        heapq.heapreplace(free, (time + length, int(rows[document])))
    totals = [0] * batch_size
    for time, row in free:
        totals[row] = time
    return rows, totals


def _check_document_starts(document_starts, num_tokens):
    starts = require_integers("document_starts", document_starts)
    starts = np.array(starts, np.int64)
    if starts[0] != 0:
        raise ValueError(
            "`document_starts` must begin with 0, or tokens would be in no "
            f"document. Received: {starts[:3]} ..."
        )
    if np.any(np.diff(starts) <= 0):
        position = int(np.argmax(np.diff(starts) <= 0)) + 1
        raise ValueError(
            "`document_starts` must be sorted, each larger than the one "
            f"before. Received: {starts[position]} after "
            f"{starts[position - 1]} at position {position}"
        )
    if starts[-1] >= num_tokens:
        raise ValueError(
            f"`document_starts` must lie in 0 .. {num_tokens - 1}, as there "
            f"are {num_tokens} tokens. Received: {starts[-1]}"
        )
    return starts
