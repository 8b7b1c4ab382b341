"""Tests tables: their rows and published numbers, and small runs."""

import json
import shlex

import keras
import pytest
from corpus_files import write_documents
from written_files import read_csv

from memlm_keras import presets
from memlm_keras.experiments.commands.table import read_grid
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.run_folder import RunFolder
from memlm_keras.experiments.tables import report
from memlm_keras.experiments.tables import runs as running
from memlm_keras.experiments.tables import table as tables

from .conftest import results_of


def test_rows_and_numbers_of_the_papers_tables():
    runs = tables.TableRuns("daniluk2017/windows", rows=["attention"])
    assert [row.changes.get("window") for row in runs.rows] == [1, 5, None, 15]
    runs = tables.TableRuns(
        "daniluk2017/windows", rows=["attention"], grid={"window": ["1", "10"]}
    )
    assert [row.details["window"] for row in runs.rows] == [1, 10]
    matched = {"match_parameters": True}
    runs = tables.TableRuns("daniluk2017/models", overrides=matched)
    labels = [row.label for row in runs.rows]
    assert "key_value_predict" in labels or "key_value_predict_786" in labels
    assert len(labels) == len(presets.tables()["daniluk2017/models"].rows) - 1
    # The paper of these rows has only numbers of other texts.
    assert not runs.has_published
    assert tables.TableRuns("kong2019/ptb").has_published
    assert tables.TableRuns("kong2019/ptb").dataset == "ptb"


def test_a_grid_varies_what_a_row_has_a_use_for():
    grid = {"rate": ["0.1", "0.4"], "learning_rate": ["0.01"]}
    names = ["vanilla_tied_512", "dn_linear_512"]
    runs = tables.TableRuns("kong2019/ptb", rows=names, grid=grid)
    assert [row.changes for row in runs.rows] == [
        {"learning_rate": 0.01},
        {"rate": 0.1, "learning_rate": 0.01},
        {"rate": 0.4, "learning_rate": 0.01},
    ]
    assert len(tables.TableRuns("kong2019/grid").rows) == 4
    # These rows have no range, and an override of it is left out.
    name, overrides = "weissenborn2016/gru_language_model", {"scale": 0.1}
    row = tables.row_experiment(
        name, "embedded", 0, {**overrides, "initial_range": 0.1}, {}
    )
    assert row.overrides == overrides
    # A grid may have all values that the paper tried.
    tuned = presets.get("kong2019/dn_linear_512")["tuned"]
    grid = {name: [*map(str, values)] for name, values in tuned.items()}
    runs = tables.TableRuns("kong2019/ptb", grid=grid)
    assert len(runs.rows) == 4 * 3 * 2 + 10 * 3 * 2 * 4
    with pytest.raises(UsageError, match="rate must be a number"):
        tables.TableRuns("kong2019/grid", grid={"rate": ["x"]})


@pytest.fixture
def fill(tmp_path, monkeypatch):
    """Makes runs of a table write fixed results instead of training."""
    backend = keras.backend.backend()

    def train(run, stop):
        if run.row.preset.endswith("/rnn"):
            return "the reason"
        perplexity = 80.0 if run.row.preset.endswith("/lstm") else 70.0
        perplexity += 2 * run.seed
        folder = RunFolder(run.folder)
        folder.write_config(run.settings, run.recipe, "LanguageModel")
        if "attention" in run.row.preset:
            text = "position,weight\n-2,0.25\n-1,0.75\n"
            (run.folder / "mean_attention.csv").write_text(text)
        split = {"perplexity": perplexity, "protocol": "protocol standard"}
        results = {
            **run.settings,
            **{"parameters": 1234, "epochs": 5, "best_epoch": 3},
            **{"most_epochs": 5, "patience": 5, "finite": True},
            "tokens_per_second": 1000.0 + run.seed,
            "seconds_per_epoch": 60.0,
            "peak_memory_mib": 900,
            **{"validation": split, "test": split},
        }
        (run.folder / "results.json").write_text(json.dumps(results))
        run.results = results

    def describe(recipe):
        preset, changes = recipe["preset"], recipe["changes"]
        parts = [preset.rpartition("/")[2], recipe["seed"], *changes.values()]
        settings = {"preset": preset, "seed": recipe["seed"], "units": 3}
        settings |= {"backend": backend, **recipe["overrides"], **changes}
        name = "-".join(map(str, parts))
        recipe = {"preset": preset}
        return {"name": name, "recipe": recipe, "settings": settings}

    monkeypatch.setattr(tables.TableRun, "train", train)
    monkeypatch.setattr(
        running,
        "in_fresh_process",
        lambda _, recipes: [*map(describe, recipes)],
    )

    def fill(rows, seeds=(0, 1), finished_only=False, running=None, **others):
        table = tables.TableRuns(
            "daniluk2017/models", run_dir=tmp_path, rows=rows, **others
        )
        failed = table.fill(seeds, running, finished_only=finished_only)
        return failed, table.folder

    return fill


def test_mean_standard_deviation_and_the_papers_numbers(fill):
    failed, folder = fill(["lstm", "attention"], seeds=(0, 1, 2))
    assert not failed
    row, _ = read_csv(folder / "table.csv")
    assert float(row["test"]) == 82.0
    assert float(row["test_standard_deviation"]) == 2.0
    assert float(row["test_minimum"]) == 80.0
    assert float(row["test_maximum"]) == 84.0
    assert (row["seeds"], row["best_epoch"]) == ("0 1 2", "3/5 3/5 3/5")
    text = (folder / "table.md").read_text(encoding="utf-8")
    assert "| 82.00 ± 2.00 (80.00 to 84.00) | 1,001 | 60 | 900 |" in text
    assert "* protocol standard\n" in text
    # Numbers published for another text are in a separate table.
    ours, papers = text.split("Published for other texts")
    assert "85.2" not in ours and "| lstm | 83.2 | 85.2 |" in papers
    assert (folder / "mean_attention.png").exists()


def test_finished_runs_are_kept(fill, capsys):
    fill(["lstm", "attention"])
    capsys.readouterr()
    _, folder = fill(["lstm", "attention"], seeds=(0, 1, 2))
    told = capsys.readouterr().out
    assert told.count("finished before") == 4
    assert "5/6 lstm seed 2: dev 84.00" in told
    fill(["lstm", "attention", "key_value"], (0, 1, 2, 3), finished_only=True)
    assert capsys.readouterr().out.count("finished before") == 6
    rows = read_csv(folder / "table.csv")
    assert [row["seeds"] for row in rows] == ["0 1 2", "0 1 2", ""]
    fill(["lstm"], running={"epochs": 9, "patience": 9})
    assert "finished before" not in capsys.readouterr().out


def test_a_failed_row_is_told_and_the_others_go_on(fill, capsys):
    failed, folder = fill(["rnn", "attention"], seeds=(0,))
    assert failed == 1
    assert "1/2 rnn seed 0: the reason" in capsys.readouterr().out
    rnn, attention = read_csv(folder / "table.csv")
    assert (rnn["failed"], rnn["test"]) == ("0", "")
    assert float(attention["test"]) == 70.0
    text = (folder / "table.md").read_text()
    assert "Failed: rnn, seed 0" in text


def test_the_best_of_a_grid_is_chosen_by_validation(fill, capsys):
    grid = {"dropout": ["0", "0.5"]}
    _, folder = fill(["lstm"], seeds=(0,), grid=grid)
    (best,) = read_csv(folder / "best.csv")
    assert best["row"] == "lstm dropout 0.0"
    assert float(best["chosen by dev"]) == float(best["test"]) == 80.0
    assert "Chosen: lstm dropout 0.0: dev 80.00" in capsys.readouterr().out


def test_flags_that_contradict_and_flags_given_twice(refused):
    arguments = ("table", "daniluk2017/models", "--dataset=text", "--overwrite")
    for flag in ("--list", "--finished_only"):
        refused("Give one of them, or --overwrite", *arguments, flag)
    found = read_grid(["rate=0.1", "--window=3", "--rate=0.2,0.3"])
    assert found == {"rate": ["0.1", "0.2", "0.3"], "window": ["3"]}


def test_measures_that_are_asked_for_are_required():
    table = tables.TableRuns("baselines/ptb", measures={"cache_size": 9})
    cached = {m.name: m for m in table.columns}["test, cache"]
    results = {"cache": {"size": 8, "test": {"perplexity": 3.0}}}
    assert not cached.optional and not cached.is_in(results)
    results["cache"]["size"] = 9
    assert cached.is_in(results)
    plain = tables.TableRuns("baselines/ptb").columns
    assert {m.name: m for m in plain}["test, cache"].optional
    assert report.better("val_accuracy") is max
    assert report.better("val_nats") is min


@pytest.mark.slow
def test_a_real_table(memlm, refused, folder):
    write_documents(folder / "documents")
    arguments = (
        "table daniluk2017/models --dataset=documents --rows=rnn,attention "
        "--scale=0.02 --batch_size=4 --vocabulary_size=6 --window=3 --epochs=1"
    ).split()
    told = memlm(*arguments, "--list")
    assert "2 of 2 runs are missing" in told.err
    assert not list((folder / "runs").glob("*/*"))
    # Run one of the printed commands, as a scheduler would.
    rnn, attention = map(shlex.split, told.out.splitlines())
    assert attention[:3] == ["memlm", "train", "daniluk2017/attention"]
    # Without this flag, the preset would be fitted to the text.
    assert attention[-1] == "--as_published"
    memlm(*rnn[1:])
    told = memlm(*arguments, "--list")
    assert told.out.splitlines() == [shlex.join(attention)]
    told = memlm(*arguments)
    assert told.out.count("finished before") == 1
    told_again = memlm(*arguments, "--list")
    assert not told_again.out and "0 of 2 runs" in told_again.err
    (table,) = (folder / "runs").glob("*/table.csv")
    rnn, attention = read_csv(table)
    (run,) = (folder / "runs").glob("*-attention-*")
    results = results_of(run)
    assert float(attention["test"]) == results["test"]["perplexity"]
    assert results["documents"] and results["vocabulary_size"] == 6
    # The option `window` has no effect on rows without a window.
    assert results["window"] == 3 and "window3" not in str(
        *(folder / "runs").glob("*-rnn-*")
    )
    before = (run / "model.keras").stat().st_mtime_ns
    assert memlm(*arguments).out.count("finished before") == 2
    assert (run / "model.keras").stat().st_mtime_ns == before
