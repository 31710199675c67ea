"""Tiles for the caches that come out even among threads."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from weft.polyhedral.policy.planner import Planner
from weft.polyhedral.policy.sizes import size_of
from weft.polyhedral.scop import Statement

AMPLE = 16  # iterations for each thread, one more of which is nothing


def sharers_of(planner: Planner, s: Statement, around: Sequence[str]) -> int:
    """How many threads have to share out what is inside of parallel loops along the dims
    ``around`` of ``s``: 1 where each thread has as many iterations of these as any other."""
    sizes = [size_of(s, dim) for dim in around]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return planner.threads
    found = prod(known)
    return 1 if found >= AMPLE * planner.threads else planner.threads // gcd(planner.threads, found)


def even(sharers: int, total: int | None, size: int, block: int) -> int:
    """Rows of a cache tile, in whole register tiles of ``size`` rows: about ``block``, or less of a
    known ``total``, so that ``sharers`` threads have equal shares of it."""
    most = max(1, block // size)
    if total is None or sharers == 1:
        return size * most
    tiles = -(-total // size)
    parts = -(-tiles // most)
    parts = -(-parts // sharers) * sharers
    return size * max(1, -(-tiles // parts))
