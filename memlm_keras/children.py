"""Processes that end with the one that started them, also if it is killed."""

import os
import signal
import threading
import time

# Environment variable of a child: the number of its parent.
PARENT = "MEMLM_KERAS_PARENT"
_SECONDS = 1.0


def end_with_parent(parent=None):
    """Makes a signal end this process, in order, when its parent has ended;
    `None` is the number in the environment, if there is one."""
    parent = parent or int(os.environ.pop(PARENT, 0))

    def watch():
        # A process whose parent has ended gets another one.
        while os.getppid() == parent:
            time.sleep(_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    if parent:
        threading.Thread(target=watch, daemon=True).start()
