"""Numbers in the tables of result pages come from kept logs."""

import collections
import csv
import json
import pathlib
import re
import statistics

import pytest

RESULTS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "results"
# Folders of the logs behind each page.
LOGS = {
    "daniluk2017": ["small"],
    "defaults": ["defaults", "ablation"],
    "kong2019": ["small", "together"],
    "natural_text": ["natural_text"],
    "quickstart": ["quickstart"],
    "recall": ["recall"],
    "salton2017": ["small"],
    "tran2016": ["paper", "kneser_ney"],
    "weissenborn2016": ["paper", "pairs", "autoencoding"],
}
# Columns and rows with published, chosen or analytic values, and the table of
# similar keys, which is computed from a model.
NOT_LOGGED = re.compile("paper|chance|rate$|embeddings|better|words apart")


def measured(page):
    """Numbers in the results of a page, and their mean and deviation."""
    by_seed = collections.defaultdict(list)

    def add(place, value):
        if isinstance(value, list):
            value = dict(enumerate(value))
        if isinstance(value, dict):
            for key, entry in value.items():
                add((*place, key), entry)
        elif isinstance(value, float):
            by_seed[place].append(value)

    for folder in LOGS[page]:
        for path in sorted((RESULTS / "logs" / folder).rglob("*.json")):
            run = re.sub(r"seed\d+", "", str(path.relative_to(RESULTS)))
            add((run,), json.loads(path.read_text()))
        for path in (RESULTS / "logs" / folder).rglob("log.csv"):
            for row in csv.DictReader(path.open()):
                for name in ("val_accuracy", "val_perplexity"):
                    add((path, row["epoch"], name), float(row.get(name, 0)))
    for values in by_seed.values():
        yield from values
        if len(values) > 1:
            yield statistics.mean(values)
            yield statistics.stdev(values)


def table_numbers(page):
    """Decimal numbers of all tables, as text."""
    text = (RESULTS / f"{page}.md").read_text(encoding="utf-8")
    for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
        header, _, *rows = [
            [cell.strip() for cell in line.strip("|\n").split("|")]
            for line in table.splitlines()
        ]
        if NOT_LOGGED.search(header[0]):
            continue
        for row in rows:
            for name, cell in zip(header[1:], row[1:]):
                if not NOT_LOGGED.search(name) and row[0] != "chance":
                    yield from re.findall(r"(?<![\w.])\d+\.\d+", cell)


@pytest.mark.parametrize("page", LOGS)
def test_numbers_have_a_log(page):
    logged = {
        round(factor * value, digits)
        for value in measured(page)
        for factor in (1, 100)
        for digits in (1, 2, 3)
    }
    assert not [n for n in table_numbers(page) if float(n) not in logged]
