"""Strategy for statements in a cycle: a loop that carries dependences, then what is left inside.

This is loop distribution by Allen and Kennedy (1987), with any hyperplane in place of the textual
loops: of those that are legal, one that breaks the group into the most parts.
"""

from __future__ import annotations

from weft.frontend.scalar_expr import Expr, Var
from weft.polyhedral.analysis.hyperplanes import Hyperplane
from weft.polyhedral.policy.lanes import choose_lanes
from weft.polyhedral.policy.planner import Group, Planner
from weft.polyhedral.schedule_tree import Band, Tree

NO_VECTOR = 50.0  # cost of a statement that runs in scalars


def serial(planner: Planner, group: Group) -> Tree | None:
    """``group`` under its best carrying loop, or its outermost loop that no dependence crosses."""
    plane = _carrier(planner, group)
    if plane is None:
        return None
    if plane.coincident and not group.above:
        return planner.share(planner, group, plane)
    loop = planner.loop(planner.name(plane.at), plane.at)
    return Band((loop,), planner.nest(group.inside(plane.at)))


def _carrier(planner: Planner, group: Group) -> Hyperplane | None:
    search = group.search()
    own = {n: candidates(planner, group, n) for n in group.names}
    anchor = max(group.names, key=lambda n: len(planner.free(group, n)))
    best: tuple[tuple[bool, int, float], Hyperplane] | None = None
    for value in own[anchor]:
        found = search.complete({anchor: value}, own)
        if found is None:
            continue
        inside = group.inside(found.at)
        lone = found.coincident and not group.above
        worth = (lone, len(inside.components()), -_cost(planner, inside))
        if best is None or worth > best[0]:
            best = worth, found
    return None if best is None else best[1]


def _cost(planner: Planner, inside: Group) -> float:
    """Vector accesses of one iteration of each statement along its best loop."""
    total = 0.0
    for s in planner.statements(inside):
        lanes = choose_lanes(planner.scop, s, planner.free(inside, s.name), planner.machine)
        total += NO_VECTOR if lanes is None else lanes.cost
    return total


def candidates(planner: Planner, group: Group, name: str) -> tuple[Expr, ...]:
    """Loops that a statement may share: along its open dims, else along any."""
    dims = planner.free(group, name) or planner.scop.statement(name).dims
    return tuple(Var(d) for d in dims)
