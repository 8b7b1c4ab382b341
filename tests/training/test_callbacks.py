"""Learning-rate halving, NaN, throughput."""

import functools
import time

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


def small_model():
    model = LanguageModel(11, 4, [keras.layers.GRU(6)])
    model.compile(keras.optimizers.SGD(0.5))
    return model, Batches(np.arange(200) % 11, batch_size=2, segment_length=5)


class Spoil(keras.callbacks.Callback):
    """Puts NaN in a weight before a batch of the second epoch."""

    value = np.nan

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_begin(self, batch, logs=None):
        if self.epoch == 1 and batch == 3:
            head = self.model.head
            bias = keras.ops.convert_to_numpy(head.bias).copy()
            bias[2] = self.value
            head.bias.assign(bias)


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
    model, batches = small_model()
    good = []
    keep = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: good.append(model.get_weights())
    )
    stop = StopOnNaN()
    history = model.fit(
        batches, epochs=5, callbacks=[keep, stop, Spoil()], verbose=0
    )
    assert stop.stopped
    assert len(history.history["loss"]) == 2
    for weight, expected in zip(model.get_weights(), good[0]):
        assert np.isfinite(weight).all()
        np.testing.assert_array_equal(weight, expected)
    # The model is whole again: it can go on.
    assert np.isfinite(
        model.evaluate(batches, verbose=0, return_dict=True)["loss"]
    )


def test_a_perplexity_that_overflows_stops_too():
    model, batches = small_model()
    before = model.get_weights()
    model.compile(keras.optimizers.SGD(1e6))
    stop = StopOnNaN()
    fit = functools.partial(model.fit, batches, epochs=3, verbose=0)
    history = fit(validation_data=batches, callbacks=[stop]).history
    assert stop.stopped and len(history["loss"]) == 1
    for weight, expected in zip(model.get_weights(), before):
        np.testing.assert_array_equal(weight, expected)


@pytest.mark.backend("torch")
def test_a_checkpoint_tells_that_training_was_stopped(tmp_path):
    model, batches = small_model()
    stop = StopOnNaN()
    checkpoint = Checkpoint(tmp_path / "checkpoint.npz", batches, [stop])
    model.fit(
        batches, epochs=3, callbacks=[stop, Spoil(), checkpoint], verbose=0
    )
    assert stop.stopped
    model, batches = small_model()
    resumed = StopOnNaN()
    checkpoint = Checkpoint(tmp_path / "checkpoint.npz", batches, [resumed])
    model.fit(batches, epochs=3, callbacks=[resumed, checkpoint], verbose=0)
    assert resumed.stopped


@pytest.mark.backend("torch")
def test_training_goes_on_after_nan_with_adam():
    model, batches = small_model()
    model.compile(keras.optimizers.Adam(0.01))
    model.fit(batches, epochs=3, callbacks=[StopOnNaN(), Spoil()], verbose=0)
    history = model.fit(batches, epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()


@pytest.mark.backend("torch")
def test_nan_with_snapshots_within_the_epoch():
    model, batches = small_model()
    stop, ends = StopOnNaN(frequency=1), []
    keep = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: ends.append(model.get_weights())
    )
    model.fit(batches, epochs=5, callbacks=[keep, stop, Spoil()], verbose=0)
    assert stop.stopped
    assert np.any(model.get_weights()[0] != ends[0][0])
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


def test_nan_before_training_is_an_error():
    model, batches = small_model()
    model.head.bias.assign(np.full(11, np.nan))
    with pytest.raises(ValueError, match="not finite before training"):
        model.fit(batches, callbacks=[StopOnNaN()], verbose=0)
    with pytest.raises(ValueError, match="`frequency`"):
        StopOnNaN(frequency=0)


def test_early_stopping_rolls_back_to_the_best_weights():
    model, batches = small_model()
    kept = []
    keep = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: kept.append(
            (logs["val_perplexity"], model.get_weights())
        )
    )
    # More than two epochs take back.
    spoil = Spoil()
    spoil.value = 50.0
    stop = keras.callbacks.EarlyStopping(
        "val_perplexity", patience=2, mode="min", restore_best_weights=True
    )
    validation = Batches(np.arange(60) % 11, batch_size=3, segment_length=5)
    model.fit(
        batches,
        validation_data=validation,
        epochs=12,
        callbacks=[keep, stop, spoil],
        verbose=0,
    )
    assert len(kept) == 3
    best = min(kept, key=lambda pair: pair[0])[1]
    trained = len(model.trainable_weights)
    for weight, expected in zip(model.get_weights()[:trained], best):
        np.testing.assert_array_equal(weight, expected)


@pytest.mark.backend("torch")
def test_throughput_counts_tokens_of_the_epoch():
    model, batches = small_model()
    history = model.fit(
        batches, epochs=2, callbacks=[Throughput(batches)], verbose=0
    ).history
    for seconds, rate in zip(history["seconds"], history["tokens_per_second"]):
        assert seconds > 0
        assert seconds * rate == pytest.approx(200)
    batches.start_at(0, 15)
    logs = model.fit(batches, callbacks=[Throughput(batches)], verbose=0)
    (seconds,), (rate,) = (
        logs.history[name] for name in ("seconds", "tokens_per_second")
    )
    assert seconds * rate == pytest.approx(50)


@pytest.mark.parametrize(
    "steps, said",
    [
        (
            1000,
            "about 2 minutes; 3 epochs, if training does not stop before, 5",
        ),
        (20, "about 2 seconds; 2 epochs, if training does not stop before, 4"),
    ],
)
def test_the_estimate_leaves_out_slow_first_batches(
    monkeypatch, capsys, steps, said
):
    """Of a long epoch, and of several short ones."""
    estimate = TimeEstimate()
    # A resumed run, after the first two epochs.
    estimate.set_params({"steps": steps, "epochs": 5})
    clock = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: clock)
    for place in range(50):
        clock += 1.0 if place < 3 else 0.1
        estimate.on_epoch_begin(2 + place // steps)
        estimate.on_train_batch_end(place % steps)
    (line,) = capsys.readouterr().out.strip().splitlines()
    assert line.startswith(f"An epoch takes {said}")
