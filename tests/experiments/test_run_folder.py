import itertools
import json

import pytest

from memlm_keras.experiments import run_folder
from memlm_keras.experiments.opened import open_run
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.run_folder import RunFolder

SETTINGS = {"preset": "a/b", "lengths": (3, 4), "seed": 0}


@pytest.fixture
def run(tmp_path):
    """Returns the folder of a new run."""
    run = RunFolder(tmp_path / "run")
    assert run.open(SETTINGS) == "new"
    run.write_config(SETTINGS, {"preset": "a/b"}, "LanguageModel")
    return run


def finish(run, **others):
    results = {"epochs": 5, "best_epoch": 5, "most_epochs": 5, "patience": 2}
    run_folder.write_json(run.path / "results.json", {**results, **others})


def test_states_of_a_run(run):
    assert run.is_run and run.recipe() == {"preset": "a/b"}
    assert run.open(SETTINGS) == "new"
    run.checkpoint.touch()
    assert run.open(SETTINGS) == "interrupted"
    finish(run)
    assert run.open(SETTINGS) == "finished"
    assert run.open(SETTINGS, epochs=6) == "interrupted"
    # A run that its patience ended continues with a larger patience.
    finish(run, best_epoch=3)
    assert run.open(SETTINGS, epochs=6) == "finished"
    assert run.open(SETTINGS, epochs=6, patience=3) == "interrupted"
    finish(run, finite=False)
    assert run.open(SETTINGS, epochs=6) == "finished"
    finish(run, ended=True)
    assert run.open(SETTINGS, epochs=6) == "finished"


def test_what_is_no_run_is_refused(tmp_path):
    (tmp_path / "model.keras").write_text("somebody's")
    with pytest.raises(UsageError, match="so its run is unknown"):
        RunFolder(tmp_path).open(SETTINGS)


def test_moving_aside_finds_a_free_name(run, capsys):
    finish(run)
    first = run.move_aside()
    assert first.name == "run-old1" and not run.path.exists()
    assert run.move_aside() is None
    run.open(SETTINGS)
    assert run.move_aside().name == "run-old2"
    assert (first / "results.json").exists()
    assert "Renamed " in capsys.readouterr().out


NAMES, DAMAGED = ("config", "results"), (b'{"epochs": 1', b"[1]", b"\xff")


@pytest.mark.parametrize(
    "name, content", [*itertools.product(NAMES, DAMAGED), ("results", b"{}")]
)
def test_damaged_files_are_named(name, content, run):
    finish(run)
    (run.path / f"{name}.json").write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}.json is damaged") as error:
        run.open(SETTINGS)
    assert not isinstance(error.value, UsageError)


def test_a_log_counts_a_repeated_epoch_once(run):
    whole = "epoch,loss\r\n0,3.0\r\n1,2.5\r\n1,2.0\r\n"
    rows = [{"epoch": 0.0, "loss": 3.0}, {"epoch": 1.0, "loss": 2.0}]
    for cut in ("", "2", "2,", "2,1.", "2,1.5", "2,1.5\r"):
        run.log_path.write_text(whole + cut, newline="")
        assert run.log() == rows
    for content in (
        *("epoch,loss\n", "epoch,loss\n0,x\n", "loss\n1\n", "\n", ""),
        *(f"{whole}3,1.5\n", f"{whole}2\n", f"{whole}2,1.5,4\n"),
    ):
        run.log_path.write_text(content)
        with pytest.raises(ValueError, match="log.csv is damaged"):
            run.log()


def test_a_path_that_means_no_run(run, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text(json.dumps(SETTINGS))
    with pytest.raises(UsageError, match="holds several runs"):
        open_run(tmp_path)
    with pytest.raises(UsageError, match="Did you mean .*run?"):
        open_run(tmp_path / "runn")
