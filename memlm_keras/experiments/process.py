"""Sets the backend, handles signals and output, and records provenance."""

import contextlib
import ctypes
import functools
import gc
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
import types

import memlm_keras as memlm
from memlm_keras import files
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import nearest

BACKENDS = ("tensorflow", "jax", "torch")
# Maps JAX's names for precisions of float32 matrix products to PyTorch's.
PRECISIONS = dict(float32="highest", tensorfloat32="high", bfloat16="medium")
_PRECISION = "MEMLM_MATMUL_PRECISION"

# === Keras is imported late ===


def backend():
    """Returns the name of the backend that Keras uses, or will use."""
    if "keras" in sys.modules:
        return sys.modules["keras"].config.backend()
    if os.environ.get("KERAS_BACKEND"):
        return os.environ["KERAS_BACKEND"]
    home = os.environ.get("KERAS_HOME")
    folder = pathlib.Path(home) if home else pathlib.Path.home() / ".keras"
    try:
        return json.loads((folder / "keras.json").read_text())["backend"]
    except (OSError, ValueError, KeyError):
        return "tensorflow"


def choose_backend(name=None, precision=None):
    """Sets the backend and the precision of matrix products, also for child
    processes. The default is the configured backend, or else an installed one.

    Raises `UsageError` if Keras already runs on another backend, and
    `ImportError` if the backend is not installed."""
    if name is not None:
        if "keras" in sys.modules and name != backend():
            raise UsageError(
                f"Keras already runs on {backend()} in this process. "
                f"Received: --backend={name}"
            )
        os.environ["KERAS_BACKEND"] = name
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    name = backend()
    if name not in BACKENDS:
        raise UsageError(
            f"The backend must be one of {', '.join(BACKENDS)}. Received: "
            f"{name}.{nearest(name, BACKENDS)}"
        )
    installed = [*filter(importlib.util.find_spec, BACKENDS)]
    if name not in installed:
        # Keras' configuration names TensorFlow even if no user chose it.
        chosen = os.environ.get("KERAS_BACKEND") or "keras" in sys.modules
        if chosen or not installed:
            raise ImportError(
                f"The backend {name} is not installed: pip install {name}, or "
                "choose another with --backend."
            )
        os.environ["KERAS_BACKEND"] = name = installed[0]
    if precision is not None:
        os.environ[_PRECISION] = precision
    precision = matmul_precision()
    if precision is not None and precision not in PRECISIONS:
        raise UsageError(
            f"{_PRECISION} must be one of {', '.join(PRECISIONS)}. Received: "
            f"{precision}"
        )
    if precision == "bfloat16" and name == "tensorflow":
        raise UsageError(
            "TensorFlow multiplies float32 matrices in float32 or "
            "tensorfloat32. Use --matmul_precision=tensorfloat32, or "
            "--backend=torch. Received: --matmul_precision=bfloat16"
        )


def matmul_precision():
    """Returns the chosen precision of matrix products, or `None`."""
    return os.environ.get(_PRECISION)


def _set_matmul_precision(name):
    """Sets the backend's precision of float32 matrix products."""
    if backend() == "torch":
        sys.modules["torch"].set_float32_matmul_precision(PRECISIONS[name])
    elif backend() == "jax":
        sys.modules["jax"].config.update("jax_default_matmul_precision", name)
    else:
        config = sys.modules["tensorflow"].config.experimental
        config.enable_tensor_float_32_execution(name != "float32")


def import_keras(name=None, precision=None):
    """Imports Keras and this package; imports TensorFlow only if it is the
    backend, and then hides TensorFlow's log messages."""
    choose_backend(name, precision)
    if "memlm_keras.models" not in sys.modules:
        _import_all()
    if matmul_precision() is not None:
        _set_matmul_precision(matmul_precision())


def _import_all():
    """Imports Keras and this package quietly."""
    _keep_memory()
    from absl import logging

    logging.set_verbosity(logging.ERROR)
    with files.silent_stderr(), _only_needed_imports():
        memlm.load_all()
        from memlm_keras import keras_private

        if backend() == "tensorflow":
            # Here, the log of TensorFlow's first operation is silent.
            keras_private.module_utils.tensorflow.zeros(1)
        else:
            keras_private.leave_out_tensorflow()


# Optional packages that Keras imports but does not need here, by backend.
_UNUSED = {
    "jax": ("matplotlib", "requests"),
    "tensorflow": ("matplotlib",),  # TensorFlow itself imports requests.
    "torch": ("jax", "matplotlib", "requests"),
}


@contextlib.contextmanager
def _only_needed_imports():
    """Context in which Keras cannot import slow modules that it does not need,
    and the garbage collector is off. After the context, all modules can be
    imported."""
    hidden = {name: None for name in _UNUSED[backend()]}
    if backend() == "torch":
        # Keras uses `torch._dynamo` only to exclude its random functions from
        # compilation.
        hidden["torch._dynamo"] = types.SimpleNamespace(disable=_disable)
    hidden = {k: v for k, v in hidden.items() if k not in sys.modules}
    collects = gc.isenabled()
    gc.disable()
    sys.modules.update(hidden)
    try:
        yield
    finally:
        for name, module in hidden.items():
            if sys.modules.get(name) is module:
                sys.modules.pop(name, None)
        # The garbage collector need not scan the imported modules again.
        gc.freeze()
        if collects:
            gc.enable()


def _disable():
    """Returns a decorator that calls `torch._dynamo.disable` only if a compiled
    model has imported `torch._dynamo`, because importing it is slow."""

    def decorate(function):
        @functools.wraps(function)
        def run(*arguments, **keywords):
            dynamo = sys.modules.get("torch._dynamo")
            call = dynamo.disable(function) if dynamo else function
            return call(*arguments, **keywords)

        return run

    return decorate


# Variables by which glibc reuses up to 2 GiB of freed memory, also in threads:
# it is slow to get zeroed pages from the kernel.
KEEPS_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1),
}


def _keep_memory():
    """Does what the variables in `KEEPS_MEMORY` do, unless the environment has
    some of glibc's. Lets PyTorch use huge pages."""
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    if any(name.startswith("MALLOC_") for name in os.environ):
        return
    with contextlib.suppress(OSError, AttributeError):
        glibc = ctypes.CDLL("libc.so.6")
        # The numbers of the settings in <malloc.h>.
        for number, value in zip((-8, -4, -1), KEEPS_MEMORY.values()):
            glibc.mallopt(number, int(value))


# === Signals ===

# Seconds until `Interrupted` is raised again, in case it was swallowed.
_AGAIN_AFTER = 1.0
# `_received` is the number of the first signal in `signals_raise`, or `None`.
# `_waits` is true while signals wait for the end of a batch.
_received, _waits = None, False


class Interrupted(BaseException):
    """Raised by the signal `number`, which asks the process to end."""

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
        # Only a repeated signal interrupts a batch. After Ctrl-C, a run of a
        # table gets two different signals: SIGINT, and its parent's SIGTERM.
        if _waits and number not in (before, signal.SIGALRM):
            return
        _waits = False
        # Raise again after a while: a bare `except` or the garbage collector
        # may have swallowed `Interrupted`.
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
        # A background process of a shell keeps ignoring SIGINT.
        if signal.getsignal(number) != signal.SIG_IGN
    }
    sys.unraisablehook = report_lost
    try:
        yield
    except Exception as error:
        # A library whose file write is interrupted may raise its own error.
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
    """Context in which a signal takes effect at the end of the batch: `save()`
    is called, and `Interrupted` is raised. A repeated signal raises at once.

    Yields the Keras callback that checks for signals between batches."""
    import keras

    global _waits

    def check(batch, logs=None):
        if _received is not None:
            if _waits:
                save()
            raise Interrupted(_received)

    _waits = True
    try:
        # Keras may call `on_*_batch_end` in another thread.
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
    """Context that yields a file to write atomically, or standard output."""
    if path is None:
        yield sys.stdout
        return
    with files.atomic_path(path) as temporary:
        with open(temporary, "w", encoding="utf-8") as file:
            yield file


def print_notes(*notes):
    """Prints lines to standard error, because standard output is for tables."""
    for note in notes:
        print(note, file=sys.stderr)


def closed_pipe():
    """Discards further output, because the reader of the pipe has closed it.
    Returns the exit status."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    return 128 + signal.SIGPIPE


# === Provenance ===


def typed():
    """Returns the command that started this process."""
    return shlex.join(["python", *sys.argv])


def provenance(command=None):
    """Returns a dict of command, date, peak memory, versions and hardware."""
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
    """Returns the package version, with the commit in a git checkout."""
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
    """Returns the peak memory of this process, in MiB."""
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        # On Linux, `getrusage` includes the parent's memory before the fork.
        return int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) // 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (2**20 if sys.platform == "darwin" else 1024)


def accelerators(name):
    """Returns the names of the accelerators that a backend sees."""
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
