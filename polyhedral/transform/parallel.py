"""Parallel: the iterations of a loop may run at the same time on several threads.

    for i: S(i)      →      parallel for i: S(i)                                  parallel("i")

Legal where the loop carries no dependence, not even that of a reduction.
Also known as: Halide ``parallel``, TVM ``parallel``, Exo ``parallelize_loop``; OpenMP ``for``.
"""

from __future__ import annotations

from weft.errors import IllegalScheduleError
from weft.polyhedral.transform.scheduled import Scheduled, transformation
from weft.polyhedral.transform.set_kinds import set_kinds


@transformation
def parallel(scheduled: Scheduled, *loops: str) -> Scheduled:
    """``loops`` become parallel loops.

    Threads share out the outermost of them, together with those directly inside it. Raises
    ``IllegalScheduleError``: WEFT-E0450 where there is no such loop, E0460 without a loop.
    """
    if not loops:
        raise IllegalScheduleError("WEFT-E0460", "parallel without a loop", hint='parallel("i")')
    return set_kinds(scheduled, dict.fromkeys(loops, "parallel"))
