"""Trains lists of runs: for tables, checks of claims, and recall tasks."""

import concurrent.futures
import contextlib
import datetime
import math
import multiprocessing
import os
import shlex
import subprocess
import sys
import threading
import time

from memlm_keras import children
from memlm_keras.experiments import options
from memlm_keras.experiments.options import as_flag
from memlm_keras.experiments.process import backend
from memlm_keras.experiments.process import import_keras
from memlm_keras.experiments.process import matmul_precision
from memlm_keras.experiments.run_folder import RunFolder

_LINES_OF_A_FAILURE = 8
# JAX and TensorFlow would reserve most of a GPU, which runs may share.
_SHARE = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
}


class Run:
    """A run for `run_all`; subclasses define `train(stop)`.

    `train` trains a new model, or continues an interrupted run, until `stop()`
    is true, and sets the attribute `results`. `train` returns `None`, or a
    message if it failed. `print_missing` also reads the attributes `folder`,
    `recipe` and `running`, which subclasses must set."""

    def __init__(self, title, results=None):
        self.title = title
        self.results = results
        self.failed = False

    def outcome(self):
        """Returns a line with the results, or an empty string."""
        return ""


def run_all(runs, after=None, jobs=1, minutes=math.inf):
    """Trains all runs without results, and calls `after` after each run.
    After a failure, the next run starts. Returns the number of failed runs."""
    begin = time.monotonic()
    interrupted = threading.Event()

    def stop():
        return interrupted.is_set() or time.monotonic() >= begin + 60 * minutes

    def run_one(number, run):
        head = f"{number}/{len(runs)} {run.title}"
        if run.results is not None:
            print(_joined(f"{head}: finished before", run.outcome()))
        elif not stop():
            print(head, flush=True)
            run_begin = time.monotonic()
            failure = run.train(stop)
            if failure is None:
                times = f"{_since(run_begin)}, {_since(begin)} in all"
                failure = _joined(run.outcome(), times)
            elif stop():
                failure = "interrupted"
            else:
                run.failed = True
            print(f"{head}: {failure}", flush=True)
            if after is not None:
                after()

    numbered = list(enumerate(runs, start=1))
    if jobs == 1:
        for number, run in numbered:
            run_one(number, run)
    else:
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            try:
                futures = [pool.submit(run_one, *each) for each in numbered]
                for future in futures:
                    future.result()
            except BaseException:
                interrupted.set()
                pool.shutdown(cancel_futures=True)
                raise
    if stop() and any(run.results is None for run in runs):
        print("The time is up. Run the same command to continue.")
    return sum(run.failed for run in runs)


def print_missing(runs, short=False):
    """Prints the command of each run without results, and their number to
    standard error."""
    missing = [run for run in runs if run.results is None]
    print(f"{len(missing)} of {len(runs)} runs are missing:", file=sys.stderr)
    for run in missing:
        if short:
            print(short_command(run.recipe, **run.running))
        else:
            arguments = _arguments(run.folder, run.recipe, run.running)
            print(shlex.join(["memlm", *arguments]))


def _joined(*texts):
    return "; ".join(filter(None, texts))


def _since(begin):
    return datetime.timedelta(seconds=round(time.monotonic() - begin))


def command_of(recipe, **running):
    """Returns the arguments of `memlm train` for a recipe and other flags."""
    flags = {**recipe, **running}
    if flags["dataset"] not in (*options.TEXTS, *options.PAIRS):
        # Without this flag, the command would adapt the preset to the text.
        flags["as_published"] = True
    preset = flags.pop("preset")
    return [preset, *(as_flag(name, value) for name, value in flags.items())]


def short_command(recipe, **running):
    """Returns a run's command without folders and backend, so that it works on
    any machine."""
    recipe = {k: v for k, v in recipe.items() if k != "data_dir"}
    return shlex.join(["memlm", "train", *command_of(recipe, **running)])


def _arguments(folder, recipe, running):
    """Returns the arguments of `memlm` for training a run in its folder."""
    running = {**running, "run_dir": folder.parent, "backend": backend()}
    if precision := matmul_precision():
        running["matmul_precision"] = precision
    return ["train", *command_of(recipe, **running)]


def train_in_process(folder, recipe, running, stop):
    """Runs `memlm train` in a new process, which logs to `log.txt`; returns
    `None`, or a message if it failed."""
    log = folder / "log.txt"
    command = [sys.executable, "-m", "memlm_keras"]
    command += _arguments(folder, recipe, running)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(log, "a", encoding="utf-8") as file:
            process = subprocess.Popen(
                command,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**_SHARE, **children.environment()},
            )
            try:
                while process.poll() is None and not stop():
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(1)
            finally:
                # After SIGTERM, the run saves a checkpoint.
                process.terminate()
                process.wait()
    except OSError as error:
        return f"failed: {error}"
    if process.returncode == 0:
        return None
    # A run that diverged has the exit status 1, but also results.
    results = RunFolder(folder).results() or {}
    if process.returncode == 1 and not results.get("finite", True):
        return None
    text = log.read_text(encoding="utf-8", errors="replace")
    last = text.splitlines()[-_LINES_OF_A_FAILURE:]
    head = f"failed with exit status {process.returncode}; {log} ends with"
    return "\n    ".join([head, *last])


def in_fresh_process(function, *arguments):
    """Calls a function in a new process, whose memory is freed afterwards."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(
        1, context, initializer=_begin, initargs=(os.getpid(),)
    ) as pool:
        return pool.submit(function, *arguments).result()


def _begin(parent):
    children.end_with_parent(parent)
    import_keras()
