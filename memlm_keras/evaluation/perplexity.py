"""Perplexity: every reported one comes from here."""

import dataclasses
import math

import numpy as np

from memlm_keras.arguments import require_positive_integer
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
        others: dict of `Perplexity` of the same predictions by other
            protocols, by their names.
        causal: whether the model read nothing behind what it predicted. The
            number of a bidirectional model is called a pseudo-perplexity: it
            chooses among epochs of such a model, and is far below what a
            language model can reach.
        words: integer, words of the text, ends of sentences counted, where
            tokens are pieces of words; `None` where tokens are words.
    """

    loss: float
    predicted_tokens: int
    total_tokens: int
    protocol: str
    divided_by: int | None = None
    others: dict = dataclasses.field(default_factory=dict)
    causal: bool = True
    words: int | None = None

    @classmethod
    def from_scores(cls, model, batches, scores, weights, note="", **fields):
        """Perplexity of natural-log probabilities that a model gave.

        Args:
            model: as for `perplexity`.
            batches: the batches that it read.
            scores, weights: as `model.score_batches` returns them.
            note: string, added to the protocol.
            **fields: further attributes, such as `words`.

        Returns:
            `Perplexity`.

        Raises:
            ValueError: if a token of the batches was not predicted once.
        """
        predicted = int(weights.sum())
        if predicted != batches.num_tokens:
            raise ValueError(
                "`batches` must predict each of their "
                f"{batches.num_tokens} tokens once. Received: batches that "
                f"predict {predicted}"
            )
        return cls(
            loss=_loss(scores, weights),
            predicted_tokens=predicted,
            total_tokens=batches.num_tokens,
            protocol=_protocol(model, batches) + note,
            causal=model.causal,
            **fields,
        )

    @property
    def nats(self):
        """Mean loss of a predicted token."""
        return self.loss / (self.divided_by or self.predicted_tokens)

    @property
    def perplexity(self):
        """exp(loss / predicted tokens), or as `divided_by` says."""
        return math.exp(self.nats)

    @property
    def per_word(self):
        """exp(loss / words), which vocabularies of pieces have in common."""
        return math.exp(self.loss / (self.words or self.predicted_tokens))

    def __str__(self):
        name = "perplexity" if self.causal else "pseudo-perplexity"
        tokens = (
            f"{self.predicted_tokens} predicted tokens of {self.total_tokens}"
            if self.divided_by is None
            else f"{self.divided_by} tokens, {self.predicted_tokens} predicted"
        )
        by_word = (
            ""
            if self.words is None
            else f", {self.per_word:.2f} per word of {self.words} words"
        )
        line = (
            f"{name} {self.perplexity:.2f} = "
            f"exp({self.loss:.1f} nats / {tokens}){by_word}; {self.protocol}"
        )
        return "\n".join([line, *map(str, self.others.values())])


def perplexity(model, batches, verbose=1, also=(), words=None):
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
        model: a `memlm_keras.LanguageModel` or `memlm_keras.Ensemble`, a model
            of `memlm_keras.ngrams`, or any other with `score_batches` and
            `causal` as they have them.
        batches: `memlm_keras.data.Batches` of the whole text. One row reads
            the text as a single stream, as published figures mostly do; more
            rows are faster, and each begins in the initial state. Or
            `memlm_keras.data.SentenceBatches`, which a bidirectional model
            needs.
        verbose: 0 prints nothing, 1 the protocol and the result, with a
            progress bar.
        also: tuple of strings, other protocols to report.
        words: integer, words of the text, ends of sentences counted, where
            tokens are pieces of words: perplexity is then given by word as
            well. `None` has them counted by the model's vocabulary, if it has
            one.

    Returns:
        `Perplexity`, with the other protocols in `others`.

    Raises:
        ValueError: for a model without `score_batches`; if the batches hold
            ids outside the vocabulary, do not begin at their beginning, lack a
            token, or may cut sentences where the model is bidirectional; for
            an unknown protocol or number of words; and for `salton2017` if the
            state is not reset at each sentence, or the model is bidirectional.

    Example:

    >>> batches = corpus.batches("test", batch_size=8, segment_length=50)
    >>> result = memlm_keras.evaluation.perplexity(lm, batches)
    >>> baseline = memlm_keras.evaluation.perplexity(kneser_ney, batches)
    >>> baseline.perplexity < result.perplexity
    True
    """
    require_method("score_batches", model)
    _require_protocols(also, model, batches)
    require_beginning(batches)
    words = _count_words(words, model, batches)
    scores, weights = model.score_batches(batches, verbose=verbose)
    result = Perplexity.from_scores(
        model,
        batches,
        scores,
        weights,
        others={name: _salton2017(batches, scores, weights) for name in also},
        words=words,
    )
    if verbose:
        print(result)
    return result


def require_method(name, model):
    """Raises `ValueError` for a model that lacks a method."""
    if not hasattr(model, name):
        raise ValueError(
            f"`model` must have the method `{name}`, as a "
            "`memlm_keras.LanguageModel` has. Received: "
            f"{type(model).__name__}, which has none"
        )


def require_beginning(batches):
    """Raises `ValueError` for batches that begin within an epoch."""
    if batches.start_batch:
        raise ValueError(
            "`batches` must begin at their first batch. Received: batches that "
            f"begin at batch {batches.start_batch}"
        )


def _protocol(model, batches):
    state = (
        f"state reset at each {batches.context_of}"
        if batches.has_documents
        else "state carried through each row"
    )
    name = "standard"
    if not model.causal:
        name = (
            "pseudo-perplexity, NO PERPLEXITY OF A LANGUAGE MODEL: each token "
            "is predicted from the words before and behind it"
        )
    return (
        f"protocol {name}: natural logarithm, every token with <eos> "
        f"predicted once, padding not counted, {batches.batch_size} "
        f"row{'s' if batches.batch_size > 1 else ''}, {state}"
        f"{_description(model)}"
    )


def _description(model):
    description = getattr(model, "description", None)
    return f"; {description}" if description else ""


def _loss(scores, weights):
    return -float(np.sum(scores.astype("float64") * weights))


def _count_words(words, model, batches):
    """Words of the text, or `None` where each token is one."""
    if words is not None:
        require_positive_integer("words", words)
        return words
    vocabulary = getattr(model, "vocabulary", None)
    if vocabulary is None:
        return None
    words = vocabulary.count_words(batches.tokens)
    return None if words == batches.num_tokens else words


def _require_protocols(also, model, batches):
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
            "The protocol salton2017 reads each sentence from the initial "
            "state: make batches with `corpus.batches(..., sentences=True)`. "
            "Received: batches that do not"
        )


def _salton2017(batches, scores, weights):
    """Perplexity of the same scores by the protocol of Salton et al."""
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
        loss=_loss(scores, weights),
        predicted_tokens=int(weights.sum()),
        total_tokens=batches.num_tokens,
        protocol="protocol salton2017: natural logarithm, the first word of "
        "each sentence not predicted, but all tokens with <eos> divided by",
        divided_by=batches.num_tokens,
    )
