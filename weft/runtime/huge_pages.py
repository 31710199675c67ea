"""Large constants on huge pages, where the system has them.

Weights that are read from end to end at each call come from memory as fast as addresses are
translated and prefetchers run on: both stop at the end of each page. Linux makes huge pages of the
4 KiB ones that are there (``MADV_COLLAPSE``, since Linux 6.1), in place, so that nothing is copied
and whoever shares the memory keeps it. Where that is refused, for files, for lack of free memory,
or on another system, everything stays as it is.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path

import numpy as np

_SIZE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
_COLLAPSE = 25  # MADV_COLLAPSE of <linux/mman.h>


def on_huge_pages(array: np.ndarray) -> None:
    """Move the huge pages that lie wholly inside of ``array``, contiguous, to such."""
    size = _page()
    if array.nbytes < size:
        return
    at = array.ctypes.data
    first, end = -(-at // size) * size, (at + array.nbytes) // size * size
    if first < end:
        _madvise(first, end - first, _COLLAPSE)


@cache
def _page() -> int:
    """Bytes of a huge page; more than any array has where there are none."""
    try:
        return int(_SIZE.read_text())
    except (OSError, ValueError):
        return sys.maxsize


def _madvise(at: int, size: int, advice: int) -> None:
    """A hint to the system, which may refuse it."""
    call = ctypes.CDLL(None).madvise
    call(ctypes.c_void_p(at), ctypes.c_size_t(size), ctypes.c_int(advice))
