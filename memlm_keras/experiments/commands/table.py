"""`memlm table`."""

import math
import shlex
import sys

from memlm_keras import presets
from memlm_keras.experiments import options
from memlm_keras.experiments import process
from memlm_keras.experiments.command_line import command


@command(
    "Trains every row of a paper's table, and writes the table with the "
    "paper's numbers. PAPER alone only shows the paper's tables.",
    {"PAPER/TABLE": None, "SETTINGS": "*"},
    options.DATASET,
    options.RUN_DIR,
    options.OVERWRITE,
    options.Option("rows", str, "Rows, separated by commas; by default all."),
    options.Option("seeds", str, "Seeds, such as 0,1,2."),
    options.Option(
        "finished_only",
        bool,
        "Train nothing, and write the table from finished runs.",
    ),
    options.Option(
        "list",
        bool,
        "Train nothing, and print the commands of missing runs, one per line.",
    ),
    options.Option(
        "grid",
        list,
        "SETTING=VALUE,VALUE ...: train each row with all combinations of "
        "values, and choose by the validation text.",
    ),
    overrides=tuple(options.OVERRIDES.values()),
    measures=options.MEASURING,
    running=(*options.RUNNING, options.PASSAGE, options.SENTENCE),
)
def table(
    table: str,
    settings: list,
    overrides: dict,
    running: dict,
    measures: dict,
    typed: str,
    dataset: str | None = None,
    run_dir: str = "runs",
    overwrite: bool = False,
    rows: str | None = None,
    seeds: str = "0",
    finished_only: bool = False,
    list: bool = False,
    grid: list | None = None,
):
    if table in presets.papers():
        return _show_tables(table, shlex.split(typed)[3:])
    process.import_keras()
    from memlm_keras.experiments.tables.table import TableRuns

    if settings and not grid:
        raise options.UsageError(
            f"Unexpected argument {settings[0]!r}. Values of settings follow "
            "--grid, such as --grid learning_rate=0.1,1."
        )
    numbers = _integers(seeds)
    if list + finished_only + overwrite > 1:
        raise options.UsageError(
            "--list only prints the commands of missing runs, and "
            "--finished_only trains nothing. Give one of them, or --overwrite."
        )
    runs = TableRuns(
        table,
        dataset,
        run_dir=run_dir,
        rows=None if rows is None else rows.split(","),
        grid=read_grid([*(grid or ()), *settings]),
        overrides=overrides,
        measures=measures,
    )
    if dataset is None and runs.dataset == "embedded":
        print(
            "Without --dataset, this table is trained on the package's small "
            "text, with 75 different words. --dataset=FILE reads your own.",
            file=sys.stderr,
        )
    if list:
        runs.list_missing(numbers, running)
        return 0
    failed = runs.fill(numbers, running, finished_only, overwrite, typed)
    return 1 if failed else 0


def _show_tables(paper, others):
    tables = {f"{paper}/{t.name}": t for t in presets.papers()[paper].tables}
    if others:
        raise options.UsageError(
            f"memlm table {paper} only shows the paper's tables. To train one, "
            f"name it: {', '.join(tables)}. Received: {others[0]}"
        )
    print(presets.papers()[paper].source())
    print("\nTables of the paper, at its sizes:")
    for name, found in tables.items():
        rows = sum(math.prod(map(len, row.grid.values())) for row in found.rows)
        print(f"\n  {found.title}; {rows} runs per seed")
        print(f"    memlm table {name} --dataset={found.dataset or 'FILE'}")
    return 0


def read_grid(texts):
    """Parses texts `SETTING=VALUE,VALUE` into a dict of lists."""
    grid = {}
    for text in texts:
        name, _, values = text.partition("=")
        if not values:
            raise options.UsageError(
                "--grid needs a setting's values, as in learning_rate=0.1,1. "
                f"Received: {text!r}"
            )
        grid.setdefault(name.lstrip("-"), []).extend(values.split(","))
    return grid


def _integers(text):
    parts = [part.strip() for part in text.split(",")]
    numbers = [*map(int, filter(str.isdecimal, parts))]
    if len({*numbers}) < len(parts):
        raise options.UsageError(
            "--seeds must list different integers, such as 0,1,2. Received: "
            f"{text!r}"
        )
    return numbers
