"""Split: one loop becomes a loop over tiles and a loop within the tile, in its place.

    for i: S(i)      →      for i_t: for i_p in 0…7: S(8·i_t + i_p)              split("i", 8)

Always legal: the order of instances stays.
Also known as: strip-mining; Halide ``split``, TVM ``split``, Exo ``divide_loop``.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.schedule_tree import Loop
from weft.polyhedral.transform.scheduled import (
    Scheduled,
    new_name,
    positive,
    replace_loop,
    transformation,
)
from weft.polyhedral.transform.tile import point_name, tile_name


@transformation
def split(
    scheduled: Scheduled,
    loop: str,
    size: int,
    *,
    tile: str | None = None,
    point: str | None = None,
) -> Scheduled:
    """``loop`` in tiles of ``size`` iterations; the new loops are called ``tile`` and ``point``.

    Tiles begin at multiples of ``size``; the first and the last may be partial. By default the
    names are ``loop_t`` and ``loop_p``. Both loops are serial. Raises ``IllegalScheduleError``:
    WEFT-E0450 where there is no such loop, E0460 for a size below 1 or a name that is taken.
    """
    old, size = scheduled.loop(loop), positive("the size of a tile", size)
    outer = Loop(
        new_name(scheduled, tile, tile_name(loop)), {s: at // size for s, at in old.at.items()}
    )
    inner = Loop(
        new_name(scheduled, point, point_name(loop)), {s: at % size for s, at in old.at.items()}
    )
    return replace(scheduled, tree=replace_loop(scheduled.tree, loop, outer, inner))
