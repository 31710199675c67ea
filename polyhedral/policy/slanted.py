"""Strategy for recurrences in every direction: a few rows side by side, each behind the one before.

    for i: for j: S(i, j)   →   for i_t: for s: unrolled i_p < 8: S(8·i_t + i_p, s - f·i_p)

No loop is parallel, but along a slant ``s = j + f·i`` rows do not wait for each other: their chains
of dependent operations overlap in the processor.

Reference: wavefronts, Lamport, The parallel execution of DO loops, CACM 1974.
"""

from __future__ import annotations

from weft.frontend.scalar_expr import Apply, Var, walk
from weft.polyhedral.analysis.hyperplanes import Hyperplane, components
from weft.polyhedral.analysis.work import operations
from weft.polyhedral.policy.planner import At, Group, Planner
from weft.polyhedral.schedule_tree import Band, Tree
from weft.polyhedral.scop import Statement

ROWS = 8
MAX_SLANT = 3


def slanted(planner: Planner, group: Group) -> Tree | None:
    """``group``, whose loops all carry dependences, in slanted strips; None where one does not."""
    return None if group.in_tile or _quick(planner, group) else slanted_strips(planner, group)


def slanted_strips(planner: Planner, group: Group) -> Tree | None:
    """The same, also within tiles."""
    if not all(len(planner.free(group, n)) == 2 for n in group.names):
        return None
    rows = group.search().valid({n: Var(planner.free(group, n)[0]) for n in group.names})
    if rows is None or rows.coincident or not waits(planner, group.inside(rows.at)):
        return None
    strips = {n: e // ROWS for n, e in rows.at.items()}
    inside = slanted_rows(planner, group.inside(strips), rows.at)
    if inside is None:
        return None
    return Band((planner.loop(f"{planner.name(rows.at)}_t", strips),), inside)


def slanted_rows(planner: Planner, group: Group, rows: At) -> Tree | None:
    """Within tiles of ``rows``: the slanted loop, and the rows of the tile inside it."""
    found = _slant(planner, group, rows)
    if found is None:
        return None
    points = planner.point(group, rows)
    if points == rows:
        return None
    name = planner.name(rows)
    loops = (planner.loop("s", found.at), planner.loop(f"{name}_p", points, "unrolled"))
    return Band(loops, planner.nest(group.inside(found.at, rows)))


def _slant(planner: Planner, group: Group, rows: At) -> Hyperplane | None:
    """A loop along the rows, behind by some steps for each, inside which rows are independent."""
    free = {n: planner.free(group, n) for n in group.names}
    if not all(free.values()):
        return None
    for slant in range(1, MAX_SLANT + 1):
        at = {n: rows[n] * slant + Var(dims[-1]) for n, dims in free.items()}
        found = group.search().complete({}, {n: (e,) for n, e in at.items()})
        if found is not None:
            across = group.inside(found.at).search().valid(rows)
            if across is not None and across.coincident:
                return found
    return None


def waits(planner: Planner, row: Group) -> bool:
    """Whether some statement depends on itself along its row."""
    for names in row.components():
        part = row.part(names)
        free = [planner.free(part, n) for n in names]
        if not all(free):
            return False
        along = part.search().valid({n: Var(dims[-1]) for n, dims in zip(names, free, strict=True)})
        if along is None or not along.coincident:
            return True
    return False


def _quick(planner: Planner, group: Group) -> bool:
    """Whether no row hands on a value by more than a sum of integers or the like: that takes no
    longer than to load the next element, and one row after the other is easier to fetch."""
    free = {n: planner.free(group, n) for n in group.names}
    if not all(free.values()):
        return False
    row = group.inside({n: Var(dims[0]) for n, dims in free.items()})
    flows = [a.dependence for a in row.active if a.dependence.kind == "flow"]
    tensors = {t.name: t for t in planner.scop.tensors}
    for names in components(row.names, flows):
        statements = [planner.scop.statement(n) for n in names]
        carried = len(names) > 1 or any(d.source.name == d.sink.name == names[0] for d in flows)
        if carried and (
            sum(map(operations, statements)) > 1
            or any(_chooses(s) for s in statements)
            or any(tensors[w.tensor].dtype.is_float for s in statements for w in s.writes)
        ):
            return False
    return True


def _chooses(s: Statement) -> bool:
    """Whether a statement compares, and moves what it finds."""
    own = (*(e for _, e in s.body.lets), *s.body.results)
    combined = s.update.monoid.combined if s.update is not None else ()
    nodes = (n for e in (*own, *combined) for n in walk(e))
    return any(isinstance(n, Apply) and n.op in ("min", "max") for n in nodes)
