"""Runs of a table, each in a process and a run folder of its own.

So memory is freed in between, and the peak of each is that of one run. Finished
runs are kept, interrupted ones go on, and the table is written after each.
"""

import concurrent.futures
import contextlib
import dataclasses
import datetime
import math
import multiprocessing
import os
import pathlib
import subprocess
import sys
import threading
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


def fill(
    table,
    seeds,
    train,
    finished_only=False,
    overwrite=False,
    command="memlm table",
):
    """Trains each row of a table with each seed, and writes the table.

    Args:
        table: `TableRuns`.
        seeds: list of integers.
        train: function of a recipe of `Experiment` that returns the flags of
            `memlm train` for it.
        finished_only: whether to train nothing, and write the table of what is
            finished, however many seeds a row has.
        overwrite: whether to move older runs aside, and begin all anew.
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
    if overwrite:
        for run in runs:
            RunFolder(run.folder).move_aside()
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
            print("finished before;", report.outcome(kept[run], table.measures))
            continue
        run_begin = time.monotonic()
        failure = train_one(run, train(run.recipe))
        results = None if failure else RunFolder(run.folder).results()
        if results is None:
            progress.failed.add(run)
            print(failure or "ended without results")
        else:
            progress.finished[run] = results
            print(
                f"{report.outcome(results, table.measures)}; "
                f"{_since(run_begin)}, {_since(begin)} in all",
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


def train_one(run, flags, seconds=None, stop=None):
    """Trains one run in a process of its own.

    Args:
        run: what has the `folder` of a run, a `pathlib.Path`.
        flags: list of strings, arguments of `memlm train`.
        seconds: float, after which the run is interrupted, or `None`.
        stop: `threading.Event` that interrupts it, too, or `None`.

    Returns:
        `None`, or what went wrong; an interrupted run went wrong, too.
    """
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
                ),
                seconds,
                stop or threading.Event(),
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


def _finish(process, seconds, stop):
    """Waits for a run; if we are to end, so is the run, but orderly."""
    until = math.inf if seconds is None else time.monotonic() + seconds
    try:
        while not stop.is_set() and time.monotonic() < until:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(1)
    except BaseException:
        process.terminate()
        process.wait()
        raise
    process.terminate()
    return process.wait()


def _choose(table, progress):
    """Writes the best point of each row of a grid, and tells of it."""
    measure = table.choose_by
    if measure is None:
        return
    better = report.better(measure.path[-1])
    chosen = {}
    for row in table.rows:
        results = progress.results(row)
        found = {
            m.name: report.summarize(m.of(r) for r in results)
            for m in table.measures
        }
        if found[measure.name] is not None:
            value = found[measure.name].mean
            best = chosen.get(preset_of(row))
            if best is None or better(value, best[0]) != best[0]:
                chosen[preset_of(row)] = value, row, found
    records = []
    for value, row, found in chosen.values():
        means = {
            name: "" if summary is None else summary.mean
            for name, summary in found.items()
        }
        records.append(
            {"row": row.label, f"chosen by {measure.name}": value, **means}
        )
        told = ", ".join(
            f"{m.name} {means[m.name]:.{m.digits}f}"
            for m in table.measures
            if means[m.name] != ""
        )
        print(f"Chosen: {row.label}: {told}")
    report.write_csv(table.folder / "best.csv", records)


def _since(begin):
    return datetime.timedelta(seconds=round(time.monotonic() - begin))
