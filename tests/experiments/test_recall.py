"""The recall suite: its rows, its runs and what is said of them."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

from memlm_keras.data.recall import MQAR
from memlm_keras.data.recall import Binding
from memlm_keras.data.recall import Copy
from memlm_keras.experiments import recall

ROOT = pathlib.Path(__file__).parents[2]
TASK = MQAR(16, length=12, pairs=2)
every_row = pytest.mark.parametrize("name", recall.ROWS)


# === Rows ===


def test_previous_inputs_stand_beside_inputs(random):
    inputs = random.normal(size=(2, 5, 3)).astype("float32")
    layer = keras.layers.RNN(
        recall.PreviousInputCell(3), return_sequences=True, return_state=True
    )
    before = np.concatenate([np.zeros((2, 1, 3)), inputs[:, :-1]], axis=1)
    expected = np.concatenate([inputs, before], axis=-1)
    outputs, state = layer(inputs)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(outputs), expected)
    np.testing.assert_array_equal(
        keras.ops.convert_to_numpy(state), inputs[:, -1]
    )
    # And goes on where it stopped.
    _, state = layer(inputs[:, :2])
    outputs, _ = layer(inputs[:, 2:], initial_state=state)
    np.testing.assert_array_equal(
        keras.ops.convert_to_numpy(outputs), expected[:, 2:]
    )
    again = keras.layers.RNN.from_config(layer.get_config())
    assert again.cell.output_size == 6


@every_row
def test_rows_answer_at_the_positions_alone(name):
    model = recall.make_model(
        recall.ROWS[name], recall.Setting(), TASK, units=8, shift=True
    )
    token_ids, positions, _ = TASK.draw(3, np.random.default_rng(0))
    found = model({"token_ids": token_ids, "positions": positions})
    assert found.shape == (3, 2, 16)
    whole = keras.ops.convert_to_numpy(model(token_ids))
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(found),
        np.take_along_axis(whole, positions[..., None], axis=1),
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.parametrize("window", [None, 3])
def test_windows_are_the_papers_or_as_long_as_rows(window):
    row = dataclasses.replace(recall.ROWS["attention"], window=window)
    model = recall.make_model(row, recall.Setting(), TASK, units=8)
    assert model.memory.window == (window or 12)
    lstm, slots = 2 * 8, (window or 12) * 8
    filled = 1
    assert recall.state_bytes(model) == 4 * (lstm + slots + filled)


def test_settings_of_zoology_are_the_papers():
    found = {
        (s.length, s.pairs, s.batch_size)
        for name, s in recall.SETTINGS.items()
        if name.startswith("zoology") and s.zoology and not s.fresh
    }
    assert found == {(64, 4, 512), (128, 8, 512), (256, 16, 256)}
    setting = recall.SETTINGS["zoology_64"]
    assert setting.rows == 100_000 and setting.epochs == 64
    model = recall.make_model(recall.ROWS["key_value"], setting, TASK, units=8)
    assert model.tie_embeddings
    assert [layer.units for layer in model.recurrent] == [8, 16]
    deviation = np.std(keras.ops.convert_to_numpy(model.embedding.embeddings))
    assert 0.01 < deviation < 0.03
    optimizer = recall._optimizer(setting, 0.01, steps=100)
    assert optimizer.weight_decay == 0.1
    rates = [float(optimizer._learning_rate(s)) for s in (0, 50, 100)]
    np.testing.assert_allclose(rates, [0.01, 0.005, 0], atol=1e-8)


# === Runs ===


@pytest.fixture
def run(tmp_path, monkeypatch):
    """`run(name, ...)`: a row trained for two epochs of two batches."""
    tiny = recall.Setting(rows=8, batch_size=4, epochs=2, validation_rows=4)
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
    assert recall.rates_of(recall.Row(), recall.SETTINGS["small"]) == (0.01,)


def test_training_stops_where_it_is_learnt(run, monkeypatch):
    monkeypatch.setattr(recall, "_ENOUGH", -1)
    assert run()["training_rows"] == 8


# === Reports ===

RESULTS = {
    "row": "lstm",
    "task": repr(TASK),
    "shift": False,
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
        ({"accuracy": 0.26, "row": "ngram_4"}, "cannot: what is asked"),
        ({"accuracy": 0.26, "row": "memory_block"}, "cannot: a slot does not"),
        ({"accuracy": 0.26, "row": "attentive_single"}, "cannot: its score"),
        ({"accuracy": 0.5, "row": "attentive_single"}, "in part"),
        (
            {"accuracy": 0.1, "row": "ngram_4", "task": repr(Copy(5))},
            "not decided",
        ),
    ],
)
def test_verdicts(changes, expected):
    results = {**RESULTS, **changes}
    assert recall.verdict(results).startswith(expected)
    *_, line = recall.lines([results])
    assert recall.verdict(results) in line and "12,345" in line


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
