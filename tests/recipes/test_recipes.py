"""Recipes, run as users run them."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

from memlm_keras import presets
from memlm_keras.experiments import command_line
from memlm_keras.experiments import recipe
from memlm_keras.experiments.options import OVERRIDES
from memlm_keras.experiments.options import read_options
from memlm_keras.experiments.tasks import resolve

RECIPES = pathlib.Path(__file__).parents[2] / "recipes"
NAMES = (
    "daniluk2017",
    "tran2016",
    "salton2017",
    "kong2019",
    "weissenborn2016",
    "baselines",
)


def steps_of(name):
    spec = importlib.util.spec_from_file_location(name, RECIPES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.STEPS


@pytest.mark.parametrize("name", NAMES)
def test_every_step_is_a_command_that_can_be_typed(name):
    for step in steps_of(name).values():
        verb, what, *flags = step
        command = command_line.COMMANDS[verb]
        _, values = command.parse([what, *flags])
        given = {k: v for k, v in values.items() if k in OVERRIDES}
        read_options(OVERRIDES.values(), given)
        if verb == "train":
            assert resolve(what) == what
            continue
        rows = presets.tables()[what].rows
        if "rows" in values:
            known = {row.label.rpartition("/")[2] for row in rows}
            assert set(values["rows"].split(",")) <= known


def test_tables_of_the_papers_are_all_of_some_recipe():
    steps = [step for name in NAMES for step in steps_of(name).values()]
    ran = {step[1] for step in steps if step[0] == "table"}
    assert ran == set(presets.tables())


def test_what_is_typed_behind_a_step_wins(monkeypatch, capsys):
    called = []

    def called_with(arguments):
        called.append(arguments)
        return 0 if len(called) < 3 else 7

    monkeypatch.setattr(command_line, "main", called_with)
    steps = {"a": ["train", "x/lstm", "--epochs=3"], "b": ["table", "x/y"]}

    def run(*arguments):
        return recipe.main(steps, "A recipe.", list(arguments))

    assert run("a", "b", "--epochs=1", "--grid", "l2=0,1") == 0
    more = ["--epochs=1", "--grid", "l2=0,1"]
    assert called == [[*steps["a"], *more], [*steps["b"], *more]]
    # The status of a step is that of the recipe, and ends it.
    assert run("b", "a") == 7 and called[2:] == [steps["b"]]
    assert run("--model=rnn", "--seed=3") == 7
    assert called[-1] == ["train", "x/rnn", "--seed=3"]
    assert run("--table=y/z") == 7 and called[-1] == ["table", "y/z"]
    capsys.readouterr()
    assert run("c") == 2 and "There is no step c." in capsys.readouterr().err
    assert run() == 0 and "a: memlm train x/lstm" in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_a_recipe_tells_its_steps(name):
    found = subprocess.run(
        [sys.executable, RECIPES / f"{name}.py"],
        env={**os.environ, "PYTHONPATH": str(RECIPES.parent)},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0 and not found.stderr, found.stderr
    for step in steps_of(name):
        assert f"\n  {step}: memlm " in found.stdout
