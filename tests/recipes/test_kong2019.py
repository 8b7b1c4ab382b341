import csv

import keras
import pytest
import running_recipes
from running_recipes import done
from running_recipes import on_one_backend
from running_recipes import results_of
from running_recipes import write_text

from memlm_keras import LanguageModel


@pytest.fixture
def folder(tmp_path):
    """Words of different frequencies."""
    write_text(tmp_path / "text", ["the"] * 4 + ["a", "a", "old", "sea"])
    return tmp_path


def run(folder, *arguments):
    common = ("--scale=0.016", "--epochs=1", "--batch_size=4")
    return running_recipes.run(folder, "kong2019.py", *common, *arguments)


def test_a_smoothed_model_with_a_memory_and_all_predictions(folder):
    arguments = (
        *("--model=kong2019/vs_kneser_ney_512", "--memory=key_value_predict"),
        *("--window=3", "--rate=0.3", "--l2=0.001", "--samples=2"),
        "--other_words=mode",
    )
    done(run(folder, *arguments))
    name = "text-kong2019-vs_kneser_ney_512-scale0.016-rate0.3-l20.001"
    name += "-others_mode-key_value_predict3"
    run_dir = folder / "runs" / f"{name}-seed0"
    found = results_of(run_dir)
    assert (found["rate"], found["l2"]) == (0.3, 0.001)
    assert (found["memory"], found["window"]) == ("key_value_predict", 3)
    assert found["segment_length"] == 35 and found["most_epochs"] == 1
    perplexities = {
        found[kind]["perplexity"]
        for kind in ("validation", "by_mode", "by_samples")
    }
    assert len(perplexities) == 3
    assert found["by_samples"]["samples"] == 2

    model = keras.saving.load_model(run_dir / "model.keras", compile=False)
    assert isinstance(model, LanguageModel)
    assert model.smoothing.rate == 0.3 and model.memory.window == 3
    assert model.smoothing.other_words == found["other_words"] == "mode"
    assert model.recurrent[-1].cell.units == 3 * model.embedding_dim


@on_one_backend
def test_l2_of_a_noised_model_and_dropout(folder):
    arguments = ("--model=kong2019/dn_linear_512", "--l2=0", "--dropout=0.3")
    done(run(folder, *arguments))
    done(run(folder, "--model=kong2019/dn_linear_512", "--l2=0.01"))
    name = "text-kong2019-dn_linear_512-scale0.016"
    without = results_of(folder / "runs" / f"{name}-l20-seed0")
    assert "l2" not in without and without["rate"] == 0.2
    assert without["embedding_dropout"] == without["output_dropout"] == 0.3
    assert without["dropout"] == 0.0
    run_dir = folder / "runs" / f"{name}-l20.01-seed0"
    assert results_of(run_dir)["l2"] == 0.01
    assert results_of(run_dir)["embedding_dropout"] == 0.5
    model = keras.saving.load_model(run_dir / "model.keras", compile=False)
    assert (model.smoothing.rate, model.smoothing.l2) == (0.0, 0.01)
    assert [layer.rate for layer in model.backbone.dropouts] == [0.5, 0.0, 0.5]


@on_one_backend
def test_a_grid_chooses_by_validation(folder):
    arguments = (
        *("--table=grid", "--rates=0.1,0.4", "--learning_rates=0.01"),
        "--rows=kong2019/dn_linear_512,kong2019/vanilla_tied_512",
    )
    out = done(run(folder, *arguments))
    table = folder / "runs" / "text-grid-scale0.016"
    assert (table / "rates.png").exists()
    with open(table / "table.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["preset"].split("/")[1], r["rate"]) for r in rows] == [
        ("vanilla_tied_512", ""),
        ("dn_linear_512", "0.1"),
        ("dn_linear_512", "0.4"),
    ]
    with open(table / "best.csv", newline="") as file:
        best = {row["preset"]: row for row in csv.DictReader(file)}
    assert len(best) == 2
    noised = best["kong2019/dn_linear_512"]
    assert float(noised["dev"]) == min(float(r["dev"]) for r in rows[1:])
    assert f"dn_linear_512: dev {noised['dev']}" in out
    name = "text-kong2019-dn_linear_512-scale0.016-rate0.4-learning_rate0.01"
    settings = results_of(folder / "runs" / f"{name}-seed0")
    assert settings["rate"] == 0.4 and settings["learning_rate"] == 0.01
    assert "l2" not in settings
    again = done(run(folder, *arguments))
    assert again.count("finished before") == 3


@on_one_backend
@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--model=zaremba2014/small"], "must be a preset of kong2019"),
        (["--rates=0.1"], "--rates needs --table"),
        (["--table=ptb", "--rates=0.1"], "--rates needs --table=grid"),
        (["--table=grid", "--rate=0.1"], "has lists of values: --rates"),
        (["--table=grid", "--rates=a"], "--rates must list numbers"),
        (["--window=3"], "--window needs --memory"),
        (["--table=ptb", "--samples=3"], "--samples contradicts --table"),
        (
            ["--model=kong2019/dn_linear_512", "--samples=3", "--l2=0.1"],
            "--samples needs a smoothed model",
        ),
        (
            ["--model=kong2019/vs_linear_512", "--other_words=mode"],
            "--other_words is of Kneser-Ney smoothing",
        ),
        (
            ["--model=kong2019/vanilla_tied_512", "--rate=0.1"],
            "--rate is of models that are noised or smoothed",
        ),
        (["--table=ptb", "--dataset=wikitext-2"], "needs --dataset=ptb"),
    ],
)
def test_wrong_flags(folder, arguments, message):
    result = run(folder, *arguments)
    assert result.returncode != 0
    assert message in result.stdout + result.stderr
    assert not (folder / "runs").exists()
