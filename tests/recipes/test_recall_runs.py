"""Tests the recall suite's runs and reports."""

import dataclasses
import pathlib

import pytest

import logs
import recall_rows
import recall_runs
from memlm_keras.data.recall import MQAR
from memlm_keras.data.recall import Binding
from memlm_keras.data.recall import Copy
from memlm_keras.data.recall import MQARMix

LOGS = pathlib.Path(__file__).parents[2] / "docs/results/logs"
TASK = MQAR(16, length=12, pairs=2)
PARTS = ((1, 4, 6), (2, 8, 6))
MIX = MQARMix(PARTS, (*PARTS, (3, 16, 6)), vocabulary_size=16)


# === Runs ===


@pytest.fixture
def run(tmp_path, monkeypatch):
    """`run(name, ...)`: trains a row for two epochs of two batches."""
    sizes = {"rows": 8, "batch_size": 4, "validation_rows": 4}
    tiny = recall_rows.RecallSetting(epochs=2, **sizes)
    two = dataclasses.replace(tiny, rates=(0.1, 0.001))
    monkeypatch.setattr(recall_runs, "SETTINGS", {"tiny": tiny, "two": two})
    monkeypatch.setattr(recall_runs, "_TEST_ROWS", 40)

    def call(name="gru", setting="tiny", **arguments):
        study = tmp_path / "recall.jsonl"
        arguments |= {"units": 4, "verbose": 0}
        return recall_runs.run(name, TASK, setting, study, **arguments)

    return call


def test_a_finished_run_is_read(run, tmp_path, monkeypatch):
    results = run()
    assert [path.name for path in tmp_path.iterdir()] == ["recall.jsonl"]
    ((name, kept),) = logs.read(tmp_path / "recall.jsonl").items()
    place = "tiny/mqar-16-12-2-uniform-0-0.01/gru-4-seed0"
    assert name == f"{place}/rate0.01-epochs2"
    assert kept["results"] == results and kept["log"]["epoch"] == [1, 2]
    assert {"accuracy", "loss", "val_accuracy"} <= set(kept["log"])
    assert results["training_rows"] == 16 and results["chance"] == 0.5
    assert 0 <= results["accuracy"] <= 1
    assert run(epochs=1)["training_rows"] == 8
    monkeypatch.setattr(recall_runs, "_train", None)
    assert run() == results


def test_kept_logs_are_read():
    """The results in docs/results/recall.md are from these logs."""
    kinds = (MQAR, MQARMix, Copy, Binding)
    tasks = {kind.__name__: kind for kind in kinds}
    runs = logs.read(LOGS / "recall.jsonl")
    found = [run["results"] for run in runs.values() if "log" in run]
    for kept in found:
        named = ("units", "shift", "seed")
        run = recall_runs.RecallRun(
            kept["row"],
            eval(kept["task"], tasks),
            kept["setting"],
            LOGS / "recall.jsonl",
            epochs=kept["most_epochs"],
            **{name: kept[name] for name in named},
        )
        # The result is one of the runs with different rates.
        assert kept in [each[1] for each in run.finished if each]
    assert len(found) > 100


def test_an_interrupted_run_leaves_nothing(run, tmp_path, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(recall_runs, "provenance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert not list(tmp_path.iterdir())


def test_seeds_are_reproducible(run, tmp_path):
    study = tmp_path / "recall.jsonl"
    first, (before,) = run()["accuracy"], logs.read(study).values()
    study.unlink()
    assert run()["accuracy"] == first
    (after,) = logs.read(study).values()
    assert after["log"] == before["log"]


def test_held_out_sequences_choose_the_rate(run, tmp_path):
    run(setting="two")
    study = tmp_path / "recall.jsonl"
    # The rate that is better on test sequences is worse on validation
    # sequences.
    for rate, accuracy, held_out in ((0.1, 0.1, 0.8), (0.001, 0.9, 0.2)):
        ((name, kept),) = [
            (name, each)
            for name, each in logs.read(study).items()
            if each["results"]["rate"] == rate
        ]
        results = {**kept["results"], "accuracy": accuracy}
        log = {"val_accuracy": [0.5, held_out]}
        logs.add(study, name, {"results": results, "log": log})
    assert run(setting="two")["rate"] == 0.1


def test_a_row_may_have_a_rate_of_its_own():
    row = recall_runs.ROWS["pointer_sentinel"]
    small, zoology = map(recall_runs.SETTINGS.get, ("small", "zoology_64"))
    assert recall_runs.rates_of(row, small) == (0.003,)
    assert len(recall_runs.rates_of(row, zoology)) == 4
    assert recall_runs.rates_of(recall_rows.RecallRow(), small) == (0.01,)


def test_training_stops_where_it_is_learnt(run, monkeypatch):
    monkeypatch.setattr(recall_runs, "_ENOUGH", -1)
    assert run()["training_rows"] == 8


@pytest.mark.parametrize("zoology", [False, True])
def test_one_model_is_trained_on_a_mix(tmp_path, monkeypatch, zoology):
    sizes = {"vocabulary_size": 16, "rows": 12, "batch_size": 8, "epochs": 1}
    texts = {"training": MIX.training, "test": MIX.test, "validation_rows": 4}
    setting = recall_rows.RecallSetting(
        **sizes, **texts, rates=(0.1, 0.01), zoology=zoology
    )
    monkeypatch.setattr(recall_runs, "SETTINGS", {"mixed": setting})
    arguments = ("mqar", None, "mixed", tmp_path, ["gru"], [4], [0])
    others = {"filler": "uniform", "forgetting": 0, "shift": False}
    runs = recall_runs.make_runs(*arguments, **others, verbose=0)
    ((run,),) = runs.values()
    assert run.task == MIX and run.results is None
    run.train()
    found = run.results
    names = ["1 pairs, 4 tokens", "2 pairs, 8 tokens", "3 pairs, 16 tokens"]
    assert list(found["accuracies"]) == names
    mean = sum(found["accuracies"].values()) / 3
    assert found["accuracy"] == pytest.approx(mean)
    assert found["training_rows"] == 12
    assert found["chance"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    recall_runs.write(runs, "mqar", "mixed", tmp_path)
    picture = tmp_path / "mqar_mixed_mixed_bytes.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    arguments = ("mqar", [2], *arguments[2:])
    with pytest.raises(ValueError, match="must be the default"):
        recall_runs.make_runs(*arguments, **others)


def test_rows_of_a_mix_count_alike():
    row, setting = recall_rows.ROWS["gru"], recall_rows.RecallSetting()
    mix = MQARMix(PARTS, ((1, 4, 90), (3, 16, 90)), vocabulary_size=8)
    model = recall_runs.make_model(row, setting, mix, units=4)
    model.compile("sgd", weighted_metrics=["accuracy"])
    batches = mix.batches("test", batch_size=40)

    def accuracy(part):
        return model.evaluate(part, verbose=0, return_dict=True)["accuracy"]

    found = [accuracy(part) for part in batches.parts]
    assert len({*found, 0.0}) == 3
    assert accuracy(batches) == pytest.approx(sum(found) / 2, abs=1e-6)


# === Reports ===

RESULTS = {
    **{"row": "lstm", "task": repr(TASK), "shift": False, "units": 64},
    **{"accuracy": 0.5, "chance": 0.25, "state_bytes": 512, "seconds": 7.4},
    **{"parameters": 12345, "training_rows": 6000},
}


@pytest.mark.parametrize(
    "accuracy, row, task, expected",
    [
        (0.91, "lstm", TASK, "learnt"),
        (0.5, "lstm", TASK, "in part"),
        (0.26, "lstm", TASK, "not decided"),
        (0.04, "lstm", TASK, "not decided"),
        (0.26, "ngram_4", TASK, "expected to fail: what is asked"),
        (0.26, "memory_block", TASK, "expected to fail: a slot does not"),
        (0.26, "attentive_single", TASK, "expected to fail: its score"),
        (0.5, "attentive_single", TASK, "in part"),
        (0.1, "ngram_4", Copy(5), "not decided"),
        (0.1, "memory_block", Binding(8), "not decided"),
    ],
)
def test_verdicts(accuracy, row, task, expected):
    changes = {"accuracy": accuracy, "row": row, "task": repr(task)}
    results = {**RESULTS, **changes}
    assert recall_runs.verdict(results).startswith(expected)
    *_, line = recall_runs.lines([results])
    assert recall_runs.verdict(results) in line and "12,345" in line


def test_seeds_stand_in_one_line():
    found = [
        {**RESULTS, "accuracy": accuracy, "training_rows": rows}
        for accuracy, rows in ((0.95, 1000), (0.25, 2000), (0.97, 3000))
    ]
    *_, other, line = recall_runs.lines([{**RESULTS, "shift": True}, *found])
    assert "lstm + shift" in other
    assert "| 0.950, 0.250, 0.970 | 0.250 |" in line
    assert "| learnt by 2 of 3, not decided by 1 of 3 |" in line
    assert "| 2,000 | 7 |" in line
    found = [{**RESULTS, "units": units} for units in (64, 128)]
    assert list(recall_runs.lines(found))[3].startswith("| lstm, 128 units |")


def test_runs_that_were_cut_short_are_named():
    whole = {**RESULTS, "setting": "small", "most_epochs": 25}
    cut = {**whole, "most_epochs": 3, "training_rows": 18_000}
    stopped = {**cut, "row": "attention", "training_rows": 6_000}
    learnt = {**cut, "row": "gru", "accuracy": 0.995}
    line = recall_runs.cut_short([stopped, cut, learnt])
    assert "training at 18,000 of the 150,000 sequences" in line
    assert line.endswith(": lstm.\n")
    assert recall_runs.cut_short([stopped, learnt]) == ""
    assert recall_runs.cut_short([{**whole, "training_rows": 150_000}]) == ""
