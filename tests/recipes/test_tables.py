"""Tables, of a stand-in that trains nothing and of the real recipe."""

import csv
import json
import math
import pathlib
import sys

import daniluk2017
import keras
import numpy as np
import pytest
import run_folders
import running_recipes
import table_files
import tables
from absl import app
from absl import flags
from absl.testing import flagsaver
from running_recipes import on_one_backend

import memlm_keras

RECIPE = pathlib.Path(__file__).parents[2] / "recipes" / "daniluk2017.py"

# Writes what a run writes; the perplexity is 80 for `lstm` and 70 for
# `attention`, and 2 more for each further seed.
STAND_IN = """
import json
import pathlib
import sys

given = dict(a[2:].split("=") for a in sys.argv[1:] if "=" in a)
folder = pathlib.Path(given["run_dir"], given["model"] + given["seed"])
if given["model"] == "broken":
    sys.exit("the reason")
seed = int(given["seed"])
perplexity = {"lstm": 80.0, "attention": 70.0}[given["model"]] + 2 * seed
settings = {"model": given["model"], "seed": seed}
settings["rate"] = float(given["rate"])
(folder / "config.json").write_text(json.dumps(settings))
(folder / "arguments.txt").write_text(" ".join(sys.argv[1:]))
if given["model"] == "attention":
    text = "position,weight\\n-2,0.25\\n-1,0.75\\n"
    (folder / "mean_attention.csv").write_text(text)
results = {
    **settings,
    "units": 3,
    "parameters": 1234,
    "epochs": 5,
    "best_epoch": 3,
    "tokens_per_second": 1000.0 + seed,
    "seconds_per_epoch": 60.0,
    "peak_memory_mib": 900,
    "backend": given["backend"] + " 1.0",
    "finite": True,
    "test": {"perplexity": perplexity, "protocol": "protocol standard"},
}
(folder / "results.json").write_text(json.dumps(results))
"""


@pytest.fixture(autouse=True)
def parsed_flags():
    with flagsaver.flagsaver():
        flags.FLAGS(["recipe"])
        yield flags.FLAGS


@pytest.fixture
def fill(tmp_path):
    """Fills the table of a stand-in; returns the number of failures."""
    script = tmp_path / "stand_in.py"
    script.write_text(STAND_IN)

    def fill(models=("lstm", "attention"), seeds=(0, 1), rate=0.1):
        rows = [
            tables.Row(model, {"model": model}, {"preset": model}, published)
            for model, published in {
                "lstm": {"test": 85.2},
                "attention": {"test": 82.0},
                "broken": {"test": 99.9},
            }.items()
            if model in models
        ]
        table = tables.Table(
            title="A table",
            folder=tmp_path / "table",
            rows=rows,
            measures=[tables.Measure("test", ("test", "perplexity"), 2)],
            settings=("rate",),
            draw=table_files.draw_mean_attention,
        )
        runs = [
            tables.Run(
                row,
                seed,
                tmp_path / f"{row.label}{seed}",
                {"model": row.label, "seed": seed, "rate": rate},
            )
            for seed in seeds
            for row in rows
        ]
        command = [
            *(sys.executable, str(script), f"--run_dir={tmp_path}"),
            *(f"--rate={rate}", f"--backend={keras.backend.backend()}"),
        ]
        return tables.train(table, runs, command)

    return fill


def read_csv(folder):
    with open(folder / "table.csv", newline="", encoding="utf-8") as file:
        return {row["preset"]: row for row in csv.DictReader(file)}


def changes(folder):
    """Times at which the runs of the stand-in were written."""
    files = sorted(folder.glob("*/results.json"))
    return [(file, file.stat().st_mtime_ns) for file in files]


def test_mean_standard_deviation_and_the_papers_numbers(fill, tmp_path):
    assert fill(seeds=(0, 1, 2)) == 0
    row = read_csv(tmp_path / "table")["lstm"]
    assert float(row["test"]) == 82.0
    assert float(row["test_standard_deviation"]) == 2.0
    assert float(row["test_minimum"]) == 80.0
    assert float(row["test_maximum"]) == 84.0
    assert float(row["tokens_per_second"]) == 1001.0
    assert float(row["paper_test"]) == 85.2
    assert (row["seeds"], row["best_epoch"]) == ("0 1 2", "3/5 3/5 3/5")
    text = (tmp_path / "table" / "table.md").read_text(encoding="utf-8")
    assert (
        "| lstm | 3 | 1,234 | 0, 1, 2 | 3/5 3/5 3/5 | 82.00 ± 2.00 (80.00 to "
        "84.00) | 1,001 | 60 | 900 | 85.2 |\n"
    ) in text
    assert "* rate: 0.1\n" in text
    assert "* protocol standard\n" in text
    assert "![mean_attention.png](mean_attention.png)" in text
    assert (tmp_path / "table" / "mean_attention.png").exists()


def test_a_single_seed_has_no_standard_deviation(fill, tmp_path):
    assert fill(seeds=(1,)) == 0
    row = read_csv(tmp_path / "table")["attention"]
    assert float(row["test"]) == 72.0
    assert row["test_standard_deviation"] == ""
    assert " | 72.00 | " in (tmp_path / "table" / "table.md").read_text()


def test_finished_runs_are_kept(fill, tmp_path, capsys):
    fill()
    before = changes(tmp_path)
    # Without its settings, nobody knows what a run was.
    (tmp_path / "attention0" / "config.json").unlink()
    before = [kept for kept in before if "attention0" not in str(kept[0])]
    capsys.readouterr()
    fill(seeds=(0, 1, 2))
    assert set(before) < set(changes(tmp_path))
    told = capsys.readouterr().out
    assert "1/6 lstm seed 0: finished before; test 80.00" in told
    assert "2/6 attention seed 0: test 70.00" in told
    assert "5/6 lstm seed 2: test 84.00" in told


def test_a_table_of_what_is_finished(fill, tmp_path, parsed_flags):
    fill(models=("lstm",), seeds=(0, 1))
    fill(models=("attention",), seeds=(0,))
    before = changes(tmp_path)
    parsed_flags.finished_only = True
    assert fill(seeds=(0, 1, 2)) == 0
    assert changes(tmp_path) == before
    rows = read_csv(tmp_path / "table")
    assert (rows["lstm"]["seeds"], rows["lstm"]["to_come"]) == ("0 1", "")
    assert (rows["attention"]["seeds"], rows["attention"]["to_come"]) == (
        "0",
        "",
    )


def test_a_run_of_other_settings_is_not_used_and_not_lost(
    fill, tmp_path, capsys
):
    fill(seeds=(0,), models=("lstm",))
    fill(seeds=(0,), models=("lstm",), rate=0.2)
    assert "rate 0.1 instead of 0.2" in capsys.readouterr().out
    new, old = (
        json.loads((tmp_path / name / "results.json").read_text())["rate"]
        for name in ("lstm0", "lstm0-old1")
    )
    assert (new, old) == (0.2, 0.1)
    assert "* rate: 0.2\n" in (tmp_path / "table" / "table.md").read_text()


def test_a_run_of_another_backend_is_not_used(fill, tmp_path):
    fill(seeds=(0,), models=("lstm",))
    file = tmp_path / "lstm0" / "results.json"
    results = json.loads(file.read_text())
    file.write_text(json.dumps({**results, "backend": "another 1.0"}))
    fill(seeds=(0,), models=("lstm",))
    assert (tmp_path / "lstm0-old1").exists()
    assert "another" not in (tmp_path / "table" / "table.md").read_text()


def test_an_interrupted_run_is_resumed(fill, tmp_path, capsys):
    fill(seeds=(0, 1), models=("lstm",))
    for seed in (0, 1):
        (tmp_path / f"lstm{seed}" / "results.json").unlink()
    (tmp_path / "lstm1" / "checkpoint.npz").touch()
    fill(seeds=(0, 1), models=("lstm",))
    resumed = [
        "--resume" in (tmp_path / f"lstm{seed}" / "arguments.txt").read_text()
        for seed in (0, 1)
    ]
    assert resumed == [False, True]
    told = capsys.readouterr().out
    assert "2/2 lstm seed 1: resumed; test 82.00" in told


def test_a_failed_row_is_told_and_the_others_go_on(fill, tmp_path, capsys):
    models = ("broken", "lstm", "attention")
    assert fill(seeds=(0,), models=models) == 1
    told = capsys.readouterr().out
    assert "broken seed 0: failed with exit status 1" in told
    assert str(tmp_path / "broken0" / "log.txt") in told
    assert "    the reason\n" in told
    rows = read_csv(tmp_path / "table")
    assert (rows["broken"]["failed"], rows["broken"]["test"]) == ("0", "")
    assert float(rows["attention"]["test"]) == 70.0
    text = (tmp_path / "table" / "table.md").read_text()
    assert "| broken |  |  | failed: 0 |  |  |  |  |  | 99.9 |" in text


def test_a_run_of_too_few_epochs_goes_on(tmp_path, parsed_flags):
    results = {"epochs": 5, "best_epoch": 5}
    parsed_flags.patience = 2
    (tmp_path / "results.json").write_text(json.dumps(results))
    parsed_flags.epochs = 5
    assert run_folders.finished_results(tmp_path) == results
    parsed_flags.epochs = 6
    assert run_folders.finished_results(tmp_path) is None
    results["best_epoch"] = 3
    (tmp_path / "results.json").write_text(json.dumps(results))
    assert run_folders.finished_results(tmp_path) == results
    parsed_flags.patience = 3
    assert run_folders.finished_results(tmp_path) is None


def test_mean_attention_is_read_as_it_was_written(tmp_path):
    assert run_folders.read_mean_attention(tmp_path) is None
    for mean in ([0.1, 0.2, 0.7], [1.0]):
        run_folders.write_mean_attention(tmp_path, np.array(mean))
        assert run_folders.read_mean_attention(tmp_path).tolist() == mean


def test_sample_standard_deviation():
    summary = table_files.summarize([1.0, 2.0, 4.0])
    assert math.isclose(summary.mean, 7 / 3)
    # Squares of -4/3, -1/3 and 5/3, over 2.
    assert math.isclose(summary.standard_deviation, math.sqrt(42 / 9 / 2))
    assert (summary.minimum, summary.maximum) == (1.0, 4.0)
    assert table_files.summarize([]) is None


@pytest.mark.parametrize("text", ["", "1,x", "1,1", "-1", "0"])
def test_windows_must_be_integers(parsed_flags, text):
    parsed_flags.windows = text.split(",")
    with pytest.raises(app.UsageError, match="--windows must list"):
        tables.integers("windows", 1)


def test_rows_of_the_papers_tables(parsed_flags):
    parsed_flags.table = "windows"
    parsed_flags.rows = ["attention"]
    rows = daniluk2017.table_rows()
    assert [row.published.get("test") for row in rows] == [
        82.2,
        82.2,
        82.0,
        82.8,
    ]
    # The paper's own window shares its run with the other tables.
    assert [row.flags.get("window") for row in rows] == [1, 5, None, 15]
    parsed_flags.rows = None
    parsed_flags.table = "ngrams"
    assert [row.label for row in daniluk2017.table_rows()] == [
        f"ngram_{order}" for order in (2, 3, 4, 5)
    ]
    parsed_flags.table = "models"
    rows = {row.label: row for row in daniluk2017.table_rows()}
    assert rows["lstm"].published == {"dev": 83.2, "test": 85.2}
    assert rows["key_value"].details == {"preset": "key_value", "window": 10}
    parsed_flags.table = "cbt"
    rows = {row.label: row for row in daniluk2017.table_rows()}
    assert rows["attention"].published["NE"] == 0.538
    assert "ngram_2" not in rows


def test_flags_that_contradict_a_table(parsed_flags):
    flags.FLAGS(["recipe", "--seeds=0,1"])
    with pytest.raises(app.UsageError, match="--seeds needs --table"):
        tables.check_flags((), ("model",))
    flags.FLAGS(["recipe", "--table=models", "--model=lstm"])
    with pytest.raises(app.UsageError, match="--model contradicts --table"):
        tables.check_flags((), ("model",))
    parsed_flags.rows = ["lstm", "lstmm"]
    with pytest.raises(app.UsageError, match="which are lstm.*: lstmm"):
        tables.selected(["lstm", "rnn"])


def test_questions_of_each_word_type_are_answered(tmp_path, parsed_flags):
    words = ["the", "old", "man", "saw", "a", "sea"]
    lines = [f"{number} the old man" for number in range(1, 21)]
    lines.append(f"21 the XXXXX saw\tman\t\t{'|'.join(words)}\n")
    for word_type in daniluk2017.WORD_TYPES:
        file = tmp_path / f"cbtest_{word_type}_test_2500ex.txt"
        file.write_text("\n".join(lines) * 3)
    vocabulary = memlm_keras.data.Vocabulary(words)
    model = memlm_keras.LanguageModel(
        len(vocabulary), embedding_dim=4, recurrent=[keras.layers.LSTM(4)]
    )
    parsed_flags.data_dir = str(tmp_path)
    parsed_flags.verbose = 0
    # A model that thinks one word likely wherever it stands.
    bias = np.zeros(len(vocabulary), "float32")
    bias[vocabulary["man"]] = 9.0
    model.head.bias.assign(bias)
    answers = daniluk2017.answer_questions(model, vocabulary)
    json.dumps(answers)
    for measure in daniluk2017.ACCURACIES:
        assert measure.of(answers) == 1.0
        assert measure.protocol(answers).startswith("protocol cloze")
        assert answers["cbt"][measure.name]["questions"] == 3


def write_documents(folder):
    folder.mkdir()
    words = np.array(["the", "old", "man", "saw", "a", "sea"])
    generator = np.random.default_rng(0)
    for document in range(12):
        lines = [" ".join(generator.choice(words, 6)) for _ in range(6)]
        (folder / f"{document}.txt").write_text("\n".join(lines) + "\n")


@on_one_backend
def test_a_real_table(tmp_path):
    write_documents(tmp_path / "text")
    runs = tmp_path / "runs"

    def table():
        return running_recipes.done(
            running_recipes.run(
                *(tmp_path, "daniluk2017.py", "--table=models"),
                *("--rows=rnn,lstm", "--seeds=0,1", "--scale=0.02"),
                *("--batch_size=4", "--epochs=1", "--vocabulary_size=6"),
            )
        )

    table()
    folder = runs / "text-models-vocabulary6-scale0.02"
    rows = read_csv(folder)
    assert list(rows) == ["rnn", "lstm"]
    results = [
        running_recipes.results_of(
            runs / f"text-lstm-vocabulary6-scale0.02-seed{seed}"
        )
        for seed in (0, 1)
    ]
    mean = sum(result["test"]["perplexity"] for result in results) / 2
    assert math.isclose(float(rows["lstm"]["test"]), mean)
    assert results[0]["documents"] and results[0]["vocabulary_size"] == 6
    assert float(rows["rnn"]["paper_test"]) == 125.7
    assert {path.name for path in folder.iterdir()} == {"table.csv", "table.md"}
    before = changes(runs)
    assert table().count("finished before") == 4
    assert changes(runs) == before
