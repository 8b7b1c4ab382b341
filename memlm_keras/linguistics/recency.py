"""Perplexity by the distance to the last occurrence of the same word."""

import dataclasses
import itertools

import numpy as np

from memlm_keras.evaluation.perplexity import Perplexity
from memlm_keras.evaluation.perplexity import protocol_of
from memlm_keras.evaluation.perplexity import token_losses

EDGES = (10, 50, 200, 1_000, 5_000)
UNKNOWN = "unknown word"
END = "end of sentence"


@dataclasses.dataclass(frozen=True, eq=False)
class RecencyPerplexity:
    """Perplexity of a text by the distance to each token's last occurrence.

    Attributes:
        total: `Perplexity` of all tokens.
        bins: tuple of strings, such as `"never before"` and `"11 to 50"`
            tokens; the last two bins are unknown words and ends of sentences.
        tokens: int64 array, number of tokens in each bin.
        losses: float64 array, sum of negative log-likelihoods in each bin, in
            nats.
    """

    total: Perplexity
    bins: tuple
    tokens: np.ndarray
    losses: np.ndarray

    @property
    def shares(self):
        """Share of the tokens in each bin, float64 array."""
        return self.tokens / self.total.total_tokens

    @property
    def perplexities(self):
        """exp(loss / tokens) of each bin, float64 array; NaN for empty bins."""
        empty = self.tokens == 0
        nats = self.losses / np.where(empty, 1, self.tokens)
        return np.where(empty, np.nan, np.exp(nats))

    def __str__(self):
        width = max(map(len, self.bins))
        rows = zip(self.bins, self.tokens, self.shares, self.perplexities)
        lines = [
            f"{name:{width}} {tokens:9,} tokens {share:6.1%} "
            f"perplexity {perplexity:10.2f}"
            for name, tokens, share, perplexity in rows
        ]
        return "\n".join([*lines, str(self.total)])


def perplexity_by_recency(model, batches, edges=EDGES, verbose=1):
    """Computes perplexity by the distance to each token's last occurrence.

    A memory of recent tokens can help to predict a word that it contains, but
    not a new word. One bin has the tokens that occur for the first time in
    their document. The other bins are ranges of the distance in tokens, which
    is 1 for the previous token. The model reads the text as in `perplexity`.
    Occurrences in other documents do not count, even with a carried state.

    Args:
        model: as for `perplexity`.
        batches: `memlm_keras.data.Batches` or `SentenceBatches` of the whole
            text. Documents are known from the corpus or from `document_starts`;
            otherwise, the text is one document. Unknown words have their own
            bin if the batches have a `vocabulary`.
        edges: increasing integers, the largest distance of each bin, except
            for the last bin.
        verbose: 0 prints nothing, 1 a progress bar and the result.

    Returns:
        `RecencyPerplexity`.

    Raises:
        ValueError: for edges that are not increasing integers from 1, a model
            without `score_batches`, and batches that start in the middle
            of an epoch or do not contain each token once.

    Example:

    >>> batches = corpus.batches("test", batch_size=1, segment_length=100)
    >>> result = memlm_keras.linguistics.perplexity_by_recency(lm, batches)
    >>> result.bins[1], result.perplexities.shape
    ('1 to 10', (9,))
    """
    bounds = [0, *edges]
    if not all(
        isinstance(end, (int, np.integer)) and begin < end
        for begin, end in itertools.pairwise(bounds)
    ):
        raise ValueError(
            "`edges` must be increasing integers from 1, such as "
            f"{EDGES}. Received: edges={edges!r}"
        )
    losses = token_losses(model, batches, verbose)
    tokens = np.asarray(batches.tokens)
    distances = _distances(tokens, batches.document_starts)
    # A distance of 0 means no earlier occurrence.
    bins = np.searchsorted(bounds, distances)
    if batches.vocabulary is not None:
        bins[tokens == batches.vocabulary.unknown_id] = len(bounds) + 1
    bins[tokens == batches.end_of_sentence_id] = len(bounds) + 2
    names = [f"{b + 1:,} to {e:,}" for b, e in itertools.pairwise(bounds)]
    names = ["never before", *names, f"more than {bounds[-1]:,}", UNKNOWN, END]
    documents = "text" if batches.document_starts is None else "document"
    result = RecencyPerplexity(
        total=Perplexity(
            loss=float(losses.sum()),
            predicted_tokens=len(tokens),
            total_tokens=len(tokens),
            protocol=f"{protocol_of(model, batches)}; words are looked for "
            f"in the same {documents}",
            causal=model.causal,
        ),
        bins=tuple(names),
        tokens=np.bincount(bins, minlength=len(names)),
        losses=np.bincount(bins, losses, minlength=len(names)),
    )
    if verbose:
        print(result)
    return result


def _distances(tokens, document_starts):
    """Returns the distance to each token's last occurrence in its document, or
    0 for a first occurrence."""
    places = np.arange(len(tokens))
    documents = np.zeros(len(tokens), "int64")
    if document_starts is not None:
        documents = np.searchsorted(document_starts, places, "right")
    order = np.lexsort((places, tokens, documents))
    same = (np.diff(tokens[order]) == 0) & (np.diff(documents[order]) == 0)
    distances = np.zeros(len(tokens), "int64")
    distances[order[1:]] = np.where(same, np.diff(order), 0)
    return distances
