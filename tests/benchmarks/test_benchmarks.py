import dataclasses
import importlib
import json
import math

import numpy as np
import pytest

from benchmarks import cases
from benchmarks import report
from benchmarks import runner
from benchmarks.runner import Result

TINY = cases.Case(
    "tiny",
    "Two small layers",
    (
        cases.Contender("pytorch", "torch"),
        cases.Contender("package", "torch"),
        cases.Contender("plain_keras", "torch", tolerance=1e-2),
    ),
    batch=3,
    time=4,
    vocabulary=30,
    units=8,
    embedding=8,
    layers=2,
    tied=True,
)


def test_targets_are_the_next_inputs():
    inputs, targets = TINY.batches(3)
    assert inputs.shape == targets.shape == (3, 3, 4)
    np.testing.assert_array_equal(inputs[:, :, 1:], targets[:, :, :-1])
    np.testing.assert_array_equal(inputs[1:, :, 0], targets[:-1, :, -1])


def test_operations_of_the_medium_model():
    """89 GFLOP a step, counted by hand from the sizes."""
    case = cases.CASES["zaremba_medium"]
    gates = 2 * 4 * 650 * (650 + 650) * 2
    head = 2 * 650 * 10_000
    assert case.flop == 3 * 32 * 35 * (gates + head)
    assert cases.CASES["memories"].flop is None


def test_one_who_computes_something_else_is_not_timed():
    contenders = TINY.contenders
    results = [Result(c.name) for c in contenders]
    for result, loss in zip(results, (3.0, 3.001, math.nan)):
        result.loss = loss
    runner.judge(contenders, results)
    assert results[0].refused is None
    assert "3.001000" in results[1].refused
    assert "nan" in results[2].refused
    for result in results:
        result.seconds, result.peak = [0.1], 1e9
    lines = "\n".join(report.table(TINY, results))
    assert lines.count("| 100.0 |") == 1
    assert "package torch was not timed: its loss of 3 steps" in lines


def test_ratios_are_of_turns_of_one_round():
    slow = Result("slow", seconds=[2.0, 4.0, 9.0])
    fast = Result("fast", seconds=[1.0, 2.0, 3.0])
    assert runner.ratios(slow, fast) == (2.0, 2.0, 3.0)


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setitem(cases.CASES, "tiny", TINY)


def test_contenders_agree(known):
    """Peers of the package give its losses from the same weights."""
    found = []
    for contender in TINY.contenders[:2]:
        module = importlib.import_module(f"benchmarks.peers.{contender.peer}")
        made = module.make(TINY, contender.variant, contender.precision)
        found.append(made.losses(3))
        made.steps(2)
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_a_record_is_shown_again(tmp_path):
    results = [Result("pytorch torch", 3.0, None, [0.1, 0.2], 1e9)]
    measured = {"zaremba_medium": results}
    report.write(tmp_path / "r.json", report.record(measured, 2, 2))
    found = json.loads((tmp_path / "r.json").read_text())
    page = report.document(found)
    assert "| pytorch torch | 150.0 | 1.00 |" in page
    assert found["cases"]["zaremba_medium"] == [
        dataclasses.asdict(result) for result in results
    ]
