"""Tests the queue of runs at published sizes, and its command."""

import pytest
from absl import flags
from corpus_files import write_splits
from told import ROOT

import claim_runs
import logs
import memlm_keras as memlm
from memlm_keras.experiments import command_line
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.tables import runs
from paper_claims import CLAIMS
from paper_claims import Setting

from .conftest import loaded

LOGS = ROOT / "docs" / "results" / "logs"


@pytest.fixture
def recipe(program):
    """`recipe(*flags)`: returns the program's module with parsed flags."""
    module = program("published")

    def with_flags(*arguments):
        flags.FLAGS(["published", *arguments])
        return module

    return with_flags


@pytest.fixture(scope="module")
def found():
    """Returns all entries of the queue, with their rows and runs."""
    with loaded("published") as module:
        flags.FLAGS(["published"])
        return list(module.runs_of(module.QUEUE))


@pytest.fixture
def tiny(recipe, tmp_path, monkeypatch):
    """`tiny(*arguments)`: runs the program with two entries that share a
    run."""
    write_splits(tmp_path / "text")
    monkeypatch.chdir(tmp_path)
    options = {"scale": 0.04, "batch_size": 4}
    setting = Setting("A small text", "text", options)
    last = {"epochs": 2, "patience": 2, "test_last": True}

    def run(*arguments):
        module = recipe("--logs=logs", *arguments)
        rest = ("daniluk2017/models", "lstm rnn", setting)
        one, two = [
            module.Entry(name, *rest, seeds, 0.5, 4, "all", last)
            for name, seeds in (("one", 1), ("two", 2))
        ]
        monkeypatch.setattr(module, "QUEUE", (one, two))
        names = [each for each in arguments if not each.startswith("-")]
        return module.main(names)

    return run


def test_entries_say_what_they_are(recipe):
    queue = recipe().QUEUE
    assert len({entry.name for entry in queue}) == len(queue)
    for entry in queue:
        assert entry.decides and min(entry.hours, entry.minutes) > 0
        # Each name in an entry is a preset, which may have several settings.
        known = {row.preset for row in recipe().rows_of(entry)}
        named = entry.rows.split()
        assert len(known) == len(named) or (known and not named), entry.name


def test_each_run_is_as_published_and_is_there_once(found):
    names = [run.folder.name for *_, of_row in found for run in of_row]
    assert len(names) == len(set(names)) > 250
    # Every trained run is in the queue, except runs with fewer epochs.
    trained = logs.read(LOGS / "paper.jsonl")
    assert {name for name in trained if "_epochs" not in name} <= set(names)
    without = {entry.name for entry, *_ in found}
    for entry, row, of_row in found:
        for run in of_row[:1]:
            without.discard(entry.name)
            assert run.study == LOGS / "paper.jsonl"
            changes = {**row.changes, **entry.changes}
            # A run overrides only `documents` and what its entry changes.
            assert run.experiment.overrides.keys() <= {"documents", *changes}
            if not changes:
                published = memlm.presets.get(row.preset)
                assert run.experiment.preset == published, run.title
    assert not without


def test_claims_have_the_same_runs(found):
    of_queue = {run.folder: run for *_, of_row in found for run in of_row}
    for model in claim_runs.models_of(CLAIMS, "paper").values():
        for seed in range(model.setting.seeds):
            run = model.run(seed, LOGS)
            assert run.recipe == of_queue[run.folder].recipe
            assert run.running.items() <= of_queue[run.folder].running.items()


def test_the_list_is_of_commands(recipe, capsys, tmp_path):
    assert recipe("--list", f"--logs={tmp_path}").main([]) == 0
    told = capsys.readouterr()
    commands = told.out.splitlines()
    assert f"{len(commands)} of {len(commands)} runs are missing" in told.err
    assert len(commands) == len(set(commands))
    for command in commands:
        program, verb, *words = command.split(" ")
        assert (program, verb) == ("memlm", "train")
        command_line.COMMANDS[verb].parse(words)
        for flag in ("--data_dir", "--run_dir", "--backend", "--verbose"):
            assert flag not in command
    assert "0 of 50 rows" in told.err and "SICK in their place" in told.err
    recipe("--seeds=1").main(["tran2016", "zaremba"])
    told = capsys.readouterr()
    assert told.out.count("\n") == 15
    assert "0 of 3 rows with a published number" in told.err
    assert "0.8" in told.err and "123.5" in told.err and "0/1" in told.err
    recipe("--data_dir=texts").main(["zaremba_small"])
    here = " --data_dir=texts/ptb --run_dir=runs --backend="
    assert here in capsys.readouterr().out


def test_an_entry_that_is_not_there(recipe):
    with pytest.raises(UsageError, match="no entry tran2017. Did you mean tra"):
        recipe().main(["tran2017"])


def test_the_time_is_over(tiny, capsys):
    assert tiny("--minutes=0") == 0
    assert "The time is up." in capsys.readouterr().out


@pytest.mark.slow
def test_runs_are_continued_and_kept(tiny, tmp_path, capsys, monkeypatch):
    train_in_process = runs.train_in_process

    def stop_at_once(folder, recipe, running, stop):
        return train_in_process(folder, recipe, running, lambda: True)

    with monkeypatch.context() as context:
        context.setattr(runs, "train_in_process", stop_at_once)
        assert tiny("one")
    assert tiny("one", "--jobs=2", "--trial=batch_size=5") == 0
    told = capsys.readouterr().out
    assert "2/2 memlm train" in told and "--batch_size=5" in told
    kept = logs.read(tmp_path / "logs" / "paper.jsonl")
    (name,) = [name for name in kept if "lstm" in name]
    assert kept[name]["results"]["last_epoch"]
    # The second entry has only the second seed.
    tiny("--list", "--trial=batch_size=5")
    told = capsys.readouterr()
    assert told.out.count("memlm train") == 2 and "--seed=0" not in told.out
