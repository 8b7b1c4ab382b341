"""Computes the perplexity of texts and the losses of sentences."""

import dataclasses
import math

import numpy as np

from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_streaming
from memlm_keras.data import sentence_starts
from memlm_keras.data.batches import concatenate_batches

OTHER_PROTOCOLS = ("salton2017",)


@dataclasses.dataclass(frozen=True)
class Perplexity:
    """A text's summed loss, its number of tokens, and its perplexity.

    Attributes:
        loss: Float, negative natural-log probability, summed over the predicted
            tokens.
        predicted_tokens: Integer, number of predicted tokens.
        total_tokens: Integer, number of tokens including ends of sentences.
        protocol: String that describes how the text was read.
        divided_by: Integer, number of tokens by which a paper's protocol
            divides the loss; `None` if it divides by `predicted_tokens`.
        others: Dict from other protocols to `Perplexity`, computed from the
            same predictions.
        causal: Whether the model predicted words from earlier words only.
            If `causal` is false, the value is a pseudo-perplexity, which cannot
            be compared with a causal model's perplexity.
        words: Integer, number of words and ends of sentences if tokens are
            subword pieces; `None` if tokens are words.
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
        """Computes the perplexity from the result of `model.score_batches`.

        Args:
            model: See `perplexity`.
            scores, weights: Result of `model.score_batches`.
            note: String, added to the protocol.
            **fields: Other attributes, such as `words`.

        Raises:
            ValueError: Batches do not predict every token of the text once.
        """
        predicted = int(weights.sum(dtype="float64"))
        if predicted != batches.num_tokens:
            raise ValueError(
                "`batches` must predict each of their "
                f"{batches.num_tokens} tokens once. Received: batches that "
                f"predict {predicted}"
            )
        return cls(
            loss=-float(np.sum(scores.astype("float64") * weights)),
            predicted_tokens=predicted,
            total_tokens=batches.num_tokens,
            protocol=protocol_of(model, batches) + note,
            causal=model.causal,
            **fields,
        )

    @property
    def nats(self):
        """Mean loss per predicted token."""
        return self.loss / (self.divided_by or self.predicted_tokens)

    @property
    def perplexity(self):
        """`exp(nats)`; `inf` if it is too large for a float."""
        return _exp(self.nats)

    @property
    def per_word(self):
        """`exp(loss / words)`, comparable between subword vocabularies."""
        return _exp(self.loss / (self.words or self.predicted_tokens))

    def __str__(self):
        name = "perplexity" if self.causal else "pseudo-perplexity"
        tokens = (
            f"{self.predicted_tokens} predicted tokens of {self.total_tokens}"
            if self.divided_by is None
            else f"{self.divided_by} tokens, {self.predicted_tokens} predicted"
        )
        by_word = ""
        if self.words is not None:
            by_word = f", {self.per_word:.2f} per word of {self.words} words "
            by_word += "and ends of sentences"
        line = (
            f"{name} {self.perplexity:.2f} = "
            f"exp({self.loss:.1f} nats / {tokens}){by_word}; {self.protocol}"
        )
        return "\n".join([line, *map(str, self.others.values())])


def _exp(nats):
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf


def lowest(perplexities):
    """Returns the index of the lowest finite perplexity, or raises an error."""
    finite = np.where(np.isfinite(perplexities), perplexities, np.inf)
    if np.isinf(finite).all():
        raise ValueError(
            "At least one perplexity must be finite. Received: "
            f"perplexities {np.ravel(perplexities).tolist()}"
        )
    return np.unravel_index(np.argmin(finite), finite.shape)


def perplexity(model, batches, verbose=1, also=(), words=None, scores=None):
    """Computes the perplexity of a text.

    In the protocol `standard`, every token, including ends of sentences, is
    predicted once, and losses are summed in float64. `also` adds protocols from
    papers, computed from the same predictions:

    * `salton2017`, as in the code of Salton et al. (2017): the first word of a
      sentence is not predicted, but the loss of the other words is divided by
      the number of all tokens. On Penn Treebank's test text, dividing by all
      tokens turns a perplexity of 85.9 per predicted token into 70.1. Their
      code starts reading at the first word of a sentence; our models first read
      an end-of-sentence token.

    Args:
        model: `memlm_keras.LanguageModel`, `memlm_keras.Ensemble`, model from
            `memlm_keras.ngrams`, or any with `score_batches` and `causal`.
        batches: `memlm_keras.data.Batches` of the whole text. With one row, the
            text is read as a single stream, as for most published results; more
            rows are faster, but each begins in the initial state. Bidirectional
            models need `memlm_keras.data.SentenceBatches`.
        verbose: 0 prints nothing, 1 a progress bar and the result.
        also: Tuple of strings, protocols to report besides `standard`.
        words: Integer, number of words and ends of sentences, for perplexity
            per word if tokens are subword pieces; `None` counts them with the
            model's vocabulary, if any.
        scores: Result of `model.score_batches(batches)`, if known.

    Returns:
        `Perplexity`, with the other protocols in `others`.

    Raises:
        ValueError: The model has no `score_batches`, or a protocol or number of
            words is invalid. Batches have ids outside the vocabulary, start in
            the middle of an epoch, omit a token, or may split sentences for a
            bidirectional model. `salton2017` is given for a bidirectional
            model, or for batches that do not reset the state at each sentence.

    Example:

    >>> batches = corpus.batches("test", batch_size=8, segment_length=50)
    >>> result = memlm_keras.evaluation.perplexity(lm, batches)
    >>> baseline = memlm_keras.evaluation.perplexity(kneser_ney, batches)
    >>> baseline.perplexity < result.perplexity
    True
    """
    require_method("score_batches", model)
    require_beginning(batches)
    _require_protocols(also, model, batches)
    words = _count_words(words, model, batches)
    if scores is None:
        scores = model.score_batches(batches, verbose=verbose)
    scores, weights = scores
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


def sentence_losses(model, batches, verbose=0):
    """Computes the loss of each sentence, in the order of the text.

    With these losses, two models can be compared sentence by sentence, even if
    their batches divide the text differently.

    Args:
        model: See `perplexity`.
        batches: `memlm_keras.data.Batches` or `SentenceBatches` of the whole
            text.

    Returns:
        `(losses, tokens)`, float64 and int64 arrays `(sentences,)`: summed
        negative natural-log probabilities, and numbers of tokens.

    Raises:
        ValueError: The model has no `score_batches`, or the batches start in
            the middle of an epoch or do not contain each sentence once.

    Example:

    >>> batches = corpus.batches("test", batch_size=8, segment_length=50)
    >>> losses, tokens = memlm_keras.evaluation.sentence_losses(lm, batches)
    >>> perplexity = np.exp(losses.sum() / tokens.sum())
    """
    losses = token_losses(model, batches, verbose)
    starts = sentence_starts(batches.tokens, batches.end_of_sentence_id)
    sums = np.add.reduceat(losses, starts)
    return sums, np.diff([*starts, len(losses)])


def token_losses(model, batches, verbose=0):
    """Returns the loss of each token of the text, float64 `(tokens,)`."""
    require_method("score_batches", model)
    require_beginning(batches)
    scores, weights = model.score_batches(batches, verbose=verbose)
    offsets = batches.of_offsets()
    (places,) = concatenate_batches((targets,) for _, targets, _ in offsets)
    places = places[weights > 0]
    counts = np.bincount(places, minlength=batches.num_tokens)
    if np.any(counts != 1):
        raise ValueError(
            "`batches` must hold each sentence of the text once, as a whole. "
            f"Received: {type(batches).__name__} that omit, cut or repeat some"
        )
    losses = np.zeros(batches.num_tokens)
    losses[places] = -scores[weights > 0].astype("float64")
    return losses


def require_method(name, model):
    """Raises `ValueError` unless `model` has the method `name`."""
    if not hasattr(model, name):
        raise ValueError(
            f"`model` must have the method `{name}`, as a "
            "`memlm_keras.LanguageModel` has. Received: "
            f"{type(model).__name__}"
        )


def require_beginning(batches):
    """Raises `ValueError` unless batches start at the beginning of an epoch."""
    begin = getattr(batches, "start_batch", type(batches).__name__)
    if begin != 0:
        raise ValueError(
            "`batches` must be made by `corpus.batches(split, ...)`, and start "
            f"at their first batch, 0. Received: {begin}"
        )


def protocol_of(model, batches):
    """Returns a description of how a model reads batches."""
    state = (
        f"state reset at each {batches.context_of}"
        if batches.has_documents
        else "state carried through each row"
    )
    name = "standard"
    if not model.causal:
        name = (
            "pseudo-perplexity, NO PERPLEXITY OF A LANGUAGE MODEL: each token "
            "is predicted from the words before and after it"
        )
    description = getattr(model, "description", None)
    return (
        f"protocol {name}: natural logarithm, every token with <eos> "
        f"predicted once, padding not counted, {batches.batch_size} "
        f"row{'s' if batches.batch_size > 1 else ''}, {state}"
        f"{f'; {description}' if description else ''}"
    )


def _count_words(words, model, batches):
    """Returns the number of words and ends of sentences, for perplexity per
    word; `None` if tokens are words, so that perplexity per token suffices."""
    if words is not None:
        require_positive_integer("words", words)
        return words
    if (vocabulary := getattr(model, "vocabulary", None)) is None:
        return None
    words = vocabulary.count_words(batches.tokens)
    return None if words == batches.num_tokens else words


def _require_protocols(also, model, batches):
    if not {*also} <= {*OTHER_PROTOCOLS}:
        raise ValueError(
            f"`also` must be a tuple of protocols from {OTHER_PROTOCOLS}. "
            f"Received: also={also!r}"
        )
    if also:
        require_streaming("`also`", model)
    by_sentence = batches.has_documents and batches.context_of == "sentence"
    if also and not by_sentence:
        raise ValueError(
            "The protocol salton2017 reads each sentence from the initial "
            "state: make batches with `corpus.batches(..., sentences=True)`. "
            "Received: batches that carry the state through sentences"
        )


def _salton2017(batches, scores, weights):
    """Computes the perplexity by the protocol `salton2017`."""
    # The input before a sentence's first word is an end-of-sentence token.
    token_ids = ((inputs["token_ids"],) for inputs, _, _ in batches)
    (token_ids,) = concatenate_batches(token_ids)
    weights = np.where(token_ids == batches.end_of_sentence_id, 0.0, weights)
    return Perplexity(
        loss=-float(np.sum(scores.astype("float64") * weights)),
        predicted_tokens=int(weights.sum(dtype="float64")),
        total_tokens=batches.num_tokens,
        protocol="protocol salton2017: natural logarithm, the first word of "
        "each sentence is not predicted, but the loss is divided by the number "
        "of all tokens, <eos> among them",
        divided_by=batches.num_tokens,
    )
