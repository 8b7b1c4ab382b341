"""Exact resume, and what a checkpoint refuses."""

import json
import pathlib
import signal
import subprocess
import sys

import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras.data import Batches
from memlm_keras.memory import NGram
from memlm_keras.training import Checkpoint

SCRIPT = pathlib.Path(__file__).with_name("resumed_run.py")


def run(folder, kill_at=-1):
    return subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), str(kill_at)],
        capture_output=True,
        text=True,
    )


def test_killed_run_resumes_to_the_same_weights(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    result = run(whole)
    assert result.returncode == 0, result.stderr
    # 30 batches an epoch: killed in the second epoch, past its checkpoint.
    result = run(killed, kill_at=47)
    assert result.returncode == -signal.SIGKILL, result.stderr
    assert not (killed / "weights.npz").exists()
    with np.load(killed / "checkpoint.npz") as saved:
        meta = json.loads(str(saved["meta"]))
    assert meta["epoch"] == 1 and 0 < meta["batch"] < 30
    result = run(killed)
    assert result.returncode == 0, result.stderr

    tolerance = 1e-6 if keras.backend.backend() == "torch" else 0.0
    with np.load(whole / "weights.npz") as expected:
        with np.load(killed / "weights.npz") as received:
            for name in expected.files:
                np.testing.assert_allclose(
                    received[name], expected[name], rtol=0, atol=tolerance
                )
    history = json.loads((whole / "history.json").read_text())
    resumed = json.loads((killed / "history.json").read_text())
    assert history.keys() == resumed.keys()
    for name, values in history.items():
        np.testing.assert_allclose(
            resumed[name], values, rtol=10 * tolerance, err_msg=name
        )


def small_run(path, units=6, callbacks=(), **kwargs):
    model = LanguageModel(11, 4, [keras.layers.LSTM(units)], NGram(2))
    model.compile("sgd")
    batches = Batches(np.arange(80) % 11, **{"batch_size": 2, **kwargs})
    return model, batches, Checkpoint(path, batches, callbacks)


def test_ended_run_trains_no_further(tmp_path):
    path = tmp_path / "checkpoint.npz"
    for _ in range(2):
        model, batches, checkpoint = small_run(path)
        stop = keras.callbacks.EarlyStopping("loss", patience=0, min_delta=1e6)
        seen = []
        count = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs, seen=seen: seen.append(batch)
        )
        model.fit(
            batches,
            epochs=5,
            callbacks=[stop, count, checkpoint],
            verbose=0,
        )
    assert checkpoint.resumed_from == (2, 0)
    assert seen == []


def test_ended_run_goes_on_with_more_patience(tmp_path):
    """As if it had had that patience from the beginning."""

    def train(path, patience):
        keras.utils.set_random_seed(3)
        stop = keras.callbacks.EarlyStopping(
            "loss", patience=patience, min_delta=1e6
        )
        model, batches, checkpoint = small_run(path, callbacks=[stop])
        model.fit(batches, epochs=9, callbacks=[stop, checkpoint], verbose=0)
        return model.get_weights(), stop.stopped_epoch, checkpoint

    whole, stopped, _ = train(tmp_path / "whole.npz", 4)
    assert stopped == 4
    _, stopped, _ = train(tmp_path / "resumed.npz", 1)
    assert stopped == 1
    resumed, stopped, checkpoint = train(tmp_path / "resumed.npz", 4)
    assert checkpoint.resumed_from == (2, 0)
    assert stopped == 4
    for weight, expected in zip(resumed, whole, strict=True):
        np.testing.assert_allclose(weight, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.99])
def test_damaged_checkpoint_is_named(tmp_path, kept):
    path = tmp_path / "checkpoint.npz"
    model, batches, checkpoint = small_run(path)
    model.fit(batches, callbacks=[checkpoint], verbose=0)
    content = path.read_bytes()
    size = kept if isinstance(kept, int) else int(kept * len(content))
    path.write_bytes(content[:size])
    with pytest.raises(ValueError, match="checkpoint.npz is damaged.*Remove"):
        small_run(path)


def test_changed_byte_is_found(tmp_path):
    path = tmp_path / "checkpoint.npz"
    model, batches, checkpoint = small_run(path)
    model.fit(batches, callbacks=[checkpoint], verbose=0)
    content = bytearray(path.read_bytes())
    # In the middle of the first array's data, past its header.
    content[content.index(b"\x93NUMPY") + 200] ^= 0xFF
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="is damaged"):
        small_run(path)


def test_other_batches_and_models_are_refused(tmp_path):
    path = tmp_path / "checkpoint.npz"
    model, batches, checkpoint = small_run(path)
    model.fit(batches, callbacks=[checkpoint], verbose=0)
    with pytest.raises(ValueError, match="other batches.*segment_length"):
        small_run(path, segment_length=3)
    model, batches, checkpoint = small_run(path, units=8)
    with pytest.raises(ValueError, match="another model.*shape"):
        model.fit(batches, epochs=2, callbacks=[checkpoint], verbose=0)


def test_other_callbacks_and_backends_are_refused(tmp_path):
    path = tmp_path / "checkpoint.npz"
    model, batches, checkpoint = small_run(path)
    model.fit(batches, callbacks=[checkpoint], verbose=0)
    stop = keras.callbacks.EarlyStopping("loss")
    with pytest.raises(ValueError, match=r"callbacks \[\].*EarlyStopping"):
        Checkpoint(path, batches, [stop])
    with np.load(path) as saved:
        arrays = dict(saved)
    meta = json.loads(str(arrays.pop("meta")))
    meta["backend"] = "another"
    np.savez(path, meta=np.array(json.dumps(meta)), **arrays)
    with pytest.raises(ValueError, match="backend another.*Received"):
        small_run(path)


def test_unwritable_folder_and_frequency(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    model, batches, checkpoint = small_run(tmp_path / "file" / "c.npz")
    with pytest.raises(OSError, match="file"):
        model.fit(batches, callbacks=[checkpoint], verbose=0)
    with pytest.raises(ValueError, match="`frequency`.*Received: frequency=0"):
        Checkpoint(tmp_path / "c.npz", batches, frequency=0)
