"""Runs of a table, each in a process and a run folder of its own.

So memory is freed in between, and the peak of each is that of one run. Finished
runs are kept, interrupted ones go on, and the table is written after each.
"""

import concurrent.futures
import dataclasses
import datetime
import multiprocessing
import os
import pathlib
import subprocess
import sys
import time

from memlm_keras.experiments import report
from memlm_keras.experiments.command_line import import_keras
from memlm_keras.experiments.run_folder import RunFolder
from memlm_keras.experiments.table import describe
from memlm_keras.experiments.table import preset_of

_LINES_OF_A_FAILURE = 8
_PACKAGE = pathlib.Path(__file__).parents[2]


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """One row trained with one seed.

    Args:
        row: `TableRow`.
        seed: integer.
        folder: `pathlib.Path` of its run folder.
        recipe: dict, arguments of its `Experiment`.
        settings: dict of plain values that say what the run is.
    """

    row: object
    seed: int
    folder: pathlib.Path
    recipe: dict
    settings: dict


class Progress:
    """Which runs of a table are finished, and which have failed.

    Args:
        runs: list of `Run`s.

    Attributes:
        runs: those runs.
        finished: dict of results by `Run`.
        failed: set of `Run`s.
    """

    def __init__(self, runs):
        self.runs = runs
        self.finished = {}
        self.failed = set()

    @property
    def to_come(self):
        """Set of the runs that have neither ended nor failed."""
        return set(self.runs) - set(self.finished) - self.failed

    @property
    def is_complete(self):
        """Whether nothing is to come."""
        return not self.to_come

    def results(self, row):
        """List of the results of the finished runs of a row."""
        return [self.finished[run] for run in self.of(row, self.finished)]

    def of(self, row, runs):
        """Those of `runs` that belong to a row, in their order."""
        return [run for run in self.runs if run.row is row and run in runs]


def fill(table, seeds, train, finished_only=False, command="memlm table"):
    """Trains each row of a table with each seed, and writes the table.

    Args:
        table: `TableRuns`.
        seeds: list of integers.
        train: function of a recipe of `Experiment` that returns the flags of
            `memlm train` for it.
        finished_only: whether to train nothing, and write the table of what is
            finished, however many seeds a row has.
        command: string, what was typed.

    Returns:
        Integer, the number of runs that failed.
    """
    recipes = table.recipes(seeds)
    # Corpora are read for their fingerprints, and models made to count their
    # parameters, which takes memory.
    described = in_fresh_process(describe, [recipe for _, recipe in recipes])
    runs = [
        Run(
            row,
            recipe["seed"],
            table.run_dir / found["name"],
            found["recipe"],
            found["settings"],
        )
        for (row, recipe), found in zip(recipes, described, strict=True)
    ]
    kept = {run: _kept_results(table, run, finished_only) for run in runs}
    kept = {run: results for run, results in kept.items() if results}
    if finished_only:
        runs = [run for run in runs if run in kept]
        if not runs:
            print(f"No run of {table.name} is finished; nothing is written.")
            return 0
    progress = Progress(runs)
    progress.finished.update(kept)
    print(f"{table.title}: {len(runs)} runs, table in {table.folder}")
    begin = time.monotonic()
    for number, run in enumerate(runs, 1):
        head = f"{number}/{len(runs)} {run.row.label} seed {run.seed}: "
        print(head, end="", flush=True)
        if run in kept:
            print("finished before;", _outcome(table, progress, run))
            continue
        run_begin = time.monotonic()
        failure = _train_one(run, train(run.recipe))
        results = None if failure else RunFolder(run.folder).results()
        if results is None:
            progress.failed.add(run)
            print(failure or "ended without results")
        else:
            progress.finished[run] = results
            print(
                f"{_outcome(table, progress, run)}; {_since(run_begin)}, "
                f"{_since(begin)} in all",
                flush=True,
            )
        report.write_table(table, progress, command)
    report.write_table(table, progress, command)
    _choose(table, progress)
    print(f"See {table.folder / 'table.md'}")
    return len(progress.failed)


def in_fresh_process(function, *arguments):
    """Calls a function where all that it takes is given back afterwards."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(
        1, context, initializer=import_keras, initargs=(None,)
    ) as pool:
        return pool.submit(function, *arguments).result()


def _kept_results(table, run, any_epochs):
    folder = RunFolder(run.folder)
    if not folder.is_run or folder.changed(run.settings):
        return None
    results = folder.results() if any_epochs else folder.finished_results()
    required = [m for m in table.measures if not m.optional]
    if results and all(measure.is_in(results) for measure in required):
        return results
    return None


def _train_one(run, flags):
    """Trains one run; returns `None`, or what went wrong."""
    log = run.folder / "log.txt"
    paths = [str(_PACKAGE), os.environ.get("PYTHONPATH")]
    try:
        run.folder.mkdir(parents=True, exist_ok=True)
        with open(log, "a", encoding="utf-8") as file:
            status = _finish(
                subprocess.Popen(
                    [sys.executable, "-m", "memlm_keras", "train", *flags],
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    env={
                        **os.environ,
                        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                    },
                )
            )
    except OSError as error:
        return f"failed: {error}"
    if status == 0:
        return None
    text = log.read_text(encoding="utf-8", errors="replace")
    last = text.splitlines()[-_LINES_OF_A_FAILURE:]
    return "\n    ".join(
        [f"failed with exit status {status}; {log} ends with", *last]
    )


def _finish(process):
    """Waits for a run; if we are to end, so is the run, but orderly."""
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise


def _choose(table, progress):
    """Writes the best point of each row of a grid, and tells of it."""
    measure = table.choose_by
    if measure is None:
        return
    least = measure.path[-1] == "perplexity"
    best = {}
    for row in table.rows:
        found = [measure.of(r) for r in progress.results(row)]
        found = [value for value in found if value is not None]
        if not found:
            continue
        value = report.summarize(found).mean
        name = preset_of(row)
        if name not in best or (value < best[name][0]) == least:
            best[name] = value, row
    records = []
    for value, row in best.values():
        record = {"row": row.label, f"chosen by {measure.name}": value}
        for other in table.measures:
            values = [other.of(r) for r in progress.results(row)]
            summary = report.summarize([v for v in values if v is not None])
            record[other.name] = "" if summary is None else summary.mean
        records.append(record)
        told = ", ".join(
            f"{m.name} {record[m.name]:.{m.digits}f}"
            for m in table.measures
            if record[m.name] != ""
        )
        print(f"Chosen: {row.label}: {told}")
    report.write_csv(table.folder / "best.csv", records)


def _outcome(table, progress, run):
    results = progress.finished[run]
    told = ", ".join(
        f"{measure.name} {measure.of(results):.{measure.digits}f}"
        for measure in table.measures
        if measure.of(results) is not None
    )
    told += f"; best of {results['epochs']} epochs: {results['best_epoch']}"
    if not results.get("finite", True):
        told += "; stopped, as the loss was not finite"
    return told


def _since(begin):
    return datetime.timedelta(seconds=round(time.monotonic() - begin))
