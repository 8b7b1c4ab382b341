"""Runs one contender, and answers commands from the standard input.

    python -m benchmarks.worker CASE PEER BACKEND VARIANT PRECISION THREADS \\
        SIZES

SIZES is a JSON object of sizes of the case. Each input line is a JSON list of a
command and its arguments: `losses N`, `steps N`, `peak DTYPE`, `memory`, `card`
or `start`, which must come first. Each output line is an answer: a number, a
name for `card`, or a dict for `start`.
"""

import dataclasses
import importlib
import json
import os
import pathlib
import resource
import statistics
import sys
import time

# The speed of so large a product is limited by arithmetic, not by memory.
_PRODUCT = (1120, 2600, 2600)


def limit_threads(backend, threads):
    """Limits the number of threads of libraries that are imported later."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    if hasattr(os, "sched_setaffinity"):
        available = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, available[:threads])
    os.environ["KERAS_BACKEND"] = backend
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def peak(contender, dtype):
    """Returns operations per second of the fastest large matrix products."""
    rows, inner, columns = _PRODUCT
    run = contender.product(rows, inner, columns, dtype)
    run()
    seconds = []
    for _ in range(12):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    fastest = statistics.median(sorted(seconds)[:4])
    return 2 * rows * inner * columns / fastest


def most_memory():
    """Returns the peak memory of the process in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def memory_now():
    """Returns the current memory of the process in bytes."""
    pages = pathlib.Path("/proc/self/statm")
    if not pages.exists():
        return most_memory()
    return resource.getpagesize() * int(pages.read_text().split()[1])


def main():
    name, peer, backend, variant, precision, threads, sizes = sys.argv[1:]
    limit_threads(backend, int(threads))
    answers = os.fdopen(os.dup(1), "w")
    # Libraries print to standard error, and only answers to standard output.
    os.dup2(2, 1)
    from benchmarks.suites import CASES

    case = dataclasses.replace(CASES[name], **json.loads(sizes))
    started = time.perf_counter()
    if backend == "torch":
        import torch

        # Use TF32, which JAX and TensorFlow use by default.
        torch.backends.cuda.matmul.allow_tf32 = True
    module = importlib.import_module(f"benchmarks.peers.{peer}")
    contender = module.make(case, variant, precision)
    loading = time.perf_counter() - started
    begin = memory_now()

    def seconds_of(number):
        begin = time.perf_counter()
        end = contender.steps(number)
        return (end or time.perf_counter()) - begin

    def start():
        return {
            "loading": getattr(contender, "loading", loading),
            "first": seconds_of(1),
            "memory": most_memory(),
            "bytes": getattr(contender, "bytes", None),
        }

    def card():
        from memlm_keras.experiments import process

        return next(iter(process.accelerators(backend)), None)

    known = {
        "start": start,
        "losses": contender.losses,
        "steps": seconds_of,
        "memory": lambda: most_memory() - begin,
        "card": card,
        "peak": lambda dtype: peak(contender, dtype),
    }
    for line in sys.stdin:
        what, *arguments = json.loads(line)
        print(json.dumps(known[what](*arguments)), file=answers, flush=True)


if __name__ == "__main__":
    main()
