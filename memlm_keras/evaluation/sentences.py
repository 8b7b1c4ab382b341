"""Losses of single sentences, by which two models are compared fairly."""

import collections

import numpy as np

from memlm_keras.data import sentence_starts
from memlm_keras.evaluation.perplexity import require_beginning
from memlm_keras.evaluation.perplexity import require_method


def sentence_losses(model, batches, verbose=0):
    """Losses of the sentences of a text, in the order of the text.

    Whatever the batches do with the text, sentences are put together again, so
    that two models that read it in different ways can be compared sentence by
    sentence.

    Args:
        model: as for `perplexity`.
        batches: `memlm_keras.data.Batches` or `SentenceBatches` of the whole
            text.
        verbose: 0 or 1, whether there is a progress bar.

    Returns:
        `(losses, tokens)`: float64 and int64 arrays of a number a sentence, the
        sum of its negative natural-log probabilities and how many there are.

    Raises:
        ValueError: for a model without `score_batches`, and batches that do not
            begin at their beginning or do not hold each sentence once.

    Example:

    >>> batches = corpus.batches("test", batch_size=8, segment_length=50)
    >>> losses, tokens = memlm_keras.evaluation.sentence_losses(lm, batches)
    >>> perplexity = np.exp(losses.sum() / tokens.sum())
    """
    require_method("score_batches", model)
    require_beginning(batches)
    scores, weights = model.score_batches(batches, verbose=verbose)
    targets = np.zeros(scores.shape, "int64")
    for index in range(len(batches)):
        found = batches[index][1]
        rows = slice(index * len(found), (index + 1) * len(found))
        targets[rows, : found.shape[1]] = found

    def by_row(numbers):
        # A row goes on in the same row of the next batch, and the last
        # sentence of it perhaps in the row below.
        rows = numbers.reshape(-1, batches.batch_size, numbers.shape[1])
        return rows.swapaxes(0, 1).ravel()

    predicted = by_row(weights) > 0
    losses = -by_row(scores)[predicted].astype("float64")
    end = batches.end_of_sentence_id
    found, starts = _sentences(by_row(targets)[predicted], end)
    sums = np.add.reduceat(losses, starts)
    places = collections.defaultdict(collections.deque)
    for index, sentence in enumerate(found):
        places[sentence].append(index)
    text, starts = _sentences(np.asarray(batches.tokens, "int64"), end)
    if collections.Counter(text) != collections.Counter(found):
        raise ValueError(
            "`batches` must hold each sentence of their text once, and whole. "
            f"Received: {type(batches).__name__} that do not"
        )
    order = [places[sentence].popleft() for sentence in text]
    return sums[order], np.diff([*starts, len(batches.tokens)])


def _sentences(tokens, end_of_sentence_id):
    starts = sentence_starts(tokens, end_of_sentence_id)
    return [part.tobytes() for part in np.split(tokens, starts[1:])], starts
