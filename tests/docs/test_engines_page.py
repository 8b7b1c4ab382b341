"""The page of engines has the numbers of its log."""

import json
import pathlib

import engine_runs
import pytest

RESULTS = pathlib.Path(__file__).parents[2] / "docs" / "results"
LOG = json.loads((RESULTS / "logs" / "engines.json").read_text())


@pytest.mark.parametrize("title", engine_runs.QUANTITIES.values())
def test_tables_are_those_of_the_log(title):
    page = (RESULTS / "engines.md").read_text(encoding="utf-8")
    table = engine_runs.tables(LOG)[title]
    text = f"## {title}\n\n{table}\n"
    assert text in page, f"it should be:\n{text}"


def test_every_family_and_engine_is_there():
    assert tuple(LOG["families"]) == engine_runs.FAMILIES
    for found in LOG["families"].values():
        assert found.keys() == engine_runs.ENGINES.keys()
