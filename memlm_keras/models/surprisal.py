"""Surprisal, entropy and rank of each word of a text, for any model."""

import dataclasses

import numpy as np
from keras import ops

from memlm_keras.arguments import require_one_of
from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_streaming
from memlm_keras.arguments import require_token_ids
from memlm_keras.arguments import require_vocabulary
from memlm_keras.data import sentence_starts
from memlm_keras.data import tables
from memlm_keras.data.subwords import WORD_START
from memlm_keras.data.text_store import unmarked

# Number of nats in each unit.
UNITS = {"bits": float(np.log(2.0)), "nats": 1.0}
# Number of float64 log-probabilities that are computed at once.
_NUMBERS = 2**22
# This number is below the logarithm of any positive probability.
_LEAST = -1e30


@dataclasses.dataclass(frozen=True, eq=False)
class Surprisal(tables.ResultTable):
    """Surprisal, entropy and rank of each word of a text.

    `P(w | c)` is the probability that the model gives to a word w after the
    context c, and H the entropy of this distribution:

        surprisal of w            -log P(w | c)                 Hale (2001)
        entropy before w          H(c) = -sum_v P(v | c) log P(v | c)
        entropy reduction of w    H(c) - H(c w)

    The entropy is that of the next word (Roark et al., 2009; Linzen and Jaeger,
    2016), not of whole parses or continuations as in Hale (2006), because a
    model has infinitely many continuations. Hale replaces negative entropy
    reductions by zero; here, reductions may be negative. At the last word w of
    the text, `H(c w)` is the entropy of the next word. If each sentence resets
    the state, `H(c w)` is the entropy of the first word of a sentence.

    Attributes:
        words: tuple of strings, the tokens of the text, including ends of
            sentences; unknown words are spelled as in the text.
        sentence: int array, the number of the word's sentence, from 1.
        position: int array, the word's place in its sentence, from 1.
        surprisal, entropy, entropy_reduction: float64 arrays, see above.
        rank: int array, one plus the number of more probable words.
        unknown: bool array, true for words outside the vocabulary, whose
            surprisal, entropy and rank are those of the unknown-word token.
        unit: string, `"bits"` or `"nats"`.
    """

    words: tuple
    sentence: np.ndarray
    position: np.ndarray
    surprisal: np.ndarray
    entropy: np.ndarray
    entropy_reduction: np.ndarray
    rank: np.ndarray
    unknown: np.ndarray
    unit: str

    def __len__(self):
        return len(self.words)

    def by_word(self, vocabulary):
        """Joins the pieces of each word.

        `vocabulary.begins_word` decides where words begin. Surprisal and
        entropy reduction are sums over the pieces of a word; entropy and rank
        are those of its first piece. A word with an unknown piece is unknown.

        Args:
            vocabulary: `memlm_keras.data.Vocabulary` of the text. If each token
                is a word, the result is unchanged.

        Returns:
            `Surprisal`.

        Example:

        >>> lm.surprisal("the man").by_word(lm.vocabulary).words
        ('the', 'man', '<eos>')
        """
        begins = np.array([*map(vocabulary.begins_word, self.words)])
        begins |= self.position == 1
        starts = np.flatnonzero(begins)
        words = [
            _joined(self.words[begin:end], vocabulary)
            for begin, end in zip(starts, [*starts[1:], len(self)])
        ]
        return self.joined(starts, words)

    def joined(self, starts, words):
        """Returns a table with a row for each of `words`. Word i consists of
        the tokens from `starts[i]` to just before `starts[i + 1]`."""
        sentence = self.sentence[starts]
        first = np.searchsorted(sentence, sentence)
        return dataclasses.replace(
            self,
            words=tuple(words),
            sentence=sentence,
            position=np.arange(len(starts)) - first + 1,
            surprisal=np.add.reduceat(self.surprisal, starts),
            entropy=self.entropy[starts],
            entropy_reduction=np.add.reduceat(self.entropy_reduction, starts),
            rank=self.rank[starts],
            unknown=np.logical_or.reduceat(self.unknown, starts),
        )

    def columns(self):
        """Returns a dict from names of columns to values for all words."""
        return {
            "sentence": self.sentence,
            "position": self.position,
            "word": self.words,
            f"surprisal_{self.unit}": self.surprisal,
            f"entropy_{self.unit}": self.entropy,
            f"entropy_reduction_{self.unit}": self.entropy_reduction,
            "rank": self.rank,
            "unknown": self.unknown.astype("int64"),
        }


def surprisal(
    model, text, vocabulary=None, unit="bits", reset=False, segment_length=None
):
    """Computes surprisal, entropy and rank of each word of a text.

    Words are tokens of the vocabulary, including the end of each sentence. Each
    token is predicted once. An end-of-sentence token is read before the text.

    Args:
        model: a causal `memlm_keras.LanguageModel`, with any mixture, or
            `memlm_keras.Ensemble`; a model of `memlm_keras.ngrams`; a
            `memlm_keras.evaluation.DynamicEvaluator`, which learns from each
            segment after measuring it; or any other model with the method
            `log_probabilities_at`, as in `memlm_keras.ngrams`.
        text: string with one sentence per line; list of sentences;
            `memlm_keras.data.Split`, or its ids `(tokens,)`. Lines without
            a word are skipped. Each document of a split is a new context.
        vocabulary: `memlm_keras.data.Vocabulary` of the model's size; `None`
            for the model's own.
        unit: `"bits"` or `"nats"`.
        reset: bool, whether each sentence is read from the initial state;
            otherwise the state is carried through the document.
        segment_length: integer, number of steps that are read at once, and
            after which a `DynamicEvaluator` updates. `None` chooses a number. A
            `DynamicEvaluator` then updates every 5 steps; with `reset` or
            several documents, every 128 steps and at the end of each context.

    Returns:
        `Surprisal`.

    Raises:
        ValueError: if an argument is not as described, the text has no words,
            or its last id is not the end-of-sentence id.

    Example:

    >>> result = memlm_keras.evaluation.surprisal(
    ...     kneser_ney, "the man who was born", corpus.vocabulary
    ... )
    >>> result.words, result.surprisal.shape
    (('the', 'man', 'who', 'was', 'born', '<eos>'), (6,))
    """
    require_one_of("unit", unit, UNITS)
    if segment_length is not None:
        require_positive_integer("segment_length", segment_length)
    require_streaming("`surprisal`", model)
    vocabulary = require_vocabulary(model, vocabulary)
    words, begins, documents = _words(text, vocabulary)
    tokens = np.array([vocabulary[word] for word in words], "int32")
    end = vocabulary.end_of_sentence_id
    starts = begins if reset else documents
    # The entropy reduction of the last word needs the entropy after that word.
    after = [len(tokens)] if reset or len(documents) > 1 else []
    nats = _measure(
        model,
        np.append(tokens, np.int32(end)),
        np.append(starts, after).astype("int64"),
        end,
        segment_length,
    )
    # Adding zero turns -0.0 into 0.0.
    nats = nats + 0.0
    entropy = nats[:, 1] / UNITS[unit]
    lengths = np.diff(begins, append=len(tokens))
    places = np.repeat(begins, lengths)
    return Surprisal(
        words=tuple(words),
        sentence=np.repeat(np.arange(1, len(begins) + 1), lengths),
        position=np.arange(len(tokens)) - places + 1,
        surprisal=nats[:-1, 0] / UNITS[unit],
        entropy=entropy[:-1],
        entropy_reduction=entropy[:-1] - entropy[1:],
        rank=nats[:-1, 2].astype("int64"),
        unknown=tokens == vocabulary.unknown_id,
        unit=unit,
    )


def _joined(pieces, vocabulary):
    """Joins the pieces of a word without spaces."""
    if len(pieces) == 1 and not pieces[0].startswith(WORD_START):
        return pieces[0]
    return "".join(vocabulary.detokenize(list(pieces)).split())


def _words(text, vocabulary):
    """Returns the tokens of a text, and offsets of sentences and documents."""
    if isinstance(text, str):
        text = text.split("\n")
    if isinstance(text, (list, tuple)) and all(
        isinstance(line, str) for line in text
    ):
        tokenize = vocabulary.tokenizer.tokenize
        end = [vocabulary.end_of_sentence]
        text = map(tokenize, map(unmarked, text))
        sentences = [tokens + end for tokens in text if tokens]
        words = [word for sentence in sentences for word in sentence]
        begins = np.cumsum([0, *map(len, sentences)])[:-1]
        documents = None
    else:
        documents = getattr(text, "document_starts", None)
        ids = require_token_ids(
            "text", getattr(text, "tokens", text), len(vocabulary), ndim=1
        )
        words = vocabulary.decode(ids)
        begins = sentence_starts(ids, vocabulary.end_of_sentence_id)
    if not words:
        raise ValueError("`text` must contain a word. Received: none")
    return words, begins, np.zeros(1, int) if documents is None else documents


def _measure(model, tokens, starts, end_of_sentence_id, segment_length):
    """Returns surprisal, entropy and rank of tokens, float64 `(tokens, 3)`."""
    if hasattr(model, "measure_words"):
        return model.measure_words(
            tokens, starts, end_of_sentence_id, segment_length
        )
    if not hasattr(model, "log_probabilities_at"):
        raise ValueError(
            "`model` must have the method `measure_words` or "
            "`log_probabilities_at`, like models of `memlm_keras` and "
            f"`memlm_keras.ngrams`. Received: {type(model).__name__}"
        )
    if end_of_sentence_id != 0:
        raise ValueError(
            "`vocabulary` must end sentences with the id 0, as n-gram models "
            "do. Received: a vocabulary with end_of_sentence_id="
            f"{end_of_sentence_id}"
        )
    steps = segment_length or max(1, _NUMBERS // model.vocabulary_size)
    measured = []
    for document in np.split(tokens, starts[1:]):
        for begin in range(0, len(document), steps):
            part = document[begin : begin + steps]
            log_probabilities = model.log_probabilities_at(
                document, begin, begin + len(part)
            )
            measured.append(measures(log_probabilities, part, np))
    return np.concatenate(measured)


def measures(log_probabilities, targets, numpy=ops):
    """Returns surprisal, entropy (in nats) and rank, `(..., 3)`, of targets
    `(...)`; log-probabilities `(..., vocabulary)` may be -inf."""
    # An impossible word adds zero to the entropy, but 0 * -inf would be NaN.
    finite = numpy.maximum(log_probabilities, _LEAST)
    of_targets, finite_of_targets = (
        numpy.take_along_axis(values, targets[..., None], axis=-1)
        for values in (log_probabilities, finite)
    )
    # `sign` takes half the time of a comparison.
    above = numpy.sign(numpy.maximum(finite - finite_of_targets, 0.0))
    return numpy.stack(
        [
            -of_targets[..., 0],
            -numpy.sum(numpy.exp(log_probabilities) * finite, axis=-1),
            1.0 + numpy.sum(above, axis=-1),
        ],
        axis=-1,
    )


def measures_of_logits(logits, targets):
    """Computes `measures`, float32 `(batch, time, 3)`, from logits."""
    logits = ops.cast(logits, "float32")
    return measures(ops.log_softmax(logits, axis=-1), targets)
