"""Tensorize: the innermost loops of an update become a tile of registers over a stream.

    for k:                                           accumulators of C[i_p, j_p] in registers
      for i_p < 6: for j_p < 16:           →         for k: one outer product A[·, k] × B[k, ·]
        C[i_p, j_p] += A[i_p, k] * B[k, j_p]         accumulators to C[i_p, j_p]

                                                                 tensorize(["k"], ["i_p"], "j_p")

Elements are loaded once before the stream and stored once behind it; rows are written out, lanes
are vectors. Legal where streams do not move the elements and each row and lane has one of its own.
Also known as: register blocking, the micro-kernel of GotoBLAS and BLIS; TVM ``tensorize``, Exo
``replace`` (by instructions); Halide has no counterpart beyond unrolling and vectorising.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.instruction import Instruction, labelled
from weft.ir.schedule_tree import Band, Leaf, Loop, Mark, RegisterTile, Tree
from weft.polyhedral.analysis.trip_count import trip_count
from weft.polyhedral.transform.scheduled import (
    Scheduled,
    merge_bands,
    positive,
    rewrite,
    tidy,
    transformation,
    unknown,
)


@transformation
def tensorize(
    scheduled: Scheduled,
    streams: Seq[str],
    rows: Seq[str] | Mapping[str, int],
    lanes: str | Mapping[str, int],
    *,
    instruction: str | None = None,
    ahead: int = 0,
    shared: bool = False,
    warps: Seq[int] = (),
    depth: int | None = None,
    stages: int = 0,
) -> Scheduled:
    """The innermost loops of one statement, ``streams``, ``rows``, ``lanes``, as a register tile.

    Rows and lanes are loops from 0 with constant numbers of iterations, such as the point loops of
    ``tile``, or as many as given by name; partial tiles at the end are taken care of. ``lanes`` may
    be any number, best a multiple of the vector registers' lanes. A tile larger than the registers,
    or than its loops, computes the same: ``explain`` tells, below the costs. ``instruction``: one
    of the machine's, which takes several steps of the last stream at once; multiply-adds of vectors
    if None. ``ahead``: cache lines of later steps that are prefetched along the lanes; ``shared``:
    by all tiles that read the same lanes together.

    On a GPU, ``instruction`` is a warp's, and the tile a block's: ``warps`` along rows and lanes
    share it, ``depth`` steps of the last stream at a time (by default one issue's), and operands
    are in shared memory in as many slots as ``stages``, filled ahead of the steps from two on; with
    none, each thread reads its own.

    Raises ``IllegalScheduleError``: WEFT-E0450 where
    there is no such loop, E0460 for another machine's instruction, E0463 where the loops are not
    the innermost ones of one statement in this order, or where sizes decide how many rows or lanes
    there are; ``legality`` raises E0424 where registers would not do.
    """
    (lane,) = (lanes,) if isinstance(lanes, str) else tuple(lanes)
    names = [*streams, *rows, lane]
    for name in names:
        scheduled.loop(name)
    if not streams:
        raise _refused(names, "a tile without a stream has nothing to keep in registers")
    down = [_size(scheduled, names, name, rows) for name in rows]
    across = _size(scheduled, names, lane, lanes)
    by = _instruction(scheduled, instruction)
    payload = RegisterTile(tuple(down), across, by, positive("ahead", ahead, 0), shared)
    if warps:
        steps = by.depth if by is not None and depth is None else depth or 0
        payload = replace(payload, warps=tuple(warps), depth=steps, stages=stages)
    marked = False

    def change(node: Tree) -> Tree | None:
        nonlocal marked
        match node:
            case Band(loops, child) if [x.name for x in loops[-len(names) :]] == names:
                inner = tuple(replace(x, kind="serial") for x in loops[-len(names) :])
                tile = _tile(child, payload, inner)
                marked = tile is not None
                return tile and Band(loops[: -len(names)], tile)
        return None

    tree = rewrite(merge_bands(scheduled.tree), change)
    if not marked:
        raise _refused(names, "these are not the innermost loops of one statement, in this order")
    return replace(scheduled, tree=tidy(tree))


def _size(
    scheduled: Scheduled, names: Seq[str], loop: str, given: str | Seq[str] | Mapping[str, int]
) -> int:
    """How many iterations ``loop`` has at most: as ``given``, else counted."""
    if isinstance(given, Mapping):
        return positive(f"the size of loop {loop}", given[loop])
    found = trip_count(scheduled.scop, scheduled.tree, loop)
    if found is None:
        raise _refused(names, f"sizes decide how many iterations loop {loop} has")
    return found


def _instruction(scheduled: Scheduled, name: str | None) -> Instruction | None:
    known = labelled(scheduled.instructions)
    if name is None or name in known:
        return known.get(name or "")
    what = f"the machine has no instruction {name!r}"
    raise unknown("WEFT-E0460", what, "instructions", name, tuple(known) or ("none",))


def _tile(tree: Tree, payload: RegisterTile, loops: tuple[Loop, ...]) -> Tree | None:
    """``loops`` around the one statement of ``tree`` as a tile, inside its other marks."""
    match tree:
        case Leaf():
            return Mark(payload, Band(loops, tree))
        case Mark(_, child):
            tile = _tile(child, payload, loops)
            return tile and replace(tree, child=tile)
    return None


def _refused(names: Seq[str], why: str) -> IllegalScheduleError:
    return IllegalScheduleError(
        "WEFT-E0463",
        f"loops {', '.join(names)} are no register tile",
        why=why,
        hint="tile rows and lanes, then reorder: streams, rows, lanes",
    )
