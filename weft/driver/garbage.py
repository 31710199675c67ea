"""Python's collector of cycles rests while a program is compiled: IRs have none, yet each full
collection walks all of them, which is a tenth of the time that a model takes.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_resting = 0  # how many ask for it, in all threads


@contextmanager
def uncollected() -> Iterator[None]:
    """No collection inside, nor afterwards where there was none before."""
    global _resting
    with _lock:
        asked = bool(_resting) or gc.isenabled()
        _resting += asked
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            _resting -= asked
            if asked and not _resting:
                gc.enable()
