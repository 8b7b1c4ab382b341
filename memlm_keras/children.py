"""Child processes that end when their parent ends, even if it is killed."""

import os
import signal
import sys
import threading
import time

# Environment variable with the process id of the parent.
PARENT = "MEMLM_KERAS_PARENT"
_SECONDS = 1.0


def environment(**variables):
    """Returns the environment of a child that can import whatever this process
    can."""
    paths = os.pathsep.join(map(os.path.abspath, sys.path))
    parent = {"PYTHONPATH": paths, PARENT: str(os.getpid())}
    return {**os.environ, **parent, **variables}


def end_with_parent(parent=None):
    """Sends SIGTERM to this process when its parent has ended. `parent` is the
    parent's process id, by default read from the environment."""
    parent = parent or int(os.environ.pop(PARENT, 0))

    def watch():
        # A process whose parent has ended gets another parent.
        while os.getppid() == parent:
            time.sleep(_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    if parent:
        threading.Thread(target=watch, daemon=True).start()
