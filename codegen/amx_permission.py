"""Permission to use Intel's tiles (AMX), which Linux grants a process on request.

Tiles add 8 KiB to the state that is saved at context switches, so that processes start without
them; without permission, the first AMX instruction ends the process. Linux, "Using XSTATE features
in user space applications".
"""

from __future__ import annotations

import ctypes
import platform
from functools import cache

ARCH_PRCTL, REQUEST, TILES = 158, 0x1023, 18  # of x86-64: the call, what to do, which state


@cache
def request_amx() -> bool:
    """Whether this process may use Intel's tiles (AMX); the request is made once."""
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        return False
    try:
        call = ctypes.CDLL(None).syscall
    except (OSError, AttributeError):
        return False
    arguments = (ctypes.c_long(n) for n in (ARCH_PRCTL, REQUEST, TILES))
    return int(call(*arguments)) == 0
