"""Tests that the page of engines has the numbers in its log."""

import json
import pathlib

import engine_runs

RESULTS = pathlib.Path(__file__).parents[2] / "docs" / "results"
LOG = json.loads((RESULTS / "logs" / "engines.json").read_text())


def test_the_table_is_that_of_the_log_and_whole():
    page = (RESULTS / "engines.md").read_text(encoding="utf-8")
    table = engine_runs.table(LOG)
    assert f"\n\n{table}\n\n" in page, f"it should be:\n{table}"
    assert tuple(LOG["families"]) == engine_runs.FAMILIES
    for found in LOG["families"].values():
        assert found.keys() == engine_runs.ENGINES.keys()
