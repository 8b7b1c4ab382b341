"""Batches of whole sentences, for training that begins each one afresh."""

import numpy as np

from memlm_keras.arguments import require_positive_integer
from memlm_keras.data.batches import TokenBatches


class SentenceBatches(TokenBatches):
    """Batches of sentences of equal length, each read from an empty history.

    Item `index` is `(inputs, targets, sample_weight)` as of `Batches`, with
    `reset` true in every row and the time that the sentences need. The first
    input of a sentence is the end-of-sentence token, which stands for its
    beginning; its words and its own end are the targets. Every sentence is in
    exactly one batch of an epoch, and whole unless `longest` cuts it.

    The sentences of a batch have equal lengths, as in Tran et al. (2016,
    Section 4), or any lengths, as in Salton et al. (2017, Section 4), who also
    cut long ones: `longest=35, equal_lengths=False`. The last batch of a
    length is filled up with empty rows, and the time is rounded up to a
    multiple of `length_multiple`, so that few shapes are ever compiled.
    Padding has the weight 0, follows the sentence and changes no result.

    Meant for training with `memlm_keras.training.SentenceCrossEntropy`. To
    evaluate, `Batches` with `sentence_starts` as `document_starts` are the same
    protocol in a single shape; only a memory that reads ahead needs its
    sentences whole there too.

    Args:
        tokens: 1-D integer array or memory map, each sentence with its end.
        batch_size: Number of rows.
        length_multiple: Integer, the time of every batch is a multiple of it.
        shuffle: Whether to draw the sentences of each batch and the order of
            the batches every epoch; they depend on `seed` and epoch alone.
        seed: Integer that determines the orders.
        end_of_sentence_id: Integer, ends each sentence.
        longest: `None`, or integer, the largest number of targets of a
            sentence, its end included; the rest is left out.
        equal_lengths: Whether the sentences of a batch have equal lengths;
            otherwise they have any, in the order of the text unless shuffled.

    Attributes:
        varies_in_time: True, as the batches have different times.
        whole_sentences: Whether each row is one sentence to its end, as it is
            without `longest`.
        has_documents, context_of: As of `Batches`.

    Raises:
        ValueError: An argument is not as described above, or the last token
            does not end a sentence.

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
        if longest is not None:
            require_positive_integer("longest", longest)
            self._lengths = np.minimum(self._lengths, longest)
        self.equal_lengths = equal_lengths
        # Sentences of one group go together in batches.
        self._groups = self._lengths if equal_lengths else 0 * self._lengths
        counts = np.unique(self._groups, return_counts=True)[1]
        batches = -(-counts // self.batch_size)
        # Where the sentences of each group begin and end in the order of
        # `_sentences`, and where its batches do in the order of `_batch`.
        self._group_edges = np.concatenate([[0], np.cumsum(counts)])
        self._batch_edges = np.concatenate([[0], np.cumsum(batches)])
        self._sentences = np.argsort(self._groups, kind="stable")
        self.batches_per_epoch = int(self._batch_edges[-1])
        self._order = np.arange(self.batches_per_epoch)
        self.start_at(0)

    @property
    def whole_sentences(self):
        return self.longest is None

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

    * `inputs["source"]`: int32 `(batch_size, time)`, each sentence with its end
    * `inputs["source_length"]`: int32 `(batch_size,)`, the end included
    * `inputs["target"]`: int32 `(batch_size, time)`, what the decoder reads:
      an end of sentence, and all words
    * `targets`: int32 `(batch_size, time)`, all words and their end
    * `sample_weight`: float32 `(batch_size, time)`, 0 after the end

    Args:
        *arguments, **keywords: as of `SentenceBatches`; `longest` cuts both
            source and target.

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
    """Offsets at which sentences begin.

    Args:
        tokens: 1-D integer array or memory map, each sentence with its end.
        end_of_sentence_id: Integer, ends each sentence.

    Returns:
        1-D int64 array, the first of them 0.

    Raises:
        ValueError: The last token does not end a sentence.

    Example:

    >>> sentence_starts(np.array([5, 7, 0, 6, 0]))
    array([0, 3])
    """
    ends = np.flatnonzero(tokens == end_of_sentence_id)
    if not len(ends) or ends[-1] != len(tokens) - 1:
        raise ValueError(
            "`tokens` must end with the end of a sentence, the id "
            f"{end_of_sentence_id}. Received: tokens that end with "
            f"{np.asarray(tokens[-3:])}"
        )
    return np.concatenate([[0], ends[:-1] + 1])
