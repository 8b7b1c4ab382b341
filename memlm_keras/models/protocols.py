"""Methods that functions here need of a model, of this package or another.

`isinstance` checks that the methods are there. Shapes: B rows, T tokens, V
words of the vocabulary; probabilities are natural logarithms.
"""

from typing import Protocol
from typing import runtime_checkable


@runtime_checkable
class Streams(Protocol):
    """A model that reads a text in pieces, with its state in between."""

    def initial_state(self, rows):
        """The state of B rows, a dict of tensors."""

    def step(self, token_ids, state):
        """Logits or log-probabilities `(B, T, V)` of the tokens after each of
        `(B, T)`, and the new state."""


@runtime_checkable
class ScoresText(Protocol):
    """A model that scores each token of one text, such as n-grams."""

    def score(self, text):
        """Log-probabilities `(T,)` of a `memlm_keras.data.Split`."""


@runtime_checkable
class ScoresBatches(Protocol):
    """A model of which `perplexity` measures batches."""

    def score_batches(self, batches, verbose):
        """Log-probabilities of all targets, and their weights."""


@runtime_checkable
class ScoresPlaces(Protocol):
    """A model that scores all words at places of a text, with no
    more state than that text."""

    def log_probabilities_at(self, text, begin, end):
        """Log-probabilities `(end - begin, V)` at places of a text `(T,)`."""


@runtime_checkable
class MeasuresWords(Protocol):
    """A model that measures surprisal, entropy and rank itself."""

    def measure_words(self, tokens, starts, end_of_sentence_id, segment_length):
        """These, in nats, float64 `(T, 3)`."""
