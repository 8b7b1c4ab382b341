"""Recorded steps train as the steps themselves."""

import keras
import numpy as np
import pytest
from preset_families import V
from preset_families import families
from preset_families import small

import memlm_keras as memlm
from memlm_keras import registry

pytestmark = pytest.mark.backend("torch")

ROWS, TIME, BATCHES = 4, 6, 8


def batches_for(name):
    random = np.random.default_rng(3)
    kind = registry.get(name)["kind"]
    if kind == "EntailmentClassifier":
        sentences = random.integers(3, V, size=(2, ROWS * BATCHES, TIME))
        labels = random.integers(3, size=ROWS * BATCHES)
        return memlm.data.PairBatches(*sentences, labels, ROWS)
    tokens = random.integers(3, V, size=ROWS * TIME * BATCHES + 1)
    tokens = tokens.astype("int32")
    if kind == "SequenceAutoencoder":
        tokens[::-TIME] = 0
        return memlm.data.AutoencodingBatches(tokens, ROWS, TIME)
    if "birm" in name:
        tokens[::-TIME] = 0
        return memlm.data.SentenceBatches(tokens, ROWS, TIME)
    return memlm.data.Batches(tokens, ROWS, TIME)


@pytest.mark.parametrize("name", families())
def test_families(name, monkeypatch):
    from memlm_keras.training import recorded

    monkeypatch.setattr(recorded, "AFTER", 2)
    results = []
    for eagerly in (True, False):
        model = small(name)
        model.compile(
            keras.optimizers.Adam(0.01, global_clipnorm=1.0),
            run_eagerly=eagerly,
        )
        history = model.fit(batches_for(name), epochs=2, verbose=0).history
        weights = [w.numpy() for w in model.trainable_weights]
        results.append((history, weights))
    print(model.train_function.possible, len(model.train_function.recordings), [len(r.graph.graph.nodes) for r in model.train_function.recordings.values()])
    assert results[0][0] == results[1][0]
    assert model.train_function.recordings
