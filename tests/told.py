"""Runs programs and commands, and returns what they print."""

import os
import pathlib
import subprocess
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[1]


class Told(NamedTuple):
    """Exit status, standard output and standard error of a command."""

    status: int
    out: str
    err: str


def python(*arguments, folder=None, typed=None, status=0, **variables):
    """Runs Python, which imports this checkout; returns its status and output.

    The process runs in `folder`; `variables` are added to its environment, or
    removed if `None`. Its exit status must be `status`, unless that is `None`.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env={k: v for k, v in environment.items() if v is not None},
        input=typed,
        capture_output=True,
        text=True,
    )
    told = Told(done.returncode, done.stdout, done.stderr)
    assert status in (None, told.status), told.out[-2000:] + told.err[-3000:]
    return told
