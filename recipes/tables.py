"""Whole tables of a paper: a training run for each row and seed, side by side.

A recipe says what its rows are and what the paper printed for them; each run is
the recipe itself in a process and a run folder of its own, so that memory is
freed in between and its peak is that of one run. Finished runs are not trained
again, interrupted ones are resumed, and the table is written after each.
"""

import concurrent.futures
import contextlib
import dataclasses
import datetime
import multiprocessing
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import common
import run_folders
import table_files
from absl import app
from absl import flags

FLAGS = flags.FLAGS

# What belongs to the table as a whole, and is not handed to its runs.
_OWN_FLAGS = (
    *("table", "rows", "seeds", "finished_only"),
    *("seed", "resume", "verbose"),
)
_LINES_OF_A_FAILURE = 8


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """One row of a table.

    Args:
        label: string, unlike that of any other row.
        flags: dict, flags of the recipe that make the row.
        details: dict, first columns of the row: what sets it apart.
        published: dict, published number by the name of its `Measure`.
    """

    label: str
    flags: dict
    details: dict
    published: dict


@dataclasses.dataclass(frozen=True)
class Measure:
    """One measured quantity.

    Args:
        name: string, heading of its column.
        path: tuple of strings, keys that lead to it in `results.json`, where
            `"protocol"` stands beside it.
        digits: integer, digits behind the point in Markdown.
        optional: whether rows may lack it.
        made_with: pair of keys that lead to a setting in `results.json` and
            what it must be, or `None`.
    """

    name: str
    path: tuple
    digits: int
    optional: bool = False
    made_with: tuple | None = None

    def is_in(self, results):
        """Whether it was measured, by what `results.json` holds."""
        if self.made_with is not None:
            path, wanted = self.made_with
            if _found(results, path) != wanted:
                return False
        return _found(results, self.path) is not None

    def of(self, results):
        """Value of the measure in what `results.json` holds, or `None`."""
        if self.optional and not self.is_in(results):
            return None
        return _found(results, self.path[:-1])[self.path[-1]]

    def protocol(self, results):
        """How it was measured, or `None`."""
        if self.optional and not self.is_in(results):
            return None
        return _found(results, self.path[:-1])["protocol"]


def _found(results, path):
    """What keys lead to in `results.json`, or `None`."""
    for key in path:
        if key not in results:
            return None
        results = results[key]
    return results


# What tables of language models measure.
PERPLEXITIES = [
    Measure("dev", ("validation", "perplexity"), 2),
    Measure("test", ("test", "perplexity"), 2),
]


@dataclasses.dataclass(frozen=True)
class Table:
    """A table to fill in.

    Args:
        title: string.
        folder: `pathlib.Path` of the folder that it is written in.
        rows: list of `Row`s.
        measures: list of `Measure`s.
        settings: tuple of strings, keys of `results.json` that all rows share,
            told above the table.
        draw: `None`, or a function of the table and its `Progress` that draws
            pictures in the folder and returns the list of their names.
        speed: string, key of `results.json` that says how fast runs train.
    """

    title: str
    folder: pathlib.Path
    rows: list
    measures: list
    settings: tuple
    draw: Callable | None = None
    speed: str = "tokens_per_second"


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """One row trained with one seed.

    Args:
        row: `Row`.
        seed: integer.
        folder: `pathlib.Path` of its run folder.
        settings: dict of plain values that say what the run is, as in its
            `config.json`; `None` if the recipe is to find out what is wrong
            with them.
    """

    row: Row
    seed: int
    folder: pathlib.Path
    settings: dict | None


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

    def results(self, row):
        """List of the results of the finished runs of a row."""
        return [self.finished[run] for run in self.of(row, self.finished)]

    def of(self, row, runs):
        """Those of `runs` that belong to a row, in their order."""
        return [run for run in self.runs if run.row is row and run in runs]


def define_flags(names):
    """Defines the flags of recipes that have tables.

    Args:
        names: names of the tables.
    """
    flags.DEFINE_enum(
        "table",
        None,
        names,
        "Train every row of a table of the paper, and write the table beside "
        "the paper's numbers. Finished runs are kept, interrupted ones are "
        "resumed; all other flags go to each run, so with those that are not "
        "of all rows choose some by --rows.",
    )
    flags.DEFINE_list(
        "rows", None, "With --table: rows to train; by default all of them."
    )
    flags.DEFINE_list(
        "seeds",
        None,
        "With --table: seeds to train each row with, such as 0,1,2; by default "
        "that of --seed.",
    )
    flags.DEFINE_bool(
        "finished_only",
        False,
        "With --table: train nothing, and write the table of what is finished, "
        "however many seeds a row has.",
    )


def seeds():
    """List of the seeds to train each row with."""
    return [FLAGS.seed] if FLAGS.seeds is None else integers("seeds", 0)


def integers(flag, least):
    """Returns a flag that lists integers.

    Raises:
        app.UsageError: if it lists anything else, one twice, or none.
    """
    listed = FLAGS[flag].value
    numbers = [int(text) for text in listed if text.strip().isdecimal()]
    wrong = len(numbers) < len(listed) or len(set(numbers)) < len(numbers)
    if wrong or not numbers or min(numbers) < least:
        raise app.UsageError(
            f"--{flag} must list different integers from {least} on, such as "
            f"1,5,10. Received: {','.join(listed)!r}"
        )
    return numbers


def selected(names):
    """Returns those of `names` that `--rows` asks for, in their order.

    Raises:
        app.UsageError: if it asks for one that is none of them.
    """
    if FLAGS.rows is None:
        return list(names)
    unknown = [name for name in FLAGS.rows if name not in names]
    if unknown or not FLAGS.rows:
        raise app.UsageError(
            f"--rows must name rows of the table {FLAGS.table}, which are "
            f"{', '.join(names)}. Received: {', '.join(unknown) or 'none'}"
        )
    return [name for name in names if name in FLAGS.rows]


def check_flags(table_flags, row_flags):
    """Refuses flags that contradict `--table`, or need it.

    Args:
        table_flags: names of flags that only tables have, besides those of
            `define_flags`.
        row_flags: names of flags that the rows of a table set.

    Raises:
        app.UsageError: if such a flag was given.
    """
    if FLAGS.table is None:
        names = ("rows", "seeds", "finished_only", *table_flags)
        wrong = [name for name in names if FLAGS[name].present]
        reason = "needs --table"
    else:
        wrong = [name for name in row_flags if FLAGS[name].present]
        reason = "contradicts --table; choose rows with --rows"
    if wrong:
        raise app.UsageError(f"--{wrong[0]} {reason}.")


def own_command(left_out=()):
    """Returns this recipe with the flags that it was given, for its runs.

    Args:
        left_out: names of flags that only tables have, besides those of
            `define_flags`.
    """
    given = {FLAGS[name].name: FLAGS[name] for name in FLAGS}
    passed = [
        flag.serialize()
        for name, flag in given.items()
        if flag.present and name not in (*_OWN_FLAGS, *left_out)
    ]
    # A progress bar would fill the log with every step.
    verbose = FLAGS.verbose if FLAGS["verbose"].present else 2
    return [sys.executable, sys.argv[0], *passed, f"--verbose={verbose}"]


def fill(
    table, describe, run_folder, left_out=(), load_corpus=common.load_corpus
):
    """Trains each row of a table with each seed, and writes the table.

    Args:
        table: `Table`.
        describe: function of a corpus, `seed` and the flags of a row that
            returns the settings of the run, and raises `ValueError` for what
            cannot be.
        run_folder: function of `seed` and the flags of a row that returns the
            path of the run folder.
        left_out: names of flags that only tables have, besides those of
            `define_flags`.
        load_corpus: function that loads what all runs are trained on.

    Returns:
        Integer, the exit status of the recipe.
    """
    choices = [(row, seed) for seed in seeds() for row in table.rows]
    # Models are made to count their parameters, which takes memory.
    settings = in_fresh_process(
        describe_runs,
        load_corpus,
        describe,
        sys.argv,
        [{**row.flags, "seed": seed} for row, seed in choices],
    )
    runs = [
        Run(row, seed, run_folder(seed=seed, **row.flags), found)
        for (row, seed), found in zip(choices, settings)
    ]
    return 1 if train(table, runs, own_command(left_out)) else 0


def folder(size_parts):
    """Path of the folder that the table that is asked for is written in."""
    name = "-".join([common.dataset_name(), FLAGS.table, *size_parts])
    return pathlib.Path(FLAGS.run_dir, name)


def describe_runs(load_corpus, describe, arguments, choices):
    """Settings of each run; `None` where the run itself will tell why not.

    Args:
        load_corpus, describe: as for `fill`.
        arguments: list of strings, command line of the recipe.
        choices: list of dicts, further arguments of `describe`.

    Returns:
        List of dicts.
    """
    FLAGS(arguments)
    corpus = load_corpus()
    settings = []
    for choice in choices:
        try:
            settings.append(describe(corpus, **choice))
        except ValueError:
            settings.append(None)
    return settings


def in_fresh_process(function, *arguments):
    """Calls a function of a recipe where its memory is freed afterwards.

    Accelerator memory, too, is held until the process that used it ends.
    """
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
        return pool.submit(function, *arguments).result()


def train(table, runs, command):
    """Trains what is not yet trained, and writes the table after each run.

    Args:
        table: `Table`.
        runs: list of `Run`s, in the order to train them in.
        command: list of strings, the program to which the flags of a row are
            added, such as `own_command` returns.

    Returns:
        Integer, the number of runs that failed.
    """
    kept = {run: _kept_results(table, run) for run in runs}
    kept = {run: results for run, results in kept.items() if results}
    if FLAGS.finished_only:
        runs = [run for run in runs if run in kept]
        if not runs:
            print(f"No run of {table.folder} is finished; nothing is written.")
            return 0
    progress = Progress(runs)
    progress.finished.update(kept)
    print(f"{table.title}: {len(runs)} runs, table in {table.folder}")
    begin = time.monotonic()
    with _children_ended_with_us():
        for number, run in enumerate(runs, 1):
            head = f"{number}/{len(runs)} {run.row.label} seed {run.seed}: "
            print(head, end="", flush=True)
            if run in kept:
                print("finished before;", _outcome(table, progress, run))
                continue
            run_begin = time.monotonic()
            failure = _train_one(run, command)
            results = (
                None if failure else run_folders.finished_results(run.folder)
            )
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
            table_files.write(table, progress)
    table_files.write(table, progress)
    print(f"See {table.folder / 'table.md'}")
    return len(progress.failed)


def _kept_results(table, run):
    if run.settings is None or not (run.folder / "config.json").exists():
        return None
    results = run_folders.finished_results(run.folder, FLAGS.finished_only)
    if results is None or not _is_of_this_backend(results):
        return None
    required = [m for m in table.measures if not m.optional]
    if not all(measure.is_in(results) for measure in required):
        return None
    changed = run_folders.changed_settings(run.folder, run.settings)
    return None if changed else results


def _is_of_this_backend(results):
    import keras

    return results["backend"].split()[0] == keras.backend.backend()


def _train_one(run, command):
    """Trains one run; returns `None`, or what went wrong."""
    arguments = {**run.row.flags, "seed": run.seed}
    complete = [
        *command,
        *(f"--{name}={value}" for name, value in arguments.items()),
    ]
    log = run.folder / "log.txt"
    try:
        if _make_way(run):
            complete.append("--resume")
            print("resumed; ", end="", flush=True)
        run.folder.mkdir(parents=True, exist_ok=True)
        mode = "a" if "--resume" in complete else "w"
        with open(log, mode, encoding="utf-8") as file:
            status = _finish(
                subprocess.Popen(
                    complete, stdout=file, stderr=subprocess.STDOUT
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


def _make_way(run):
    """Returns whether there is something to resume in the run folder.

    A run of other settings is not lost: its folder is moved aside.
    """
    if run.settings is None or not (run.folder / "config.json").exists():
        return False
    changed = run_folders.changed_settings(run.folder, run.settings)
    results = run_folders.finished_results(run.folder)
    if results is not None and not _is_of_this_backend(results):
        changed["backend"] = results["backend"], "another"
    if changed:
        aside = run_folders.move_aside(run.folder)
        names = ", ".join(
            f"{name} {before} instead of {now}"
            for name, (before, now) in changed.items()
        )
        print(f"(an older run, with {names}, is now in {aside}) ", end="")
        return False
    return (run.folder / "checkpoint.npz").exists()


@contextlib.contextmanager
def _children_ended_with_us():
    """Lets a terminated table end the run in progress, to be resumed."""

    def end(number, frame):
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _outcome(table, progress, run):
    results = progress.finished[run]
    measured = ", ".join(
        f"{measure.name} {measure.of(results):.{measure.digits}f}"
        for measure in table.measures
        if measure.of(results) is not None
    )
    outcome = f"{measured}; best of {results['epochs']} epochs: "
    outcome += str(results["best_epoch"])
    if not results.get("finite", True):
        outcome += "; stopped, as the loss was not finite"
    return outcome


def _since(begin):
    return datetime.timedelta(seconds=round(time.monotonic() - begin))
