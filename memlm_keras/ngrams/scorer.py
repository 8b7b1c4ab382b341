"""The base of all models here: scores of texts, batches and contexts."""

import abc

import keras
import numpy as np

from memlm_keras.data.text_store import Split
from memlm_keras.evaluation.perplexity import Perplexity
from memlm_keras.ngrams.counts import END_OF_SENTENCE


class Scorer(abc.ABC):
    """A model that gives each token of a text a probability.

    A subclass sets `vocabulary_size` and defines `score`,
    `log_probabilities` and `description`. `memlm_keras.evaluation.perplexity`,
    `cloze_accuracy` and `surprisal` take it as they take a
    `memlm_keras.LanguageModel`.

    Attributes:
        before: tuple of token ids that are taken to stand before a text.
        context_length: integer, tokens that the next one depends on.
    """

    causal = True
    # Tokens that are taken to stand before a text, and how many tokens what
    # follows them depends on.
    before = ()
    context_length = 0

    @abc.abstractmethod
    def score(self, text, verbose=0):
        """Natural-log probability of each token, given those before it.

        Args:
            text: `memlm_keras.data.Split`, or integers `(tokens,)`.
            verbose: 0 or 1, whether to show a progress bar.

        Returns:
            float64 array `(tokens,)`.

        Raises:
            ValueError: if the text is not one-dimensional, or an id is not
                in the vocabulary.
        """

    @abc.abstractmethod
    def log_probabilities(self, contexts):
        """Natural-log probability of every word after some contexts.

        Args:
            contexts: integers `(contexts, length)`, the tokens before the
                one to predict, the latest last. `length` may be 0.

        Returns:
            float64 array `(contexts, vocabulary_size)`.

        Raises:
            ValueError: if `contexts` has another shape, or an id is not in
                the vocabulary.
        """

    def log_probabilities_at(self, text, begin, end):
        """Natural-log probability of every word at places of a text.

        Args:
            text: `memlm_keras.data.Split`, or integers `(tokens,)`.
            begin, end: integers, the first place and the one behind the last.

        Returns:
            float64 array `(end - begin, vocabulary_size)`. Where the text has
            a word, it has the probability that `score` gives.

        Raises:
            ValueError: as `score`.

        Example:

        >>> found = kneser_ney.log_probabilities_at(corpus.test, 5, 7)
        >>> tokens = corpus.test.tokens[5:7]
        >>> np.allclose(
        ...     found[[0, 1], tokens], kneser_ney.score(corpus.test)[5:7]
        ... )
        True
        """
        tokens = token_ids(text, self.vocabulary_size)[:end]
        tokens = np.concatenate([self.before, tokens]).astype("int64")
        length, ahead = self.context_length, len(self.before)
        # Near the beginning, contexts are shorter.
        full = min(max(begin, length - ahead), end)
        found = [
            self.log_probabilities(tokens[None, : place + ahead])
            for place in range(begin, full)
        ]
        if full < end:
            ends = np.arange(full, end)[:, None] + ahead
            contexts = tokens[ends - length + np.arange(length)]
            found.append(self.log_probabilities(contexts))
        return np.concatenate(found)

    @property
    @abc.abstractmethod
    def description(self):
        """String that names the model in a protocol."""

    def score_batches(self, batches, verbose=0):
        """Natural-log probability of every target of batches.

        Each row is read from its last `reset` on; the first input after it is
        the context of what follows.

        Args:
            batches: `memlm_keras.data.Batches` or `SentenceBatches`, of an
                `end_of_sentence_id` of 0.
            verbose: 0 or 1, whether to show a progress bar.

        Returns:
            `(scores, sample_weight)`, two arrays `(number of batches *
            batch_size, time of the longest)`, float64 and float32; scores
            where the weight is zero mean nothing.

        Raises:
            ValueError: as `score`, or for another end of sentence.

        Example:

        >>> scores, sample_weight = kneser_ney.score_batches(
        ...     corpus.batches("test", batch_size=1, segment_length=100)
        ... )
        """
        if batches.end_of_sentence_id != END_OF_SENTENCE:
            raise ValueError(
                "`batches` must end sentences with the id "
                f"{END_OF_SENTENCE}, as n-gram models do. Received: batches of "
                f"end_of_sentence_id={batches.end_of_sentence_id}"
            )
        inputs, targets, weights = zip(*batches)
        time = max(each.shape[1] for each in targets)
        # (batches, rows, time): a row goes on in the batch after.
        targets, weights = (
            np.stack([_pad(each, time) for each in arrays])
            for arrays in (targets, weights)
        )
        first = np.stack([each["token_ids"][:, 0] for each in inputs])
        reset = np.stack([each["reset"] for each in inputs])
        documents = batches.has_documents and batches.context_of == "document"
        scores = np.zeros(targets.shape)
        progress = keras.utils.Progbar(
            batches.num_tokens, verbose=verbose, unit_name="token"
        )
        for row in range(targets.shape[1]):
            begins = np.union1d([0], np.flatnonzero(reset[:, row]))
            for begin, end in zip(begins, [*begins[1:], len(targets)]):
                counts = weights[begin:end, row] > 0
                tokens = targets[begin:end, row][counts]
                scores[begin:end, row][counts] = self._score_after(
                    first[begin, row], tokens, documents
                )
                progress.add(tokens.size)
        rows = (-1, time)
        return scores.reshape(rows), weights.reshape(rows)

    def _score_after(self, before, tokens, document):
        """Scores tokens that follow one token, or an end of sentence."""
        # An end of sentence is taken to stand before a text anyway.
        context = int(before != END_OF_SENTENCE)
        text = np.concatenate([[before][:context], tokens]).astype("int32")
        if document:
            text = Split(text, np.zeros(1, "int64"))
        return self.score(text)[context:]

    def perplexity(self, text, verbose=1):
        """Perplexity of a text, every token predicted once.

        Ends of sentences are predicted and counted. Log-probabilities are
        summed in float64.

        Args:
            text: `memlm_keras.data.Split`, or integers `(tokens,)`.
            verbose: 0 prints nothing, 1 the protocol and the result, with a
                progress bar.

        Returns:
            `memlm_keras.evaluation.Perplexity`.

        Raises:
            ValueError: as `score`, or if the text has no token.

        Example:

        >>> result = kneser_ney.perplexity(corpus.test)
        """
        scores = self.score(text, verbose=verbose)
        if not scores.size:
            raise ValueError("`text` must have a token. Received: none")
        protocol = (
            "protocol standard: natural logarithm, every token with <eos> "
            f"predicted once; {self.description}"
        )
        loss = -float(scores.sum())
        result = Perplexity(
            loss=loss,
            predicted_tokens=scores.size,
            total_tokens=scores.size,
            protocol=protocol,
        )
        if verbose:
            print(result)
        return result


def _pad(array, time):
    return np.pad(array, [(0, 0), (0, time - array.shape[1])])


def token_ids(text, vocabulary_size, name="text", dimensions=1):
    """Returns the token ids of a text, having checked them.

    Args:
        text: `memlm_keras.data.Split`, or anything that NumPy makes an
            integer array of.
        vocabulary_size: integer.
        name: string, the argument's name in errors.
        dimensions: integer, rank that the array must have.

    Returns:
        Integer array, or memory map, of the given rank.

    Raises:
        ValueError: for another rank, numbers that are no integers, or an id
            outside `0 .. vocabulary_size - 1`.
    """
    ids = np.asanyarray(getattr(text, "tokens", text))
    if ids.ndim != dimensions:
        raise ValueError(
            f"`{name}` must have {dimensions} dimension"
            f"{'s' if dimensions > 1 else ''}. Received: an array of shape "
            f"{ids.shape} and type {ids.dtype}"
        )
    if not ids.size:
        return ids.astype("int32")
    if not np.issubdtype(ids.dtype, np.integer):
        raise ValueError(
            f"`{name}` must hold integers, the ids of tokens. Received: an "
            f"array of type {ids.dtype}"
        )
    for outside in (int(ids.min()), int(ids.max())):
        if not 0 <= outside < vocabulary_size:
            raise ValueError(
                f"`{name}` must hold ids from 0 on and below "
                f"vocabulary_size={vocabulary_size}. Received: the id {outside}"
            )
    return ids
