"""A deadline for a function of the user's, which runs in this process: it is interrupted, as Ctrl-C
would interrupt it."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from threading import TIMEOUT_MAX, Event, Lock, Thread, get_ident
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

AGAIN = 1.0  # seconds until what goes on after it was interrupted is interrupted again


class TooLong(BaseException):
    """Time is up. No ``Exception``: what a user's ``except Exception`` is for is something else."""


def within(seconds: float, function: Callable[[], T]) -> T:
    """What ``function()`` gives. Raises what it raises, and ``TooLong`` where it takes longer.

    Between two steps of Python's: what C code does meanwhile, isl's included, comes to its end.
    """
    own, thread, over, lock = sys._getframe(), get_ident(), Event(), Lock()

    def watch() -> None:
        wait = min(seconds, TIMEOUT_MAX)
        while not over.wait(wait):
            with lock:  # within() does not end meanwhile, the function may
                frames = _frames(thread, own)
                if not frames:
                    return
                if any(frame.f_code is _call.__code__ and frame.f_back is own for frame in frames):
                    _interrupt(thread)
            wait = AGAIN

    Thread(target=watch, name="weft-deadline", daemon=True).start()
    try:
        return _call(function)
    finally:
        with lock:
            over.set()  # where this is itself interrupted, the watcher sees that it has ended


def _call(function: Callable[[], T]) -> T:
    """What is interrupted: never what is around it, which would not end its watcher."""
    return function()


def _frames(thread: int, last: FrameType) -> list[FrameType]:
    """The frames of ``thread`` from its innermost to ``last``; none where that one has ended."""
    frames = []
    frame = sys._current_frames().get(thread)
    while frame is not None:
        frames.append(frame)
        if frame is last:
            return frames
        frame = frame.f_back
    return []


def _interrupt(thread: int) -> None:
    """Raise ``TooLong`` in ``thread`` at its next step."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TooLong))
