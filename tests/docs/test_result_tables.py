"""Numbers in the tables of result pages come from kept logs."""

import collections
import pathlib
import re
import statistics

import pytest

import logs
from memlm_keras import presets
from memlm_keras.presets import daniluk2017

# Read the presets' names before a test registers a paper of its own.
NAMES = presets.names()

RESULTS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "results"
# Studies behind each page.
LOGS = {
    "daniluk2017": ["paper", "small"],
    "defaults": ["defaults", "ablation"],
    "kong2019": ["small", "together"],
    "natural_text": ["natural_text"],
    "quickstart": ["quickstart"],
    "recall": ["recall"],
    "salton2017": ["paper", "small", "defaults"],
    "tran2016": ["paper", "kneser_ney"],
    "weissenborn2016": ["paper", "pairs", "autoencoding"],
}
# Pages with a paper's own tables, and other papers whose rows they contain.
PAPERS = {
    "daniluk2017": "",
    "kong2019": "",
    "salton2017": " zaremba2014 press2016 gal2016 grave2017 merity2017",
    "tran2016": "",
    "weissenborn2016": "",
}
# Columns and rows with published, chosen or analytic values.
NOT_LOGGED = re.compile("published|chance|rate$|embeddings|better")


def logged(page):
    """Returns the numbers of all seeds in a page's logs, by run and keys."""
    found = {}
    for study in LOGS[page]:
        path = RESULTS / "logs" / f"{study}.jsonl"
        for (name, *place), values in logs.numbers(path).items():
            found[f"/{study}/{name}/", *place] = values
        for name, run in logs.read(path).items():
            for column in ("val_accuracy", "val_perplexity"):
                epochs = run.get("log", {}).get(column, ())
                for epoch, value in enumerate(epochs):
                    found[f"/{study}/{name}/", column, epoch] = [value]
    return found


def measured(page):
    """Yields the logged numbers of a page, their means and their deviations."""
    for values in logged(page).values():
        yield from values
        if len(values) > 1:
            yield statistics.mean(values)
            yield statistics.stdev(values)


def cells(page):
    """Yields, for each cell, its row's first cell, its heading and its text."""
    text = (RESULTS / f"{page}.md").read_text(encoding="utf-8")
    for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
        header, _, *rows = [
            [cell.strip() for cell in line.strip("|\n").split("|")]
            for line in table.splitlines()
        ]
        for row in rows:
            for name, cell in zip(header[1:], row[1:]):
                yield row[0], name, cell


def table_numbers(page):
    """Yields the decimal numbers of all tables of a page, as text."""
    for row, name, cell in cells(page):
        if not NOT_LOGGED.search(name) and row != "chance":
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


def test_logs_have_no_paths_of_a_machine():
    for study in (RESULTS / "logs").glob("*.jsonl"):
        text = study.read_text(encoding="utf-8")
        assert not re.findall(r"--\w+=/\S{,40}", text), study.name


def published(name):
    """Yields a preset's published test results as text."""
    paper, row = name.split("/")
    for each in presets.papers()[paper].rows[row].published:
        for measure, value in each.numbers.items():
            if value is not None and "validation" not in measure:
                yield f"{value * (100 if value < 1 else 1):.1f}"
    if paper == "daniluk2017":
        for value in daniluk2017.BY_WINDOW.get(row, {}).values():
            yield f"{value:.1f}"
        for value in daniluk2017.CLOZE.get(row, {}).values():
            yield f"{value:.3f}".removeprefix("0")


@pytest.mark.parametrize("page", PAPERS)
def test_rows_of_a_paper(page):
    text = (RESULTS / f"{page}.md").read_text(encoding="utf-8")
    theirs, ours = collections.defaultdict(list), []
    for row, name, cell in cells(page):
        if label := re.match(r"`([\w/]+)`", row):
            preset = label[1] if "/" in label[1] else f"{page}/{label[1]}"
            if name.startswith("published"):
                theirs[preset] += re.findall(r"[\d.]+", cell)
            else:
                found = re.findall(r"([\d.]+)( ± [\d.]+)? (\(\d+\))", cell)
                ours += [(preset, *each) for each in found]
    for name in NAMES:
        if name.split("/")[0] in (page + PAPERS[page]).split():
            assert name.removeprefix(f"{page}/") in text
            assert sorted(theirs[name]) == sorted(published(name)), name
    groups = logged(page)
    assert ours
    for preset, mean, deviation, seeds in ours:
        run = re.compile(f"[-_/]{preset.replace('/', '[-_]')}[-/]")
        digits = len(mean.partition(".")[2])
        assert f"{mean}{deviation} {seeds}" in {
            described(values, factor, digits)
            for place, values in groups.items()
            if run.search(str(place[0]))
            for factor in (1, 100)
        }, preset


def described(values, factor, digits):
    """Returns mean, deviation and number of seeds in a table's format."""
    text = f"{factor * statistics.mean(values):.{digits}f}"
    if len(values) > 1:
        text += f" ± {factor * statistics.stdev(values):.{digits}f}"
    return f"{text} ({len(values)})"
