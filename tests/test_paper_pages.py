"""Compares the pages of docs/papers with the registry of papers."""

import importlib.util
import pathlib
import re

import pytest

from memlm_keras import presets
from memlm_keras.presets import daniluk2017

FOLDER = pathlib.Path(__file__).parents[1] / "docs" / "papers"
PAGES = sorted(path.name for path in FOLDER.glob("*.md"))
# Read the presets' names before a test registers a paper of its own.
NAMES = presets.names()
every_page = pytest.mark.parametrize("page", PAGES)
PAPERS = "daniluk2017 tran2016 salton2017 weissenborn2016 kong2019".split()


def read(page):
    return (FOLDER / page).read_text(encoding="utf-8")


def make_tables():
    spec = importlib.util.spec_from_file_location("rows", FOLDER / "rows.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.with_rows


@every_page
def test_tables_are_those_of_the_registry(page):
    """Otherwise: python docs/papers/rows.py"""
    text = read(page)
    assert make_tables()(text) == text


def test_a_table_that_drifted_is_made_anew():
    page = (
        "Before\n<!--rows daniluk2017/rnn 77,003-->\n| of old |\n"
        "<!--end of rows-->\nBehind\n"
    )
    made = make_tables()(page)
    assert "of old" not in made
    assert "| `daniluk2017/rnn` | 307 | 47,004,480 | 121.7 / 125.7 |" in made
    assert made.startswith("Before\n") and made.endswith("\nBehind\n")


def test_every_preset_is_on_a_page():
    named = {
        name
        for page in PAGES
        for name in re.findall(r"^\| `(\w+/\w+)` \|", read(page), re.MULTILINE)
    }
    assert named == set(NAMES)


@every_page
def test_what_pages_name(page):
    text = read(page)
    for name in re.findall(r"memlm train (\S+)", text):
        assert name in NAMES
    if page == "delta_rule.md":
        # No preset has this memory.
        return
    tables = re.findall(r"memlm table (\S+)", text)
    assert tables and set(tables) <= set(presets.tables())
    assert f"memlm train {page.removesuffix('.md')}/" in text or (
        page == "baselines.md"
    )


def test_numbers_of_figure_2():
    rows = {
        cells[0].strip("`"): cells[1:]
        for line in read("daniluk2017.md").splitlines()
        if line.count("|") == 11 and line.startswith("| `")
        for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
    }
    assert set(rows) == {*daniluk2017.BY_WINDOW, *daniluk2017.CLOZE}
    for name, cells in rows.items():
        windows = [float(cell) for cell in cells[:4] if cell]
        assert windows == [*daniluk2017.BY_WINDOW.get(name, {}).values()]
        assert [float(cell) for cell in cells[5:]] == [
            daniluk2017.CLOZE[name][kind] for kind in daniluk2017.WORD_TYPES
        ]


@pytest.mark.parametrize("paper", PAPERS)
def test_what_a_page_of_a_paper_has(paper):
    text, author = read(f"{paper}.md"), paper[:-4]
    assert "\n## Errata and choices\n" in text
    # Only a paper with a memory needs results with pictures of attention.
    assert f"](../results/{paper}_" in text or paper == "kong2019"
    for page in ("results/claims.md#", "glossary.md#"):
        assert f"](../{page}{author}" in text
    assert f"](../results/{paper}.md)" in text
