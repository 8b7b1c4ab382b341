"""`Batches` within `fit`: what the model really sees, epoch by epoch."""

import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras.data import Batches
from memlm_keras.data import recall
from memlm_keras.memory import Attention
from memlm_keras.models import sequence_model
from memlm_keras.training import distribution

pytestmark = pytest.mark.backend

NUM_TOKENS = 50
STARTS = np.array([0, 7, 9, 20, 33, 41])


class WeightedSum(keras.metrics.Metric):
    """Sum of the true values: which tokens were seen."""

    def __init__(self, name="seen"):
        super().__init__(name=name)
        self.total = self.add_weight(name="total", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_true = keras.ops.cast(y_true, "float32")
        self.total.assign_add(keras.ops.sum(y_true * sample_weight))

    def result(self):
        return keras.ops.convert_to_tensor(self.total)

    def reset_state(self):
        self.total.assign(0.0)


class Steps(keras.callbacks.Callback):
    """Notes the batches trained on and the dataset's epoch."""

    def __init__(self, batches):
        super().__init__()
        self.batches = batches
        self.steps, self.epochs = [], []

    def on_epoch_begin(self, epoch, logs=None):
        self.steps.append(0)
        self.epochs.append(self.batches.epoch)

    def on_train_batch_end(self, batch, logs=None):
        self.steps[-1] += 1


def make_model(**compile_arguments):
    model = LanguageModel(NUM_TOKENS + 1, 4, [keras.layers.GRU(3)])
    model.compile("sgd", weighted_metrics=[WeightedSum()], **compile_arguments)
    return model


def make_batches(documents=True, segment_length=3):
    return Batches(
        np.arange(1, NUM_TOKENS + 1, dtype="int32"),
        batch_size=2,
        segment_length=segment_length,
        document_starts=STARTS if documents else None,
        shuffle=documents,
    )


def sum_of_targets(batches):
    return float(sum(targets.sum() for _, targets, _ in batches))


WHOLE = float(np.arange(NUM_TOKENS + 1).sum())


@pytest.mark.backend(one_in=3)
@pytest.mark.parametrize(
    "arguments",
    [{"documents": True}, {}, {"segment_length": NUM_TOKENS}],
    ids=["documents", "stream", "one batch"],
)
def test_every_epoch_is_whole(arguments):
    batches = make_batches(**{"documents": False, **arguments})
    steps = Steps(batches)
    history = make_model().fit(batches, epochs=3, verbose=0, callbacks=[steps])
    assert history.history["seen"] == [WHOLE] * 3
    assert steps.steps == [len(batches)] * 3
    assert steps.epochs == [0, 1, 2]


@pytest.mark.filterwarnings("error:Your input ran out of data")
@pytest.mark.parametrize("left", [1, 5])
@pytest.mark.parametrize("compiled_before", [False, True])
def test_epochs_after_a_resumed_one_are_whole(left, compiled_before):
    batches = make_batches()
    length = len(batches)
    model = make_model()
    if compiled_before:
        # The first fit after compile draws a batch to build the metrics.
        model.fit(make_batches(), verbose=0)
    batches.start_at(4, length - left)
    rest = sum_of_targets(batches)
    steps = Steps(batches)
    history = model.fit(batches, epochs=7, verbose=0, callbacks=[steps])
    assert steps.epochs == [4, 5, 6]
    assert steps.steps == [left, length, length]
    assert history.history["seen"] == [rest, WHOLE, WHOLE]
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


@pytest.mark.backend("tensorflow")
def test_tensorflow_reads_several_batches_at_once_on_one_device(monkeypatch):
    model, batches = make_model(), make_batches(False, segment_length=1)
    assert len(batches) == 25 and len(batches) % sequence_model._READ_AT_ONCE
    found = list(sequence_model.as_dataset(model, batches))
    for batch, expected in zip(found, batches, strict=True):
        for array, other in zip(*map(keras.tree.flatten, (batch, expected))):
            np.testing.assert_array_equal(array, other, strict=True)
    monkeypatch.setattr(distribution, "num_devices", lambda model: 2)
    assert sequence_model.as_dataset(model, batches) is batches


@pytest.mark.backend("torch")
def test_only_the_answers_of_recall_are_learnt():
    task = recall.MQAR(16, length=12, pairs=2)
    batches = recall.RecallBatches(task, rows=5, batch_size=2, fresh=True)
    model = LanguageModel(16, 4, [keras.layers.GRU(4)], memory=Attention(12))
    model.compile("sgd", weighted_metrics=[WeightedSum()])
    history = model.fit(batches, epochs=2, verbose=0).history["seen"]
    answers = []
    for epoch in range(2):
        batches.start_at(epoch)
        answers.append(sum_of_targets(batches))
    assert history == answers and answers[0] != answers[1]
    model.compile("sgd", weighted_metrics=["accuracy"])
    found = model.evaluate(batches, verbose=0, return_dict=True)
    right = sum(
        np.sum((logits == targets) * sample_weight)
        for inputs, targets, sample_weight in batches
        for logits in [np.argmax(keras.ops.convert_to_numpy(model(inputs)), -1)]
    )
    np.testing.assert_allclose(found["accuracy"], right / 10, atol=1e-6)
