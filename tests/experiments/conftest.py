"""A small text, and `memlm` called as users call it."""

import json

import keras
import pytest
from corpus_files import write_splits

import memlm_keras
from memlm_keras.experiments import measurements

NAME = "text-daniluk2017-lstm-scale0.02-batch_size4-seed0"
SMALL = ("--scale=0.02", "--batch_size=4", "--verbose=2")


def results_of(folder):
    """Content of `results.json` of a run folder."""
    return json.loads((folder / "results.json").read_text())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where a user works: a text, and a cache and runs of one's own."""
    write_splits(tmp_path / "text", unknown=True)
    monkeypatch.setenv("MEMLM_KERAS_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("KERAS_BACKEND", keras.backend.backend())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def memlm(folder, memlm_command):
    """`memlm(*arguments)`: `Told` of the command, run where the text is."""
    return memlm_command


@pytest.fixture
def train(memlm):
    """`train(preset, *flags)`: a small run of one epoch, which succeeds."""

    def call(preset, *arguments, dataset="text", epochs=1):
        flags = (f"--dataset={dataset}", f"--epochs={epochs}")
        told = memlm("train", preset, *flags, *SMALL, *arguments)
        assert told.status == 0, told.err
        return told

    return call


@pytest.fixture
def run(train, folder):
    """Folder of a finished run of one epoch."""
    train("daniluk2017/lstm")
    return folder / "runs" / NAME


@pytest.fixture
def few_segments(monkeypatch):
    """Dynamic evaluation learns from few segments, which are longer."""
    monkeypatch.setattr(measurements, "_DYNAMIC", {"steps": 20, "segments": 5})


@pytest.fixture
def classifier(folder):
    """Path of a saved classifier that nobody has trained."""
    path = folder / "pairs.keras"
    memlm_keras.EntailmentClassifier.from_preset(
        "weissenborn2016/lstm_attention",
        vocabulary=memlm_keras.data.Vocabulary(["the", "man", "sea"]),
        labels=("yes", "no"),
        scale=0.02,
    ).save(path)
    return path
