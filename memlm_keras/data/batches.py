"""Batches of streams, documents and whole sentences."""

import copy
import functools
import heapq
import zlib

import keras
import numpy as np
from keras import ops

from memlm_keras.arguments import require_integers
from memlm_keras.arguments import require_one_of
from memlm_keras.arguments import require_positive_integer

_CHUNK = 1 << 20


class EpochBatches(keras.utils.PyDataset):
    """Base class for batches that can start in the middle of an epoch.
    Subclasses set `batches_per_epoch` and implement `_batch`. A `Corpus` sets
    the `vocabulary` of its batches; a model with another vocabulary
    raises an error."""

    vocabulary = None

    def __init__(self, batch_size, shuffle, seed):
        super().__init__()
        require_positive_integer("batch_size", batch_size)
        require_positive_integer("seed", seed, 0)
        self.batch_size = int(batch_size)
        self.shuffle = shuffle
        self.seed = int(seed)
        self.epoch = 0
        self.start_batch = 0

    def identity(self):
        """Returns a dict that identifies the batches in a checkpoint."""
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
                f"`index` must be from 0 to {len(self) - 1}. Received: {index}"
            )
        return self._batch(index + self.start_batch)

    def start_at(self, epoch, batch=0):
        """Makes `fit` continue at batch `batch` of epoch `epoch`.

        After this call, item `i` is batch `batch + i` of epoch `epoch`. The
        `fit` of this package's models starts every later epoch at batch 0.

        Raises:
            ValueError: `epoch` or `batch` is out of range.
        """
        require_positive_integer("epoch", epoch, minimum=0)
        if not 0 <= batch < self.batches_per_epoch:
            raise ValueError(
                f"`batch` must be from 0 to {self.batches_per_epoch - 1}: an "
                f"epoch has {self.batches_per_epoch} batches. Received: "
                f"batch={batch}"
            )
        self.epoch = epoch
        self.start_batch = batch
        if self.shuffle:
            self._shuffle(np.random.default_rng([self.seed, epoch]))

    def _shuffle(self, generator):
        """Draws the order of the batches or rows in an epoch."""


class TokenBatches(EpochBatches):
    """Base class for batches whose rows are slices of a text. A `Corpus` sets
    `document_starts`, the positions at which documents begin, even if the state
    is carried from one document to the next."""

    document_starts = None

    def __init__(self, tokens, batch_size, shuffle, seed, end_of_sentence_id):
        super().__init__(batch_size, shuffle, seed)
        self.tokens = require_integers("tokens", tokens)
        self.num_tokens = len(self.tokens)
        require_positive_integer("end_of_sentence_id", end_of_sentence_id, 0)
        self.end_of_sentence_id = int(end_of_sentence_id)

    @property
    def predicted_tokens(self):
        """Number of targets in an epoch."""
        return self.num_tokens

    @property
    def largest_id(self):
        """Largest id of all tokens, including the end-of-sentence token."""
        return self._largest_id_and_checksum[0]

    def identity(self):
        return {
            **super().identity(),
            "num_tokens": self.num_tokens,
            "checksum_of_tokens": self._largest_id_and_checksum[1],
        }

    @functools.cached_property
    def _largest_id_and_checksum(self):
        """Computes the largest id and a checksum; checks for negative ids."""
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

    def of_offsets(self):
        """Returns a copy with each token id replaced by its position."""
        offsets = copy.copy(self)
        offsets.tokens = np.arange(self.num_tokens)
        return offsets

    def _rows(self, begins, ends, time, reset, blind):
        """Returns a batch with targets `tokens[begins[i]:ends[i]]` in row `i`.
        If `blind[i]` is true, row `i` begins with the end-of-sentence token."""
        if len(begins) < self.batch_size:
            missing = (0, self.batch_size - len(begins))
            begins, ends = np.pad(begins, missing), np.pad(ends, missing)
        places = begins[:, None] + np.arange(-1, time)
        read = self.tokens.take(places, mode="clip")
        token_ids = read[:, :-1].astype(np.int32)
        targets = read[:, 1:].astype(np.int32)
        outside = np.arange(time) >= (ends - begins)[:, None]
        token_ids[blind, 0] = self.end_of_sentence_id
        token_ids[outside] = targets[outside] = self.end_of_sentence_id
        inputs = {"token_ids": token_ids, "reset": reset}
        return inputs, targets, (~outside).astype(np.float32)


def concatenate_batches(results):
    """Concatenates the results of batches. Each result is a pair of arrays
    `(batch, time)`, which are padded with zeros to the longest time."""
    pairs = [map(ops.convert_to_numpy, pair) for pair in results]
    joined = []
    for arrays in zip(*pairs):
        longest = max(array.shape[1] for array in arrays)
        joined.append(
            np.concatenate(
                [
                    np.pad(array, [(0, 0), (0, longest - array.shape[1])])
                    for array in arrays
                ]
            )
        )
    return tuple(joined)


def checksum(integers, start=0):
    """Returns the CRC-32 of integers after a cast to int64."""
    return zlib.crc32(np.ascontiguousarray(integers, "<i8"), start)


# === Streams and documents ===


class Batches(TokenBatches):
    """Cuts a sequence of tokens into batches for `fit` and `evaluate`.

    Item `index` is `(inputs, targets, sample_weight)`:

    * `inputs["token_ids"]`: int32 `(batch_size, segment_length)`
    * `inputs["reset"]`: bool `(batch_size,)`, true in rows whose state is reset
      before the batch
    * `targets`: int32 `(batch_size, segment_length)`
    * `sample_weight`: float32 `(batch_size, segment_length)`, 0 at padding

    Row `b` of a batch continues row `b` of the previous batch. Each token is a
    target exactly once per epoch, and its input is the previous token. All
    batches have the same shapes.

    Without `document_starts`, the tokens are split into `batch_size`
    contiguous streams whose lengths differ by at most one. The first input of a
    stream is the token before it in the text, or `end_of_sentence_id` at the
    beginning of the text. `reset` is true in the first batch only.

    With `document_starts`, each document is cut into segments, and the last
    segment is padded. A document goes to the row with the fewest segments so
    far, and begins with `reset` true and `end_of_sentence_id` as the first
    input. `shuffle` reorders the documents within each row, depending only on
    `seed` and epoch. Shuffling does not change the number of batches.

    Args:
        tokens: 1-D integer array or memory map.
        document_starts: `None`, or the positions in `tokens` at which documents
            begin: ascending integers that begin with 0.
        end_of_sentence_id: Id of the first input and of padding.
        context_of: `"document"` or `"sentence"`, the unit of text that begins
            at each of `document_starts`. Reports use this word.

    Attributes:
        epoch: Number of the current epoch, from 0.
        start_batch: Number of the batch that is item 0; `start_at` sets it.
        has_documents: Whether `document_starts` were given.

    Raises:
        ValueError: An argument is invalid.

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
        require_one_of("context_of", context_of, ("document", "sentence"))
        self.context_of = context_of
        if self.has_documents:
            self._starts = _checked_starts(document_starts, self.num_tokens)
            if context_of == "document":
                self.document_starts = self._starts
            self._ends = np.append(self._starts[1:], self.num_tokens)
        elif shuffle:
            raise ValueError(
                "`shuffle=True` needs `document_starts`, to reorder whole "
                "documents. Received: document_starts=None"
            )
        else:
            # Each row reads one contiguous part of the text like a document.
            edges = np.arange(batch_size + 1) * self.num_tokens // batch_size
            self._starts, self._ends = edges[:-1], edges[1:]
        self._segments = -(-(self._ends - self._starts) // self.segment_length)
        self._row_of, totals = np.arange(self.batch_size), self._segments
        if self.has_documents:
            self._row_of, totals = _assign_rows(self._segments, batch_size)
        self.batches_per_epoch = int(max(totals))
        # Segments are numbered row by row. The segment numbers of all rows are
        # then one sorted sequence, which `_batch` searches with a single call.
        self._row_edges = np.concatenate([[0], np.cumsum(totals)])
        self._place(np.argsort(self._row_of, kind="stable"))
        self.start_at(0)

    def identity(self):
        return {
            **super().identity(),
            "segment_length": self.segment_length,
            "checksum_of_documents": (
                checksum(self._starts) if self.has_documents else None
            ),
        }

    def _shuffle(self, generator):
        keys = generator.random(len(self._row_of))
        self._place(np.lexsort((keys, self._row_of)))

    def _place(self, order):
        self._order = order
        segments = self._segments[order]
        self._first_segments = np.cumsum(segments) - segments

    def _batch(self, index):
        segment = self._row_edges[:-1] + index
        busy = segment < self._row_edges[1:]
        # A row that has no segments left contains only padding.
        segment = np.where(busy, segment, 0)
        place = np.searchsorted(self._first_segments, segment, "right") - 1
        document = self._order[place]
        segment = segment - self._first_segments[place]
        begins = self._starts[document] + segment * self.segment_length
        ends = np.minimum(begins + self.segment_length, self._ends[document])
        ends = np.where(busy, ends, begins)
        if self.has_documents:
            reset = blind = busy & (segment == 0)
        else:
            reset = np.full(self.batch_size, index == 0)
            blind = begins == 0
        return self._rows(begins, ends, self.segment_length, reset, blind)


def _assign_rows(segments, batch_size):
    """Adds each document to the row with the fewest segments so far. Returns
    each document's row, and the number of segments in each row."""
    free = [(0, row) for row in range(batch_size)]
    rows = np.empty(len(segments), np.int64)
    for document, length in enumerate(segments.tolist()):
        time, rows[document] = free[0]
        heapq.heapreplace(free, (time + length, int(rows[document])))
    return rows, [time for time, _ in sorted(free, key=lambda item: item[1])]


def _checked_starts(document_starts, num_tokens):
    starts = require_integers("document_starts", document_starts)
    starts = np.array(starts, np.int64)
    if starts[0] != 0:
        raise ValueError(
            f"`document_starts` must begin with 0. Received: {starts[:3]} ..."
        )
    if np.any(unsorted := np.diff(starts) <= 0):
        position = int(np.argmax(unsorted)) + 1
        raise ValueError(
            "`document_starts` must be sorted, without repeats. Received: "
            f"{starts[position]} after {starts[position - 1]} at position "
            f"{position}"
        )
    if starts[-1] >= num_tokens:
        raise ValueError(
            f"`document_starts` must be from 0 to {num_tokens - 1}, as there "
            f"are {num_tokens} tokens. Received: {starts[-1]}"
        )
    return starts


# === Sentences ===


class SentenceBatches(TokenBatches):
    """Batches of sentences, each read from an empty context.

    Items are as in `Batches`, but `reset` is true in every row, and the number
    of time steps varies between batches. The first input of a sentence is the
    end-of-sentence token; the targets are its words and the end-of-sentence
    token. Each sentence is in exactly one batch per epoch.

    The sentences in a batch have equal lengths (Tran et al., 2016, Section 4),
    or any lengths up to a maximum (Salton et al., 2017, Section 4):
    `longest=35, equal_lengths=False`. Empty rows complete the last batch of
    each length. The number of time steps is rounded up to a multiple of
    `length_multiple`, so that few shapes are compiled. Padding follows the
    sentence, has weight 0 and changes no result.

    Train with `memlm_keras.training.SentenceCrossEntropy`. If a model is
    causal, `Batches` with `document_starts=sentence_starts(tokens)` give the
    same perplexity as `SentenceBatches`, in batches of a single shape.

    Args:
        tokens: 1-D integer array or memory map; every sentence ends with
            `end_of_sentence_id`.
        shuffle: Whether to shuffle the sentences and the batches before each
            epoch; the order depends only on `seed` and the epoch.
        longest: `None`, or the largest number of targets per sentence,
            including the end-of-sentence token; further targets are dropped.
        equal_lengths: Whether the sentences in a batch have equal lengths. If
            false, and without `shuffle`, sentences keep the order of the text.

    Attributes:
        varies_in_time: True, because the number of time steps varies.
        whole_sentences: True if `longest` is `None`, so no sentence is cut.
        has_documents, context_of: See `Batches`.

    Raises:
        ValueError: An argument is invalid, or the last token does not end a
            sentence.

    Example:

    >>> batches = SentenceBatches(np.array([5, 7, 0, 6, 0, 8, 9, 0]), 2)
    >>> inputs, targets, sample_weight = batches[1]
    >>> targets[:, :4]
    array([[5, 7, 0, 0],
           [8, 9, 0, 0]], dtype=int32)
    """

    varies_in_time = True
    has_documents = True
    context_of = "sentence"

    def __init__(
        self,
        tokens,
        batch_size=20,
        length_multiple=8,
        shuffle=False,
        seed=0,
        end_of_sentence_id=0,
        longest=None,
        equal_lengths=True,
    ):
        super().__init__(tokens, batch_size, shuffle, seed, end_of_sentence_id)
        require_positive_integer("length_multiple", length_multiple)
        self.length_multiple = int(length_multiple)
        self._starts = sentence_starts(self.tokens, end_of_sentence_id)
        self._lengths = np.diff(self._starts, append=self.num_tokens)
        self.longest = longest
        self.whole_sentences = longest is None
        if longest is not None:
            require_positive_integer("longest", longest)
            self._lengths = np.minimum(self._lengths, longest)
        self.equal_lengths = equal_lengths
        # A batch has sentences of one group: those of one length, or all.
        # `_group_edges` and `_batch_edges` index each group's first sentence
        # and first batch.
        self._groups = self._lengths if equal_lengths else 0 * self._lengths
        counts = np.unique(self._groups, return_counts=True)[1]
        batches = -(-counts // self.batch_size)
        self._group_edges = np.concatenate([[0], np.cumsum(counts)])
        self._batch_edges = np.concatenate([[0], np.cumsum(batches)])
        self._sentences = np.argsort(self._groups, kind="stable")
        self.batches_per_epoch = int(self._batch_edges[-1])
        self._order = np.arange(self.batches_per_epoch)
        self.start_at(0)

    @property
    def predicted_tokens(self):
        return int(self._lengths.sum())

    def identity(self):
        return {
            **super().identity(),
            "length_multiple": self.length_multiple,
            "longest": self.longest,
            "equal_lengths": self.equal_lengths,
        }

    def _shuffle(self, generator):
        keys = generator.random(len(self._lengths))
        self._sentences = np.lexsort((keys, self._groups))
        self._order = generator.permutation(self.batches_per_epoch)

    def _batch(self, index):
        index = self._order[index]
        group = np.searchsorted(self._batch_edges, index, "right") - 1
        begin = self._group_edges[group] + self.batch_size * (
            index - self._batch_edges[group]
        )
        end = min(begin + self.batch_size, self._group_edges[group + 1])
        sentences = self._sentences[begin:end]
        lengths = self._lengths[sentences]
        multiple = self.length_multiple
        time = -(-int(lengths.max()) // multiple) * multiple
        if self.longest is not None:
            time = min(time, self.longest)
        begins, every = self._starts[sentences], np.ones(self.batch_size, bool)
        return self._rows(begins, begins + lengths, time, every, every)


class AutoencodingBatches(SentenceBatches):
    """Batches of sentences for a `memlm_keras.SequenceAutoencoder`.

    Item `index` is `(inputs, targets, sample_weight)`:

    * `inputs["source"]`: int32 `(batch_size, time)`, the words of a sentence
      and the end-of-sentence token
    * `inputs["source_length"]`: int32 `(batch_size,)`, number of tokens of the
      source, including the end-of-sentence token
    * `inputs["target"]`: int32 `(batch_size, time)`, inputs to the decoder:
      the end-of-sentence token, then the words
    * `targets`: int32 `(batch_size, time)`, equal to the source
    * `sample_weight`: float32 `(batch_size, time)`, 0 at padding

    Takes the arguments of `SentenceBatches`; `longest` cuts source and target.

    Example:

    >>> tokens = np.array([5, 7, 0, 6, 0])
    >>> inputs, targets, _ = AutoencodingBatches(tokens, 2, longest=3)[0]
    >>> inputs["source_length"]
    array([2, 1], dtype=int32)
    """

    def _batch(self, index):
        inputs, targets, sample_weight = super()._batch(index)
        lengths = np.maximum(sample_weight.sum(axis=1), 1).astype("int32")
        inputs = {
            "source": targets,
            "source_length": lengths,
            "target": inputs["token_ids"],
        }
        return inputs, targets, sample_weight


def sentence_starts(tokens, end_of_sentence_id=0):
    """Returns the positions at which sentences begin, 1-D int64.

    Args:
        tokens: 1-D integer array or memory map; every sentence ends with
            `end_of_sentence_id`.

    Raises:
        ValueError: The last token does not end a sentence.

    Example:

    >>> sentence_starts(np.array([5, 7, 0, 6, 0]))
    array([0, 3])
    """
    ends = np.flatnonzero(tokens == end_of_sentence_id)
    if not len(ends) or ends[-1] != len(tokens) - 1:
        raise ValueError(
            "`tokens` must end with the end-of-sentence token, id "
            f"{end_of_sentence_id}. Received: tokens that end with "
            f"{np.asarray(tokens[-3:])}"
        )
    return np.concatenate([[0], ends[:-1] + 1])
