"""Fixtures with a small text, and calls of `memlm` like those of users."""

import json
import shutil

import keras
import pytest
from corpus_files import write_splits

import memlm_keras
from memlm_keras.experiments import command_line
from memlm_keras.experiments import measurements

NAME = "text-daniluk2017-lstm-scale0.02-batch_size4-seed0"
SMALL = ("--scale=0.02", "--batch_size=4", "--verbose=2")


def results_of(folder):
    """Returns the content of a run folder's `results.json`."""
    return json.loads((folder / "results.json").read_text())


@pytest.fixture
def memlm(folder, memlm_command):
    """`memlm(*arguments)`: runs `memlm` in the text's folder; returns the exit
    status and the output.

    The exit status must be `status`, and an error message must be one line.
    """

    def call(*arguments, status=0):
        told = memlm_command(*arguments)
        assert told.status == status, told.err or told.out
        assert status not in (1, 2) or told.err.count("\n") == 1, told.err
        return told

    return call


@pytest.fixture
def refused(memlm):
    """`refused(message, *arguments)`: requires that `memlm` fails with a usage
    error. ` ... ` in the message stands for any words.
    """

    def call(message, *arguments):
        told = memlm(*arguments, status=2)
        assert all(part in told.err for part in message.split(" ... ")), told
        return told

    return call


@pytest.fixture
def train(memlm):
    """`train(preset, *flags)`: trains a small run of one epoch."""

    def call(preset, *arguments, dataset="text", epochs=1):
        flags = (f"--dataset={dataset}", f"--epochs={epochs}")
        return memlm("train", preset, *flags, *SMALL, *arguments)

    return call


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Makes a folder with a text, a cache and a finished run of one epoch."""
    folder = tmp_path_factory.mktemp("finished")
    write_splits(folder / "text", unknown=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMLM_KERAS_HOME", str(folder / "cache"))
        patch.setenv("KERAS_BACKEND", keras.backend.backend())
        patch.chdir(folder)
        command = ["train", "daniluk2017/lstm", "--dataset=text", "--epochs=1"]
        assert command_line.main([*command, *SMALL]) == 0
    return folder


@pytest.fixture
def run(finished, folder):
    """Copies the finished run of one epoch for a test; returns its folder."""
    shutil.copytree(finished, folder, dirs_exist_ok=True)
    return folder / "runs" / NAME


@pytest.fixture
def few_segments(monkeypatch):
    """Makes dynamic evaluation faster by fewer, longer segments."""
    monkeypatch.setattr(measurements, "_DYNAMIC", {"steps": 20, "segments": 5})


@pytest.fixture(scope="session")
def classifier(tmp_path_factory):
    """Saves an untrained classifier; returns the path of its file."""
    path = tmp_path_factory.mktemp("classifier") / "pairs.keras"
    memlm_keras.EntailmentClassifier.from_preset(
        "weissenborn2016/lstm_attention",
        vocabulary=memlm_keras.data.Vocabulary(["the", "man", "sea"]),
        labels=("yes", "no"),
        scale=0.02,
    ).save(path)
    return path
