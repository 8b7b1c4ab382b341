"""Compares the commands on result pages with the logs of their runs."""

import pathlib
import shlex

import pytest

import logs
import programs
from memlm_keras import presets
from memlm_keras.experiments import command_line
from memlm_keras.experiments.commands.table import read_grid
from memlm_keras.experiments.experiment import Experiment
from memlm_keras.experiments.options import OVERRIDES
from memlm_keras.experiments.tables import runs as running
from memlm_keras.experiments.tables.table import TableRuns
from memlm_keras.experiments.tables.table import preset_of
from memlm_keras.experiments.tables.table import row_experiment
from paper_steps import STEPS

DOCS = pathlib.Path(__file__).parents[2] / "docs"
every_paper = pytest.mark.parametrize("paper", STEPS)


def identity(experiment, values):
    """Returns a run's arguments without the text's path, and training's
    length."""
    arguments = dict(experiment.recipe)
    arguments.pop("data_dir", None)
    if "optimizer" in experiment.preset:
        # Without a flag, the preset sets the learning rate.
        rate = experiment.preset["optimizer"]["config"]["learning_rate"]
        arguments.setdefault("learning_rate", rate)
    # Omit measures, which a later run can add.
    limits = [values.get(name) for name in ("epochs", "patience")]
    return (*sorted((k, str(v)) for k, v in arguments.items()), *limits)


def read(verb, *words):
    """Returns a command's positional arguments, all flags, and overrides."""
    positional, values = command_line.COMMANDS[verb].parse(words)
    overrides = {k: v for k, v in values.items() if k in OVERRIDES}
    return positional, values, overrides


def runs_of(step):
    """Returns the runs of a step, whose command must be valid."""
    verb, *words = step.arguments
    positional, values, overrides = read(verb, *words)
    if verb == "train":
        presets.get(positional.preset)
        return set()
    table = TableRuns(
        positional.table,
        values["dataset"],
        rows=values["rows"].split(",") if "rows" in values else None,
        grid=read_grid([*values.get("grid", []), *positional.settings]),
        overrides=overrides,
    )
    found = set()
    for row in table.rows:
        of_row = preset_of(row), table.dataset
        for seed in map(int, values["seeds"].split(",")):
            run = row_experiment(*of_row, seed, overrides, row.changes)
            found.add(identity(run, values))
    return found


def logged(paper, folder):
    """Returns the runs of a paper in a log file."""
    found = set()
    study = logs.read(DOCS / "results" / "logs" / f"{folder}.jsonl")
    for run in study.values():
        results = run["results"]
        if "preset" not in results:
            continue
        name = results["preset"]
        # Kneser-Ney runs are on the page of Tran et al. (2016).
        if name.partition("/")[0] == paper or "/" not in name:
            words = shlex.split(results["command"])[1:]
            positional, values, overrides = read(*words)
            overrides["seed"] = values.get("seed", 0)
            of_run = positional.preset, values["dataset"]
            experiment = Experiment(*of_run, **overrides)
            found.add(identity(experiment, values))
    return found


@every_paper
def test_steps_have_the_runs_of_the_logs(paper):
    """A log's runs have the presets, flags and seeds of the paper's steps; runs
    of published sizes may also be in `recipes/published.py`."""
    by_folder = {}
    for step in STEPS[paper]:
        runs = runs_of(step)
        if step.logs:
            by_folder[step.logs] = by_folder.get(step.logs, set()) | runs
    assert by_folder.pop("paper", set()) <= logged(paper, "paper")
    for folder, runs in by_folder.items():
        assert runs == logged(paper, folder), folder


@every_paper
def test_the_program_shows_the_steps_of_a_paper(paper, capsys, program):
    main = program("paper_steps").main
    assert programs.call(main, ["paper_steps.py", paper]) == 0
    told = " ".join(capsys.readouterr().out.replace("\\\n", "").split())
    assert (DOCS / "results" / f"{paper}.md").exists()
    for step in STEPS[paper]:
        assert shlex.join(["memlm", *step.arguments]) in told
    assert programs.call(main, ["paper_steps.py"]) == 2


def test_a_table_without_a_text_says_so(memlm_command, monkeypatch):
    monkeypatch.setattr(running, "in_fresh_process", lambda do, *of: do(*of))
    table = "table daniluk2017/models --rows=lstm --scale=0.05 --list".split()
    told = memlm_command(*table)
    assert told.status == 0 and told.out.startswith("memlm train")
    assert "Without --dataset" in told.err and "75 different words" in told.err
    assert "Without" not in memlm_command(*table, "--dataset=embedded").err
