"""Where results come from: what was typed, when, and on what."""

import contextlib
import os
import pathlib
import platform
import re
import resource
import shlex
import subprocess
import sys
import time

import keras

from memlm_keras import __version__


def provenance(command=None):
    """Command, date, memory, versions and hardware, as plain values.

    Args:
        command: string, what was typed; `None` stands for this process'.
    """
    backend = keras.backend.backend()
    hardware = [f"{os.cpu_count()} CPU cores", platform.machine()]
    return {
        "peak_memory_mib": _peak_memory_mib(),
        "command": command or typed(),
        "date": time.strftime("%Y-%m-%d"),
        "memlm_keras": _version(),
        "backend": f"{backend} {sys.modules[backend].__version__}",
        "keras": keras.__version__,
        "python": platform.python_version(),
        "hardware": ", ".join([*hardware, *_accelerators(backend)]),
    }


def typed():
    """The command that this process was begun with."""
    return shlex.join(["python", *sys.argv])


def _version():
    """Version of this package, with the commit if it is a checkout."""
    package = pathlib.Path(__file__).parents[1]
    if (package.parent / ".git").exists():
        command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
        with contextlib.suppress(OSError):
            told = subprocess.run(
                command, cwd=package, capture_output=True, text=True
            )
            return "+".join(filter(None, [__version__, told.stdout.strip()]))
    return __version__


def _peak_memory_mib():
    """Largest memory that this process has held, in MiB."""
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        # What `getrusage` tells on Linux includes the process that began this
        # one, up to that moment.
        return int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) // 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (2**20 if sys.platform == "darwin" else 1024)


def _accelerators(backend):
    """Names of the accelerators that the backend sees."""
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
