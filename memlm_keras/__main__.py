"""`python -m memlm_keras`, which is `memlm`."""

import sys

from memlm_keras.experiments.command_line import main

if __name__ == "__main__":
    sys.exit(main())
