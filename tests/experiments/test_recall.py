"""The recall suite: its runs, what is said of them, and its recipe."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import keras
import pytest

from memlm_keras.data.recall import MQAR
from memlm_keras.data.recall import Binding
from memlm_keras.data.recall import Copy
from memlm_keras.experiments import recall
from memlm_keras.experiments import recall_rows

ROOT = pathlib.Path(__file__).parents[2]
TASK = MQAR(16, length=12, pairs=2)


# === Runs ===


@pytest.fixture
def run(tmp_path, monkeypatch):
    """`run(name, ...)`: a row trained for two epochs of two batches."""
    tiny = recall_rows.Setting(
        rows=8, batch_size=4, epochs=2, validation_rows=4
    )
    two = dataclasses.replace(tiny, rates=(0.1, 0.001))
    monkeypatch.setattr(recall, "SETTINGS", {"tiny": tiny, "two": two})

    def call(name="gru", setting="tiny", **arguments):
        return recall.run(
            name, TASK, setting, tmp_path, units=4, verbose=0, **arguments
        )

    return call


def test_a_finished_run_is_read(run, tmp_path, monkeypatch):
    results = run()
    folder = tmp_path / "rate0.01"
    assert {p.name for p in folder.iterdir()} == {"log.csv", "results.json"}
    assert json.loads((folder / "results.json").read_text()) == results
    log = (folder / "log.csv").read_text().splitlines()
    assert len(log) == 3 and log[0].startswith("epoch,accuracy,loss,")
    assert results["training_rows"] == 16 and results["chance"] == 0.5
    assert 0 <= results["accuracy"] <= 1
    with monkeypatch.context() as patch:
        patch.setattr(recall, "_train", None)
        assert run() == results
    # Of other epochs it is kept, and another made.
    assert run(epochs=1)["training_rows"] == 8
    aside = tmp_path / "rate0.01-old1" / "results.json"
    assert json.loads(aside.read_text()) == results


def test_an_interrupted_run_leaves_nothing(run, tmp_path, monkeypatch):
    def interrupted(path, values):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(recall.run_folder, "write_json", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run()
    assert not list(tmp_path.iterdir())


def test_seeds_are_reproducible(run, tmp_path):
    first = run()["accuracy"], (tmp_path / "rate0.01/log.csv").read_text()
    (tmp_path / "rate0.01").rename(tmp_path / "kept")
    again = run()["accuracy"], (tmp_path / "rate0.01/log.csv").read_text()
    assert again == first


def test_the_best_rate_counts(run, tmp_path):
    results = run(setting="two")
    found = [
        json.loads((tmp_path / rate / "results.json").read_text())
        for rate in ("rate0.1", "rate0.001")
    ]
    assert [r["rate"] for r in found] == [0.1, 0.001]
    assert results["accuracy"] == max(r["accuracy"] for r in found)


def test_a_row_may_have_a_rate_of_its_own():
    row = recall.ROWS["pointer_sentinel"]
    assert recall.rates_of(row, recall.SETTINGS["small"]) == (0.003,)
    assert len(recall.rates_of(row, recall.SETTINGS["zoology_64"])) == 4
    assert recall.rates_of(recall_rows.Row(), recall.SETTINGS["small"]) == (
        0.01,
    )


def test_training_stops_where_it_is_learnt(run, monkeypatch):
    monkeypatch.setattr(recall, "_ENOUGH", -1)
    assert run()["training_rows"] == 8


# === Reports ===

RESULTS = {
    "row": "lstm",
    "task": repr(TASK),
    "shift": False,
    "units": 64,
    "accuracy": 0.5,
    "chance": 0.25,
    "state_bytes": 512,
    "parameters": 12345,
    "training_rows": 6000,
    "seconds": 7.4,
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"accuracy": 0.91}, "learnt"),
        ({}, "in part"),
        ({"accuracy": 0.26}, "not decided"),
        ({"accuracy": 0.04}, "not decided"),
        (
            {"accuracy": 0.26, "row": "ngram_4"},
            "expected to fail: what is asked",
        ),
        (
            {"accuracy": 0.26, "row": "memory_block"},
            "expected to fail: a slot does not",
        ),
        (
            {"accuracy": 0.26, "row": "attentive_single"},
            "expected to fail: its score",
        ),
        ({"accuracy": 0.5, "row": "attentive_single"}, "in part"),
        (
            {"accuracy": 0.1, "row": "ngram_4", "task": repr(Copy(5))},
            "not decided",
        ),
        (
            {"accuracy": 0.1, "row": "memory_block", "task": repr(Binding(8))},
            "not decided",
        ),
    ],
)
def test_verdicts(changes, expected):
    results = {**RESULTS, **changes}
    assert recall.verdict(results).startswith(expected)
    *_, line = recall.lines([results])
    assert recall.verdict(results) in line and "12,345" in line


def test_seeds_stand_in_one_line():
    found = [
        {**RESULTS, "accuracy": accuracy, "training_rows": rows}
        for accuracy, rows in ((0.95, 1000), (0.25, 2000), (0.97, 3000))
    ]
    *_, other, line = recall.lines([{**RESULTS, "shift": True}, *found])
    assert "lstm + shift" in other
    assert "| 0.950, 0.250, 0.970 | 0.250 |" in line
    assert "| learnt by 2 of 3, not decided by 1 of 3 |" in line
    assert "| 2,000 | 7 |" in line


def test_pictures_are_drawn(tmp_path):
    found = {
        x: [
            {**RESULTS, "row": row, "accuracy": 1 / x}
            for row in ("lstm", "gru")
        ]
        for x in (2, 4)
    }
    recall.draw_bytes(found[2], tmp_path / "bytes.png", "mqar")
    recall.draw_lines(found, tmp_path / "pairs.png", "mqar", "pairs")
    for path in ("bytes.png", "pairs.png"):
        assert (tmp_path / path).read_bytes().startswith(b"\x89PNG")


def test_tasks_have_folders_of_their_own():
    tasks = [TASK, MQAR(16, 12, 2, "uniform"), Copy(2), Binding(2)]
    slugs = [recall.slug(task) for task in tasks]
    assert slugs[0] == "mqar-16-12-2-zeros-0-0.01" and len(set(slugs)) == 4


# === The recipe, as users run it ===


def recipe(*arguments, folder):
    return subprocess.run(
        [sys.executable, ROOT / "recipes" / "recall.py", *arguments],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "KERAS_BACKEND": keras.backend.backend(),
        },
        capture_output=True,
        text=True,
    )


def test_the_recipe_prints_a_table_and_draws(tmp_path):
    arguments = (
        "--task=binding",
        "--people=1,2",
        "--rows=gru",
        "--units=4",
        "--epochs=1",
        "--setting=small",
    )
    found = recipe(*arguments, folder=tmp_path)
    assert found.returncode == 0, found.stderr[-2000:]
    assert "| gru | " in found.stdout and "binding, people 2" in found.stdout
    pictures = {path.name for path in tmp_path.glob("runs/recall/*.png")}
    assert pictures == {
        "binding_small.png",
        "binding_small_1_bytes.png",
        "binding_small_2_bytes.png",
    }
    again = recipe(*arguments, folder=tmp_path)
    assert again.returncode == 0 and "Epoch 1" not in again.stdout
    assert again.stdout.splitlines()[-9:] == found.stdout.splitlines()[-9:]


def test_the_recipe_knows_its_rows(tmp_path):
    found = recipe("--rows=lstm,gri", folder=tmp_path)
    assert (
        found.returncode == 1 and "Received: gri" in found.stderr + found.stdout
    )
    assert not list(tmp_path.iterdir())
