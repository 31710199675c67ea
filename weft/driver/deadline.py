"""A deadline for a function of the user's, which runs in this process: it is interrupted, as Ctrl-C
would interrupt it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

AGAIN = 1.0  # seconds until what goes on after it was interrupted is interrupted again


class TooLong(BaseException):
    """Time is up. No ``Exception``: what a user's ``except Exception`` is for is something else."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise ``TooLong`` in the body where it takes more than ``seconds``.

    Between two steps of Python's: what C code does meanwhile, isl's included, comes to its end.
    """
    thread, over, lock = threading.get_ident(), threading.Event(), threading.Lock()

    def watch() -> None:
        wait = min(seconds, threading.TIMEOUT_MAX)
        while not over.wait(wait):
            with lock:
                if not over.is_set():
                    _interrupt(thread, ctypes.py_object(TooLong))
            wait = AGAIN

    watcher = threading.Thread(target=watch, name="weft-deadline", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        with lock:
            over.set()
            _interrupt(thread, None)  # what was raised too late
        watcher.join()


def _interrupt(thread: int, error: ctypes.py_object[type[TooLong]] | None) -> None:
    """Raise ``error`` in ``thread`` at its next step; None: take back what is not raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)
