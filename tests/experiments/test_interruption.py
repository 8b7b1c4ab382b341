"""Tests signals whose exception other code catches, and interrupted runs."""

import os
import signal
import sys
import time
import zipfile

import keras
import pytest
from keras.src.utils import python_utils
from layers import assert_close

import memlm_keras
from memlm_keras.experiments import Experiment
from memlm_keras.experiments import RunFolder
from memlm_keras.experiments import process
from memlm_keras.training import checkpoint

from .conftest import SMALL


class Signals:
    """Sends this process a signal when Python collects the object."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        # Python handles the signal during this sleep.
        time.sleep(0.01)


def test_a_signal_lost_in_the_garbage_collector(monkeypatch):
    monkeypatch.setattr(process, "_AGAIN_AFTER", 0.2)
    said = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    before = sys.unraisablehook
    with pytest.raises(process.Interrupted):
        with process.signals_raise():
            Signals()
            time.sleep(60)
    assert not said and sys.unraisablehook is before


def test_a_lost_signal_raises_again(monkeypatch):
    monkeypatch.setattr(process, "_AGAIN_AFTER", 0.2)
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGALRM)
    happened = []
    with pytest.raises(process.Interrupted) as received:
        with process.signals_raise():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            except process.Interrupted:
                happened.append("lost")
            try:
                time.sleep(60)
            except process.Interrupted:
                happened.append("raised again")
                # A signal is not raised again while its exception is handled.
                time.sleep(0.5)
                happened.append("left")
                raise
    assert happened == ["lost", "raised again", "left"]
    assert received.value.number == signal.SIGTERM
    time.sleep(0.3)
    after = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGALRM)
    assert after == before


def test_a_signal_where_an_archive_is_written(tmp_path):
    with pytest.raises(process.Interrupted) as received:
        with process.signals_raise():
            with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
                # An open member makes closing the archive raise an error.
                member = archive.open("member", "w")
                member.write(b"half")
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(60)
    assert isinstance(received.value.__cause__, ValueError)
    assert received.value.number == signal.SIGTERM
    member.close()
    archive.close()
    with pytest.raises(ValueError, match="other"), process.signals_raise():
        raise ValueError("other")


@pytest.mark.parametrize(
    "split, number, signals, step",
    [
        ("train", signal.SIGTERM, 1, 6),
        ("validation", signal.SIGINT, 1, 20),
        ("train", signal.SIGTERM, 2, 6),
    ],
    ids=["train", "validation", "at_once"],
)
@pytest.mark.backend
def test_an_interrupted_run_keeps_its_batches(
    split, number, signals, step, memlm, folder, monkeypatch
):
    """With two signals, the second one raises at once. This test loses the
    exception, as code of Keras that catches every error would do."""
    monkeypatch.setattr(process, "_AGAIN_AFTER", 1000)
    # Restore SIGINT, which shells ignore in background processes.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    convert, calls = python_utils.pythonify_logs, []

    def interrupt(logs):
        calls.append(logs)
        if len(calls) == step:
            try:
                for _ in range(signals):
                    os.kill(os.getpid(), number)
                    time.sleep(0.01)
            except BaseException:
                assert signals == 2
        return convert(logs)

    name = "fit" if split == "train" else "evaluate"
    method = getattr(memlm_keras.LanguageModel, name)

    def patched(*args, **kwargs):
        context.setattr(python_utils, "pythonify_logs", interrupt)
        return method(*args, **kwargs)

    command = ("train", "key_value_predict", "--dataset=text", "--epochs=3")
    command = (*command, "--dropout=0.3", *SMALL)
    with monkeypatch.context() as context:
        context.setattr(memlm_keras.LanguageModel, name, patched)
        told = memlm(*command, status=128 + number)
    assert f" no checkpoint: memlm {' '.join(command)}\n" in told.err
    assert step <= len(calls) < step + 4
    (path,) = (folder / "runs").iterdir()
    assert not (path / "results.json").exists()
    if signals == 2:
        assert not (path / "checkpoint.npz").exists()
        return
    batch = checkpoint.read(path / "checkpoint.npz")["meta"]["batch"]
    experiment = Experiment(**RunFolder(path).recipe())
    batches = experiment.corpus.batches("train", 4, 20).batches_per_epoch
    assert batch == batches if split == "validation" else 0 < batch < batches
    memlm(*command, "--run_dir=whole")
    told = memlm(*command)
    assert "Continuing the run" in told.out
    runs = [RunFolder(p / path.name) for p in (folder / "whole", path.parent)]
    (expected, logged), (weights, log) = [
        (run.model().get_weights(), run.log()) for run in runs
    ]
    exact = keras.backend.backend() == "jax"
    assert_close(weights, expected, 0, 0 if exact else 1e-6)
    for row, logged_row in zip(log, logged, strict=True):
        for each in ("loss", "val_perplexity", "learning_rate"):
            if each in row:
                assert row[each] == pytest.approx(logged_row[each], rel=1e-5)
