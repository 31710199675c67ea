"""Ctrl-C where half of something would stay behind: there it waits for the end.

Python takes back the module whose import is interrupted, but not what that had imported or
registered by then: NetworkX's submodules would go on with a package that is gone, NumPy refuses to
be loaded twice, and operators would be defined a second time.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Run the body to its end; a Ctrl-C meanwhile takes effect then.

    Signals reach the main thread alone. A handler that is not Python's stays in place.
    """
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if main else None
    if before is None:
        yield
        return
    late: list[int] = []
    try:
        signal.signal(signal.SIGINT, lambda number, _: late.append(number))
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if late:
            signal.raise_signal(signal.SIGINT)
