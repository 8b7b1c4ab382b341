"""Tests models that read all steps and predict only at some."""

import keras
import numpy as np
import pytest
from language_models import V
from language_models import array
from language_models import close
from language_models import make
from language_models import shared
from language_models import tokens_of

from memlm_keras.data import Batches
from memlm_keras.mixtures import NeuralCache
from memlm_keras.mixtures import PointerSentinel

pytestmark = pytest.mark.backend

POSITIONS = np.array([[5, 1, 1], [0, 2, 4]], "int32")
ROWS = np.arange(2)[:, None]
TOKENS, TARGETS = tokens_of(2, 6), tokens_of(2, 6, seed=1)
WEIGHTS = np.array([[1, 0.5, 0], [2, 1, 1]], "float32")


def asked(**others):
    return {"token_ids": TOKENS, "positions": POSITIONS, **others}


def above():
    return make("lstm", "attention", recurrent_above=[keras.layers.GRU(4)])


def pointing():
    return make("lstm", "none", mixture=PointerSentinel(4))


@pytest.mark.backend(one_in=2)
@pytest.mark.parametrize(
    "make_model",
    [
        make,
        above,
        pointing,
        lambda: make("lstm", "none", mixture=NeuralCache(3, weight=0.4)),
        lambda: make(
            "lstm", "attention", tie_embeddings=True, embedding_dim=12
        ),
    ],
)
def test_predictions_are_rows_of_the_whole(make_model):
    model = make_model()
    rows = array(model(TOKENS))[ROWS, POSITIONS]
    close(model(asked()), rows)
    close(model.predict(asked(), verbose=0), rows)
    targets = TARGETS[ROWS, POSITIONS]
    found = model(asked(targets=targets))
    whole = model({"token_ids": TOKENS, "targets": TARGETS})
    close(found["logits"], rows)
    for name in ("loss", "log_probability"):
        close(found[name], array(whole[name])[ROWS, POSITIONS])
    lean = model(asked(targets=targets, sample_weight=np.ones((2, 3))))
    close(lean["loss"], found["loss"])


@pytest.mark.backend(one_in=3)
@pytest.mark.parametrize("make_model", [make, above, pointing])
def test_training_is_that_of_weights_elsewhere_zero(make_model):
    weights = np.zeros((2, 6), "float32")
    # A position that occurs twice counts twice.
    np.add.at(weights, (np.repeat(ROWS, 3, axis=1), POSITIONS), WEIGHTS)
    found = []
    for inputs, targets, sample_weight in (
        ({"token_ids": TOKENS}, TARGETS, weights),
        (asked(), TARGETS[ROWS, POSITIONS], WEIGHTS),
    ):
        keras.utils.set_random_seed(7)
        model = make_model()
        model.compile(keras.optimizers.SGD(0.5))
        history = model.fit(
            inputs, targets, 2, 3, 0, sample_weight=sample_weight
        ).history
        values = model.evaluate(
            inputs, targets, 2, sample_weight=sample_weight, verbose=0
        )
        found.append((history, values, model.get_weights()))
    (history, values, weights), (other, others, other_weights) = found
    for name in ("loss", "perplexity", "nats"):
        np.testing.assert_allclose(history[name], other[name], rtol=1e-4)
    np.testing.assert_allclose(values, others, rtol=1e-4)
    for weight, expected in zip(other_weights, weights, strict=True):
        np.testing.assert_allclose(weight, expected, 1e-4, 1e-5)


@pytest.mark.parametrize("name", ["targets", "sample_weight"])
def test_targets_and_weights_are_of_the_positions(name):
    inputs = asked(targets=TARGETS[ROWS, POSITIONS])
    inputs[name] = np.ones((2, 6), "int32")
    message = rf'`inputs\["{name}"\]` must have the shape of "positions"'
    with pytest.raises(ValueError, match=message):
        shared()(inputs)


def test_scores_want_all_steps():
    class Asked(Batches):
        def _batch(self, index):
            inputs, targets, weights = super()._batch(index)
            positions = np.zeros((2, 1), "int32")
            return {**inputs, "positions": positions}, targets, weights

    batches = Asked(np.arange(1, V), 2, 4)
    with pytest.raises(ValueError, match='with "positions": use `evaluate`'):
        shared().score_batches(batches)
