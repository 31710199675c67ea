"""A time limit on a block, for programs that may never end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Late(Exception):
    """Too long."""


@contextmanager
def alarm(seconds: int) -> Iterator[None]:
    """Raise ``Late`` in the block after ``seconds``."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Late(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    left = signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(left)
        signal.signal(signal.SIGALRM, before)
