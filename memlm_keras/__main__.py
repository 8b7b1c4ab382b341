"""Runs the command `memlm` for `python -m memlm_keras`."""

import sys

from memlm_keras.experiments.command_line import main

if __name__ == "__main__":
    sys.exit(main())
