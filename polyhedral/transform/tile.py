"""Tile: loops become loops over tiles and loops within the tile.

    for i: for j: S(i, j)   →   for i_t: for j_t:                         tile({"i": 32, "j": 32})
                                  for i_p in 0…31: for j_p in 0…31: S(32·i_t + i_p, 32·j_t + j_p)

Legal where the loops are permutable: no dependence points backwards along any of them. Skew first
where one does.
Also known as: Halide ``tile``, TVM ``split`` + ``reorder``, Exo ``divide_loop`` +
``reorder_loops``; strip-mining and interchange.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Expr
from weft.ir.schedule_tree import Band, Loop, Tree
from weft.polyhedral.transform.scheduled import (
    Scheduled,
    fresh,
    merge_bands,
    rewrite,
    transformation,
)


def tile_name(loop: str) -> str:
    return f"{loop}_t"


def point_name(loop: str) -> str:
    return f"{loop}_p"


@transformation
def tile(scheduled: Scheduled, sizes: Mapping[str, int]) -> Scheduled:
    """Each loop of ``sizes`` split by its size; point loops go inside the last loop of ``sizes``.

    Tile loops keep the place and get the suffix ``_t``, point loops ``_p``. Loops that are not
    directly inside each other are tiled on their own. Raises ``IllegalScheduleError``: WEFT-E0450
    where there is no such loop, E0458 for a size below 1.
    """
    for name, size in sizes.items():
        scheduled.loop(name)
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise IllegalScheduleError("WEFT-E0458", f"loop {name} cannot be tiled by {size}")
    taken = scheduled.names()

    def change(node: Tree) -> Tree | None:
        if not isinstance(node, Band) or not any(loop.name in sizes for loop in node.loops):
            return None
        last = max(k for k, loop in enumerate(node.loops) if loop.name in sizes) + 1
        tiled = [loop for loop in node.loops[:last] if loop.name in sizes]
        outer = tuple(_tile_loop(loop, sizes, taken) for loop in node.loops[:last])
        inner = tuple(_point_loop(loop, sizes[loop.name], taken) for loop in tiled)
        rest = Band(node.loops[last:], node.child) if node.loops[last:] else node.child
        return Band(outer, Band(inner, rest))

    return replace(scheduled, tree=rewrite(merge_bands(scheduled.tree), change))


def _tile_loop(loop: Loop, sizes: Mapping[str, int], taken: set[str]) -> Loop:
    if loop.name not in sizes:
        return loop
    name, size = fresh(tile_name(loop.name), taken), sizes[loop.name]
    return Loop(name, {s: at // size for s, at in loop.at.items()})


def _point_loop(loop: Loop, size: int, taken: set[str]) -> Loop:
    at: dict[str, Expr] = {s: value % size for s, value in loop.at.items()}
    return Loop(fresh(point_name(loop.name), taken), at)
