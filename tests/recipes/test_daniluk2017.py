"""The recipe, run as a user runs it."""

import json
import pathlib
import subprocess
import sys

import numpy as np
from running_recipes import on_one_backend

RECIPE = pathlib.Path(__file__).parents[2] / "recipes" / "daniluk2017.py"


def run(run_dir, *arguments):
    return subprocess.run(
        [
            sys.executable,
            str(RECIPE),
            "--model=key_value_predict",
            f"--dataset={run_dir / 'text'}",
            f"--run_dir={run_dir}",
            "--scale=0.02",
            "--batch_size=4",
            "--epochs=2",
            "--patience=5",
            "--verbose=0",
            *arguments,
        ],
        capture_output=True,
        text=True,
    )


def write_text(folder):
    folder.mkdir()
    words = np.array(["the", "old", "man", "saw", "a", "sea"])
    generator = np.random.default_rng(0)
    for name, lines in (("train", 60), ("valid", 20), ("test", 20)):
        text = [" ".join(generator.choice(words, 6)) for _ in range(lines)]
        (folder / f"{name}.txt").write_text("\n".join(text) + "\n")


def test_a_run_its_resumption_and_a_run_of_other_settings(tmp_path):
    write_text(tmp_path / "text")
    result = run(tmp_path)
    assert result.returncode == 0, result.stderr
    (run_dir,) = (p for p in tmp_path.iterdir() if p.name != "text")
    assert {
        "attention.png",
        "checkpoint.npz",
        "config.json",
        "log.csv",
        "mean_attention.csv",
        "mean_attention.png",
        "model.keras",
        "results.json",
        "vocabulary.json",
    } == {path.name for path in run_dir.iterdir()}
    results = json.loads((run_dir / "results.json").read_text())
    assert results["preset"] == "daniluk2017/key_value_predict"
    assert results["epochs"] == 2
    assert results["test"]["predicted_tokens"] == 20 * 7
    assert results["test"]["perplexity"] > 1
    assert "daniluk2017.py" in results["command"]

    result = run(tmp_path, "--resume")
    assert result.returncode == 0, result.stderr
    assert "is finished" in result.stdout

    result = run(tmp_path, "--resume", "--dropout=0.3")
    assert result.returncode != 0
    assert "other settings" in result.stdout + result.stderr
    assert "dropout" in result.stdout + result.stderr


@on_one_backend
def test_unknown_models_are_named(tmp_path):
    result = run(tmp_path, "--model=key_vale")
    assert result.returncode != 0
    assert "Unknown preset" in result.stderr
    assert not list(tmp_path.iterdir())
