"""Methods that functions here need of a model, of this package or another.

`isinstance` checks that they are there. Shapes: T tokens, V words of the
vocabulary; probabilities are natural logarithms.
"""

from typing import Protocol
from typing import runtime_checkable


@runtime_checkable
class Streams(Protocol):
    """Reads texts in pieces: a step returns `(rows, T, V)` and the state."""

    def initial_state(self, rows): ...
    def step(self, token_ids, state): ...


@runtime_checkable
class ScoresText(Protocol):
    """Returns the log-probability of each token of a `Split`, `(T,)`."""

    def score(self, text): ...


@runtime_checkable
class ScoresBatches(Protocol):
    """Returns log-probabilities of all targets of batches, and weights."""

    def score_batches(self, batches, verbose): ...


@runtime_checkable
class ScoresPlaces(Protocol):
    """Returns those of all words at places of a text, `(end - begin, V)`."""

    def log_probabilities_at(self, text, begin, end): ...


@runtime_checkable
class MeasuresWords(Protocol):
    """Returns surprisal, entropy and rank, in nats, float64 `(T, 3)`."""

    def measure_words(self, tokens, starts, end_of_sentence_id, steps): ...
