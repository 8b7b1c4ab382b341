"""Perplexity by how far back a word occurred before in its document."""

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
    """Perplexity of the tokens of a text, by when each occurred before.

    Attributes:
        total: `Perplexity` of all tokens.
        bins: tuple of strings, such as `"never before"` and `"11 to 50"`, the
            number of tokens back; the last two are unknown words and ends of
            sentences, which are in no other bin.
        tokens: int64 array, the tokens of each bin.
        losses: float64 array, the negative natural-log likelihood of each bin,
            summed.
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
        """exp(loss / tokens) of each bin, float64 array; NaN if it is empty."""
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
    """Perplexity by whether and how far back a token occurred before.

    A memory can help to predict a word that stands in its window, and not one
    that is new. So tokens are divided into bins: those that did not occur
    before in the same document, and the others by the number of tokens since
    they last did (1 for the token before). Ends of sentences are counted as
    tokens. What the model reads is as in `perplexity`; a document counts even
    if the state is carried over its beginning.

    Args:
        model: as for `perplexity`.
        batches: `memlm_keras.data.Batches` or `SentenceBatches` of the whole
            text. Documents are those of the corpus that made them, or their
            `document_starts`; without both, the text is one document. Unknown
            words have a bin of their own if the batches have a `vocabulary`.
        edges: increasing integers, the last distance of each bin but the last.
        verbose: 0 prints nothing, 1 a progress bar and the result.

    Returns:
        `RecencyPerplexity`.

    Raises:
        ValueError: for edges that are not increasing integers from 1, a model
            without `score_batches`, and batches that do not begin at their
            first batch or do not hold each token once.

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
    # Bin 0 has the distance 0, which stands for none.
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
    """Steps since each token last occurred in its document, 0 for never."""
    places = np.arange(len(tokens))
    documents = np.zeros(len(tokens), "int64")
    if document_starts is not None:
        documents = np.searchsorted(document_starts, places, "right")
    order = np.lexsort((places, tokens, documents))
    same = (np.diff(tokens[order]) == 0) & (np.diff(documents[order]) == 0)
    distances = np.zeros(len(tokens), "int64")
    distances[order[1:]] = np.where(same, np.diff(order), 0)
    return distances
