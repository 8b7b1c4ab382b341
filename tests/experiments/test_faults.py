"""Tests runs that are killed, damaged, of older versions, or that diverge."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from told import ROOT

import memlm_keras
from memlm_keras import files
from memlm_keras import trained
from memlm_keras.experiments import Experiment
from memlm_keras.experiments import RunFolder
from memlm_keras.experiments import comparison
from memlm_keras.experiments import figures
from memlm_keras.experiments import measurements
from memlm_keras.experiments.commands.export import facts_of
from memlm_keras.experiments.commands.presets import describe_trained
from memlm_keras.experiments.experiment import experiment_of
from memlm_keras.experiments.opened import open_run
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.run_folder import write_json
from memlm_keras.experiments.tables import report
from memlm_keras.experiments.tables import runs
from memlm_keras.training import checkpoint

from .conftest import SMALL

ENDLESS = ("--dataset=text", *SMALL[:2], "--epochs=9999", "--patience=9999")
LSTM = ("train", "daniluk2017/lstm", "--dataset=text", *SMALL)


@pytest.fixture
def experiment(folder):
    return Experiment("daniluk2017/lstm", "text", scale=0.02, batch_size=4)


def test_a_run_folder_is_used_by_one_process(memlm, run):
    with files.hold(run):
        for command in (LSTM, (*LSTM, "--overwrite"), ("evaluate", run)):
            told = memlm(*command, status=1)
            assert f"{run.name} is in use by" in told.err
        memlm("score", run, "the sea")
    memlm("evaluate", run, "--verbose=0")


def named(pid):
    """Returns a dict from the command lines of child processes to their ids."""
    pids = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {pathlib.Path(f"/proc/{p}/cmdline").read_text(): p for p in pids}


def has_ended(pid):
    """Returns whether a process has ended; a zombie has ended."""
    try:
        return ") Z" in pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until(true):
    end = time.monotonic() + 240
    while not (found := true()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.slow
@pytest.mark.parametrize(
    "words, child",
    [
        (("table", "daniluk2017/models", "--rows=lstm", *ENDLESS), "\0train\0"),
        (("export", "memlm/embedded_lstm", "saved"), "_write_saved"),
    ],
)
def test_nobody_works_on_after_kill_9(words, child, folder):
    started = subprocess.Popen(
        [sys.executable, "-m", "memlm_keras", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    (pid,) = wait_until(
        lambda: [p for line, p in named(started.pid).items() if child in line]
    )
    if "table" in words:
        wait_until(lambda: list((folder / "runs").glob("*/checkpoint.npz")))
    started.kill()
    started.wait()
    wait_until(lambda: has_ended(pid))
    # The child process ended before it wrote an export or results.
    assert not list(folder.rglob("saved_model.pb"))
    for run in (folder / "runs").glob("*/config.json"):
        with files.hold(run.parent):
            assert not (run.parent / "results.json").exists()


@pytest.mark.parametrize("fails", ["draw_curve", "draw_language_model"])
def test_a_run_without_pictures_is_not_finished(fails, experiment, monkeypatch):
    def fail(*arguments):
        raise RuntimeError("killed")

    with monkeypatch.context() as context:
        context.setattr(figures, fails, fail)
        with pytest.raises(RuntimeError, match="killed"):
            experiment.run("run", epochs=1, verbose=0)
    run = RunFolder("run")
    assert run.finished_results() is None
    experiment.run("run", epochs=1, verbose=0)
    assert run.finished_results() and (run.path / figures.CURVE).exists()


def mutations(values):
    """Yields tuples of a copy of a JSON object, in which one value is missing
    or has another type, and the path of keys to this value."""
    for name, value in values.items():
        rest = {k: v for k, v in values.items() if k != name}
        yield rest, (name,)
        for wrong in (None, 1.5, "x", [1], {"a": 1}):
            yield {**values, name: wrong}, (name,)
        if isinstance(value, dict):
            for inner, names in mutations(value):
                yield {**values, name: inner}, (name, *names)


def use_run(path):
    """Reads all files of a run, as the commands of `memlm` do."""
    opened = open_run(path)
    folder = opened.folder
    assert folder.kind and folder.recipe()
    folder.finished_results()
    results = folder.results()
    facts_of(opened, cache=True)
    measurements.print_numbers(results)
    if comparison.NAME in results:
        assert comparison.describe(results)
    opened.cache()
    report.outcome(results, experiment_of(folder).columns)
    for request in measurements.requests(experiment_of(folder), {}, results):
        request.is_in(results)


def use_trained(path):
    """Reads all files of a trained model, as the commands of `memlm` do."""
    describe_trained(str(path))
    opened = open_run(path)
    facts_of(opened)
    Experiment(str(path))
    with pytest.raises(Loaded):
        assert opened.model


class Loaded(Exception):
    """Raised by tests in place of making a model."""


def load(config):
    raise Loaded


@pytest.mark.parametrize(
    "use, name",
    [
        (use_run, "config.json"),
        (use_run, "results.json"),
        (use_trained, "metadata.json"),
        (use_trained, "config.json"),
    ],
)
def test_files_of_the_right_syntax_are_used_or_named(
    use, name, memlm, train, folder, request, monkeypatch
):
    if use is use_run:
        path = request.getfixturevalue("run")
        flags = ("--cache_size=9", "--compare", "--verbose=0")
        memlm("evaluate", path, *flags)
    else:
        path = pathlib.Path("own", "model")
        shutil.copytree(trained.find("memlm/embedded_lstm"), path)
        monkeypatch.setenv(trained.VARIABLE, str(folder))
        monkeypatch.setattr(memlm_keras.LanguageModel, "from_config", load)
    use(path)
    whole = json.loads((path / name).read_text())
    if name == "config.json" and use is use_trained:
        whole = {"config": {}}
    failed = []
    for values, names in mutations(whole):
        (path / name).write_text(json.dumps(values))
        try:
            use(path)
        except Exception as error:
            known = isinstance(error, ValueError) and path.name in str(error)
            if not known:
                failed.append((names, error))
    assert not failed


@pytest.mark.parametrize(
    "version, log, mended",
    [
        ("now", "", True),
        ("now", "epoch,loss\n0,1\n0,2\n1,1\n", True),
        ("1.0", "epoch,loss\n0,2\n0,1\n1,", True),
        ("1.0", "epoch,loss\n0,", False),
    ],
)
def test_a_damaged_log_is_mended_or_named(version, log, mended, experiment):
    experiment.run("run", epochs=1, verbose=0)
    run = RunFolder("run")
    (row,) = run.log()
    if version == "1.0":
        # Checkpoints of version 1.0 did not contain the rows of the log.
        saved = checkpoint.read(run.checkpoint)
        meta = saved.pop("meta")
        for _, state in meta["callbacks"]:
            state.pop("rows", None)
        checkpoint.write(run.checkpoint, meta, saved)
        row = {"epoch": 0, "loss": 1}
    run.log_path.write_text(log)
    before = run.checkpoint.read_bytes()
    if not mended:
        with pytest.raises(ValueError, match="log.csv"):
            experiment.run("run", epochs=2, verbose=0)
        assert run.checkpoint.read_bytes() == before
        return
    assert experiment.run("run", epochs=2, verbose=0)["epochs"] == 2
    first, second = run.log()
    assert row.items() <= first.items() and second["loss"] > 0


def test_a_run_of_a_version_with_other_defaults(folder):
    small = ("kong2019/vs_kneser_ney_512", "text")
    sizes = {"scale": 0.02, "batch_size": 4}
    before = Experiment(*small, **sizes, output_bias=False)
    before.run("run", epochs=1, verbose=0)
    with pytest.raises(UsageError, match="/bias, of .* A default of kong2019/"):
        Experiment(*small, **sizes).run("run", epochs=2, verbose=0)


def test_a_run_of_1_0_goes_on_with_its_other_words(folder):
    """Version 1.0 saved no `kind`, and its `other_words` was `"mean"`."""
    arguments = {"scale": 0.02, "batch_size": 4, "output_bias": True}
    experiment = Experiment("kong2019/vs_kneser_ney_512", "text", **arguments)
    experiment.run("run", epochs=1, verbose=0)
    run = RunFolder("run")
    assert run.model().smoothing.other_words == "mode"
    config = json.loads((run.path / "config.json").read_text())
    del config["kind"]
    write_json(run.path / "config.json", config)
    for epochs in (2, 3):
        again = Experiment("kong2019/vs_kneser_ney_512", "text", **arguments)
        again.run("run", epochs=epochs, verbose=0)
        assert run.model().smoothing.other_words == "mean"


@pytest.mark.backend
@pytest.mark.parametrize("preset", ["daniluk2017/lstm", "memlm/small"])
def test_divergence_is_one_line(preset, memlm, folder):
    """The loss becomes NaN, infinite or large, which depends on the
    processor."""
    command = ("train", preset, "--dataset=text", *SMALL)
    told = memlm(*command, "--learning_rate=1e6", "--epochs=3", status=1)
    assert "Try" not in told.out
    assert "diverged in epoch 1" in told.err and "before training" in told.err
    (path,) = (folder / "runs").iterdir()
    weights = RunFolder(path).model().get_weights()
    assert all(np.isfinite(weight).all() for weight in weights)
    before = (path / "log.csv").stat().st_mtime_ns
    again = memlm(*command, "--learning_rate=1e6", "--epochs=3", status=1)
    assert again.err == told.err
    assert (path / "log.csv").stat().st_mtime_ns == before


@pytest.mark.parametrize("finite", [True, False])
def test_a_row_that_diverged_has_results(finite, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    monkeypatch.setattr(runs, "_arguments", lambda *given: [])
    write_json(tmp_path / "results.json", {"finite": finite})
    failure = runs.train_in_process(tmp_path, {}, {}, lambda: False)
    assert (failure is None) is not finite
