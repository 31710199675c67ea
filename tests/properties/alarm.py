"""A time limit on a block, for programs that may never end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

WAITING = 20  # times as long on the clock: others may use the processor, and who waits uses none


class Late(Exception):
    """Too long."""


@contextmanager
def alarm(seconds: int) -> Iterator[None]:
    """Raise ``Late`` in the block after ``seconds`` of this process's time."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Late(f"more than {seconds} s")

    timers = (
        (signal.ITIMER_PROF, signal.SIGPROF, seconds),
        (signal.ITIMER_REAL, signal.SIGALRM, seconds * WAITING),
    )
    before = [
        (timer, number, signal.signal(number, ring), signal.setitimer(timer, limit)[0])
        for timer, number, limit in timers
    ]
    try:
        yield
    finally:
        for timer, number, handler, left in before:
            signal.setitimer(timer, left)
            signal.signal(number, handler)
