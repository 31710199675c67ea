"""Tile: a loop becomes a loop over tiles and a loop within the tile.

    for i: for j: S(i, j)   →   for i_t: for j_t: for i_p < 32: for j_p < 32: S(32·i_t + i_p, …)

Also known as: Halide ``tile``, TVM ``split`` + ``reorder``, Exo ``divide_loop`` +
``reorder_loops``; strip-mining and interchange.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.errors import IllegalScheduleError
from weft.frontend.scalar_expr import Expr
from weft.polyhedral.schedule_tree import Band, Loop, Tree
from weft.polyhedral.transform.scheduled import Scheduled, rewrite


def tile_name(loop: str) -> str:
    return f"{loop}_t"


def point_name(loop: str) -> str:
    return f"{loop}_p"


def tile(scheduled: Scheduled, sizes: Mapping[str, int]) -> Scheduled:
    """Each loop of ``sizes`` split by its size; point loops go below all loops of their band.

    Tile loops keep the place and get the suffix ``_t``, point loops ``_p``. Raises
    ``IllegalScheduleError`` for a size below 1 and where there is no such loop.
    """
    for name, size in sizes.items():
        scheduled.loop(name)
        if size < 1:
            raise IllegalScheduleError("WEFT-E0458", f"loop {name} cannot be tiled by {size}")

    def change(node: Tree) -> Tree | None:
        if not isinstance(node, Band) or not any(loop.name in sizes for loop in node.loops):
            return None
        outer = [_tile_loop(loop, sizes.get(loop.name)) for loop in node.loops]
        inner = [_point_loop(loop, sizes[loop.name]) for loop in node.loops if loop.name in sizes]
        return Band(tuple(outer), Band(tuple(inner), node.child))

    return replace(scheduled, tree=rewrite(scheduled.tree, change))


def _tile_loop(loop: Loop, size: int | None) -> Loop:
    if size is None:
        return loop
    return Loop(tile_name(loop.name), {s: at // size for s, at in loop.at.items()})


def _point_loop(loop: Loop, size: int) -> Loop:
    at: dict[str, Expr] = {s: value % size for s, value in loop.at.items()}
    return Loop(point_name(loop.name), at)
