"""Strips: of a vector loop that threads share, and of columns whose reduction several passes share.

for i vector: …   →   parallel i_t: for i in a strip, vector: …
"""

from __future__ import annotations

from weft.ir.scalar_expr import Expr, Var
from weft.ir.schedule_tree import Band, Tree
from weft.ir.scop import Statement
from weft.polyhedral.analysis.hyperplanes import Hyperplane
from weft.polyhedral.analysis.linear import moves
from weft.polyhedral.policy.lanes import choose_lanes, from_lower_bound, known_range
from weft.polyhedral.policy.planner import At, Group, Planner
from weft.polyhedral.policy.product import sums_of

ENOUGH = 4  # strips; with fewer, threads have no equal shares


def in_strips(planner: Planner, group: Group, at: At) -> Tree | None:
    """``group`` in strips of its only loop ``at``, which no dependence crosses; None for one
    thread, inside another loop, or if it is too short."""
    if planner.threads == 1 or group.above:
        return None
    strips: At = {}
    strip = planner.machine.grain  # elements of the cheapest arithmetic
    why = f"{strip} operations of the cheapest arithmetic are worth a thread that is awake"
    size = planner.size(f"{planner.title(group)}.strip", strip, why)
    for s in planner.statements(group):
        value = at[s.name]
        turns = known_range(s, value)
        if not isinstance(value, Var) or (turns is not None and turns[1] < ENOUGH * strip):
            return None
        strips[s.name] = from_lower_bound(s, value.name) // size
    loop = planner.loop(f"{planner.name(at)}_t", strips, "parallel")
    return Band((loop,), planner.nest(group.inside(strips)))


# ---- Column reductions: all passes over the rows run through one strip of columns first.
#
#     for k: for i vector: s[i] += x[k, i]                 parallel i_t:
#     for k: for i vector: y[k, i] = x[k, i] / s[i]    →     for k: for i in i_t vector: s[i] += …
#                                                            for k: for i in i_t vector: y[k, i] = …
#
# The sums of a strip stay in registers, and what one pass has read is in cache for the next, just
# as row reductions keep their row in cache.


VECTORS = 4  # of a strip, at least: enough independent chains of sums to hide the latency
SHARE, STRIPS = 4, 4  # a strip row takes this part of the registers, if there are that many strips


def column_reduction(planner: Planner, group: Group) -> tuple[Group, Hyperplane] | None:
    """``group`` and the strips of columns in which all of it may run. None unless columns are
    reduced that another pass reads again and no dependence crosses them, or if register tiles do
    better."""
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
    width = _width(planner, passes, plane)
    if width is None:
        return None
    return group, Hyperplane({n: e // width for n, e in plane.at.items()}, plane.carries, True)


def _width(planner: Planner, passes: list[Statement], plane: Hyperplane) -> int | None:
    """The columns of a strip: wide if there are several wide ones, None if there are too few."""
    machine = planner.machine
    lanes = max(
        machine.lanes(planner.scop.tensor(w.tensor).dtype) for s in passes for w in s.writes
    )
    found = [known_range(planner.scop.statement(name), at) for name, at in plane.at.items()]
    turns = [t[1] for t in found if t is not None and not t[0]]
    if len(turns) < len(found):
        return None
    wide, narrow = lanes * (machine.vector_registers // SHARE), lanes * VECTORS
    if wide > narrow and min(turns) >= STRIPS * wide:
        return wide
    return narrow if min(turns) >= 2 * narrow else None


def _own(s: Statement, dim: str) -> bool:
    """Whether iterations along ``dim`` write different elements."""
    return all(moves(w, dim) for w in s.writes)


def _again(passes: list[Statement]) -> bool:
    """Whether two passes use one tensor of rank two or more."""
    used = [{a.tensor for a in s.accesses if len(a.indices) > 1} for s in passes]
    return any(one & two for k, one in enumerate(used) for two in used[:k])
