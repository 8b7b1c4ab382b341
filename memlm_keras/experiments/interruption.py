"""Signals that end a command: told of at once, and never lost for long."""

import contextlib
import os
import signal
import socket
import sys
import threading

# Seconds until a signal that was lost raises again.
_AGAIN_AFTER = 1.0
# Seconds until a command that has not ended tells that it is about to.
_TOLD_AFTER = 0.3
_TOLD = (
    b"\nStopping once the running step, or compilation, is over (compiling may "
    b"take a minute) ...\n"
)
_ENDING = (signal.SIGINT, signal.SIGTERM)

# The first signal that came while `signals_raise` was entered, or `None`.
_first = None


class Interrupted(BaseException):
    """The process was told to end, by the signal of a number."""

    def __init__(self, number):
        super().__init__(number)
        self.number = number


def raise_lost():
    """Raises what a signal raised, if that was lost and nothing has ended.

    Keras turns logs into numbers within an `except` of everything. With JAX,
    that is where training waits for each step: nearly every signal comes just
    then, and so do those that are raised again. Called between two steps, this
    ends training with the step in which a signal came.
    """
    if _first is not None:
        raise Interrupted(_first)


def between_batches():
    """A Keras callback that calls `raise_lost` between two batches."""
    # The command line knows its backend later than it needs the rest of this.
    import keras

    def stop(batch, logs=None):
        raise_lost()

    # At their ends, batches may be told of in another thread.
    return keras.callbacks.LambdaCallback(
        on_train_batch_begin=stop, on_test_batch_begin=stop
    )


@contextlib.contextmanager
def signals_raise():
    """Context in which SIGINT and SIGTERM raise until something ends.

    An interruption that comes within an `except` of everything is lost, and
    so it is in a callback of the garbage collector, with a traceback that says
    so. It is raised again, here and by `raise_lost`.
    """
    global _first
    hook = sys.unraisablehook

    def say_lost(lost):
        if not isinstance(lost.exc_value, Interrupted):
            hook(lost)

    def handle(number, frame):
        global _first
        _first = _first or number
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_AFTER)
        being_handled = isinstance(sys.exception(), Interrupted)
        if number != signal.SIGALRM or not being_handled:
            raise Interrupted(_first)

    before = {
        number: signal.signal(number, handle)
        for number in (*_ENDING, signal.SIGALRM)
        # What runs in the background of a shell is not interrupted with it.
        if signal.getsignal(number) != signal.SIG_IGN
    }
    sys.unraisablehook = say_lost
    try:
        with _told():
            yield
    finally:
        sys.unraisablehook = hook
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
        _first = None


@contextlib.contextmanager
def _told():
    """Context in which a signal is told of while compiled code runs.

    Python calls a handler when that has returned, which may take a minute;
    the number of the signal comes through a socket before.
    """
    ended = threading.Event()
    reader, writer = socket.socketpair()
    writer.setblocking(False)

    def tell():
        told = False
        with reader:
            # To the end, as whoever writes must have a reader.
            while number := reader.recv(1):
                if told or number[0] not in _ENDING:
                    continue
                told = not ended.wait(_TOLD_AFTER)
                if told:
                    # `sys.stderr` may be within a write already.
                    os.write(2, _TOLD)

    threading.Thread(target=tell, daemon=True).start()
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        ended.set()
        writer.close()
