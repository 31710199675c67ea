"""Strategy for one statement: its vector loop innermost, parallel loops outermost.

for i: for k: for j: C[i, j] += …   →   parallel i: for k: vector j

It is for permutable loops. Where they are not, a loop that carries dependences goes first
(``serial``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.ir.scalar_expr import Var
from weft.ir.schedule_tree import Band, Kind, Leaf, Tree
from weft.ir.scop import Statement
from weft.polyhedral.analysis.hyperplanes import Hyperplane
from weft.polyhedral.policy.lanes import by_locality, folds, strided
from weft.polyhedral.policy.planner import At, Group, Planner
from weft.polyhedral.policy.share import in_strips, short_terms

SCALAR = "no loop"


def single(planner: Planner, group: Group) -> Tree | None:
    """The loops of the only statement of ``group`` if they are permutable; else None."""
    if len(group.names) != 1:
        planner.declines("it is for one statement")
        return None
    s = planner.scop.statement(group.names[0])
    dims = planner.free(group, s.name)
    search = group.search()
    found = ((d, search.valid({s.name: Var(d)})) for d in dims)
    planes = {d: plane for d, plane in found if plane is not None}
    if len(planes) < len(dims):
        fixed = next(d for d in dims if d not in planes)
        planner.declines(
            lambda: (
                f"loop {fixed} of {s.name} may not be outermost, because of "
                f"{group.against({s.name: Var(fixed)})}"
            )
        )
        return None
    strips = _strips(planner, group, s, planes)
    if strips is not None:
        return planner.share(planner, group, strips)
    order, kinds = _ordered(planner, group, s, dims, planes)
    if len(order) == 1 and kinds.get(order[0]) == "vector" and not folds(s, order[0]):
        shared = in_strips(planner, group, {s.name: Var(order[0])})
        if shared is not None:
            return shared
    return _nest(planner, group, s, order, kinds)


def _nest(
    planner: Planner, group: Group, s: Statement, order: Sequence[str], kinds: dict[str, Kind]
) -> Tree:
    """``s`` in loops along its dims in that ``order``."""
    if not _worth_threads(group, order):
        kinds = {d: kind for d, kind in kinds.items() if kind != "parallel"}
    loops = tuple(
        planner.loop(d, planner.point(group, {s.name: Var(d)}), kinds.get(d, "serial"))
        for d in order
    )
    return Band(loops, Leaf(s.name))


def _strips(
    planner: Planner, group: Group, s: Statement, planes: Mapping[str, Hyperplane]
) -> Hyperplane | None:
    """The loop that is best strip-mined: ``s`` recurs along the others, and strips serve threads,
    or vectors that run across rows of memory, of which a cache holds a strip."""
    free = [d for d, plane in planes.items() if plane.coincident]
    if group.in_tile or group.above or len(free) == len(planes) or len(planes) < 2:
        return None
    lanes = planner.lanes(s, free, latency=planner.machine.chain)
    if lanes is None or folds(s, lanes.dim):
        return None
    across = all(strided(write, lanes.dim) for write in s.writes)
    alone = planner.threads > 1 and len(free) == 1
    return planes[lanes.dim] if across or alone else None


def _ordered(
    planner: Planner,
    group: Group,
    s: Statement,
    dims: Sequence[str],
    planes: Mapping[str, Hyperplane],
) -> tuple[list[str], dict[str, Kind]]:
    """The order of the permutable ``dims``, and their kinds."""
    free = [d for d in dims if planes[d].coincident or _free_inside(group, s, dims, d)]
    waits = planner.machine.chain if len(free) < len(dims) else 0.0
    vector = planner.lanes(s, free, latency=waits)
    name = f"{s.name}.vector"
    lanes = planner.decisions.choose(name, (*free, SCALAR), vector.dim if vector else SCALAR)
    outer = by_locality(s, [d for d in dims if d != lanes])
    kinds = _shared_out(s, outer, planes)
    if lanes == SCALAR:
        return list(outer), kinds
    terms = short_terms(planner.scop, s, dims, str(lanes))
    order = [*(d for d in outer if d not in terms), str(lanes), *terms]
    return order, {**kinds, str(lanes): "vector", **dict.fromkeys(terms, "unrolled")}


def _shared_out(
    s: Statement, order: Sequence[str], planes: Mapping[str, Hyperplane]
) -> dict[str, Kind]:
    """The leading loops of ``order`` that carry no dependence are parallel."""
    kinds: dict[str, Kind] = {}
    for d in order:
        plane = planes[d]
        if not plane.coincident or folds(s, d):
            break
        kinds[d] = "parallel"
    return kinds


def _free_inside(group: Group, s: Statement, dims: Sequence[str], dim: str) -> bool:
    """Whether the loop along ``dim`` carries no dependence inside all others."""
    around: list[At] = [{s.name: Var(d)} for d in dims if d != dim]
    return group.inside(*around).independent({s.name: Var(dim)})


def _worth_threads(group: Group, dims: Sequence[str]) -> bool:
    """Whether a barrier after each parallel loop pays: not inside tiles, nor for a single short
    loop."""
    return not group.in_tile and len(group.above) <= 1 and (not group.above or len(dims) > 1)
