"""The one function from which every reported perplexity comes."""

import dataclasses
import math

import numpy as np

from memlm_keras.arguments import require_streaming

OTHER_PROTOCOLS = ("salton2017",)


@dataclasses.dataclass(frozen=True)
class Perplexity:
    """A summed loss and what it was summed over.

    Attributes:
        loss: float, negative natural-log likelihood of the predicted tokens,
            summed.
        predicted_tokens: integer, tokens that were predicted.
        total_tokens: integer, tokens of the text, ends of sentences included.
        protocol: string, how the text was read.
        divided_by: integer, tokens that the loss is divided by; `None` stands
            for `predicted_tokens`, and all else is another paper's protocol.
        others: dict of `Perplexity`, what other protocols make of the same
            predictions, by their names.
        reads_ahead: whether the model read behind what it predicted. Then the
            number is called a pseudo-perplexity: it chooses among epochs of
            such a model, and is far below what a language model can reach.
    """

    loss: float
    predicted_tokens: int
    total_tokens: int
    protocol: str
    divided_by: int | None = None
    others: dict = dataclasses.field(default_factory=dict)
    reads_ahead: bool = False

    @property
    def nats(self):
        """Mean loss of a predicted token."""
        return self.loss / (self.divided_by or self.predicted_tokens)

    @property
    def perplexity(self):
        """exp(loss / predicted tokens), or as `divided_by` says."""
        return math.exp(self.nats)

    def __str__(self):
        name = "pseudo-perplexity" if self.reads_ahead else "perplexity"
        tokens = (
            f"{self.predicted_tokens} predicted tokens of {self.total_tokens}"
            if self.divided_by is None
            else f"{self.divided_by} tokens, {self.predicted_tokens} predicted"
        )
        line = (
            f"{name} {self.perplexity:.2f} = "
            f"exp({self.loss:.1f} nats / {tokens}); {self.protocol}"
        )
        return "\n".join([line, *map(str, self.others.values())])


def perplexity(model, batches, verbose=1, also=()):
    """Perplexity of a text, with the state carried through it.

    Every token is predicted once, ends of sentences included; padding never
    counts. The log-probabilities are summed in float64.

    That is the protocol `standard`. Papers' own conventions are computed beside
    it, from the same predictions, where `also` asks for them:

    * `salton2017`: as the code of Salton et al. (2017) evaluates. The first
      word of a sentence is read and never predicted, yet the loss of the
      others is divided by the number of all tokens. On the test text of Penn
      Treebank these are 78,669 predictions and 82,430 tokens, which makes 70.1
      of what is 85.9 for a predicted token. The code reads no end of sentence
      before the first word; models here do.

    Args:
        model: a `memlm_keras.LanguageModel`.
        batches: `memlm_keras.data.Batches` of the whole text. One row reads
            the text as a single stream, as published figures mostly do; more
            rows are faster, and each begins with an empty history. Or
            `memlm_keras.data.SentenceBatches`, which a model that reads ahead
            needs.
        verbose: 0 prints nothing, 1 the protocol and the result, with a
            progress bar.
        also: tuple of strings, other protocols to report.

    Returns:
        `Perplexity`, with the other protocols in `others`.

    Raises:
        ValueError: if the batches hold ids outside the vocabulary, do not
            begin at their beginning, lack a token, or may cut sentences where
            the model reads ahead; for an unknown protocol; and for
            `salton2017` if the history is not emptied at each sentence, or the
            model reads ahead.

    Example:

    >>> corpus = memlm_keras.data.load("embedded")
    >>> batches = corpus.batches("test", batch_size=8, segment_length=50)
    >>> result = memlm_keras.evaluation.perplexity(lm, batches)
    """
    _check_protocols(also, model, batches)
    require_beginning(batches)
    scores, weights = model.score_batches(batches, verbose=verbose)
    result = of_scores(
        model,
        batches,
        scores,
        weights,
        others={name: _salton2017(batches, scores, weights) for name in also},
    )
    if verbose:
        print(result)
    return result


def of_scores(model, batches, scores, weights, protocol="", others=None):
    """Perplexity of natural-log probabilities that a model gave to batches.

    Args:
        model: a `memlm_keras.LanguageModel`.
        batches: what it read.
        scores, weights: as `model.score_batches` returns them.
        protocol: string, how it read them, beside what is always said.
        others: dict of `Perplexity`, or `None`.

    Returns:
        `Perplexity`.

    Raises:
        ValueError: if a token of the batches was not predicted once.
    """
    predicted = int(weights.sum())
    if predicted != batches.num_tokens:
        raise ValueError(
            f"`batches` must predict each of their {batches.num_tokens} tokens "
            f"once. Received: batches that predict {predicted}"
        )
    return Perplexity(
        -float(np.sum(scores.astype("float64") * weights)),
        predicted,
        batches.num_tokens,
        _protocol(model, batches) + protocol,
        others=others or {},
        reads_ahead=model.reads_ahead,
    )


def require_beginning(batches):
    """Raises `ValueError` for batches that begin within an epoch."""
    if batches.start_batch:
        raise ValueError(
            "`batches` must begin at their first batch. Received: batches that "
            f"begin at batch {batches.start_batch}"
        )


def _protocol(model, batches):
    histories = (
        f"history emptied at each {batches.context_of}"
        if batches.has_documents
        else "history carried through each row"
    )
    name = "standard"
    if model.reads_ahead:
        name = (
            "pseudo-perplexity, NO PERPLEXITY OF A LANGUAGE MODEL: each token "
            "is predicted from the words before and behind it"
        )
    return (
        f"protocol {name}: natural logarithm, every token with <eos> "
        f"predicted once, padding not counted, {batches.batch_size} "
        f"row{'s' if batches.batch_size > 1 else ''}, {histories}"
    )


def _check_protocols(also, model, batches):
    unknown = [name for name in also if name not in OTHER_PROTOCOLS]
    if unknown:
        raise ValueError(
            f"`also` must be a tuple of protocols among {OTHER_PROTOCOLS}. "
            f"Received: also={also!r}"
        )
    if also:
        require_streaming("`also`", model)
    by_sentence = batches.has_documents and batches.context_of == "sentence"
    if also and not by_sentence:
        raise ValueError(
            "The protocol salton2017 reads each sentence from an empty "
            "history: make batches with `corpus.batches(..., sentences=True)`. "
            "Received: batches that do not"
        )


def _salton2017(batches, scores, weights):
    """What the protocol of Salton et al. (2017) makes of the same scores."""
    first = np.zeros(weights.shape, "bool")
    for index, (inputs, _, _) in enumerate(batches):
        token_ids = inputs["token_ids"]
        rows = slice(index * len(token_ids), (index + 1) * len(token_ids))
        # Sentences end nowhere but at their ends, so only their first words
        # come after an end.
        ended = token_ids == batches.end_of_sentence_id
        first[rows, : token_ids.shape[1]] = ended
    weights = np.where(first, 0.0, weights)
    return Perplexity(
        -float(np.sum(scores.astype("float64") * weights)),
        int(weights.sum()),
        batches.num_tokens,
        "protocol salton2017: natural logarithm, the first word of each "
        "sentence not predicted, but all tokens with <eos> divided by",
        divided_by=batches.num_tokens,
    )
