"""Parses flags and prints errors for the programs in this folder."""

import pathlib
import sys

from absl import app
from absl import flags

from memlm_keras.experiments import options
from memlm_keras.experiments import process

# These errors have the exit status 2; all other errors have the status 1.
_USAGE = (flags.Error, options.UsageError, FileNotFoundError)


def run(main):
    """Runs `main` with the arguments on the command line, and exits with the
    status that `main` returns. Prints an error as one line."""
    try:
        app.run(lambda rest: _checked(main, rest), flags_parser=_parse)
    except BrokenPipeError:
        sys.exit(process.closed_pipe())


def call(main, typed):
    """Runs `main` with command-line arguments; returns the exit status."""
    return _checked(main, _parse(typed))


def _parse(typed):
    if "traceback" not in flags.FLAGS:
        flags.DEFINE_bool("traceback", False, "Show the traceback of an error.")
    try:
        return flags.FLAGS(typed)
    except flags.Error as error:
        sys.exit(_failed(typed[0], error))


def _checked(main, rest):
    if flags.FLAGS.traceback:
        return main(rest[1:])
    try:
        return main(rest[1:]) or 0
    except BrokenPipeError:
        raise
    except (ValueError, OSError) as error:
        return _failed(rest[0], error)
    except KeyboardInterrupt:
        print("Interrupted. Repeat the command to continue.", file=sys.stderr)
        return 130


def _failed(program, error):
    options.print_error(pathlib.Path(program).name, error)
    return 2 if isinstance(error, _USAGE) else 1
