"""Signals whose exceptions are lost are raised again."""

import os
import signal
import sys
import time
import zipfile

import pytest
from keras.src.utils import python_utils

import memlm_keras
from memlm_keras.experiments import process

from .conftest import SMALL


class Signals:
    """An object that sends this process a signal when it is collected."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        # The signal is handled before this ends.
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
                # What is left behind in order is let alone.
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
                # Left open, it makes closing the archive an error.
                member = archive.open("member", "w")
                member.write(b"half")
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(60)
    assert isinstance(received.value.__cause__, ValueError)
    assert received.value.number == signal.SIGINT
    with pytest.raises(ValueError, match="other"), process.signals_raise():
        raise ValueError("other")


@pytest.mark.parametrize("split", ["train", "validation"])
@pytest.mark.backend
def test_training_ends_with_the_step_that_lost_a_signal(
    split, memlm, folder, monkeypatch
):
    """As all do that come where Keras waits for the numbers of a step."""
    monkeypatch.setattr(process, "_AGAIN_AFTER", 1000)
    convert, calls = python_utils.pythonify_logs, []

    def lose(logs):
        calls.append(logs)
        if len(calls) == 20:
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(0.01)
            except BaseException:
                pass
        return convert(logs)

    name = "fit" if split == "train" else "evaluate"
    method = getattr(memlm_keras.LanguageModel, name)

    def patched(*args, **kwargs):
        monkeypatch.setattr(python_utils, "pythonify_logs", lose)
        return method(*args, **kwargs)

    monkeypatch.setattr(memlm_keras.LanguageModel, name, patched)
    flags = ("--dataset=text", "--epochs=3", *SMALL)
    told = memlm("train", "daniluk2017/lstm", *flags)
    assert told.status == 143 and "The same command goes on" in told.err
    assert 20 <= len(calls) < 24
