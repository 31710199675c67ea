"""The loops that sums share with what comes before and after them."""

from __future__ import annotations

from collections.abc import Mapping

from weft.frontend.scalar_expr import Var, literal
from weft.polyhedral.analysis.hyperplanes import Hyperplane, Hyperplanes
from weft.polyhedral.analysis.linear import mentions
from weft.polyhedral.policy.planner import At, Group, Planner
from weft.polyhedral.policy.product import Product, sums_of


def together(planner: Planner, group: Group) -> dict[str, Hyperplane] | None:
    """The loops around the only sums of ``group`` that all its other statements can
    share, by the dims of the sums: each of them does something to the element that is summed up.
    """
    sums = sums_of(planner, group)
    if len(sums) != 1 or any(n in planner.planned for n in group.names):
        return None
    (p,) = sums
    if (p.statement,) not in group.components():
        return None
    target = planner.scop.statement(p.statement).writes[0].tensor
    moving = (*p.outer, *p.rows, p.lanes)
    for s in planner.statements(group):
        touches = any(a.tensor == target for a in (*s.reads, *s.writes))
        if not touches or (
            s.name != p.statement and len(planner.free(group, s.name)) > len(moving)
        ):
            return None
    search = group.search()
    others = [n for n in group.names if n != p.statement]
    own = {n: [Var(d) for d in planner.free(group, n) if not _folds(planner, n, d)] for n in others}
    found: dict[str, Hyperplane] = {}
    for dim in moving:
        at: At = {p.statement: Var(dim)}
        for name in others:
            pair = group.part((p.statement, name)).search()
            same = (e for e in own[name] if _coincident(pair, {p.statement: Var(dim), name: e}))
            value = next(same, None)
            if value is None:
                return None
            own[name].remove(value)
            at[name] = value
        plane = search.valid(at)
        if plane is None or not plane.coincident:
            return None
        found[dim] = plane
    return None if any(_scatters(planner, p, n, found) for n in others) else found


def _scatters(planner: Planner, p: Product, name: str, planes: Mapping[str, Hyperplane]) -> bool:
    """Whether neither rows nor lanes of a tile lie side by side where ``name`` writes, other than
    where the sums do."""
    target = planner.scop.statement(p.statement).writes[0].tensor
    inside = [planes[d].at[name] for d in (*p.rows, p.lanes)]
    dims = [value.name for value in inside if isinstance(value, Var)]
    writes = [w for w in planner.scop.statement(name).writes if w.tensor != target and w.indices]
    return any(w.indices[-1] != literal(0) and not mentions(w.indices[-1], dims) for w in writes)


def _folds(planner: Planner, name: str, dim: str) -> bool:
    """Whether iterations along ``dim`` meet in an element that the statement updates."""
    update = planner.scop.statement(name).update
    return update is not None and dim in update.dims


def _coincident(search: Hyperplanes, at: At) -> bool:
    plane = search.valid(at)
    return plane is not None and plane.coincident
