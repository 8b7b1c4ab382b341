"""Certificates: black-box checks of language models.

The checks only call public methods that map texts to log-probabilities, so they
apply to any model. Shapes have T tokens, R rows and V words.
"""

import dataclasses
import json

import keras
import numpy as np
from keras import ops

from memlm_keras import files
from memlm_keras.arguments import require_number
from memlm_keras.arguments import require_positive_integer
from memlm_keras.data import Batches
from memlm_keras.evaluation.dynamic import DynamicEvaluator

PASSED, FAILED, NOT_APPLICABLE = "passed", "failed", "not applicable"
# Minimum length of a text, length of a segment, and rows of a batch. The sizes
# are few, because a model is compiled again for each shape of its inputs.
_LEAST, _SEGMENT, _ROWS = 32, 16, 3
# Number of time steps that a memory processes at once, and number of tokens by
# which a text is longer than the longest window of the model.
_CHUNK, _MORE = 64, 8
# Tokens for each update of dynamic evaluation (Krause et al., 2018).
_UPDATE = 5
# First positions of changed tokens; positions at which all words are scored.
_CUTS = (1, 2, 10, 21, 31)
_PLACES = (0, 20)
# Maximum number of positions in a text that are scored one by one.
_MOST_PLACES = 32
# Number of rows scored at once; maximum number of calls to score words.
_CANDIDATES, _MOST_CALLS = 256, 1000


@dataclasses.dataclass(frozen=True)
class Check:
    """The result of one of the checks that `certify` runs on a model.

    Attributes:
        name: string, what was checked.
        result: `"passed"`, `"failed"` or `"not applicable"`.
        worst: float, the largest difference between two log-probabilities, in
            nats, or between a sum of probabilities and one; infinite for NaN or
            different shapes; `None` if the check does not apply.
        compared: integer, number of compared pairs of numbers.
        note: string, the position of the largest difference if the check
            failed, or the reason why the check does not apply to the model.
    """

    name: str
    result: str
    worst: float | None
    compared: int
    note: str


@dataclasses.dataclass(frozen=True)
class Certificate:
    """The results of all checks of a model.

    Attributes:
        model: string, the kind of the model.
        vocabulary_size: integer.
        tolerance: float, the largest difference that passes.
        seed: integer, seed of the texts that the model read.
        checks: tuple of `Check`.
    """

    model: str
    vocabulary_size: int
    tolerance: float
    seed: int
    checks: tuple

    @property
    def passed(self):
        """Bool, whether no check failed."""
        return not self.count(FAILED)

    def count(self, result):
        """Returns how many checks have a given result, such as `"failed"`."""
        return sum(check.result == result for check in self.checks)

    def __str__(self):
        width = max(len(check.name) for check in self.checks)
        lines = [
            f"{self.model}; {self.vocabulary_size:,} words; "
            f"tolerance {self.tolerance:g}, seed {self.seed}",
            f"{'check':{width}}  {'result':14}  {'worst':8}  note",
        ]
        for check in self.checks:
            worst = "" if check.worst is None else f"{check.worst:.1e}"
            note = check.note or f"{check.compared:,} numbers compared"
            lines.append(
                f"{check.name:{width}}  {check.result:14}  {worst:8}  {note}"
            )
        results = (PASSED, FAILED, NOT_APPLICABLE)
        counts = ", ".join(f"{self.count(each)} {each}" for each in results)
        return "\n".join([*lines, counts])

    def to_json(self):
        """Returns the results of all checks as JSON text; an infinite `worst`
        of a check becomes the string `"infinite"`."""
        values = {**dataclasses.asdict(self), "passed": self.passed}
        for check in values["checks"]:
            if check["worst"] == np.inf:
                check["worst"] = "infinite"
        return json.dumps(values, indent=2, allow_nan=False) + "\n"

    def write(self, path):
        """Writes `to_json()` to a file atomically."""
        files.write_text(path, self.to_json())


def certify(
    model,
    same_as=None,
    vocabulary_size=None,
    tolerance=1e-4,
    seed=0,
    length=None,
):
    """Checks that a model computes valid probabilities of texts.

    | check | passes if |
    |---|---|
    | causal | later tokens do not change earlier predictions |
    | normalised | the probabilities of all words sum to one |
    | scores before it learns | a word is scored before the model reads it |
    | step = segment = whole | reading in pieces gives the results of one call |
    | resets forget all | a text before a reset has no effect |
    | batch rows apart | other rows of a batch have no effect |
    | says the same | a second model, `same_as`, gives equal scores |

    The texts are random words with repetitions and ends of sentences. For a
    model with `log_probabilities_at`, most words are drawn from the model:
    random words rarely form n-grams that the model has counted.

    Args:
        model: `memlm_keras.LanguageModel`, with any mixture, or
            `memlm_keras.Ensemble`; a `memlm_keras.evaluation.DynamicEvaluator`;
            a model of `memlm_keras.ngrams`, or another object with its
            `log_probabilities_at`; the result of `memlm_keras.serving.load`, or
            another object with `initial_state(rows)` and `step(tokens, state)`;
            or a function from token ids `(time,)` to the natural-log
            probability of each.
        same_as: a model of any of these kinds to compare with, such as the
            model that was exported.
        vocabulary_size: integer, for a model without this attribute.
        tolerance: float, the largest difference that passes, in nats.
        seed: integer, seed of the texts.
        length: integer of at least 32, number of tokens in a text. `None`
            chooses 32, or 72 for a model with a memory, a mixture or a cache,
            but at least 8 more than the longest window of the model.

    Returns:
        `Certificate`.

    Raises:
        ValueError: for another kind of object, a missing vocabulary size,
            models with different vocabulary sizes, scores of the wrong shape,
            a tolerance that is not above 0, and a length below 32.

    Example:

    >>> certificate = memlm_keras.linguistics.certify(lm)
    >>> certificate.passed
    True
    >>> [check.name for check in certificate.checks][:2]
    ['causal', 'normalised']
    """
    require_number("tolerance", tolerance, above=0)
    if length is not None:
        require_positive_integer("length", length, _LEAST)
    reader = _reader(model, vocabulary_size)
    reader.length = length or _length_of(model)
    if same_as is not None:
        reader.other = other = _reader(same_as, reader.vocabulary_size)
        reader.length = length or max(reader.length, _length_of(same_as))
        if other.vocabulary_size != reader.vocabulary_size:
            raise ValueError(
                "`same_as` must have the vocabulary of `model`, with "
                f"{reader.vocabulary_size} words. Received: a model with "
                f"{other.vocabulary_size} words"
            )
    reader.draw_texts(seed)
    return Certificate(
        model=reader.description,
        vocabulary_size=reader.vocabulary_size,
        tolerance=tolerance,
        seed=seed,
        checks=tuple(
            _run(name, check(reader), tolerance)
            for name, check in (
                ("causal", _causal),
                ("normalised", _normalised),
                ("scores before it learns", _scores_first),
                ("step = segment = whole", _pieces),
                ("resets forget all", _resets),
                ("batch rows apart", _rows_apart),
                ("says the same", _same),
            )
        ),
    )


class _NotApplicable(Exception):
    """Raised by a check with the reason why it does not apply."""


def _run(name, cases, tolerance):
    """Compares `found` with `expected` in each case; returns a `Check`."""
    worst, place, compared = 0.0, "", 0
    try:
        for found, expected, where in cases:
            difference, count = _difference(found, expected)
            compared += count
            if difference > worst:
                worst, place = difference, where
    except _NotApplicable as reason:
        return Check(name, NOT_APPLICABLE, None, 0, str(reason))
    if not compared:
        reason = "the model gave no numbers that could be compared"
        return Check(name, NOT_APPLICABLE, None, 0, reason)
    if worst > tolerance:
        return Check(name, FAILED, worst, compared, place)
    return Check(name, PASSED, worst, compared, "")


def _difference(found, expected):
    """Returns the largest difference of two arrays and the number of compared
    entries, without masked ones; infinity for NaN or different shapes."""
    if np.shape(found) != np.shape(expected):
        return np.inf, np.size(expected)
    with np.errstate(invalid="ignore"):
        difference = abs(found - expected)
    # Equal infinities have the difference NaN.
    difference = np.ma.where(found == expected, 0.0, difference)
    difference = np.ma.compressed(difference)
    if not difference.size:
        return 0.0, 0
    difference = np.where(np.isnan(difference), np.inf, difference)
    return float(difference.max()), difference.size


# === Checks ===


def _causal(reader):
    """Checks that later tokens do not change earlier predictions."""
    if reader.one_step:
        raise _NotApplicable("each call reads one token and sees no later one")
    text = reader.text
    scores, given = reader.scores(text), reader.gives_distributions
    distributions = reader.distributions(text) if given else None
    # In texts longer than `_LEAST`, also change tokens close to the end.
    last = () if reader.length == _LEAST else (-_MORE + 2, -1)
    for cut in (*_CUTS, *(reader.length + place for place in last)):
        for end in sorted({cut + 1, reader.length}):
            changed = reader.change(text, cut, end)
            where = f"before place {cut}, if tokens {cut} to {end - 1} change"
            yield reader.scores(changed)[:cut], scores[:cut], where
            if given:
                found = reader.distributions(changed)[: cut + 1]
                yield found, distributions[: cut + 1], where
    where = f"of the first {_SEGMENT} tokens, if the text ends there"
    yield reader.scores(text[:_SEGMENT]), scores[:_SEGMENT], where


def _normalised(reader):
    """Checks that probabilities over the vocabulary sum to one."""
    for places, log_probabilities in reader.words_at():
        totals = np.exp(log_probabilities).sum(axis=-1)
        yield totals, np.ones_like(totals), f"the sum at {places}"


def _scores_first(reader):
    """Compares a word's score with the distribution that predicts the word."""
    text = reader.text
    if reader.scores_are_entries:
        raise _NotApplicable("the model gives distributions, not scores")
    scores = reader.scores(text)
    for place in reader.places:
        before = reader.unseen(place)
        yield scores[place], before[text[place]], f"at place {place}"


def _pieces(reader):
    """Compares reading a text a few tokens at a time with reading it whole."""
    read = _require(reader, "pieces")
    whole = reader.distributions(reader.text)
    for size in (1, 3, _SEGMENT):
        yield read(reader.text, size), whole, f"in pieces of {size} tokens"


def _resets(reader):
    """Compares the scores of a text before and after reading other texts."""
    reader.scores(reader.others[0])
    first = reader.scores(reader.text)
    reader.scores(reader.others[1])
    yield reader.scores(reader.text), first, "of a text read once more"
    if "documents" not in reader.missing:
        for other in reader.others:
            found = reader.documents(other, reader.text)
            yield found, first, "of a second document"


def _rows_apart(reader):
    """Compares the predictions of one row in batches with different rows."""
    read = _require(reader, "rows")
    rows = np.stack([reader.text, *reader.others])
    together = read(rows)
    for row in range(_ROWS):
        changed = reader.change(rows, 0, reader.length)
        changed[row] = rows[row]
        for found, where in (
            (read(rows[row : row + 1])[0], "of a row alone"),
            (read(changed)[row], "of a row beside others"),
        ):
            yield found, together[row], f"{where}, row {row}"


def _same(reader):
    other = reader.other
    if other is None:
        raise _NotApplicable("no second model to compare with (`same_as`)")
    for text in (reader.text, *reader.others):
        scores = other.scores(text)
        yield reader.scores(text), scores, "of a word's score"
        if reader.gives_distributions and other.gives_distributions:
            found = reader.distributions(text)
            yield found, other.distributions(text), "of a distribution"


def _require(reader, method):
    """Returns a method of a `_Reader`, or raises `_NotApplicable`."""
    if method in reader.missing:
        raise _NotApplicable(reader.missing[method])
    return getattr(reader, method)


# === One interface for all kinds of models ===


class _Reader:
    """The interface through which checks call a model. `missing` maps the name
    of each method that does not apply, such as `"rows"`, to the reason."""

    # Whether the model gives distributions as well as scores of words, and
    # whether the scores are entries of the distributions.
    gives_distributions = True
    scores_are_entries = False
    # Whether the model reads only one token at a time.
    one_step = False
    missing = {}
    length = _LEAST
    other = None  # The `_Reader` of `same_as`, if there is one.

    @property
    def places(self):
        """Evenly spaced positions, scored one by one."""
        step = -(-self.length // _MOST_PLACES)
        return range((self.length - 1) % step, self.length, step)

    def __init__(self, model, vocabulary_size):
        size = getattr(model, "vocabulary_size", vocabulary_size)
        if size is None:
            raise ValueError(
                "`vocabulary_size` must be given for a `model` without this "
                f"attribute. Received: {type(model).__name__}"
            )
        require_positive_integer("vocabulary_size", size, 2)
        self.model = model
        self.vocabulary_size = int(size)
        vocabulary = getattr(model, "vocabulary", None)
        self.end = getattr(vocabulary or model, "end_of_sentence_id", 0)
        self.ids = np.arange(self.vocabulary_size)
        parts = [getattr(model, "__name__", type(model).__name__)]
        for name in ("memory", "mixture"):
            part = getattr(model, name, None)
            if part is not None:
                parts.append(f"{name} {type(part).__name__}")
        if isinstance(text := getattr(model, "description", None), str):
            parts.append(text)
        self.description = ", ".join(parts)
        self.missing = dict(self.missing)
        # The method `documents` needs the model's method `score_batches`.
        if not hasattr(model, "score_batches"):
            self.missing.setdefault("documents", "no method `score_batches`")

    def draw_texts(self, seed):
        """Draws a random text, and others to read before it or in its batch."""
        self._random = np.random.default_rng(seed)
        self.text, *self.others = (self._draw() for _ in range(_ROWS))

    def _draw(self):
        """Draws a random text of repeated words and ends of sentences."""
        words = self._random.choice(self.ids, self.length // 2)
        text = self._random.choice(words, self.length).astype("int32")
        if self.end in self.ids:
            text[7::9] = self.end
        return text

    def change(self, text, begin, end):
        """Returns a copy of a text with other tokens from `begin` to `end`."""
        changed = text.copy()
        part = np.searchsorted(self.ids, changed[..., begin:end])
        part += self._random.integers(1, len(self.ids), part.shape)
        changed[..., begin:end] = self.ids[part % len(self.ids)]
        return changed

    def scores(self, text):
        """Returns the log-probability of each token, `(T,)`."""
        if hasattr(self.model, "score_batches"):
            return self._scores(text, [0])
        entries = self.distributions(text)
        return np.take_along_axis(entries, text[:, None], axis=1)[:, 0]

    def documents(self, first, second):
        """Returns the scores of a document that is read after another one."""
        text = np.concatenate([first, second])
        return self._scores(text, [0, len(first)])[len(first) :]

    def _batches(self, text, starts):
        return Batches(
            text,
            batch_size=1,
            segment_length=_SEGMENT,
            document_starts=starts,
            end_of_sentence_id=self.end,
        )

    def _scores(self, text, starts):
        batches = self._batches(text, starts)
        scores, weights = self.model.score_batches(batches, verbose=0)
        return np.asarray(scores[weights > 0], "float64")

    def unseen(self, place):
        """Returns the log-probabilities of all words at a position, after
        replacing this and all later tokens with other tokens."""
        changed = self.change(self.text, place, len(self.text))
        return self.distributions(changed)[place]

    def words_at(self):
        """Yields positions as strings, and log-probabilities `(..., V)`."""
        yield "a place", self.distributions(self.text)

    def _all_words(self, token, state):
        """Returns the scores `(V,)` of all words as the token after `token`."""
        size, found = min(_CANDIDATES, self.vocabulary_size), []
        state = {k: ops.repeat(v, size, axis=0) for k, v in state.items()}
        token = np.full(size, token)
        for begin in range(0, self.vocabulary_size, size):
            words = np.arange(begin, begin + size)
            words = np.minimum(words, self.vocabulary_size - 1).astype("int32")
            part = ops.convert_to_numpy(self._next(token, words, state))
            found.append(part[: self.vocabulary_size - begin])
        return np.concatenate(found).astype("float64")


class _Streaming(_Reader):
    """The `_Reader` of a model with methods `initial_state` and `step`."""

    def __init__(self, model, vocabulary_size):
        super().__init__(model, vocabulary_size)
        self._scorer = getattr(model, "score", None)
        self.scores_are_entries = self._scorer is None
        # `step` of this package's models returns logits.
        self._in_logits = hasattr(model, "backbone")
        self._whole = getattr(model, "distributions", None)
        if getattr(model, "rows", None) == 1:
            self.missing["rows"] = "the file reads only one row"
        if getattr(model, "steps", None) == 1:
            self.one_step = True
            self.missing["pieces"] = "the file reads one token at a time"

    def _inputs(self, texts):
        """Returns texts `(R, 1 + T)`, each after an end-of-sentence token."""
        ends = np.full((len(texts), 1), self.end, "int32")
        return np.concatenate([ends, texts], axis=1)

    def _step(self, tokens, state):
        values, state = self.model.step(tokens, state)
        if self._in_logits:
            values = ops.log_softmax(ops.cast(values, "float32"), axis=-1)
        if not np.ma.isMaskedArray(values):
            values = ops.convert_to_numpy(values)
        return values.astype("float64"), state

    def _read(self, texts):
        inputs = self._inputs(texts)[:, :-1]
        if self._whole is not None:
            return np.asarray(self._whole(inputs), "float64")
        return self._step(inputs, self.model.initial_state(len(texts)))[0]

    def distributions(self, text):
        return self._read(text[None])[0]

    def scores(self, text):
        if self._scorer is None or hasattr(self.model, "score_batches"):
            return super().scores(text)
        return _of_shape(self._scorer(self._inputs(text[None]))[0], text)

    def pieces(self, text, size):
        """Returns distributions, reading `size` tokens at a time."""
        inputs, found = self._inputs(text[None])[:, :-1], []
        state = self.model.initial_state(1)
        for begin in range(0, len(text), size):
            part, state = self._step(inputs[:, begin : begin + size], state)
            found.append(part[0])
        return np.ma.concatenate(found)

    def rows(self, texts):
        """Returns distributions `(R, T, V)`. If the model has the method
        `score`, the score of each token is one more entry."""
        read = self._read(texts)
        if self._scorer is None:
            return read
        scores = _of_shape(self._scorer(self._inputs(texts)), texts)
        return np.concatenate([read, scores[..., None]], axis=-1)

    def words_at(self):
        if not self._in_logits:
            yield from super().words_at()
            return
        # Outputs of a softmax always sum to one. So sum the probabilities that
        # the model's method `score` returns for all words.
        for place in _PLACES:
            inputs = self._inputs(self.text[None])[:, : place + 1]
            state = self.model.initial_state(1)
            if place:
                _, state = self.model.step(inputs[:, :-1], state)
            yield f"place {place}", self._all_words(inputs[0, -1], state)

    def _next(self, token, words, state):
        return self._scorer(np.stack([token, words], axis=1), state)[:, 0]


class _Places(_Reader):
    """The `_Reader` of a model with the method `log_probabilities_at`."""

    def __init__(self, model, vocabulary_size):
        super().__init__(model, vocabulary_size)
        self.end = 0
        if not hasattr(model, "log_probabilities"):
            self.missing["rows"] = "the model reads one text at a time"

    def _draw(self):
        text = super()._draw()
        for place in range(len(text)):
            part = self.model.log_probabilities_at(text, place, place + 1)
            weights = np.exp(np.asarray(part, "float64")[0])
            total = weights.sum()
            # Replace about 70% of the random text with words from the model.
            if 0 < total < np.inf and self._random.random() < 0.7:
                text[place] = self._random.choice(self.ids, p=weights / total)
        return text

    def distributions(self, text):
        return self.pieces(text, len(text))

    def pieces(self, text, size):
        """Returns distributions, computed for `size` positions per call."""
        parts = [
            self.model.log_probabilities_at(
                text, begin, min(begin + size, len(text))
            )
            for begin in range(0, len(text), size)
        ]
        return np.concatenate(parts).astype("float64")

    def rows(self, texts):
        """Returns distributions of the next word after each text, `(R, V)`."""
        return np.asarray(self.model.log_probabilities(texts), "float64")


class _Adaptive(_Reader):
    """The `_Reader` of a `DynamicEvaluator`, which learns from each segment."""

    gives_distributions = False
    missing = {
        "pieces": "an update follows each segment, so its length matters",
        "rows": "the model reads only one row",
        "documents": "the weights keep what they learn from each document",
    }
    places = range(0, _LEAST, 4)

    def _batches(self, text, starts):
        return Batches(text, 1, _UPDATE, end_of_sentence_id=self.end)

    def _segments(self, text):
        """Yields each segment's inputs and state, and then learns from it."""
        self.model.reset()
        state = self.model.lm.initial_state(1)
        for inputs, targets, weights in self._batches(text, None):
            yield inputs["token_ids"], state
            _, state = self.model.read(
                inputs["token_ids"], targets, state, weights
            )

    def distributions(self, text):
        """Returns log-probabilities `(T, V)` before each segment's update."""
        found, lm = [], self.model.lm
        for token_ids, state in self._segments(text):
            mapping = list(zip(lm.trainable_variables, self.model.weights))
            with keras.StatelessScope(state_mapping=mapping):
                logits, _ = lm.backbone.step(
                    ops.convert_to_tensor(token_ids), state
                )
                logits = ops.log_softmax(ops.cast(logits, "float32"))
            found.append(ops.convert_to_numpy(logits)[0])
        return np.concatenate(found)[: len(text)].astype("float64")

    def words_at(self):
        for number, (token_ids, state) in enumerate(self._segments(self.text)):
            place = number * _UPDATE
            if place in _PLACES:
                yield f"place {place}", self._all_words(token_ids[0, 0], state)

    def _next(self, token, words, state):
        # The weights are restored, because `read` updates them.
        weights = self.model.weights
        scores, _ = self.model.read(token[:, None], words[:, None], state)
        self.model.weights = weights
        return scores[:, 0]


class _Function(_Reader):
    """Reads a model that is a function from token ids to log-probabilities."""

    gives_distributions = False
    missing = {
        "pieces": "the model reads whole texts and has no state",
        "rows": "the model reads one text at a time",
        "documents": "the model reads one text at a time",
    }
    places = _PLACES

    def __init__(self, score, model, vocabulary_size, ends=True):
        super().__init__(model, vocabulary_size)
        self._score = score
        if not ends:
            self.ids = self.ids[self.ids != self.end]

    def scores(self, text):
        return _of_shape(self._score(text), text)

    def words_at(self):
        for place in self.places:
            yield f"place {place}", self.unseen(place)

    def unseen(self, place):
        """Returns log-probabilities of all words, with a call for each word."""
        if self.vocabulary_size > _MOST_CALLS:
            raise _NotApplicable(
                "the model gives no distributions; scoring words would take "
                f"{self.vocabulary_size:,} calls, above {_MOST_CALLS:,}"
            )
        start = self.text[:place]
        return np.array(
            [
                self.scores(np.append(start, word).astype("int32"))[-1]
                for word in range(self.vocabulary_size)
            ]
        )


def _reader(model, vocabulary_size):
    if isinstance(model, DynamicEvaluator):
        return _Adaptive(model, vocabulary_size)
    if _streams(model):
        if getattr(model, "causal", True):
            return _Streaming(model, vocabulary_size)

        def score(text):
            # A model that reads from both sides needs the end of the sentence.
            ends = np.full(1, end, "int32")
            row = np.concatenate([ends, text, ends])
            return model.score(row[None])[0, :-1]

        reader = _Function(score, model, vocabulary_size, ends=False)
        end = reader.end
        return reader
    if hasattr(model, "log_probabilities_at"):
        return _Places(model, vocabulary_size)
    if callable(model) and not isinstance(model, keras.layers.Layer):
        return _Function(model, model, vocabulary_size)
    raise ValueError(
        "`model` must be a language model, an object with "
        "`log_probabilities_at` or with `initial_state` and `step`, or a "
        f"function that scores token ids. Received: {type(model).__name__}"
    )


def _streams(model):
    """Returns whether a model reads texts incrementally, with a state."""
    return hasattr(model, "initial_state") and hasattr(model, "step")


def _length_of(model):
    """Returns a text length above every window and chunk length of a model."""
    model = getattr(model, "lm", model)
    sizes = [
        getattr(part, "context_length", 0)
        for part in (model, *getattr(model, "models", ()))
    ]
    if _streams(model) and getattr(model, "causal", True):
        state = model.initial_state(1)
        sizes += [
            value.shape[1]
            for name, value in state.items()
            if name.endswith("window")
        ]
        if any("memory_" in name or "mixture_" in name for name in state):
            sizes.append(_CHUNK)
    return max(_LEAST, *(size + _MORE for size in sizes))


def _of_shape(scores, texts):
    """Converts scores to float64; raises `ValueError` for a wrong shape."""
    scores = np.asarray(scores, "float64")
    if scores.shape != texts.shape:
        raise ValueError(
            "`model` must score each token, and return an array of the shape "
            f"{texts.shape}. Received: the shape {scores.shape}"
        )
    return scores
