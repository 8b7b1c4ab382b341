"""Running recipes as users do, on a small text."""

import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

RECIPES = pathlib.Path(__file__).parents[1] / "recipes"

# Tables, flags and files are the same program on every backend, and a run is a
# process that takes seconds to begin. Each recipe has a test of a run that all
# backends pass; the others are for one of them.
on_one_backend = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="what it checks does not depend on the backend: see tensorflow",
)


def write_text(folder, words):
    """Writes three splits of short sentences of different lengths.

    Args:
        folder: `pathlib.Path` of the folder to make.
        words: list of strings, to be drawn from.
    """
    folder.mkdir()
    generator = np.random.default_rng(0)
    for split, sentences in (("train", 60), ("valid", 20), ("test", 20)):
        lines = [
            " ".join(generator.choice(words, generator.integers(1, 12)))
            for _ in range(sentences)
        ]
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n")


def run(folder, recipe, *arguments):
    """Runs a recipe on the folder `text`, with its runs in `runs`."""
    return subprocess.run(
        [
            *(sys.executable, str(RECIPES / recipe)),
            f"--dataset={folder / 'text'}",
            f"--run_dir={folder / 'runs'}",
            *arguments,
        ],
        env={**os.environ, "MEMLM_KERAS_HOME": str(folder / "cache")},
        capture_output=True,
        text=True,
    )


def done(result):
    """Returns what a recipe printed, once it is sure that it succeeded."""
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def results_of(run_dir):
    """What `results.json` of a run folder holds."""
    return json.loads((run_dir / "results.json").read_text())
