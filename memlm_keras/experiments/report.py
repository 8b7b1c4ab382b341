"""What came of runs: as plain values, as one line, and as whole tables."""

import csv
import dataclasses
import os
import pathlib
import platform
import re
import resource
import shlex
import statistics
import sys
import time

import keras

from memlm_keras import files

_ENVIRONMENT = ("backend", "keras", "python", "hardware", "date")


def better(monitor):
    """`max` where more of a metric is better, else `min`."""
    return max if monitor.endswith("accuracy") else min


def summary_of_log(log, monitor):
    """What a log says of a whole run.

    Args:
        log: list of dicts of floats, one an epoch.
        monitor: string, the metric that the best epoch is chosen by.

    Returns:
        Dict of plain values; of equal epochs the first is the best.
    """
    speed = next(name for name in log[0] if name.endswith("_per_second"))
    best = better(monitor)(range(len(log)), key=lambda e: log[e][monitor])
    return {
        "epochs": len(log),
        "best_epoch": 1 + best,
        "seconds_per_epoch": statistics.median(r["seconds"] for r in log),
        speed: statistics.median(row[speed] for row in log),
    }


def plain_perplexity(result):
    """A `Perplexity` as plain values, those of other protocols by their names.

    Args:
        result: `memlm_keras.evaluation.Perplexity`.
    """
    return {
        "perplexity": result.perplexity,
        "loss": result.loss,
        "predicted_tokens": result.predicted_tokens,
        "total_tokens": result.total_tokens,
        "protocol": result.protocol,
        **{
            name: plain_perplexity(other)
            for name, other in result.others.items()
        },
    }


def look_up(results, path):
    """What keys lead to in `results.json`, or `None`."""
    for key in path:
        if not isinstance(results, dict) or key not in results:
            return None
        results = results[key]
    return results


def outcome(results, measures):
    """One line that says what came of a run."""
    told = [
        f"{heading} {look_up(results, path):.2f}"
        for heading, path in measures
        if look_up(results, path) is not None
    ]
    line = f"Best of {results['epochs']} epochs ({results['best_epoch']}): "
    line += ", ".join(told)
    for key, unit in (("tokens_per_second", "tokens"), ("pairs_per_second", "pairs")):
        if key in results:
            line += f"; {results[key]:,.0f} {unit} a second"
    if not results.get("finite", True):
        line += "; stopped, as the loss was not finite"
    return f"{line}."


def provenance(command=None):
    """How, when and where results came about, as plain values.

    Args:
        command: string, what was typed; `None` stands for this process'.
    """
    return {
        "peak_memory_mib": peak_memory_mib(),
        "command": command or shlex.join(["python", *sys.argv]),
        "date": time.strftime("%Y-%m-%d"),
        **environment(),
    }


def peak_memory_mib():
    """Largest memory that this process has held, in MiB."""
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        # What `getrusage` tells on Linux includes the process that began this
        # one, up to that moment.
        return int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) // 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (2**20 if sys.platform == "darwin" else 1024)


def environment():
    """Versions and hardware, as plain values."""
    backend = keras.backend.backend()
    version = __import__(backend).__version__
    hardware = [f"{os.cpu_count()} CPU cores", platform.machine()]
    return {
        "backend": f"{backend} {version}",
        "keras": keras.__version__,
        "python": platform.python_version(),
        "hardware": ", ".join([*hardware, *accelerators()]),
    }


def accelerators():
    """Names of the accelerators that the backend sees."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        return [d.device_kind for d in jax.devices() if d.platform != "cpu"]
    if backend == "tensorflow":
        import tensorflow as tf

        details = tf.config.experimental.get_device_details
        return [
            details(device).get("device_name", device.name)
            for device in tf.config.list_physical_devices("GPU")
        ]
    import torch

    return [
        torch.cuda.get_device_name(index)
        for index in range(torch.cuda.device_count())
    ]


@dataclasses.dataclass(frozen=True)
class Summary:
    """What several runs measured; no standard deviation of a single one."""

    mean: float
    standard_deviation: float | None
    minimum: float
    maximum: float


def summarize(values):
    """Returns the `Summary` of a list of numbers, `None` of an empty one."""
    if not values:
        return None
    return Summary(
        mean=statistics.mean(values),
        standard_deviation=(
            statistics.stdev(values) if len(values) > 1 else None
        ),
        minimum=min(values),
        maximum=max(values),
    )
