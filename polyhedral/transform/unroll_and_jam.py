"""Unroll and jam: iterations of an outer loop run side by side in the inner ones.

    for i:                              for i_t:
      for k: S(i, k)          →           for k:                        unroll_and_jam("i", 4)
                                            S(4·i_t, k); S(4·i_t + 1, k); …; S(4·i_t + 3, k)

What the copies read in common is read once, and sums are kept in registers side by side.
Legal where the loop may move inside all that it surrounds.
Also known as: register tiling; Halide ``split`` + ``reorder`` + ``unroll``, TVM the same, Exo
``divide_loop`` + ``reorder_loops`` + ``unroll_loop``.
"""

from __future__ import annotations

from weft.polyhedral.transform.scheduled import Scheduled, transformation
from weft.polyhedral.transform.set_kinds import set_kinds
from weft.polyhedral.transform.sink import sink
from weft.polyhedral.transform.split import split


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
