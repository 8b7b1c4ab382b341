"""A small text, and `memlm` called as users call it."""

import json
from typing import NamedTuple

import keras
import numpy as np
import pytest

from memlm_keras.experiments import command_line

WORDS = ("the", "old", "man", "saw", "a", "sea")
SMALL = ("--scale=0.02", "--batch_size=4", "--verbose=0")


class Told(NamedTuple):
    """What a command did."""

    status: int
    out: str
    err: str


def write_text(folder, words=WORDS, unknown=True):
    """Writes three splits of short sentences of different lengths."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    for split, sentences in (("train", 60), ("valid", 20), ("test", 20)):
        lines = [
            " ".join(generator.choice(words, generator.integers(1, 12)))
            for _ in range(sentences)
        ]
        if unknown:
            lines[0] += " <unk>"
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n")


def write_file(path, lines=80):
    """Writes one text of words, some of them seen once."""
    generator = np.random.default_rng(0)
    text = [
        " ".join(generator.choice(WORDS, generator.integers(1, 12)))
        for _ in range(lines)
    ]
    text[3] += " whale"
    path.write_text("\n".join(text) + "\n")


def write_documents(folder, count=12):
    """Writes one file a document."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    for number in range(count):
        lines = [" ".join(generator.choice(WORDS, 6)) for _ in range(6)]
        (folder / f"{number}.txt").write_text("\n".join(lines) + "\n")


def write_sick(folder):
    """The files of the task, with a few pairs in each."""
    random = np.random.default_rng(0)
    labels = ["ENTAILMENT", "NEUTRAL", "CONTRADICTION"]
    header = ["pair_ID", "sentence_A", "sentence_B", "entailment_judgment"]
    folder.mkdir()
    for name, count in (
        ("SICK_train.txt", 40),
        ("SICK_trial.txt", 12),
        ("SICK_test_annotated.txt", 12),
    ):
        rows = [header]
        for number in range(count):
            words = random.choice(["a", "man", "dog", "is", "not"], (2, 5))
            label = labels[number % 3]
            rows.append([str(number), *map(" ".join, words), label])
        text = "\n".join("\t".join(row) for row in rows)
        (folder / name).write_text(text + "\n")


def results_of(folder):
    """What `results.json` of a run folder holds."""
    return json.loads((folder / "results.json").read_text())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where a user works: a text, and a cache and runs of one's own."""
    write_text(tmp_path / "text")
    monkeypatch.setenv("MEMLM_KERAS_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("KERAS_BACKEND", keras.backend.backend())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def memlm(folder, capfd):
    """`memlm(*arguments)`: the command in this process, and what it did."""

    def call(*arguments):
        capfd.readouterr()
        status = command_line.main(list(map(str, arguments)))
        return Told(status, *capfd.readouterr())

    return call


@pytest.fixture
def train(memlm):
    """`train(preset, *flags)`: a small run of one epoch, which succeeds."""

    def call(preset, *arguments, dataset="text", epochs=1):
        flags = (f"--dataset={dataset}", f"--epochs={epochs}")
        told = memlm("train", preset, *flags, *SMALL, *arguments)
        assert told.status == 0, told.err
        return told

    return call
