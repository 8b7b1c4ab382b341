import dataclasses
import importlib
import json
import math

import keras
import numpy as np
import pytest
from told import python

from benchmarks import cases
from benchmarks import growth
from benchmarks import report
from benchmarks import runner
from benchmarks import suites
from benchmarks.peers import pytorch_memories
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
    """A step has 89 GFLOP, counted by hand from the model's sizes."""
    case = suites.CASES["zaremba_medium"]
    gates = 2 * 4 * 650 * (650 + 650) * 2
    head = 2 * 650 * 10_000
    assert case.flop == 3 * 32 * 35 * (gates + head)
    assert suites.CASES["memories"].flop is None


def test_contenders_with_another_loss_are_not_timed():
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


def test_ratios_compare_turns_of_one_round():
    slow = Result("slow", seconds=[2.0, 4.0, 9.0])
    fast = Result("fast", seconds=[1.0, 2.0, 3.0])
    assert runner.ratios(slow, fast) == (2.0, 2.0, 3.0)


def test_a_memory_is_compared_with_an_lstm_of_its_sizes():
    case = suites.CASES["memories"]
    (contender,) = (
        c
        for c in case.contenders
        if (c.peer, c.backend, c.variant) == ("package", "jax", "ngram_4")
    )
    assert case.base(contender) == "package jax lstm_4_parts"
    for suite_case in suites.CASES.values():
        names = {c.name for c in suite_case.contenders}
        assert {suite_case.base(c) for c in suite_case.contenders} <= names


@pytest.mark.parametrize(
    "kind, variant",
    [
        ("training", "plain"),
        *(("memories", name) for name in pytorch_memories.MEMORIES),
        *(
            pytest.param("layer", name, marks=pytest.mark.backend)
            for name in pytorch_memories.LAYERS
        ),
        ("step", "key_value_predict"),
    ],
)
def test_contenders_agree(kind, variant):
    case = dataclasses.replace(
        TINY,
        kind=kind,
        units=12,
        embedding=12,
        layers=0 if variant == "memory_network" else 2,
        tied=kind == "training",
        time=1 if kind == "step" else 4,
        window=3,
    )
    losses, peers = [], ["pytorch", "package"]
    backend = keras.backend.backend()
    if backend != "torch" and variant in ("lstm_network", "word_by_word"):
        peers.append("layers_by_hand")
    for peer in peers:
        module = importlib.import_module(f"benchmarks.peers.{peer}")
        made = module.make(case, variant, "float32")
        losses.append(made.losses(3))
        made.steps(2)
    np.testing.assert_allclose(losses, losses[0], rtol=1e-5)


def small(name, **sizes):
    return dataclasses.replace(
        suites.CASES[name], vocabulary=40, units=12, embedding=8, **sizes
    )


def run(case, contenders):
    results = runner.run(case, contenders, 1, 1, 0.01, log=lambda line: None)
    assert not [result.refused for result in results if result.refused]
    return results


@pytest.mark.parametrize("engine, time", [("tensorflow", 1), ("litert", 4)])
@pytest.mark.slow
def test_engines_agree(engine, time):
    case = small("key_value_predict_token", batch=2, time=time)
    row = "key_value_predict"
    names = (f"pytorch torch {row}", f"exported {engine} {row}")
    contenders = [one for one in case.contenders if one.name in names]
    assert len(contenders) == 2
    results = run(case, contenders)
    for result in results:
        assert result.loss == pytest.approx(results[0].loss, rel=1e-5)
        assert result.start["first"] > 0
    sizes = [result.start["bytes"] for result in results]
    assert sizes[0] is None and sizes[1] > 2000
    assert len(report.table(case, results)) == 4


@pytest.mark.slow
def test_requests_of_different_lengths_have_one_answer():
    case = small("key_value_predict_lengths", batch=3, time=5)
    one, together = run(case, case.contenders)
    assert one.loss == pytest.approx(together.loss, rel=1e-5)


@pytest.mark.parametrize(
    "variant", ["batches", "sentence_batches", "noised_batches", "pair_batches"]
)
def test_pipelines_continue_with_the_next_epoch(variant, monkeypatch):
    pipeline = importlib.import_module("benchmarks.peers.pipeline")
    monkeypatch.setattr(pipeline, "_WORDS", 200)
    made = pipeline.make(TINY, variant, "float32")
    made.steps(2 * len(made.batches) + 1)
    assert made.epoch == made.batches.epoch == 2


def test_rows_of_smoothing_are_trained():
    module = importlib.import_module("benchmarks.peers.package")
    case = dataclasses.replace(TINY, kind="smoothing")
    for row in ("vanilla_tied", "dn_kneser_ney", "vs_kneser_ney"):
        made = module.make(case, row, "float32")
        assert 2 < made.losses(2) < 5


def test_a_record_is_shown_again(tmp_path):
    results = [Result("pytorch torch", 3.0, None, [0.1, 0.2], 1e9)]
    measured = {"zaremba_medium": results}
    report.write(tmp_path / "r.json", report.record(measured, 2, 2))
    record = json.loads((tmp_path / "r.json").read_text())
    page = report.document(record)
    assert "| pytorch torch | 150.0 | 1.00 |" in page
    assert record["cases"]["zaremba_medium"] == [
        dataclasses.asdict(result) for result in results
    ]


def test_a_trial_of_the_suite_for_cards():
    told = python(
        *("-m", "benchmarks", "--suite=gpu", "--trial"),
        *("--cases=gpu_1024,gpu_memories", "--minutes=0.001"),
        *("--contenders=pytorch", "--threads=1"),
    )
    for name in ("pytorch torch", "pytorch torch compiled"):
        assert f"| {name} | " in told.out
    assert "gpu_memories was left out: 0.001 minutes" in told.out


def test_the_share_of_a_card():
    case = suites.CASES["gpu_1024"]
    results = [
        Result(name, 3.0, None, [0.1], 1e13, card=card)
        for name, card in [
            ("pytorch torch", "NVIDIA H100 80GB HBM3"),
            ("package jax mixed_bfloat16", "NVIDIA H100 80GB HBM3"),
            ("package jax", "another"),
        ]
    ]
    lines = report.table(case, results)
    assert lines[0].count("of the card") == 1
    speed = case.flop / 0.1
    for line, peak in zip(lines[2:], (494e12, 989e12)):
        assert f"| {speed / peak:.1%} |" in line
    assert "|  |" in lines[4]
    assert {c.name for c in case.contenders} >= {
        "pytorch torch compiled",
        "handwritten_jax jax",
        *(f"package {backend}" for backend in suites.BACKENDS),
    }


@pytest.mark.parametrize("name", growth.GROWTH)
def test_pictures_of_growth(name, tmp_path):
    grown = growth.GROWTH[name]
    heights = {
        contender.name: [float(i) for i, _ in enumerate(grown.sizes)]
        for contender in grown.contenders("torch")
    }
    recorded = {
        "sizes": list(grown.sizes),
        "heights": heights,
        "limit": [9.0] * len(grown.sizes) if grown.measure == "speed" else [],
    }
    path = growth.draw(name, recorded, tmp_path)
    assert path.read_bytes().startswith(b"\x89PNG")
