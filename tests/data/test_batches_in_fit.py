"""Tests which batches a model gets in each epoch of `fit`."""

import collections

import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras.data import Batches
from memlm_keras.models import sequence_model
from memlm_keras.training import distribution

pytestmark = pytest.mark.backend

NUM_TOKENS = 50
STARTS = np.array([0, 7, 9, 20, 33, 41])


class Seen(keras.metrics.Sum):
    """A metric that sums the targets, to identify the tokens of an epoch."""

    def update_state(self, y_true, y_pred, sample_weight=None):
        return super().update_state(y_true, sample_weight)


def make_model():
    model = LanguageModel(NUM_TOKENS + 1, 4, [keras.layers.GRU(3)])
    model.compile("sgd", weighted_metrics=[Seen("seen")])
    return model


def fit(model, batches, epochs):
    """Trains a model; returns the sum of targets and the number of batches of
    each epoch."""
    trained = collections.Counter()
    count = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: trained.update([batches.epoch])
    )
    history = model.fit(batches, epochs=epochs, verbose=0, callbacks=[count])
    return history.history["seen"], trained


def make_batches(documents=True, segment_length=3):
    return Batches(
        np.arange(1, NUM_TOKENS + 1, dtype="int32"),
        batch_size=2,
        segment_length=segment_length,
        document_starts=STARTS if documents else None,
        shuffle=documents,
    )


WHOLE = float(np.arange(NUM_TOKENS + 1).sum())


def sum_of_targets(batches):
    return float(sum(targets.sum() for _, targets, _ in batches))


@pytest.mark.filterwarnings("error:Your input ran out of data")
@pytest.mark.parametrize("left", [1, 5])
@pytest.mark.parametrize("compiled_before", [False, True])
def test_epochs_after_a_resumed_one_are_whole(left, compiled_before):
    batches = make_batches()
    length = len(batches)
    model = make_model()
    if compiled_before:
        # The first `fit` after `compile` reads a batch to build the metrics.
        model.fit(make_batches(), verbose=0)
    batches.start_at(4, length - left)
    rest = sum_of_targets(batches)
    seen, trained = fit(model, batches, epochs=7)
    assert trained == {4: left, 5: length, 6: length}
    assert seen == [rest, WHOLE, WHOLE]
    assert (batches.epoch, batches.start_batch) == (6, 0)


@pytest.mark.parametrize("stop, epochs", [(False, [1, 2]), (True, [1])])
def test_a_resumed_run_begins_and_ends_once(stop, epochs):
    events = []
    model = make_model()
    watch = keras.callbacks.LambdaCallback(
        on_train_begin=lambda logs: events.append("begin"),
        on_epoch_end=lambda *_: setattr(model, "stop_training", stop),
        on_train_end=lambda logs: events.append("end"),
    )
    batches = make_batches()
    batches.start_at(1, 2)
    history = model.fit(batches, epochs=3, verbose=0, callbacks=[watch])
    assert history.epoch == epochs
    assert events == ["begin", "end"]


class Hooked(Batches):
    def on_epoch_end(self):
        self.ended = True


@pytest.mark.backend("tensorflow", "torch")
def test_the_backend_reads_batches_without_hooks_on_one_device(monkeypatch):
    model, batches = make_model(), make_batches(False, segment_length=1)
    assert len(batches) == 25 and len(batches) % sequence_model._READ_AT_ONCE
    read = sequence_model.as_dataset(model, batches)
    assert read is not batches
    if keras.backend.backend() == "tensorflow":
        # A reader that tunes itself sleeps at the end of `fit`.
        assert not read.options().autotune.enabled
    for batch, expected in zip(read, batches, strict=True):
        for array, other in zip(*map(keras.tree.flatten, (batch, expected))):
            found = keras.ops.convert_to_numpy(array)
            np.testing.assert_array_equal(found, other, strict=True)
    hooked = Hooked(np.arange(3, 40), 2, 3)
    model.fit(hooked, verbose=0)
    assert hooked.ended
    monkeypatch.setattr(distribution, "num_devices", lambda model: 2)
    assert sequence_model.as_dataset(model, batches) is batches
