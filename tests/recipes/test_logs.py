"""Tests the logs of studies: which results of a run are kept and read."""

import json
import pathlib

import numpy as np
import pytest

import logs
import programs

LOGS = pathlib.Path(__file__).parents[2] / "docs" / "results" / "logs"


@pytest.fixture
def run(tmp_path):
    """Returns a run folder with the files that a queue keeps."""
    folder = tmp_path / "lstm-seed0"
    folder.mkdir()
    results = {"test": {"perplexity": 81.25}, "parameters": 9, "seed": 0}
    results["command"] = "memlm train lstm --data_dir=/x/ptb --run_dir=/y --v=2"
    (folder / "results.json").write_text(json.dumps(results))
    (folder / "log.csv").write_text("epoch,loss\n0,5.92881965637207\n1,4.5\n")
    (folder / "test_losses.csv").write_text("41.0875,7\n157.7034,38\n")
    return folder


def test_a_run_is_read_as_it_was_kept(run, tmp_path):
    study = tmp_path / "new" / "study.jsonl"
    assert logs.read(study) == {}
    logs.keep(run, study)
    ((name, kept),) = logs.read(study).items()
    assert name == "lstm-seed0" and kept["results"]["parameters"] == 9
    command = "memlm train lstm --data_dir=path/to/ptb --v=2"
    assert kept["results"]["command"] == command
    assert kept["log"] == {"epoch": [0, 1], "loss": [5.92882, 4.5]}
    losses = [[41.0875, 7], [157.7034, 38]]
    assert np.array_equal(kept["test_losses"], losses)
    assert list(study.parent.iterdir()) == [study]


def test_a_run_replaces_one_of_its_name(run, tmp_path):
    study = tmp_path / "study.jsonl"
    logs.keep(run, study)
    logs.keep(run.rename(tmp_path / "lstm-seed1"), study)
    before = logs.read(study)["lstm-seed1"]
    logs.add(study, "lstm-seed0", {"results": {"test": {"perplexity": 83.0}}})
    assert list(logs.read(study)) == ["lstm-seed0", "lstm-seed1"]
    assert logs.read(study)["lstm-seed1"]["log"] == before["log"]
    assert logs.numbers(study) == {("lstm", "test", "perplexity"): [83, 81.25]}


def test_a_damaged_study_is_named(tmp_path):
    (tmp_path / "study.jsonl").write_text('{"name": "lstm"')
    with pytest.raises(ValueError, match="study .*study.jsonl is damaged"):
        logs.read(tmp_path / "study.jsonl")


def test_the_program_prints_and_keeps(run, program, tmp_path, capsys):
    main, study = program("logs").main, str(tmp_path / "study.jsonl")

    def call(*arguments):
        status = programs.call(main, ["logs.py", *map(str, arguments)])
        return status, *capsys.readouterr()

    assert call("keep", study, run) == (0, "", "")
    told = "lstm: test perplexity: 81.2500\n"
    assert call(study) == (0, told, "")
    status, out, _ = call(study, "lstm-seed0")
    assert status == 0 and json.loads(out)["test_losses"][1] == [157.7034, 38]
    assert "Did you mean lstm-seed0?" in call(study, "lstm-seed")[2]
    other = tmp_path / "other.jsonl"
    assert call("keep", other, study) == (0, "", "")
    assert other.read_text() == pathlib.Path(study).read_text()
    (run / "test_losses.csv").unlink()
    assert "claims.py skips the run" in call("keep", other, run)[2]
    assert "test_losses" not in logs.read(other)["lstm-seed0"]
    assert call()[0] == call("keep", study)[0] == 2
    status, _, error = call(LOGS / "engines.json")
    assert status == 2 and "engines.json is not a study. Name a" in error
    assert call("keep", study, tmp_path)[0] == 2


def test_all_studies_are_read(program, capsys):
    for study in LOGS.glob("*.jsonl"):
        for name, kept in logs.read(study).items():
            assert {"results", "log", "text"} & set(kept), (study, name)
    main = program("logs").main
    grid = ["logs.py", str(LOGS / "gpu.jsonl"), "times"]
    assert programs.call(main, grid) == 0
    expected = logs.read(LOGS / "gpu.jsonl")["times"]["text"]
    assert capsys.readouterr().out == expected
