"""Tests callbacks for learning rates, NaN and throughput."""

import time
import types

import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras.data import Batches
from memlm_keras.training import Checkpoint
from memlm_keras.training import StopOnNaN
from memlm_keras.training import Throughput
from memlm_keras.training import halve_after
from memlm_keras.training.callbacks import TimeEstimate

pytestmark = pytest.mark.backend


class Spoil(keras.callbacks.Callback):
    """Sets a weight to `value` before a batch of the second epoch."""

    def __init__(self, value=np.nan):
        super().__init__()
        self.value = value

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_begin(self, batch, logs=None):
        if self.epoch == 1 and batch == 3:
            bias = np.array(self.model.head.get_weights()[-1])
            bias[2] = self.value
            self.model.head.bias.assign(bias)


class Keep(keras.callbacks.Callback):
    """Collects the weights after each epoch."""

    def on_train_begin(self, logs=None):
        self.weights = []

    def on_epoch_end(self, epoch, logs=None):
        self.weights.append(self.model.get_weights())


BATCHES = Batches(np.arange(200) % 11, batch_size=2, segment_length=5)


def small_model(optimizer=None):
    model = LanguageModel(11, 4, [keras.layers.GRU(6)])
    model.compile(optimizer or keras.optimizers.SGD(0.5))
    return model


def fit(model, *callbacks, epochs=3, batches=BATCHES, **arguments):
    return model.fit(
        batches, epochs=epochs, callbacks=callbacks, verbose=0, **arguments
    ).history


def require_weights(model, expected):
    for weight, value in zip(model.get_weights(), expected):
        assert np.isfinite(weight).all()
        np.testing.assert_array_equal(weight, value)


def test_halve_after_follows_tran():
    rate, rates = 1.0, []
    schedule = halve_after(4)
    for epoch in range(7):
        rate = schedule(epoch, rate)
        rates.append(rate)
    assert rates == [1.0, 1.0, 1.0, 1.0, 0.5, 0.25, 0.125]


@pytest.mark.parametrize(
    "arguments, message",
    [((-1,), "`epochs`"), ((3, 0.0), "`factor`"), ((3, 1.0), "`factor`")],
)
def test_halve_after_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        halve_after(*arguments)


def test_nan_stops_with_the_weights_of_the_epoch_before():
    model = small_model(keras.optimizers.Adam(0.01))
    keep, stop = Keep(), StopOnNaN()
    history = fit(model, keep, stop, Spoil(), epochs=5)
    assert stop.stopped and len(history["loss"]) == 2
    require_weights(model, keep.weights[0])
    assert np.isfinite(fit(model, epochs=1)["loss"]).all()


def test_a_perplexity_that_overflows_stops_too():
    model, stop = small_model(keras.optimizers.SGD(1e6)), StopOnNaN()
    before = model.get_weights()
    history = fit(model, stop, validation_data=BATCHES)
    assert stop.stopped and len(history["loss"]) == 1
    require_weights(model, before)


@pytest.mark.backend("torch")
def test_a_checkpoint_tells_that_training_was_stopped(tmp_path):
    for others in ([Spoil()], []):
        stop = StopOnNaN()
        checkpoint = Checkpoint(tmp_path / "checkpoint.npz", BATCHES, [stop])
        fit(small_model(), stop, *others, checkpoint)
        assert stop.stopped


@pytest.mark.backend("torch")
def test_nan_with_snapshots_within_the_epoch():
    model, keep, stop = small_model(), Keep(), StopOnNaN(frequency=1)
    fit(model, keep, stop, Spoil())
    assert stop.stopped
    assert np.any(model.get_weights()[0] != keep.weights[0][0])
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


def test_nan_before_training_is_an_error():
    model = small_model()
    model.head.bias.assign(np.full(11, np.nan))
    with pytest.raises(ValueError, match="not finite before training"):
        fit(model, StopOnNaN())
    with pytest.raises(ValueError, match="`frequency`"):
        StopOnNaN(frequency=0)


@pytest.mark.backend("torch")
def test_throughput_counts_tokens_of_the_epoch():
    batches = Batches(np.arange(200) % 11, batch_size=2, segment_length=5)
    model, throughput = small_model(), Throughput(batches)
    for start, epochs, count in ((0, 2, 200), (15, 1, 50)):
        batches.start_at(0, start)
        logs = fit(model, throughput, batches=batches, epochs=epochs)
        pairs = zip(logs["seconds"], logs["tokens_per_second"], strict=True)
        for seconds, rate in pairs:
            assert seconds > 0 and seconds * rate == pytest.approx(count)


@pytest.mark.parametrize(
    "steps, unit, epochs, total",
    [(1000, "minutes", 3, 5), (20, "seconds", 2, 4)],
)
def test_the_estimate_leaves_out_slow_first_batches(
    monkeypatch, capsys, steps, unit, epochs, total
):
    batches = types.SimpleNamespace(batches_per_epoch=steps)
    estimate = TimeEstimate(batches)
    estimate.set_params({"epochs": 6})
    clock = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: clock)
    # The run resumes ten batches before the end of the third epoch.
    for place in range(steps - 10, steps + 40):
        clock += 1.0 if place - steps in (-10, -9, -8, -3) else 0.1
        estimate.on_epoch_begin(2 + place // steps)
        estimate.on_train_batch_end(place % steps)
    (line,) = capsys.readouterr().out.strip().splitlines()
    said = f"about 2 {unit}; {epochs} epochs, if training does not stop early"
    assert line.startswith(f"An epoch takes {said}, {total}")
