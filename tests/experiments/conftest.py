"""A small text, and `memlm` called as users call it."""

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
    """Content of `results.json` of a run folder."""
    return json.loads((folder / "results.json").read_text())


@pytest.fixture
def memlm(folder, memlm_command):
    """`memlm(*arguments)`: `Told` of the command, run where the text is.

    It ends with `status`; an error is one line.
    """

    def call(*arguments, status=0):
        told = memlm_command(*arguments)
        assert told.status == status, told.err or told.out
        assert status not in (1, 2) or told.err.count("\n") == 1, told.err
        return told

    return call


@pytest.fixture
def refused(memlm):
    """`refused(message, *arguments)`: the command is wrong use, and says so.

    In the message, ` ... ` stands for other words.
    """

    def call(message, *arguments):
        told = memlm(*arguments, status=2)
        assert all(part in told.err for part in message.split(" ... ")), told
        return told

    return call


@pytest.fixture
def train(memlm):
    """`train(preset, *flags)`: a small run of one epoch, which succeeds."""

    def call(preset, *arguments, dataset="text", epochs=1):
        flags = (f"--dataset={dataset}", f"--epochs={epochs}")
        return memlm("train", preset, *flags, *SMALL, *arguments)

    return call


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A folder with the text and a finished run of one epoch, and the cache."""
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
    """Folder of a finished run of one epoch, a copy for each test."""
    shutil.copytree(finished, folder, dirs_exist_ok=True)
    return folder / "runs" / NAME


@pytest.fixture
def few_segments(monkeypatch):
    """Dynamic evaluation learns from few segments, which are longer."""
    monkeypatch.setattr(measurements, "_DYNAMIC", {"steps": 20, "segments": 5})


@pytest.fixture(scope="session")
def classifier(tmp_path_factory):
    """Path of a saved classifier that nobody has trained."""
    path = tmp_path_factory.mktemp("classifier") / "pairs.keras"
    memlm_keras.EntailmentClassifier.from_preset(
        "weissenborn2016/lstm_attention",
        vocabulary=memlm_keras.data.Vocabulary(["the", "man", "sea"]),
        labels=("yes", "no"),
        scale=0.02,
    ).save(path)
    return path
