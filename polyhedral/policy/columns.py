"""Sums along columns in strips of a few vectors, which every pass over the rows runs through.

    for k: for i vector: s[i] += x[k, i]                 parallel i_t:
    for k: for i vector: y[k, i] = x[k, i] / s[i]    →     for k: for i in i_t vector: s[i] += …
                                                           for k: for i in i_t vector: y[k, i] = …

The sums of a strip stay in registers, and what one pass has read is in the caches for the next:
as rows are where sums run along these.
"""

from __future__ import annotations

from weft.frontend.scalar_expr import Expr, Var
from weft.polyhedral.analysis.hyperplanes import Hyperplane
from weft.polyhedral.analysis.linear import mentions
from weft.polyhedral.policy.lanes import choose_lanes
from weft.polyhedral.policy.planner import Group, Planner
from weft.polyhedral.policy.product import sums_of
from weft.polyhedral.policy.sizes import turns_of
from weft.polyhedral.scop import Statement

VECTORS = 4  # of a strip, at least: chains of sums enough for the latency of one
SHARE = 4  # part of the registers that a row of a strip takes: long rows are read faster


def columns(planner: Planner, group: Group) -> tuple[Group, Hyperplane] | None:
    """``group`` and the strips of columns in which all of it may run; None where nothing sums up
    columns that another pass reads again, or something crosses them. Sums that gain from register
    tiles are better off in these."""
    if group.above:
        return None
    fixed: dict[str, Expr] = {}
    passes: list[Statement] = []
    for s in planner.statements(group):
        dims = planner.free(group, s.name)
        if len(dims) > 1:
            lanes = choose_lanes(planner.scop, s, dims, planner.machine)
            if lanes is None or not _own(s, lanes.dim):
                return None
            passes.append(s)
            fixed[s.name] = Var(lanes.dim)
    if not any(s.update for s in passes) or not _again(passes) or sums_of(planner, group):
        return None
    own = {n: tuple(map(Var, planner.free(group, n))) for n in group.names}
    plane = group.search().complete(fixed, own)
    if plane is None or not plane.coincident:
        return None
    vectors = max(VECTORS, planner.machine.vector_registers // SHARE)
    width = vectors * max(
        planner.machine.lanes(planner.scop.tensor(w.tensor).dtype) for s in passes for w in s.writes
    )
    for s in planner.statements(group):
        turns = turns_of(s, plane.at[s.name])
        if turns is None or turns[0] or turns[1] < 2 * width:
            return None
    return group, Hyperplane({n: e // width for n, e in plane.at.items()}, plane.carries, True)


def _own(s: Statement, dim: str) -> bool:
    """Whether each iteration along ``dim`` writes elements of its own."""
    return all(any(mentions(i, (dim,)) for i in w.indices) for w in s.writes)


def _again(passes: list[Statement]) -> bool:
    """Whether two passes use elements of one tensor of rows."""
    used = [{a.tensor for a in (*s.reads, *s.writes) if len(a.indices) > 1} for s in passes]
    return any(one & two for k, one in enumerate(used) for two in used[:k])
