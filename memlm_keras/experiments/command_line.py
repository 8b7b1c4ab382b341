"""The `memlm` command.

    memlm presets [PATTERN]
    memlm train PRESET --dataset=NAME|FOLDER|FILE.txt
    memlm evaluate RUN [RUN ...]
    memlm score RUN [TEXT ...]
    memlm surprisal RUN [RUN ...] FILE
    memlm generate RUN [PROMPT]
    memlm attention RUN
    memlm export RUN [FOLDER]
    memlm predict RUN PREMISE HYPOTHESIS
    memlm table PAPER/TABLE
    memlm claims [CLAIM ...]

RUN is a run folder, or a `.keras` file. Exit status 0: done; 1: failed; 2:
wrong use; 130 and 143: interrupted, with the line that goes on.

Keras is imported once the backend is known, and not at all for what is wrong.
"""

import contextlib
import importlib.util
import json
import os
import pathlib
import shlex
import signal
import sys

from memlm_keras.experiments.interruption import Interrupted
from memlm_keras.experiments.interruption import signals_raise
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import nearest
from memlm_keras.experiments.subcommands import COMMANDS

# Of a message, which may quote what another process said.
_LONGEST = 800
_INSTALL = {"tensorflow": "tensorflow", "jax": "jax", "torch": "torch"}


def main(arguments=None):
    """Runs `memlm`; returns the exit status.

    Args:
        arguments: list of strings; `None` are those of the process.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    traceback = "--traceback" in arguments
    try:
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except UsageError as error:
        return _failed(error, 2, traceback)
    except KeyboardInterrupt:
        return _interrupted(arguments, signal.SIGINT)
    except Interrupted as received:
        return _interrupted(arguments, received.number)
    except BrokenPipeError:
        # Who read what is printed here has read enough.
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        return _failed(error, 1, traceback)


def _run(arguments):
    """Runs a command; returns the exit status."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_help())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        import memlm_keras

        print(memlm_keras.__version__)
        return 0
    command = _command(arguments[0])
    positional, values = command.parse(arguments[1:])
    values.pop("traceback", None)
    with signals_raise():
        lists = command.name == "presets"
        import_keras(values.pop("backend", None), only_keras=lists)
        module = importlib.import_module(
            f"memlm_keras.experiments.{command.module}"
        )
        typed = shlex.join(["memlm", *arguments])
        return getattr(module, command.name)(positional, values, typed) or 0


def _command(name):
    if name in COMMANDS:
        return COMMANDS[name]
    raise UsageError(
        f"There is no command {name}.{nearest(name, COMMANDS)} "
        f"Commands are {', '.join(COMMANDS)}."
    )


def import_keras(backend, only_keras=False):
    """Imports Keras and this package on a backend, without TensorFlow's lines.

    Args:
        backend: string, or `None` for the one that Keras is configured for.
        only_keras: whether TensorFlow, which takes seconds, is not imported
            for another backend. It is whenever a model is trained or saved.

    Raises:
        UsageError: if Keras runs on another one already.
        ImportError: if the backend is not installed.
    """
    loaded = sys.modules.get("keras")
    if loaded is not None and backend not in (None, loaded.config.backend()):
        raise UsageError(
            f"Keras runs on {loaded.config.backend()} in this process already. "
            f"Received: --backend={backend}"
        )
    if backend is not None:
        os.environ["KERAS_BACKEND"] = backend
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    wanted = os.environ.get("KERAS_BACKEND") or _configured_backend()
    if importlib.util.find_spec(wanted) is None:
        raise ImportError(
            f"The backend {wanted} is not installed: pip install "
            f"{_INSTALL.get(wanted, wanted)}, or choose another with --backend."
        )
    from absl import logging

    logging.set_verbosity(logging.ERROR)
    with _quiet():
        import memlm_keras

        memlm_keras.load_all()
        if not only_keras:
            importlib.import_module("tensorflow").zeros(1)


@contextlib.contextmanager
def _quiet():
    """Keeps from the screen what libraries say while they are imported.

    TensorFlow writes some lines before it knows how much is wanted of it, and
    not through Python. Errors come as exceptions.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _configured_backend():
    """The backend that Keras is configured for, without importing it."""
    home = os.environ.get("KERAS_HOME")
    folder = pathlib.Path(home) if home else pathlib.Path.home() / ".keras"
    try:
        return json.loads((folder / "keras.json").read_text())["backend"]
    except (OSError, ValueError, KeyError):
        return "tensorflow"


def _failed(error, status, traceback):
    if traceback:
        raise error
    line = " ".join(_text_of(error).split()) or type(error).__name__
    if len(line) > _LONGEST:
        half = _LONGEST // 2
        line = f"{line[:half]} ... {line[-half:]} (--traceback shows all)"
    print(f"memlm: {line}", file=sys.stderr)
    return status


def _text_of(error):
    """The text of an error, without the number of the system's."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.strerror}: {error.filename}"
    return str(error)


def _interrupted(arguments, number):
    told = "Interrupted."
    if arguments[0] in ("train", "table"):
        again = shlex.join(
            ["memlm", *(a for a in arguments if a != "--overwrite")]
        )
        told += f" The same command goes on: {again}"
    print(f"\n{told}", file=sys.stderr)
    return 128 + number


def _help():
    lines = ["Memory-augmented recurrent language models.", ""]
    for command in COMMANDS.values():
        lines.append(" ".join(["  memlm", command.name, *command.places]))
        lines.append(f"      {command.help}")
    lines += [
        "",
        "memlm COMMAND --help tells the flags of a command. RUN is a run "
        "folder,",
        "or a .keras file. For instance:",
        "",
        "  memlm train key_value_predict --dataset=my_text.txt --scale=0.3",
        "  memlm table daniluk2017/models --dataset=ptb --scale=0.2",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
