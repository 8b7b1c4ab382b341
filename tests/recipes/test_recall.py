"""Runs the recall suite's recipe as users do."""

import re
import shlex
import sys

import keras
import pytest
from told import ROOT
from told import python

import programs
import recall_rows
import recall_runs

PAGES = ("docs/results/recall.md", "docs/how_to/recall.md")
# Copy the names before a page adds its own rows.
ROWS, SETTINGS = list(recall_rows.ROWS), list(recall_rows.SETTINGS)


def recipe(*arguments, **options):
    recall = ROOT / "recipes/recall.py"
    backend = keras.backend.backend()
    return python(recall, *arguments, **options, KERAS_BACKEND=backend)


@pytest.mark.slow
def test_it_prints_a_table_and_draws(tmp_path):
    arguments = "--task=binding --people=1,2 --rows=gru --units=4 --epochs=1"
    arguments = (*arguments.split(), "--setting=small")
    found = recipe(*arguments, folder=tmp_path)
    assert found.out.startswith(
        "Models to train: 2, on up to 6,000 sequences each, which takes minutes"
    )
    assert "| gru | " in found.out and "binding, people 2" in found.out
    assert "training at 6,000 of the 150,000 sequences" in found.out
    assert found.out.splitlines()[-1] == recall_runs.VERDICTS
    pictures = {path.name for path in tmp_path.glob("runs/recall/*.png")}
    names = ("binding_small", "binding_small_1_bytes", "binding_small_2_bytes")
    assert pictures == {f"{name}.png" for name in names}
    again = recipe(*arguments, folder=tmp_path)
    assert "Epoch 1" not in again.out
    assert again.out.splitlines()[-12:] == found.out.splitlines()[-12:]


def test_help_lists_rows_and_settings(tmp_path):
    found = recipe("--help", folder=tmp_path, status=None).out
    # The help breaks a long list within words.
    words = re.findall(r"\w+", found + re.sub(r"\n +", "", found))
    assert {*ROWS, *SETTINGS} <= set(words)


# === Command lines that stop before training ===

# Exit status of a command line that would train.
TRAINS = -1
WRONG = {
    "--epochs=0": "--epochs=0: 0 is not a positive integer",
    "--epochs=a": "--epochs=a",
    "--pairs=2,17": "mqar, pairs 17: `length` .* at least 68,",
    "--forgetting=5": "`forgetting` .* forgetting=5 and pairs=4",
    "--task=copy --distances=1,70": "copy, distance 70: `length` .* 78",
    "--task=binding --people=40": "binding, people 40: `names` .* 40",
    "--seeds=0,-1": "--seeds=0,-1: -1 is not a non-negative integer",
    "--units=": "--units=: invalid literal",
    "--units=5": "AssociativeGRUCell must be even.*Received: units=5",
    "--rows=gri": "--rows=gri: value should be one of <lstm.*gru",
    "--setting=smal": "--setting=smal: value should be one of <small",
    "--pairs=2 --task=copy": "--pairs is for --task=mqar .*Received: --task=co",
    "--filler=zeros --task=binding": "--filler is for --task=mqar",
    "--pairs=2 --setting=mix": "must be the default.*setting=mix",
    "--pairs=2 4": "commas without spaces. Received: 4",
}
RIGHT = {
    "": "Models to train: 30, on up to 150,000 sequences each, .* minutes",
    "--pairs=10,10 --forgetting=10 --rows=gru,gru --seeds=1,1": "train: 1,",
    "--task=copy --distances=56 --rows=gru --seeds=0,1": "Models to train: 2,",
    "--task=binding --people=32 --rows=gru --epochs=2": "1, .* 12,000 sequ",
    "--setting=small_rates --rows=gru": "Models to train: 3,",
    "--setting=zoology_64 --rows=gru": "train: 4, on up to 6,400,000 .* hours",
    "--setting=zoology_256 --rows=lstm --pairs=64": "Models to train: 4,",
    "--setting=mix --rows=lstm,induction --epochs=5": "8, on up to 30,000 seq",
    "--setting=mix --task=copy --rows=gru --distances=5": "to train: 4,",
}


def on_pages():
    """Yields the flags of all of the recipe's commands on pages."""
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        text = re.sub(r"\\\n *", "", text)
        for line in re.findall(r"^ *python recipes/recall.py(.*)$", text, re.M):
            yield " ".join(shlex.split(line, comments=True))


@pytest.fixture
def call(program, monkeypatch, tmp_path, told):
    """`call(typed)`: parses flags in this process without training; returns
    status and output."""
    recall = program("recall")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(recall.process, "import_keras", lambda backend: None)
    monkeypatch.setattr(recall_runs, "_train", lambda *_: sys.exit(TRAINS))

    def main(*arguments):
        try:
            return programs.call(recall.main, ["recall.py", *arguments])
        except SystemExit as end:
            return end.code

    yield lambda typed: told(main, *typed.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("typed", WRONG)
def test_wrong_flags_are_named_before_training(typed, call):
    status, out, error = call(typed)
    assert status == 2 and not out
    assert error.startswith("recall.py: ") and error.count("\n") == 1
    assert re.search(WRONG[typed], error), error


@pytest.mark.parametrize("typed", RIGHT)
def test_what_it_costs_is_said_before_training(typed, call):
    status, out, error = call(typed)
    assert status == TRAINS and not error
    cost, first = out.splitlines()
    assert re.search(RIGHT[typed], cost), cost
    assert first.startswith("1/")


@pytest.mark.parametrize("typed", sorted(set(on_pages())))
def test_commands_of_pages_train(typed, call):
    status, _, error = call(typed)
    assert status == TRAINS, error
