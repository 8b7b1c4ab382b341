"""Tests the losses and metrics of tokens."""

import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras.training import Nats
from memlm_keras.training import Perplexity
from memlm_keras.training import SentenceCrossEntropy
from memlm_keras.training import TokenCrossEntropy

pytestmark = pytest.mark.backend


def test_weights_of_rows_are_those_of_their_tokens(random):
    losses = random.random((3, 4)).astype("float32")
    targets = np.ones((3, 4), "int32")
    rows = np.array([1.0, 0.0, 0.5], "float32")
    tokens = np.repeat(rows[:, None], 4, axis=1)
    mean = np.sum(losses * tokens) / tokens.sum()
    for weights in (rows, rows[:, None], tokens):
        nats, perplexity = Nats(), Perplexity()
        nats.update_state(targets, losses, weights)
        perplexity.update_state(targets, losses, weights)
        found = [
            nats.result(),
            perplexity.result(),
            TokenCrossEntropy()(targets, losses, weights),
            SentenceCrossEntropy()(targets, losses, weights),
        ]
        by_sentence = np.sum(losses * tokens) / 3
        expected = [mean, np.exp(mean), mean, by_sentence]
        np.testing.assert_allclose([*map(float, found)], expected, rtol=1e-5)


@pytest.mark.parametrize("metric", ["val_nats", "val_perplexity"])
def test_callbacks_know_that_less_is_better(metric):
    model = LanguageModel(9, 4, [keras.layers.GRU(3)])
    model.compile("sgd")
    stop = keras.callbacks.EarlyStopping(metric, min_delta=9.0)
    data = np.ones((2, 5), "int32"), np.ones((2, 5), "int32")
    history = model.fit(
        *data, validation_data=data, epochs=3, callbacks=[stop], verbose=0
    )
    assert len(history.epoch) == 2
