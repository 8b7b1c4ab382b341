"""Tests that training resumes exactly, and that wrong checkpoints fail."""

import contextlib
import functools
import json
import pathlib
import signal

import keras
import numpy as np
import pytest
from layers import assert_close
from told import python

from memlm_keras import LanguageModel
from memlm_keras.data import Batches
from memlm_keras.data import PairBatches
from memlm_keras.memory import NGram
from memlm_keras.training import Checkpoint
from memlm_keras.training import halve_after

pytestmark = pytest.mark.backend

SCRIPT = pathlib.Path(__file__).with_name("resumed_run.py")


def run(folder, kill_at=-1):
    told = python(SCRIPT, folder, kill_at, status=None)
    assert told.status in (0, -signal.SIGKILL), told.err
    return told.status


@pytest.mark.slow
def test_killed_run_resumes_to_the_same_weights(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    assert run(whole) == 0
    # Batch 47 is in the second epoch of 30 batches, and follows a checkpoint
    # in this epoch.
    assert run(killed, kill_at=47) != 0
    assert not (killed / "weights.npz").exists()
    with np.load(killed / "checkpoint.npz") as saved:
        meta = json.loads(str(saved["meta"]))
    assert meta["epoch"] == 1 and 0 < meta["batch"] < 30
    # Kill the run again at a random time: in a step, a save or validation.
    if run(killed, kill_at=0.5 * np.random.default_rng().random() + 1e-3):
        assert run(killed) == 0

    # On TensorFlow, the last bit of a weight differs in rare runs.
    tolerances = {"jax": 0.0, "tensorflow": 1e-7, "torch": 1e-6}
    tolerance = tolerances[keras.backend.backend()]
    with np.load(whole / "weights.npz") as expected:
        with np.load(killed / "weights.npz") as received:
            assert_close(dict(received), dict(expected), 0, tolerance)
    history = json.loads((whole / "history.json").read_text())
    resumed = json.loads((killed / "history.json").read_text())
    assert history.keys() == resumed.keys()
    for name, values in history.items():
        np.testing.assert_allclose(
            resumed[name], values, rtol=10 * tolerance, err_msg=name
        )


TOKENS = np.arange(80) % 11


def small_run(
    path, units=6, callbacks=(), optimizer="sgd", rate=None, **arguments
):
    model = LanguageModel(11, 4, [keras.layers.LSTM(units)], NGram(2))
    model.compile(optimizer)
    batches = Batches(**{"tokens": TOKENS, "batch_size": 2, **arguments})
    checkpoint = Checkpoint(path, batches, callbacks, learning_rate=rate)
    return model, batches, checkpoint


def resume(path, epochs=2, validation=None, **arguments):
    """Trains a new model from a checkpoint, and returns the model."""
    model, batches, checkpoint = small_run(path, **arguments)
    callbacks = [*checkpoint.callbacks, checkpoint]
    fit = functools.partial(model.fit, batches, epochs=epochs, verbose=0)
    fit(callbacks=callbacks, validation_data=validation)
    return model


class Interrupt(keras.callbacks.Callback):
    """Raises `KeyboardInterrupt` after a number of batches."""

    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def on_train_batch_end(self, batch, logs=None):
        self.batches -= 1
        if not self.batches:
            raise KeyboardInterrupt


@pytest.mark.backend(one_in=2)
@pytest.mark.parametrize(
    "dtype, arguments",
    [
        ("float32", {"gradient_accumulation_steps": 2}),
        ("float32", {"use_ema": True, "ema_momentum": 0.9}),
        ("mixed_float16", {}),
    ],
    ids=["accumulated_gradients", "averaged_weights", "scaled_loss"],
)
def test_optimizers_resume_within_an_epoch(tmp_path, dtype, arguments):
    def train(path, batches_to_train=0):
        keras.utils.set_random_seed(3)
        model = LanguageModel(11, 4, [keras.layers.LSTM(6)], dtype=dtype)
        model.compile(keras.optimizers.Adam(0.01, **arguments))
        batches = Batches(TOKENS, 2, 5)
        checkpoint = Checkpoint(path, batches, frequency=3)
        callbacks = [checkpoint, Interrupt(batches_to_train)]
        with contextlib.suppress(KeyboardInterrupt):
            model.fit(batches, epochs=3, callbacks=callbacks, verbose=0)
        return model, checkpoint

    whole, _ = train(tmp_path / "whole.npz")
    scaled = isinstance(whole.optimizer, keras.optimizers.LossScaleOptimizer)
    assert scaled == (dtype == "mixed_float16")
    train(tmp_path / "resumed.npz", batches_to_train=13)
    resumed, checkpoint = train(tmp_path / "resumed.npz")
    assert checkpoint.resumed_from == (1, 3)
    assert_close(resumed.get_weights(), whole.get_weights(), atol=1e-6)
    # The loss of a resumed epoch includes the batches before the checkpoint.
    losses, later = (m.history.history["loss"] for m in (whole, resumed))
    np.testing.assert_allclose(later, losses[1:], rtol=1e-4)


def test_a_loss_scale_optimizer_resumes_under_a_global_policy(tmp_path):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        resume(tmp_path / "checkpoint.npz", epochs=1)
        model = resume(tmp_path / "checkpoint.npz", epochs=2)
    finally:
        keras.config.set_dtype_policy(before)
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)


@pytest.fixture
def saved(tmp_path):
    """Returns the path of a checkpoint from the end of the first epoch."""
    path = tmp_path / "checkpoint.npz"
    resume(path, epochs=1)
    return path


@pytest.mark.backend("torch")
def test_ended_run_goes_on_with_more_patience(tmp_path):
    def train(path, patience):
        keras.utils.set_random_seed(3)
        stop = keras.callbacks.EarlyStopping(
            "loss", patience=patience, min_delta=1e6
        )
        model, batches, checkpoint = small_run(path, callbacks=[stop])
        model.fit(batches, epochs=9, callbacks=[stop, checkpoint], verbose=0)
        return model, stop.stopped_epoch, checkpoint

    whole, stopped, _ = train(tmp_path / "whole.npz", 4)
    assert stopped == 4
    _, stopped, _ = train(tmp_path / "resumed.npz", 1)
    assert stopped == 1
    again, _, checkpoint = train(tmp_path / "resumed.npz", 1)
    assert checkpoint.resumed_from == (2, 0) and not again.history.history
    resumed, stopped, checkpoint = train(tmp_path / "resumed.npz", 4)
    assert checkpoint.resumed_from == (2, 0)
    assert stopped == 4
    assert_close(
        *(model.get_weights() for model in (resumed, whole)), 1e-5, 1e-7
    )


def contents(path):
    with np.load(path) as archive:
        return {key: archive[key] for key in archive.files}


def damaged_copies(whole, random):
    """Yields copies of a file with cut, changed, added or missing bytes."""
    size = len(whole)
    for kept in (0, 1, 10, size // 2, size - 1):
        yield whole[:kept]
    yield bytes(size)
    yield b"\x93NUMPY" + whole
    yield b"not a checkpoint"
    for _ in range(60):
        copy = bytearray(whole)
        copy[random.integers(size)] ^= 1 << int(random.integers(8))
        yield bytes(copy)
    # The end of a ZIP archive contains the names and positions of its members.
    for _ in range(60):
        copy = bytearray(whole)
        copy[-int(random.integers(1, 2000))] = int(random.integers(256))
        yield bytes(copy)
    for _ in range(40):
        begin, length = random.integers(size), random.integers(1, 600)
        yield whole[:begin] + random.bytes(length) + whole[begin + length :]
    for _ in range(40):
        begin, length = random.integers(size), random.integers(1, 600)
        yield whole[:begin] + whole[begin + length :]


@pytest.mark.backend("torch")
def test_damaged_checkpoints_are_named(saved, random):
    whole = saved.read_bytes()
    expected = contents(saved)
    batches = small_run(saved.with_name("other.npz"))[1]
    refused = 0
    for copy in damaged_copies(whole, random):
        saved.write_bytes(copy)
        try:
            Checkpoint(saved, batches)
        except ValueError as error:
            message = str(error)
            assert "checkpoint.npz is damaged" in message
            assert "Remove it to start again" in message
            assert "\n" not in message
            refused += 1
        else:
            # Damage of redundant or unused parts of an archive does no harm.
            received = contents(saved)
            assert received.keys() == expected.keys()
            for name, array in expected.items():
                np.testing.assert_array_equal(received[name], array)
    assert refused > 150


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays.pop("counter_0"),
        lambda arrays: arrays.update(model_0=arrays["model_0"].T.copy()),
        lambda arrays: arrays.update(meta=np.array("{}")),
    ],
)
@pytest.mark.backend("torch")
def test_wrong_arrays_are_found(saved, change):
    arrays = contents(saved)
    change(arrays)
    np.savez(saved, **arrays)
    with pytest.raises(ValueError, match="checkpoint.npz is damaged.*Remove"):
        small_run(saved)


@pytest.mark.backend("torch")
def test_what_belongs_to_another_run_is_refused(saved, monkeypatch):
    small_run(saved, tokens=TOKENS.astype("int16"))
    # This text differs from `TOKENS` in one token.
    other = np.where(np.arange(80) == 40, 5, TOKENS)
    stop = keras.callbacks.EarlyStopping("loss")
    for arguments, message in (
        ({"segment_length": 3}, "other batches.*segment_length is 3"),
        ({"tokens": other}, "other batches: checksum_of_tokens"),
        ({"document_starts": [0, 40]}, "checksum_of_documents"),
        ({"callbacks": [stop]}, r"callbacks \[\].*EarlyStopping"),
    ):
        with pytest.raises(ValueError, match=message):
            small_run(saved, **arguments)
    with pytest.raises(ValueError, match="another model: for .*shape"):
        resume(saved, units=8)
    with monkeypatch.context() as patch:
        patch.setattr(keras.backend, "backend", lambda: "another")
        with pytest.raises(ValueError, match="Received: backend another"):
            small_run(saved)
    arrays = contents(saved)
    meta = {**json.loads(str(arrays["meta"])), "format": 1}
    np.savez(saved, **{**arrays, "meta": np.array(json.dumps(meta))})
    with pytest.raises(ValueError, match="is of format 1; this version reads"):
        small_run(saved)


def test_other_pairs_of_the_same_number_are_refused():
    pairs = [[1, 2], [3]], [[4], [5, 6]], [0, 1]
    identity = PairBatches(*pairs).identity()
    assert identity == PairBatches(*pairs).identity()
    for other in (
        ([[1, 2], [4]], [[4], [5, 6]], [0, 1]),
        ([[1], [2, 3]], [[4], [5, 6]], [0, 1]),
        ([[1, 2], [3]], [[4], [5, 6]], [1, 1]),
    ):
        assert PairBatches(*other).identity() != identity


@pytest.mark.backend("torch")
def test_another_optimizer_is_refused(tmp_path):
    path = tmp_path / "checkpoint.npz"
    sgd = keras.optimizers.SGD
    resume(path, epochs=1, optimizer=keras.optimizers.Adam(0.01))
    with pytest.raises(
        ValueError, match="optimizer: class_name is 'SGD'.*Adam"
    ):
        resume(path, optimizer=sgd(0.01))
    resume(path, optimizer=keras.optimizers.Adam(0.01))
    path.unlink()
    resume(path, epochs=1, optimizer=sgd(0.01, momentum=0.9))
    with pytest.raises(ValueError, match="momentum is 0.5, but in the.* 0.9"):
        resume(path, optimizer=sgd(0.01, momentum=0.5))
    with pytest.raises(ValueError, match="global_clipnorm is 5.0, but.* None"):
        resume(path, optimizer=sgd(0.01, momentum=0.9, global_clipnorm=5.0))


@pytest.mark.backend("torch")
def test_another_learning_rate_is_refused_or_chosen(tmp_path):
    path = tmp_path / "checkpoint.npz"

    def train(epochs, rate, learning_rate=None):
        schedule = keras.callbacks.LearningRateScheduler(halve_after(1))
        model = resume(
            path,
            epochs=epochs,
            optimizer=keras.optimizers.SGD(rate),
            callbacks=[schedule],
            rate=learning_rate,
        )
        return float(model.optimizer.learning_rate)

    assert train(3, 0.4) == pytest.approx(0.1)
    message = "first learning rate of 0.4 and a last one of 0.1. .* 0.3. "
    with pytest.raises(ValueError, match=message + ".*'checkpoint'.*'model'"):
        train(4, 0.3)
    assert train(4, 0.4) == pytest.approx(0.05)
    # The same model trains again, so its learning rate is the last one.
    assert train(5, 0.05) == pytest.approx(0.025)
    assert train(6, 0.3, "checkpoint") == pytest.approx(0.0125)
    assert train(7, 0.8, "model") == pytest.approx(0.4)
    assert train(8, 0.8) == pytest.approx(0.2)
    with pytest.raises(ValueError, match="'checkpoint', 'model', None.*'it'"):
        train(9, 0.8, "it")


def test_schedules_of_the_learning_rate(tmp_path):
    path = tmp_path / "checkpoint.npz"

    def decay(rate):
        schedule = keras.optimizers.schedules.ExponentialDecay(rate, 10, 0.5)
        return keras.optimizers.SGD(schedule)

    resume(path, epochs=1, optimizer=decay(0.2))
    for other in (decay(0.1), keras.optimizers.SGD(0.1)):
        with pytest.raises(ValueError, match="rate of ExponentialDecay"):
            resume(path, optimizer=other, rate="checkpoint")
    resume(path, optimizer=decay(0.2))
    model = resume(
        path, epochs=3, optimizer=keras.optimizers.SGD(0.1), rate="model"
    )
    assert float(model.optimizer.learning_rate) == pytest.approx(0.1)
    assert int(model.optimizer.iterations) == 6


@pytest.mark.backend("torch")
def test_an_epoch_begun_anew_has_metrics_of_its_own(tmp_path):
    def losses(path, stops):
        found = []
        for epochs in stops:
            keras.utils.set_random_seed(7)
            model = resume(path, epochs, validation=Batches(TOKENS[:30], 2))
            found += model.history.history["loss"]
        return found

    whole = losses(tmp_path / "whole.npz", [3])
    parts = losses(tmp_path / "parts.npz", [1, 2, 3])
    np.testing.assert_allclose(parts, whole, rtol=1e-6)


def test_unwritable_folder_and_frequency(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    model, batches, checkpoint = small_run(tmp_path / "file" / "c.npz")
    # Like all atomic writes, saving reports a path that cannot be written.
    with pytest.raises(OSError, match="Cannot write .*c.npz"):
        model.fit(batches, callbacks=[checkpoint], verbose=0)
    with pytest.raises(ValueError, match="`frequency`.*Received: frequency=0"):
        Checkpoint(tmp_path / "c.npz", batches, frequency=0)
