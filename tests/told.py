"""Status and output of commands."""

from typing import NamedTuple


class Told(NamedTuple):
    """Exit status, standard output and standard error of a command."""

    status: int
    out: str
    err: str
