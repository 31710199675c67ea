"""Strips of a vector loop that has no other loop around it, for threads to share.

for i vector: …   →   parallel i_t: for i in a strip, vector: …
"""

from __future__ import annotations

from weft.frontend.scalar_expr import Var
from weft.polyhedral.policy.planner import At, Group, Planner
from weft.polyhedral.policy.sizes import from_first, turns_of
from weft.polyhedral.schedule_tree import Band, Tree

STRIP = 4096  # elements: a microsecond of the least arithmetic
ENOUGH = 4  # strips, of fewer of which threads have no equal shares


def in_strips(planner: Planner, group: Group, at: At) -> Tree | None:
    """``group`` in strips of its only loop ``at``, which nothing crosses and whose iterations meet
    in no element; None where there is one thread, something around, or too little to share."""
    if planner.threads == 1 or group.above:
        return None
    strips: At = {}
    for s in planner.statements(group):
        value = at[s.name]
        turns = turns_of(s, value)
        if not isinstance(value, Var) or (turns is not None and turns[1] < ENOUGH * STRIP):
            return None
        strips[s.name] = from_first(s, value.name) // STRIP
    loop = planner.loop(f"{planner.name(at)}_t", strips, "parallel")
    return Band((loop,), planner.nest(group.inside(strips)))
