"""Compares numbers on result pages and in the README with kept logs."""

import collections
import functools
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
    "english": ["english"],
    "kong2019": ["small", "together"],
    "minimal_pairs": ["minimal_pairs", "english"],
    "natural_text": ["natural_text"],
    "quickstart": ["quickstart"],
    "README": "paper defaults pairs kneser_ney".split(),
    "recall": ["recall"],
    "salton2017": ["paper", "small"],
    "tran2016": ["paper", "kneser_ney"],
    "weissenborn2016": ["paper", "pairs", "autoencoding"],
}
# Pages with our numbers for rows of papers: for each of these columns, a
# pattern of the study and the runs, without their seeds.
COLUMNS = {
    "daniluk2017": {
        "ours: printed size": "paper/ptb-{row}",
        "ours: two fifths": "small/ptb-{row}-scale0.4-initial_range0.158"
        "-learning_rate0.003",
    },
    "kong2019": {
        "ours": "small/ptb-{row}-training_lines1000-.*-output_biasTrue"
        "(-other_words{words})?"
    },
    "README": {"ours": "paper/(ptb|sick)-{row}(-\\d+_epochs)?"},
    "salton2017": {
        "ours": "small/ptb-{row}-.*-learning_rate0.5-halve_after8"
        "|paper/ptb-{row}(-\\d+_epochs)?"
    },
    "tran2016": {"ours: published size, Penn Treebank": "paper/ptb-{row}"},
    "weissenborn2016": {
        "ours: SICK": "paper/sick-{row}",
        "ours: SICK, constant rate, unit keys": "paper/sick-{row}(-keyunit)?"
        "-halveFalse",
    },
}
# Other papers whose rows a page contains.
BASELINES = {
    "salton2017": " zaremba2014 press2016 gal2016 grave2017 merity2017"
}
# Columns and rows with published, chosen, analytic or converted values.
NOT_LOGGED = re.compile("published|chance|rate$|embeddings|better")
CONVERTED = "chance", "parameters", "bits per character"


@functools.cache
def logged(page):
    """Returns the numbers of all seeds in a page's logs, by run and keys."""
    found = {}
    for study in LOGS[page]:
        path = RESULTS / "logs" / f"{study}.jsonl"
        for (name, *place), values in logs.numbers(path).items():
            found[f"{study}/{name}", *place] = values
        for name, run in logs.read(path).items():
            if epochs := run.get("log", {}).get("val_accuracy"):
                found[f"{study}/{name}", "best epoch"] = [max(epochs)]
            text = run.get("text", "")
            printed = re.findall(r"(?<![\w.])\d+\.\d+", text)
            minutes = re.findall(r"^(\d+):(\S+)  memlm", text, re.M)
            found[f"{study}/{name}", "text"] = [
                *map(float, printed),
                *(int(m) + float(s) / 60 for m, s in minutes),
            ]
            for place, values in garden_paths(text).items():
                found[f"{study}/{name}", *place] = values
    return found


def garden_paths(text):
    """Returns the bits that an ambiguous word adds in each item of a printed
    table, by run and condition."""
    found = collections.defaultdict(list)
    row = r"^(\w+ )?\d+ (NPS|NPZ|MVRR)_UAMB \w+ (?:0 )?(\S+) (\S+)$"
    for *place, with_it, without in re.findall(row, text, re.M):
        found[*place].append(float(with_it) - float(without))
    return found


def measured(page):
    """Yields the logged numbers of a page, their means and their deviations."""
    for values in logged(page).values():
        yield from values
        if len(values) > 1:
            yield statistics.mean(values)
            yield statistics.stdev(values)


def read(page):
    """Returns the text of a result page, or of the README."""
    folder = RESULTS.parents[1] if page == "README" else RESULTS
    return (folder / f"{page}.md").read_text(encoding="utf-8")


def rows(text):
    """Yields the rows of all tables, as lists of pairs of heading and cell."""
    for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
        header, _, *lines = [
            [cell.strip() for cell in line.strip("|\n").split("|")]
            for line in table.splitlines()
        ]
        yield from (list(zip(header, line)) for line in lines)


def cells(page):
    """Yields, for each cell, its row's first cell, its heading and its text."""
    for (_, first), *row in rows(read(page)):
        seeds = dict(row).get("seeds", "")
        for name, cell in row:
            if page == "README" and name == "ours":
                cell = f"{cell.replace('%', '')} ({seeds})"
            yield first, name, cell


def table_numbers(page):
    """Yields the decimal numbers of all tables of a page, as text."""
    for row, name, cell in cells(page):
        if not NOT_LOGGED.search(name) and row not in CONVERTED:
            yield from re.findall(r"(?<![\w.])\d+\.\d+", cell)


@pytest.mark.parametrize("page", sorted(LOGS.keys() - {"README"}))
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


@pytest.mark.parametrize("page", COLUMNS)
def test_rows_of_a_paper(page):
    theirs, ours = collections.defaultdict(list), 0
    for row, name, cell in cells(page):
        if label := re.match(r"\[?`([\w/]+)`", row):
            preset = label[1] if "/" in label[1] else f"{page}/{label[1]}"
            if name.startswith("published"):
                theirs[preset] += re.findall(r"[\d.]+", cell)
            elif re.match(r"ours(:|$)", name) and re.search(r"\d", cell):
                ours += 1
                assert cell.startswith(expected(page, preset, name, cell)), row
    papers = page + BASELINES.get(page, "")
    for name in NAMES:
        if name.split("/")[0] in papers.split():
            assert name.removeprefix(f"{page}/") in read(page)
            assert sorted(theirs[name]) == sorted(published(name)), name
    assert ours


def expected(page, preset, name, cell):
    """Returns our number for a row of a paper: the mean, deviation and seeds of
    the runs of this column."""
    runs = COLUMNS[page][name].format(
        row=preset.replace("/", "[-_]"),
        words="sample" if "sample" in cell else "mode",
    )
    return described(find(page, runs), len(cell.split()[0].partition(".")[2]))


def find(page, runs, *place):
    """Returns the measurements of the test text, by seed, of the runs whose
    study and name match a pattern."""
    (values,) = [
        values
        for (name, *keys), values in logged(page).items()
        if re.fullmatch(runs, name)
        and keys[:-1] == [*place, "test"]
        and keys[-1] in ("accuracy", "perplexity")
    ]
    return values


def described(values, digits):
    """Returns the mean, deviation and number of seeds, as in a table."""
    text = f"{statistics.mean(values):.{digits}f}"
    if len(values) > 1:
        text += f" ± {statistics.stdev(values):.{digits}f}"
    return f"{text} ({len(values)})"


def test_the_readme_in_short():
    def mean(runs, *place):
        return statistics.mean(find("README", runs, *place))

    def better(one, other):
        return f"{100 * (1 - mean(one) / mean(other)):.1f}%"

    tran, daniluk = "paper/ptb-tran2016-", "paper/ptb-daniluk2017-"
    memory, sick = f"{tran}rm_tm_gated", "paper/sick-weissenborn2016-"
    gru, two = (
        find("README", f"pairs/{row}-embedding_range0.5-halveFalse")
        for row in ("gru_shared", "dual_am_gru_shared")
    )
    points = [b - a for a, b in zip(gru, two)]
    lost = mean(f"{sick}gru_shared") - mean(f"{sick}am_gru_shared")
    small, seeds = described(find("README", "defaults/ptb_line_d3"), 1).split(
        " ("
    )
    text = " ".join(read("README").split())
    for fact in (
        f"{better(memory, f'{tran}lstm_3')} better than three LSTM layers",
        f"one LSTM layer (difference {better(memory, f'{tran}lstm_1')},",
        f"a memory lowers accuracy by {lost:.1f} points",
        f"seeds, by {min(points):.0f} to {max(points):.0f} points",
        *(
            f"{words} {better(f'{daniluk}{row}', f'{daniluk}lstm')}"
            for words, row in (
                ("attention is", "attention"),
                ("key-value-predict attention", "key_value_predict"),
                ("a wide LSTM without a memory, is", "lstm_projected"),
            )
        ),
        f"{small} on Penn Treebank ({seeds[:-1]} seeds), and "
        f"{mean('defaults/ptb_line_d3', 'cache'):.0f} with a cache",
        # The row of Kneser-Ney in the table.
        f"#kneser-ney) | | {mean('kneser_ney/ptb-kneser_ney_5'):.1f} | | Penn",
    ):
        assert fact in text, fact
