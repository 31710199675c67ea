"""Set kinds: say how loops run. Permission comes from dependences, checked by ``legality``.

Also known as: Halide ``parallel``/``vectorize``/``unroll``, TVM's annotations of the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_tree import Band, Kind, Mark, RegisterTile, Tree
from weft.polyhedral.transform.scheduled import (
    Scheduled,
    merge_bands,
    rewrite,
    transformation,
    with_loops,
)
from weft.polyhedral.transform.split import split


@transformation
def set_kinds(scheduled: Scheduled, kinds: Mapping[str, Kind]) -> Scheduled:
    """The loops that ``kinds`` names get a kind: "serial", "parallel", "vector" or "unrolled"; on a
    GPU "grid", each turn a block of threads, or "block", turns shared out among these. All others
    keep theirs. Raises ``IllegalScheduleError`` (WEFT-E0450) where there is no such loop.

    A register tile says how all of its loops run: where one of them gets a kind, the mark goes, and
    they are ordinary loops.
    """
    for name in kinds:
        scheduled.loop(name)

    def unmarked(node: Tree) -> Tree | None:
        match node:
            case Mark(RegisterTile(), Band(loops) as band) if any(x.name in kinds for x in loops):
                return band
        return None

    tree = rewrite(scheduled.tree, unmarked)
    tree = scheduled.tree if tree == scheduled.tree else merge_bands(tree)
    tree = with_loops(tree, lambda x: replace(x, kind=kinds.get(x.name, x.kind)))
    return replace(scheduled, tree=tree)


# ---- Parallel: the iterations of a loop may run at the same time on several threads.
#
#     for i: S(i)      →      parallel for i: S(i)                                  parallel("i")
#
# Legal where the loop carries no dependence, not even that of a reduction. Also known as: Halide
# ``parallel``, TVM ``parallel``, Exo ``parallelize_loop``; OpenMP ``for``.


@transformation
def parallel(scheduled: Scheduled, *loops: str) -> Scheduled:
    """``loops`` become parallel loops.

    Threads share out the outermost of them, together with those directly inside it. Raises
    ``IllegalScheduleError``: WEFT-E0450 where there is no such loop, E0460 without a loop.
    """
    if not loops:
        raise IllegalScheduleError("WEFT-E0460", "parallel without a loop", hint='parallel("i")')
    return set_kinds(scheduled, dict.fromkeys(loops, "parallel"))


# ---- Vectorize: the iterations of a loop run in lockstep, in vector registers.
#
#     for i: S(i)      →      vector for i: S(i)                                    vectorize("i")
# for i: S(i)      →      for i_t: vector for i_p in 0…7: S(8·i_t + i_p)        vectorize("i", 8)
#
# Legal where the loop carries no dependence but that of a reduction whose order is free. Any
# number of iterations will do: what does not fill a register runs under a mask. Also known as:
# Halide ``vectorize``, TVM ``vectorize``; in Exo, ``replace`` by instructions.


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
