"""Tests certificates: correct models pass, and each check finds a wrong one."""

import importlib
import itertools
import json

import keras
import numpy as np
import pytest
from language_models import KINDS
from language_models import V
from language_models import counted
from language_models import shared

from memlm_keras import LanguageModel
from memlm_keras.evaluation import DynamicEvaluator
from memlm_keras.linguistics import certify
from memlm_keras.memory import Memory
from memlm_keras.mixtures import NeuralCache
from memlm_keras.ngrams import Mixture
from memlm_keras.ngrams import UnigramCache

# Import the module by name, since the package's `certify` is a function.
module = importlib.import_module("memlm_keras.linguistics.certify")
NAMES = {
    "causal": "causal",
    "normalised": "normalised",
    "first": "scores before it learns",
    "pieces": "step = segment = whole",
    "resets": "resets forget all",
    "rows": "batch rows apart",
    "same": "says the same",
}


def results(certificate):
    """Returns a dict from results to the short names of checks."""
    short = {name: key for key, name in NAMES.items()}
    found = {"passed": set(), "failed": set(), "not applicable": set()}
    for check in certificate.checks:
        found[check.result].add(short[check.name])
    return found


def require_failed(model, names, **arguments):
    """Asserts that exactly the checks `names` fail."""
    certificate = certify(model, **arguments)
    assert results(certificate)["failed"] == set(names.split()), certificate
    assert not certificate.passed
    return certificate


# === Correct models ===


# To save time, most models are certified on a text shorter than a chunk.
@pytest.mark.backend(one_in=3)
@pytest.mark.parametrize(
    "recurrent, memory, length",
    [
        ("lstm", "attention", None),
        ("lstm", "delta_rule", None),
        ("lstm", "memory_block", 32),
    ],
)
def test_models_with_a_memory_pass(recurrent, memory, length):
    certificate = certify(shared(recurrent, memory), length=length)
    found = results(certificate)
    assert found["passed"] == NAMES.keys() - {"same"}, certificate
    assert found["not applicable"] == {"same"}


@pytest.mark.parametrize(
    "kind, left_out",
    [
        ("cache", "same"),
        ("ensemble", "same"),
        ("adaptive", "pieces rows same"),
        ("ngrams", "same"),
        ("unigram cache", "same"),
        ("mixed", "same"),
        ("function", "pieces rows same"),
    ],
)
def test_every_kind_passes(kind, left_out):
    model = {
        **KINDS,
        "adaptive": lambda: DynamicEvaluator(KINDS["lstm"](), 0.5, decay=0.1),
        "unigram cache": lambda: UnigramCache(V, 5, 0.9),
        "function": lambda: counted().score,
    }[kind]()
    certificate = certify(model, vocabulary_size=V)
    left_out = set(left_out.split())
    found = results(certificate)
    assert found["passed"] == NAMES.keys() - left_out, certificate
    assert found["not applicable"] == left_out
    for check in certificate.checks:
        assert (check.note == "") == (check.result == "passed")
        assert (check.compared > 0) == (check.result == "passed")


# === A model in plain Python, and wrong models ===


class Counts:
    """A model that predicts by word counts so far, plus one."""

    vocabulary_size = V

    def initial_state(self, rows):
        return {"seen": np.ones((rows, V))}

    def count(self, seen, tokens):
        return seen + np.eye(V)[tokens]

    def predict(self, seen):
        return np.log(seen / seen.sum(axis=-1, keepdims=True))

    def step(self, tokens, state):
        seen, found = state["seen"], []
        for column in np.asarray(tokens).T:
            seen = self.count(seen, column)
            found.append(self.predict(seen))
        return np.stack(found, axis=1), {"seen": seen}

    def score(self, token_ids, state=None):
        state = state or self.initial_state(len(token_ids))
        found, _ = self.step(token_ids[:, :-1], state)
        targets = token_ids[:, 1:, None]
        return np.take_along_axis(found, targets, axis=-1)[..., 0]


class Begins(Counts):
    """A model that must first read its end-of-sentence id, which is not
    zero."""

    end_of_sentence_id = 4

    def step(self, tokens, state):
        begin = state["seen"].sum() == V * len(tokens)
        assert not begin or (np.asarray(tokens)[:, 0] == 4).all()
        return super().step(tokens, state)


class Peeks(Counts):
    def step(self, tokens, state):
        for column in np.asarray(tokens).T:
            state = {"seen": self.count(state["seen"], column)}
        found = self.predict(state["seen"])
        return np.repeat(found[:, None], tokens.shape[1], 1), state


class Unnormalised(Counts):
    def predict(self, seen):
        return np.log(seen)


class LearnsFirst(Counts):
    def score(self, token_ids, state=None):
        state = state or self.initial_state(len(token_ids))
        found, _ = self.step(token_ids, state)
        targets = token_ids[:, 1:, None]
        return np.take_along_axis(found[:, 1:], targets, axis=-1)[..., 0]


class ForgetsBetweenSteps(Counts):
    def step(self, tokens, state):
        return super().step(tokens, self.initial_state(len(tokens)))


class NeverForgets(Counts):
    def __init__(self):
        self.last = np.ones((1, V))

    def initial_state(self, rows):
        return {"seen": np.repeat(self.last[:1], rows, axis=0)}

    def step(self, tokens, state):
        found, state = super().step(tokens, state)
        self.last = state["seen"]
        return found, state


class RowsMeet(Counts):
    def count(self, seen, tokens):
        return seen + np.eye(V)[tokens].mean(axis=0, keepdims=True)


class Fails(Counts):
    def predict(self, seen):
        return np.where(seen.sum() > V + 9, np.nan, super().predict(seen))


def test_another_model_does_not_say_the_same():
    lm = shared("lstm", "none")
    assert certify(lm, same_as=lm).passed
    certificate = require_failed(lm, "same", same_as=Counts())
    check = certificate.checks[-1]
    assert check.worst > 0.1
    assert check.note in ("of a word's score", "of a distribution")


class IgnoresDocuments(Counts):
    """A wrong model, which scores batches as one continuous text."""

    def score_batches(self, batches, verbose=0):
        text = np.concatenate([[0], batches.tokens])
        scores = self.score(text[None])
        return scores, np.ones(scores.shape)


class Silent(Counts):
    """A model that scores only whole texts, and masks results for pieces."""

    def step(self, tokens, state):
        found, state = super().step(tokens, state)
        if tokens.shape[1] < 32:
            found = np.ma.masked_all(found.shape)
        return found, state

    def score(self, token_ids, state=None):
        return Counts().score(token_ids, state)


class OfAnotherShape(Counts):
    def score(self, token_ids, state=None):
        return super().score(token_ids, state)[:, 1:]


def test_nothing_to_compare():
    found = results(certify(Silent()))
    assert "pieces" in found["not applicable"] and not found["failed"]


# === Distributions at positions of a text ===


class Places:
    """The model of `Counts` with the methods of n-gram models."""

    vocabulary_size = V

    def log_probabilities(self, contexts):
        start = Counts().initial_state(len(contexts))
        found, _ = Counts().step(np.pad(contexts, [(0, 0), (1, 0)]), start)
        return found[:, -1]

    def log_probabilities_at(self, text, begin, end):
        return np.concatenate(
            [
                self.log_probabilities(text[None, :place])
                for place in range(begin, end)
            ]
        )


class PlacesOfParts(Places):
    def log_probabilities_at(self, text, begin, end):
        return super().log_probabilities_at(text[begin:], 0, end - begin)


class PlacesOfRowsMeet(Places):
    def log_probabilities(self, contexts):
        found = super().log_probabilities(contexts)
        return found + found.mean(axis=0, keepdims=True) * (len(found) > 1)


@pytest.mark.parametrize(
    "kind, failed",
    [
        (Begins, ""),
        (Peeks, "causal first pieces"),
        (Unnormalised, "normalised"),
        (LearnsFirst, "first"),
        (ForgetsBetweenSteps, "pieces"),
        (NeverForgets, "causal first pieces resets rows"),
        (RowsMeet, "rows"),
        (IgnoresDocuments, "resets"),
        (Fails, "causal normalised first pieces resets rows"),
        (Places, ""),
        (PlacesOfParts, "pieces"),
        (PlacesOfRowsMeet, "rows"),
    ],
)
def test_wrong_models(kind, failed):
    certificate = certify(kind(), same_as=kind() if not failed else None)
    assert results(certificate)["failed"] == set(failed.split()), certificate


def test_what_an_object_cannot_do_is_not_passed():
    class One(Places):
        def log_probabilities_at(self, text, begin, end):
            return Places().log_probabilities_at(text, begin, end)

        log_probabilities = property()

    found = results(certify(One()))
    assert found["not applicable"] == {"rows", "same"}
    assert not found["failed"]


# === Scoring functions ===

CALLS = itertools.count()


def score(text):
    return Counts().score(np.append(0, text)[None])[0]


@pytest.mark.parametrize(
    "function, failed",
    [
        (lambda ids: score(ids) - 1e-3 * ids.sum(), "causal normalised first"),
        (lambda text: score(text) + 0.1, "normalised"),
        (lambda text: LearnsFirst().score(np.append(0, text)[None])[0], ""),
        # This function keeps a state between calls.
        (
            lambda text: score(text) - 0.01 * next(CALLS),
            "causal normalised first resets",
        ),
    ],
)
def test_wrong_functions(function, failed):
    """A function may learn from a word before scoring it: only the sum over the
    vocabulary shows this error."""
    failed = failed or "normalised"
    require_failed(function, failed, vocabulary_size=V)
    assert certify(score, same_as=Counts(), vocabulary_size=V).passed


def test_large_vocabularies_of_functions():
    certificate = certify(
        lambda text: np.full(text.shape, -np.log(2000)), vocabulary_size=2000
    )
    assert {"normalised", "first"} < results(certificate)["not applicable"]
    notes = {check.name: check.note for check in certificate.checks}
    assert "2,000 calls, above 1,000" in notes["normalised"]


# === Dynamic evaluation ===


class EvaluatorLearnsFirst(DynamicEvaluator):
    def read(self, token_ids, targets, state, sample_weight=None):
        super().read(token_ids, targets, state, sample_weight)
        return super().read(token_ids, targets, state, sample_weight)


class EvaluatorNeverForgets(DynamicEvaluator):
    def reset(self):
        if not hasattr(self, "weights"):
            super().reset()


class EvaluatorUnnormalised(DynamicEvaluator):
    def read(self, token_ids, targets, state, sample_weight=None):
        scores, state = super().read(token_ids, targets, state, sample_weight)
        return scores + 0.01, state


@pytest.mark.parametrize(
    "kind, failed",
    [
        (EvaluatorLearnsFirst, "causal first"),
        (EvaluatorNeverForgets, "causal first resets"),
        (EvaluatorUnnormalised, "normalised first"),
    ],
)
def test_wrong_evaluators(kind, failed):
    require_failed(kind(shared("lstm", "none"), rate=0.5), failed)


# === Others ===


@keras.saving.register_keras_serializable(package="tests")
class LooksAheadInLongTexts(Memory):
    """A wrong memory, which reads one step ahead if there are many steps."""

    def initial_state(self, batch_size):
        return {"read": keras.ops.zeros((batch_size, 1))}

    def read(self, outputs, state, token_ids=None, mask=None):
        if outputs.shape[1] > 64:
            outputs = keras.ops.roll(outputs, -1, axis=1)
        return outputs, state, keras.ops.zeros((*outputs.shape[:2], 0))


def test_a_memory_that_looks_ahead_in_long_texts():
    model = LanguageModel(V, 5, [keras.layers.LSTM(6)], LooksAheadInLongTexts())
    assert certify(model, length=64).passed
    require_failed(model, "causal first pieces")


@pytest.mark.parametrize(
    "make, length",
    [
        (lambda: shared("lstm", "none"), 32),
        (lambda: shared().with_mixture(NeuralCache(100, 1, 0.1)), 108),
        (lambda: DynamicEvaluator(shared("lstm", "delta_rule"), 0.1), 72),
        (KINDS["ensemble"], 72),
        (lambda: Mixture([Counts(), UnigramCache(V, 40)], [0.5, 0.5]), 48),
    ],
)
def test_a_text_is_longer_than_windows_and_chunks(make, length):
    assert module._length_of(make()) == length


def test_the_table_and_the_file(tmp_path):
    certificate = certify(Unnormalised(), tolerance=1e-3, seed=3)
    lines = str(certificate).splitlines()
    assert lines[0] == "Unnormalised; 23 words; tolerance 0.001, seed 3"
    assert lines[2].startswith("causal")
    assert "failed" in lines[3] and "the sum at a place" in lines[3]
    assert lines[-1] == "5 passed, 1 failed, 1 not applicable"
    certificate.write(tmp_path / "certificate.json")
    found = json.loads((tmp_path / "certificate.json").read_text())
    assert found["passed"] is False and found["seed"] == 3
    first, second, *_ = (check["result"] for check in found["checks"])
    assert (first, second) == ("passed", "failed")
    found = json.loads(certify(Fails()).to_json())
    assert found["checks"][1]["worst"] == "infinite"


def test_the_seed_chooses_the_text():
    texts = []
    for seed in (0, 0, 1):
        certify(
            lambda text: texts.append(text) or score(text),
            vocabulary_size=V,
            seed=seed,
        )
    whole = [text for text in texts if len(text) == 32]
    first, again, other = np.split(np.array(whole), 3)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"model": 3}, "Received: int"),
        ({"model": keras.layers.Dense(3)}, "Received: Dense"),
        ({"model": score}, "`vocabulary_size` must be given"),
        ({"model": score, "vocabulary_size": 1}, "of at least 2"),
        ({"model": Counts(), "tolerance": 0}, "`tolerance` must be above 0"),
        ({"model": Counts(), "length": 31}, "`length` must be .* at least 32"),
        (
            {"model": lambda text: np.zeros(3), "vocabulary_size": V},
            r"of the shape \(32,\). Received: the shape \(3,\)",
        ),
        ({"model": OfAnotherShape()}, r"Received: the shape \(31,\)"),
        (
            {"model": Counts(), "same_as": UnigramCache(9, 5)},
            "with 23 words. Received: a model with 9 words",
        ),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        certify(**arguments)
