"""The process of an experiment: its backend, signals, output and provenance."""

import contextlib
import ctypes
import importlib.util
import json
import os
import pathlib
import platform
import re
import resource
import shlex
import signal
import subprocess
import sys
import time

import memlm_keras as memlm
from memlm_keras import files
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import nearest

BACKENDS = ("tensorflow", "jax", "torch")

# === Keras is imported late ===


def backend():
    """Name of the backend that Keras runs on, or would be imported with."""
    if "keras" in sys.modules:
        return sys.modules["keras"].config.backend()
    if "KERAS_BACKEND" in os.environ:
        return os.environ["KERAS_BACKEND"]
    home = os.environ.get("KERAS_HOME")
    folder = pathlib.Path(home) if home else pathlib.Path.home() / ".keras"
    try:
        return json.loads((folder / "keras.json").read_text())["backend"]
    except (OSError, ValueError, KeyError):
        return "tensorflow"


def choose_backend(name=None):
    """Sets the backend, by default the configured one; raises an error if Keras
    runs on another already, or if it is not installed."""
    if name is not None:
        if "keras" in sys.modules and name != backend():
            raise UsageError(
                f"Keras runs on {backend()} in this process already. Received: "
                f"--backend={name}"
            )
        os.environ["KERAS_BACKEND"] = name
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    name = backend()
    if name not in BACKENDS:
        raise UsageError(
            f"The backend must be one of {', '.join(BACKENDS)}. Received: "
            f"{name}.{nearest(name, BACKENDS)}"
        )
    if importlib.util.find_spec(name) is None:
        raise ImportError(
            f"The backend {name} is not installed: pip install {name}, or "
            "choose another with --backend."
        )


def import_keras(name=None):
    """Imports Keras and this package, without TensorFlow's log, and TensorFlow
    only if it is the backend."""
    choose_backend(name)
    if "memlm_keras.models" in sys.modules:
        return
    _keep_memory()
    from absl import logging

    logging.set_verbosity(logging.ERROR)
    with files.silent_stderr():
        memlm.load_all()
        from memlm_keras import keras_private

        if backend() == "tensorflow":
            # Its first operation writes a log.
            keras_private.module_utils.tensorflow.zeros(1)
        else:
            keras_private.leave_out_tensorflow()


def _keep_memory():
    """Makes glibc keep the memory of arrays of up to 32 MiB for the next ones:
    the kernel fills each new page with zeros. PyTorch gets larger pages."""
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    if {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"} & set(os.environ):
        return
    # Names of <malloc.h>: M_TRIM_THRESHOLD and M_MMAP_THRESHOLD.
    with contextlib.suppress(OSError, AttributeError):
        glibc = ctypes.CDLL("libc.so.6")
        glibc.mallopt(-1, 2**31 - 1)
        glibc.mallopt(-3, 2**25)


# === Signals ===

# Seconds until a signal whose exception was lost raises again.
_AGAIN_AFTER = 1.0
# Number of the first signal within `signals_raise`, or `None`; and whether it
# waits for the end of a batch.
_received, _waits = None, False


class Interrupted(BaseException):
    """The process was asked to end, by the signal `number`."""

    def __init__(self, number):
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def signals_raise():
    """Context in which SIGINT and SIGTERM raise `Interrupted`."""
    global _received
    hook = sys.unraisablehook

    def handle(number, frame):
        global _received, _waits
        before, _received = _received, _received or number
        # The same signal again does not wait. After Ctrl-C, which reaches all
        # processes of a terminal, a table sends its child another one.
        if _waits and number not in (before, signal.SIGALRM):
            return
        _waits = False
        # An `except` of everything or the garbage collector may lose the error.
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_AFTER)
        is_handled = isinstance(sys.exception(), Interrupted)
        if number != signal.SIGALRM or not is_handled:
            raise Interrupted(_received)

    def report_lost(lost):
        if not isinstance(lost.exc_value, Interrupted):
            hook(lost)

    before = {
        number: signal.signal(number, handle)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
        # A shell's background process ignores SIGINT, and so do we then.
        if signal.getsignal(number) != signal.SIG_IGN
    }
    sys.unraisablehook = report_lost
    try:
        yield
    except Exception as error:
        # A file that was being written may end in an error of its own.
        if _received is not None:
            raise Interrupted(_received) from error
        raise
    finally:
        sys.unraisablehook = hook
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
        _received = None


@contextlib.contextmanager
def signals_wait(save):
    """Context in which a signal of `signals_raise` waits for the end of a
    batch, where `save()` is called; the same signal again does not wait.

    Yields the callback that raises, also what was lost, between two batches.
    """
    import keras

    global _waits

    # On JAX, most of training is within an `except` of everything in Keras.
    def check(batch, logs=None):
        if _received is not None:
            if _waits:
                save()
            raise Interrupted(_received)

    _waits = True
    try:
        # Keras may call `on_..._batch_end` in another thread.
        yield keras.callbacks.LambdaCallback(
            on_train_batch_begin=check, on_test_batch_begin=check
        )
    finally:
        _waits = False
    if _received is not None:
        raise Interrupted(_received)


# === Output ===


@contextlib.contextmanager
def quiet(verbose):
    """Context in which nothing is printed if `verbose` is 0."""
    with contextlib.ExitStack() as stack:
        if not verbose:
            nowhere = stack.enter_context(open(os.devnull, "w"))
            stack.enter_context(contextlib.redirect_stdout(nowhere))
        yield


@contextlib.contextmanager
def writing(path):
    """A file that is written whole or not at all, or the standard output."""
    if path is None:
        yield sys.stdout
        return
    with files.atomic_path(path) as temporary:
        with open(temporary, "w", encoding="utf-8") as file:
            yield file


def print_notes(notes):
    """Prints lines beside a table, which has the standard output."""
    for note in notes:
        print(note, file=sys.stderr)


# === Provenance ===


def typed():
    """The command that this process was started with."""
    return shlex.join(["python", *sys.argv])


def provenance(command=None):
    """Returns command, date, memory, versions and hardware, as plain values."""
    import keras

    name = backend()
    hardware = [f"{os.cpu_count()} CPU cores", platform.machine()]
    return {
        "peak_memory_mib": _peak_memory_mib(),
        "command": command or typed(),
        "date": time.strftime("%Y-%m-%d"),
        "memlm_keras": _version(),
        "backend": f"{name} {sys.modules[name].__version__}",
        "keras": keras.__version__,
        "python": platform.python_version(),
        "hardware": ", ".join([*hardware, *accelerators(name)]),
    }


def _version():
    """Version of this package, with the commit in a git checkout."""
    package = pathlib.Path(__file__).parents[1]
    version = memlm.__version__
    if (package.parent / ".git").exists():
        command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
        with contextlib.suppress(OSError):
            commit = subprocess.run(
                command, cwd=package, capture_output=True, text=True
            ).stdout.strip()
            version += f"+{commit}" if commit else ""
    return version


def _peak_memory_mib():
    """Largest memory of this process so far, in MiB."""
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        # On Linux, `getrusage` includes the parent process up to the fork.
        return int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) // 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (2**20 if sys.platform == "darwin" else 1024)


def accelerators(name):
    """Names of the accelerators that a backend sees."""
    if name == "jax":
        import jax

        return [d.device_kind for d in jax.devices() if d.platform != "cpu"]
    if name == "tensorflow":
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
