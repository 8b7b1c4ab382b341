"""Protocols with the methods that this package calls on a model.

`isinstance` checks that a model has these methods. Symbols in shapes: T tokens,
V words in the vocabulary. Log-probabilities use the natural logarithm.
"""

from typing import Protocol
from typing import runtime_checkable


@runtime_checkable
class Streams(Protocol):
    """Reads texts in pieces: `step` returns logits or log-probabilities
    `(rows, T, V)` and the new state."""

    def initial_state(self, rows): ...
    def step(self, token_ids, state): ...


@runtime_checkable
class ScoresText(Protocol):
    """`score` returns log-probabilities of a `Split`'s tokens, `(T,)`."""

    def score(self, text): ...


@runtime_checkable
class ScoresBatches(Protocol):
    """`score_batches` returns the log-probability and weight of each target."""

    def score_batches(self, batches, verbose): ...


@runtime_checkable
class ScoresPlaces(Protocol):
    """`log_probabilities_at` returns log-probabilities of all words at the
    positions `begin` to `end` of a text, `(end - begin, V)`."""

    def log_probabilities_at(self, text, begin, end): ...


@runtime_checkable
class MeasuresWords(Protocol):
    """`measure_words` returns surprisal and entropy in nats, and rank, float64
    `(T, 3)`."""

    def measure_words(self, tokens, starts, end_of_sentence_id, steps): ...
