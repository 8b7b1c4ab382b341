"""Faults of machines and people, and what is left of a run after them."""

import shutil

import pytest

import memlm_keras
from memlm_keras import files
from memlm_keras.experiments import Experiment
from memlm_keras.experiments import RunFolder
from memlm_keras.experiments import figures

from .conftest import SMALL

LSTM = ("train", "daniluk2017/lstm", "--dataset=text", *SMALL)


@pytest.fixture
def experiment(folder):
    return Experiment("daniluk2017/lstm", "text", scale=0.02, batch_size=4)


def test_a_run_folder_is_used_by_one_process(memlm, run):
    with files.hold(run):
        for command in (LSTM, (*LSTM, "--overwrite"), ("evaluate", run)):
            told = memlm(*command)
            assert told.status == 1 and f"{run.name} is in use by" in told.err
            assert told.err.count("\n") == 1
        assert memlm("score", run, "the sea").status == 0
    assert memlm("evaluate", run, "--verbose=0").status == 0


def test_a_run_folder_deleted_in_training(experiment, folder, monkeypatch):
    monkeypatch.setattr(
        memlm_keras.training.Throughput,
        "on_epoch_end",
        lambda self, epoch, logs: shutil.rmtree("run"),
    )
    with pytest.raises(OSError, match="run was moved or deleted"):
        experiment.run("run", epochs=1, verbose=0)
    assert not (folder / "run").exists()


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
