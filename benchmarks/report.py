"""Tables of results, and their JSON records."""

import dataclasses
import datetime
import json
import os
import pathlib
import platform
import statistics
from importlib import metadata

from benchmarks.runner import Result
from benchmarks.runner import ratios
from benchmarks.suites import CASES

_LIBRARIES = ("keras", "tensorflow", "jax", "torch")
# Highest operations per second of GPUs in dense matrix products, from their
# data sheets: float32 matrices in TF32, and bfloat16 matrices.
_CARDS = {
    "A100": (156e12, 312e12),
    "H100 80GB HBM3": (494e12, 989e12),
    "H100 PCIe": (378e12, 756e12),
    "H200": (494e12, 989e12),
    "L40S": (183e12, 362e12),
}


def table(case, results):
    """Returns the lines of a Markdown table of times and ratios of times."""
    timed = {r.contender: r for r in results if r.refused is None}
    bases = {c.name: case.base(c) for c in case.contenders}
    first = next(iter(timed.values()), None)
    columns = ["contender", "ms a step", "ratio", "least to largest"]
    columns += ["tokens a second"]
    if case.flop is not None:
        columns += ["GFLOP/s", "of the peak"]
        if any(result.card for result in timed.values()):
            columns += ["of the card"]
    if case.kind == "step":
        columns += ["loaded in s", "first answer in ms", "MB of the file"]
        columns += ["MiB of the process"]
    else:
        columns += ["MiB above the weights"]
    lines = [_row(columns), _row(["---"] * len(columns))]
    for result in timed.values():
        median = statistics.median(result.seconds)
        base = timed.get(bases.get(result.contender), first)
        ratio, least, largest = ratios(result, base)
        cells = [
            result.contender,
            _milliseconds(median),
            _number(ratio),
            f"{_number(least)} to {_number(largest)}",
            f"{case.tokens / median:,.0f}",
        ]
        if case.flop is not None:
            cells += [
                f"{case.flop / median / 1e9:.0f}",
                f"{case.flop / median / result.peak:.0%}",
            ]
            if "of the card" in columns:
                cells += [_share(case.flop / median, result)]
        if case.kind == "step":
            cells += _start(result.start)
        else:
            memory = result.memory
            cells += ["" if memory is None else f"{memory / 2**20:,.0f}"]
        lines.append(_row(cells))
    lines += [
        f"\n{r.contender} was not timed: {r.refused}."
        for r in results
        if r.refused is not None
    ]
    return lines


def _share(speed, result):
    """Returns a speed in per cent of the GPU's highest, "" if unknown."""
    known = [v for k, v in _CARDS.items() if k in (result.card or "")]
    if not known:
        return ""
    return f"{speed / known[0]['bfloat16' in result.contender]:.1%}"


def _start(start):
    """Returns the table cells of a start-up; `None` gives empty cells."""
    if start is None:
        return [""] * 4
    size = start["bytes"]
    return [
        f"{start['loading']:.2f}",
        f"{1000 * start['first']:.0f}",
        "" if size is None else f"{size / 1e6:.1f}",
        f"{start['memory'] / 2**20:,.0f}",
    ]


def _milliseconds(seconds):
    return (
        f"{1000 * seconds:.1f}" if seconds >= 0.01 else f"{1000 * seconds:.2f}"
    )


def _number(ratio):
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.4f}"


def _row(cells):
    return f"| {' | '.join(cells)} |"


def record(measured, threads, rounds):
    """Returns all results as a dict for JSON."""
    return {
        "date": datetime.date.today().isoformat(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": threads,
        "rounds": rounds,
        "python": platform.python_version(),
        "libraries": {
            name: metadata.version(name)
            for name in _LIBRARIES
            if _is_installed(name)
        },
        "cases": {
            name: [dataclasses.asdict(result) for result in results]
            for name, results in measured.items()
        },
    }


def document(recorded):
    """Returns a recorded run as Markdown."""
    libraries = ", ".join(f"{k} {v}" for k, v in recorded["libraries"].items())
    rounds = {
        len(result["seconds"])
        for results in recorded["cases"].values()
        for result in results
        if result["seconds"]
    }
    rounds = " or ".join(map(str, sorted(rounds)))
    lines = [
        f"{recorded['date']}, {recorded['processor']}, threads: "
        f"{recorded['threads']} of {recorded['cores']} cores; {libraries}. "
        f"Medians of {rounds} rounds in which all contenders take turns, each "
        "in its own process. A ratio compares two turns of the same round. The "
        "peak is the rate of a large matrix product by the same library in the "
        "same process. Memory is the growth of the process beyond the weights, "
        "including compilation. For reading tokens, memory is that of the "
        "whole process after its first answer, and loading includes the "
        "library. On a GPU, float32 matrices are multiplied in TF32, and the "
        "share of the card is that of its dense TF32 or bfloat16 products.",
    ]
    for name, results in recorded["cases"].items():
        case = CASES[name]
        lines += ["", f"## {case.title}", ""]
        lines += table(case, [Result(**result) for result in results])
    return "\n".join(lines) + "\n"


def write(path, recorded):
    """Writes a record as JSON."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(recorded, indent=1) + "\n")


def _is_installed(name):
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _processor():
    path = pathlib.Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
