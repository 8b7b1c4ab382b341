"""Provenance of results: command, date, versions, hardware and memory."""

import os
import pathlib
import platform
import re
import resource
import shlex
import sys
import time

import keras


def provenance(command=None):
    """Command, date, memory, versions and hardware, as plain values.

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
