"""Vectorize: the iterations of a loop run in lockstep, in vector registers.

    for i: S(i)      →      vector for i: S(i)                                    vectorize("i")
    for i: S(i)      →      for i_t: vector for i_p in 0…7: S(8·i_t + i_p)        vectorize("i", 8)

Legal where the loop carries no dependence but that of a reduction whose order is free. Any number
of iterations will do: what does not fill a register runs under a mask.
Also known as: Halide ``vectorize``, TVM ``vectorize``; in Exo, ``replace`` by instructions.
"""

from __future__ import annotations

from weft.polyhedral.transform.scheduled import Scheduled, transformation
from weft.polyhedral.transform.set_kinds import set_kinds
from weft.polyhedral.transform.split import split


@transformation
def vectorize(scheduled: Scheduled, loop: str, width: int | None = None) -> Scheduled:
    """``loop`` becomes a vector loop, or is split by ``width`` and its point loop becomes one.

    Raises ``IllegalScheduleError``: WEFT-E0450 where there is no such loop, E0460 for a width
    below 1.
    """
    if width is None:
        return set_kinds(scheduled, {loop: "vector"})
    before = scheduled.names()
    made = split(scheduled, loop, width)
    _, point = [x.name for x in made.loops() if x.name not in before]
    return set_kinds(made, {point: "vector"})
