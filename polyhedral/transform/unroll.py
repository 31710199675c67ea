"""Unroll: the iterations of a loop are written out one after the other.

    for i in 0…3: S(i)   →   S(0); S(1); S(2); S(3)                                     unroll("i")
    for i: S(i)          →   for i_t: S(4·i_t); S(4·i_t + 1); S(4·i_t + 2); …        unroll("i", 4)

Always legal: the order of instances stays.
Also known as: Halide ``unroll``, TVM ``unroll``, Exo ``unroll_loop``.
"""

from __future__ import annotations

from weft.ir.errors import IllegalScheduleError
from weft.polyhedral.analysis.trip_count import trip_count
from weft.polyhedral.transform.scheduled import Scheduled, transformation
from weft.polyhedral.transform.set_kinds import set_kinds
from weft.polyhedral.transform.sink import sink
from weft.polyhedral.transform.split import split

MOST = 64  # iterations that may be written out


@transformation
def unroll(scheduled: Scheduled, loop: str, factor: int | None = None) -> Scheduled:
    """``loop`` is written out, or is split by ``factor`` and its point loop is written out.

    Raises ``IllegalScheduleError``: WEFT-E0450 where there is no such loop, E0460 for a factor
    below 1, E0462 where the loop has more than 64 iterations, or a number that depends on sizes.
    """
    if factor is not None:
        before = scheduled.names()
        scheduled = split(scheduled, loop, factor)
        _, loop = [x.name for x in scheduled.loops() if x.name not in before]
    count = trip_count(scheduled.scop, scheduled.tree, loop)
    if count is None or count > MOST:
        raise IllegalScheduleError(
            "WEFT-E0462",
            f"loop {loop} has too many iterations to write them all out",
            why="their number depends on sizes" if count is None else f"{count} of at most {MOST}",
            hint=f'unroll("{loop}", 4) writes out four at a time' if factor is None else "",
        )
    return set_kinds(scheduled, {loop: "unrolled"})


# ---- Unroll and jam: iterations of an outer loop run side by side in the inner ones.
#
#     for i:                              for i_t:
#       for k: S(i, k)          →           for k:                        unroll_and_jam("i", 4)
#                                             S(4·i_t, k); S(4·i_t + 1, k); …; S(4·i_t + 3, k)
#
# What the copies read in common is read once, and sums are kept in registers side by side. Legal
# where the loop may move inside all that it surrounds. Also known as: register tiling; Halide
# ``split`` + ``reorder`` + ``unroll``, TVM the same, Exo ``divide_loop`` + ``reorder_loops`` +
# ``unroll_loop``.


@transformation
def unroll_and_jam(scheduled: Scheduled, loop: str, factor: int) -> Scheduled:
    """``factor`` iterations of ``loop`` innermost around each statement that it surrounds.

    The loop over groups is called ``loop_t``; the copies stand outside vector loops only. Raises
    ``IllegalScheduleError``: WEFT-E0450 where there is no such loop, E0460 for a factor below 1.
    """
    before = scheduled.names()
    made = split(scheduled, loop, factor)
    _, point = [x.name for x in made.loops() if x.name not in before]
    inside = set(made.loop(point).at)
    vectors = [x.name for x in made.loops() if x.kind == "vector" and inside & set(x.at)]
    values = [{s: value} for s, value in made.loop(point).at.items()]
    made = sink(made, [point, *vectors])
    copies = [x.name for x in made.loops() if any(dict(x.at) == value for value in values)]
    return set_kinds(made, dict.fromkeys(copies, "unrolled"))
