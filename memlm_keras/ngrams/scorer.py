"""What all models of this package have in common: they score texts."""

import numpy as np

from memlm_keras.evaluation.perplexity import Perplexity


class Scorer:
    """A model that gives each token of a text a probability.

    A subclass sets `vocabulary_size` and defines `score`,
    `log_probabilities` and `description`.
    """

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
        raise NotImplementedError(
            f"{type(self).__name__} must implement `score`."
        )

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
        raise NotImplementedError(
            f"{type(self).__name__} must implement `log_probabilities`."
        )

    @property
    def description(self):
        """String that says what the model is, for `protocol`."""
        raise NotImplementedError(
            f"{type(self).__name__} must implement `description`."
        )

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
        result = Perplexity(loss, scores.size, scores.size, protocol)
        if verbose:
            print(result)
        return result


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
