"""The right to a matrix unit's registers, which Linux gives a process that asks for them.

They are 8 KiB more to save whenever threads take turns, so that nobody has them unasked; without
the right, the first instruction on them ends the process. Linux, "Using XSTATE features in user
space applications".
"""

from __future__ import annotations

import ctypes
import platform
from functools import cache

ARCH_PRCTL, REQUEST, TILES = 158, 0x1023, 18  # of x86-64: the call, what to do, which state


@cache
def request_amx() -> bool:
    """Whether this process may use Intel's tiles (AMX); it asks once."""
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        return False
    try:
        call = ctypes.CDLL(None).syscall
    except (OSError, AttributeError):
        return False
    arguments = (ctypes.c_long(n) for n in (ARCH_PRCTL, REQUEST, TILES))
    return int(call(*arguments)) == 0
