"""Runs the ablation of the package's own preset as users do."""

import json

import pytest
from corpus_files import sentences
from corpus_files import write_lines
from told import ROOT
from told import python

RECIPE = ROOT / "recipes" / "ablation.py"


@pytest.mark.slow
def test_variants_are_trained_and_compared(tmp_path):
    write_lines(tmp_path / "novel.txt", sentences(80))
    names = ["lstm", "induction", "smoothing", "average", "combined"]
    names.append("delta_rule")
    flags = [f"--variant={name}" for name in names]
    flags.append("--cache_size=9")
    flags += ["--dataset=novel.txt", "--seed=3"]
    found = python(RECIPE, *flags, folder=tmp_path)
    table = [line.split() for line in found.out.splitlines()[-len(names) :]]
    assert [row[0] for row in table] == names
    for _, parameters, seed, validation, test in table:
        assert int(parameters.replace(",", "")) > 300_000 and seed == "3"
        # The vocabulary has 12 words, and not all variants learn in so short a
        # training.
        assert 1 < float(validation) < 20 and 1 < float(test) < 20
    assert float(table[0][-1]) < 12
    run = tmp_path / "runs" / "ablation" / "delta_rule-seed3"
    results = json.loads((run / "results.json").read_text())
    assert 1 < results["cache"]["test"]["perplexity"] < 20
    command = ("-m", "memlm_keras", "evaluate", run, "--dataset=novel.txt")
    assert "test: perplexity" in python(*command, folder=tmp_path).out
