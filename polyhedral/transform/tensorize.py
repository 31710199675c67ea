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

from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_tree import Band, Leaf, Loop, Mark, RegisterTile, Tree
from weft.polyhedral.analysis.trip_count import trip_count
from weft.polyhedral.transform.scheduled import (
    Scheduled,
    merge_bands,
    rewrite,
    transformation,
)


@transformation
def tensorize(scheduled: Scheduled, streams: Seq[str], rows: Seq[str], lanes: str) -> Scheduled:
    """The innermost loops of one statement, ``streams``, ``rows``, ``lanes``, as a register tile.

    Rows and lanes are loops from 0 with constant numbers of iterations, such as the point loops of
    ``tile``; partial tiles at the end are taken care of. ``lanes`` may be any number, best a
    multiple of the vector registers' lanes. Raises ``IllegalScheduleError``: WEFT-E0450 where there
    is no such loop, E0463 where the loops are not the innermost ones of one statement in this
    order, or where sizes decide how many rows or lanes there are; ``legality`` raises E0424 where
    registers would not do.
    """
    names = [*streams, *rows, lanes]
    for name in names:
        scheduled.loop(name)
    if not streams:
        raise _refused(names, "a tile without a stream has nothing to keep in registers")
    sizes = {name: trip_count(scheduled.scop, scheduled.tree, name) for name in (*rows, lanes)}
    for name, size in sizes.items():
        if size is None:
            raise _refused(names, f"sizes decide how many iterations loop {name} has")
    payload = RegisterTile(tuple(sizes[name] or 0 for name in rows), sizes[lanes] or 0)
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
    return replace(scheduled, tree=tree)


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
