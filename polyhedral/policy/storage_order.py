"""Storage order: what vectors run along lies side by side.

    S: float32[64, 6], for r: for l vector: … S[l, r] …   →   S: float32[6, 64], … S[r, l] …

For temporaries of one iteration of some loops, whose order nothing but their own statements sees.
"""

from __future__ import annotations

from weft.frontend.scalar_expr import Var, walk
from weft.polyhedral.analysis.linear import mentions
from weft.polyhedral.analysis.tile_domain import marked_tiles
from weft.polyhedral.schedule_tree import Loop
from weft.polyhedral.scop import Access
from weft.polyhedral.transform.edit import accesses_of
from weft.polyhedral.transform.scheduled import Scheduled, loops_above


def storage_order(scheduled: Scheduled, tensor: str) -> tuple[int, ...] | None:
    """The dims of ``tensor`` with the one last along which the vectors of all its statements run;
    None where there is none, or they differ."""
    tiles = marked_tiles(scheduled.tree)
    found: set[int | None] = set()
    for statement, access, _ in accesses_of(scheduled.scop, tensor):
        innermost = loops_above(scheduled.tree, statement.name)[-1:]
        if not innermost or (innermost[0].kind != "vector" and statement.name not in tiles):
            return None
        found.add(_along(access, innermost[0], statement.name))
    last = found.pop() if len(found) == 1 else None
    if last is None:
        return None
    every = range(len(scheduled.tensor(tensor).shape))
    return (*(d for d in every if d != last), last)


def _along(access: Access, loop: Loop, statement: str) -> int | None:
    """The dim of ``access`` that alone moves with ``loop``."""
    moving = {node.name for node in walk(loop.at[statement]) if isinstance(node, Var)}
    found = [d for d, index in enumerate(access.indices) if mentions(index, moving)]
    return found[0] if len(found) == 1 else None
