"""Recipes whose rows are presets: salton2017.py and baselines.py."""

import csv
import math
import subprocess
import sys

import numpy as np
import pytest
import running_recipes
from running_recipes import done
from running_recipes import on_one_backend
from running_recipes import results_of
from running_recipes import write_text

from memlm_keras.evaluation import choose_cache
from memlm_keras.evaluation import monte_carlo_perplexity
from memlm_keras.evaluation import perplexity


@pytest.fixture
def folder(tmp_path):
    words = ["the", "old", "man", "that", "saw", "a", "sea"]
    write_text(tmp_path / "text", words)
    return tmp_path


def run(folder, recipe, *arguments):
    return running_recipes.run(folder, recipe, "--scale=0.02", *arguments)


def corpus_of(folder):
    from memlm_keras import data

    files = (folder / "text" / f"{s}.txt" for s in ("train", "valid", "test"))
    return data.load_text(*files)


def model_of(run_dir):
    import keras

    return keras.saving.load_model(run_dir / "model.keras", compile=False)


def test_attentive_models_side_by_side(folder):
    arguments = (
        *("--table=ptb", "--rows=salton2017/ptb_single,salton2017/ptb_lstm"),
        *("--epochs=2", "--batch_size=8", "--sentence=the man that saw sea"),
    )
    done(run(folder, "salton2017.py", *arguments))
    runs = folder / "runs"
    table = runs / "text-ptb-scale0.02"
    assert (table / "sentence_attention.png").exists()
    with open(table / "table.csv", newline="") as file:
        rows = {row["preset"]: row for row in csv.DictReader(file)}
    assert list(rows) == ["salton2017/ptb_single", "salton2017/ptb_lstm"]
    assert rows["salton2017/ptb_single"]["paper_test"] == "70.1"
    assert rows["salton2017/ptb_lstm"]["paper_test"] == ""

    found = results_of(runs / "text-salton2017-ptb_single-scale0.02-seed0")
    assert found["longest"] == 35 and found["batch_size"] == 8
    assert found["halve_after"] == 12 and found["factor"] == 0.5
    assert found["most_epochs"] == 2 and found["patience"] == 10
    standard, theirs = found["test"], found["test"]["salton2017"]
    # Their protocol leaves the first word of each sentence out.
    assert standard["predicted_tokens"] == standard["total_tokens"]
    assert theirs["predicted_tokens"] == standard["total_tokens"] - 20
    assert theirs["perplexity"] == pytest.approx(
        math.exp(theirs["loss"] / theirs["total_tokens"])
    )
    assert theirs["perplexity"] < standard["perplexity"]

    again = done(run(folder, "salton2017.py", *arguments))
    assert again.count("finished before") == 2


def test_a_cache_on_a_finished_run(folder):
    model = "--model=zaremba2014/small"
    done(run(folder, "baselines.py", model, "--epochs=2", "--batch_size=4"))
    run_dir = folder / "runs" / "text-zaremba2014-small-scale0.02-seed0"
    plain = results_of(run_dir)
    assert plain["segment_length"] == 20 and plain["halve_after"] == 4
    assert "cache" not in plain
    weights = (run_dir / "model.keras").read_bytes()

    out = done(
        run(folder, "baselines.py", model, "--batch_size=4", "--cache_size=9")
    )
    assert "is not trained again" in out
    assert (run_dir / "model.keras").read_bytes() == weights
    found = results_of(run_dir)
    cache = found.pop("cache")
    assert found == plain
    lm, corpus = model_of(run_dir), corpus_of(folder)
    choice = choose_cache(
        lm, corpus.batches("validation", 1, 100), size=9, verbose=0
    )
    assert cache["size"] == 9
    assert cache["theta"] == choice.cache.theta
    assert cache["weight"] == choice.cache.weight
    assert cache["validation"]["perplexity"] == pytest.approx(
        choice.perplexities.min(), rel=1e-4
    )
    assert cache["test"]["predicted_tokens"] == found["test"]["total_tokens"]


def test_a_monte_carlo_average_and_a_rate_that_is_halved(folder):
    arguments = ("--epochs=2", "--batch_size=4")
    done(
        run(
            *(folder, "baselines.py", "--model=gal2016/medium", *arguments),
            "--monte_carlo=3",
        )
    )
    run_dir = folder / "runs" / "text-gal2016-medium-scale0.02-seed0"
    found = results_of(run_dir)
    batches = corpus_of(folder).batches("test", 1, 100)
    expected = monte_carlo_perplexity(
        model_of(run_dir), batches, samples=3, verbose=0
    )
    assert found["monte_carlo"]["samples"] == 3
    assert found["monte_carlo"]["test"]["perplexity"] == pytest.approx(
        expected.perplexity, rel=1e-4
    )
    model = "--model=merity2017/ptb_pointer_sentinel"
    done(run(folder, "baselines.py", model, *arguments))
    name = "text-merity2017-ptb_pointer_sentinel-scale0.02-seed0"
    with open(folder / "runs" / name / "log.csv", newline="") as file:
        assert "learning_rate" in next(csv.DictReader(file))
    model = "--model=zaremba2014/small"
    arguments = ("--epochs=3", "--halve_after=1", "--batch_size=4")
    done(run(folder, "baselines.py", model, *arguments))
    name = "text-zaremba2014-small-scale0.02-seed0"
    with open(folder / "runs" / name / "log.csv", newline="") as file:
        rates = [float(row["learning_rate"]) for row in csv.DictReader(file)]
    assert rates == [1.0, 0.5, 0.25]


@on_one_backend
@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            ["--model=merity2017/ptb_pointer_sentinel", "--cache_size=3"],
            "--cache_size is of models without a mixture",
        ),
        (
            ["--model=merity2017/ptb_pointer_sentinel", "--monte_carlo=3"],
            "--monte_carlo cannot read",
        ),
        (
            ["--model=zaremba2014/small", "--monte_carlo=3"],
            "--monte_carlo is of models with dropout",
        ),
        (["--average=a,b", "--cache_size=3"], "--cache_size contradicts"),
    ],
)
def test_what_cannot_be_measured_is_not_trained(folder, arguments, message):
    result = run(folder, "baselines.py", *arguments)
    assert result.returncode != 0
    assert message in result.stdout + result.stderr
    assert not (folder / "runs").exists()


@on_one_backend
def test_a_table_measures_finished_runs_with_another_cache(folder):
    rows = "--rows=zaremba2014/small"
    arguments = ("--table=ptb", rows, "--epochs=1", "--batch_size=4")
    done(run(folder, "baselines.py", *arguments))
    run_dir = folder / "runs" / "text-zaremba2014-small-scale0.02-seed0"
    trained = (run_dir / "model.keras").stat().st_mtime_ns
    for size in (3, 4):
        done(run(folder, "baselines.py", *arguments, f"--cache_size={size}"))
        assert results_of(run_dir)["cache"]["size"] == size
    again = run(folder, "baselines.py", *arguments, "--cache_size=4")
    assert "finished before" in done(again)
    assert (run_dir / "model.keras").stat().st_mtime_ns == trained


@on_one_backend
@pytest.mark.parametrize(
    "recipe, row, sentences",
    [
        ("salton2017", "salton2017/wikitext2_lstm", True),
        ("baselines", "gal2016/medium", False),
    ],
)
def test_tables_read_the_corpus_as_their_runs_do(recipe, row, sentences):
    """WikiText-2, whose lines hold several sentences."""
    program = f"""
import sys
sys.path.insert(0, {str(running_recipes.RECIPES)!r})
import common, tables, {recipe} as recipe
asked = []
common.load_corpus = lambda sentences=False: asked.append(sentences)
tables.fill = lambda *arguments, load_corpus, **others: load_corpus()
recipe.FLAGS(
    ["", "--table=wikitext2", "--dataset=wikitext-2", "--rows={row}"]
)
recipe.RUNS.rows = lambda: [tables.Row("", {{}}, {{"preset": "{row}"}}, {{}})]
recipe.RUNS.fill_table("", [])
assert asked == [{sentences}], asked
"""
    done(
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True
        )
    )


@on_one_backend
def test_the_average_of_two_runs(folder):
    run_dirs = []
    for seed in (0, 1):
        done(
            run(
                *(folder, "baselines.py", "--model=zaremba2014/small"),
                *(f"--seed={seed}", "--epochs=1", "--batch_size=4"),
            )
        )
        name = f"text-zaremba2014-small-scale0.02-seed{seed}"
        run_dirs.append(folder / "runs" / name)
    average = f"--average={run_dirs[0]},{run_dirs[1] / 'model.keras'}"
    out = done(run(folder, "baselines.py", average))
    assert "Average of 2" in out
    found = results_of(folder / "runs" / "text-average2")

    batches = corpus_of(folder).batches("test", 1, 100)
    both = []
    for run_dir in run_dirs:
        lm = model_of(run_dir)
        assert perplexity(lm, batches, verbose=0).perplexity == pytest.approx(
            results_of(run_dir)["test"]["perplexity"], rel=1e-4
        )
        scores, weights = lm.score_batches(batches, verbose=0)
        both.append(np.exp(scores.astype("float64")))
    loss = -np.sum(np.log((both[0] + both[1]) / 2) * weights)
    assert found["test"]["loss"] == pytest.approx(loss, rel=1e-5)
    assert found["test"]["predicted_tokens"] == weights.sum()
    assert found["parameters"] == 2 * lm.count_params()


@on_one_backend
@pytest.mark.parametrize(
    "recipe, arguments, message",
    [
        ("salton2017.py", ["--model=zaremba2014/small"], "of salton2017. R"),
        ("baselines.py", ["--model=salton2017/ptb_single"], "zaremba2014"),
        ("baselines.py", ["--average=nowhere"], "There is no file nowhere"),
        ("baselines.py", ["--table=ptb", "--average=a"], "--average contradi"),
        ("salton2017.py", ["--sentence= "], "--sentence must hold"),
        (
            "salton2017.py",
            ["--table=ptb", "--dataset=wikitext-2"],
            "--table=ptb needs --dataset=ptb",
        ),
    ],
)
def test_wrong_flags(folder, recipe, arguments, message):
    result = run(folder, recipe, *arguments)
    assert result.returncode != 0
    assert message in result.stdout + result.stderr
    assert not (folder / "runs").exists()
