"""Strategy for statements in a dependence cycle: a loop that carries dependences, then what is
left.

This is loop distribution by Allen and Kennedy (1987), with any hyperplane in place of the textual
loops: of the legal ones, the one inside which the statements vectorise best.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from weft.ir.scalar_expr import Expr, Var
from weft.ir.schedule_tree import Band, Leaf, Tree
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.ir.scop import Statement
from weft.polyhedral.analysis.hyperplanes import Hyperplane
from weft.polyhedral.analysis.linear import linear
from weft.polyhedral.policy.lanes import by_locality, folds, known_range
from weft.polyhedral.policy.planner import At, Group, Planner
from weft.polyhedral.policy.wavefront import beyond_tile, tile_loops
from weft.polyhedral.transform.scheduled import fresh

NO_VECTOR = 50.0  # cost of a statement that runs in scalars
SIDE_BY_SIDE = 40.0  # the same, where several iterations are independent
COLUMNS = 48  # of a tile around a carrying loop
LOOK_AHEAD = 2  # levels of carrying loops inside the one that is chosen


def serial(planner: Planner, group: Group) -> Tree | None:
    """``group`` under its best carrying loop, or under an outermost loop that carries no
    dependence."""
    plane = _carrier(planner, group)
    if plane is None:
        planner.declines(lambda: _no_carrier(planner, group))
        return None
    if plane.coincident and _is_outer(planner, group) and not _short(planner, group, plane):
        return planner.share(planner, group, plane)
    columns = _columns(planner, group, plane)
    if columns is not None:
        ahead = planner.attempt(partial(_early_steps_fused, plane, columns), group)
        if ahead is not None:
            return ahead
        tiles = _tiles(planner, plane, columns)
        loops = tile_loops(planner, group, tiles)
        return Band(loops, planner.nest(group.inside(*tiles.values())))
    loop = planner.loop(planner.name(plane.at), plane.at)
    return Band((loop,), planner.nest(group.inside(plane.at)))


def _no_carrier(planner: Planner, group: Group) -> str:
    """Why ``group`` has no loop that goes around all of it."""
    loops = {n: candidates(planner, group, n) for n in group.names}
    if not all(loops.values()):
        return "there is no loop left"
    return (
        f"no loop may be outermost, because of {group.against({n: e[0] for n, e in loops.items()})}"
    )


def _tiles(planner: Planner, carrier: Hyperplane, columns: Hyperplane) -> dict[str, At]:
    planes = (columns,) if planner.threads == 1 else (carrier, columns)
    taken: set[str] = set()  # two skewed planes may be called after one dim
    return {
        fresh(f"{planner.name(p.at)}_t", taken): {n: e // COLUMNS for n, e in p.at.items()}
        for p in planes
    }


def _early_steps_fused(
    carrier: Hyperplane, columns: Hyperplane, planner: Planner, group: Group
) -> Tree | None:
    """``group`` in tiles of columns. The steps that end before the columns of a tile begin are
    isolated and go through the tile shifted and fused, if they can: they wait for no column of the
    tile."""
    group, before = _cut(planner, group, carrier, columns)
    tiles = _tiles(planner, carrier, columns)
    inside = group.inside(*tiles.values())
    rest = [n for n in group.names if n not in before]
    ends = ((a.dependence.source.name, a.dependence.sink.name) for a in inside.active)
    if not before or any(source in rest and sink in before for source, sink in ends):
        return None
    first = shift_and_fuse(planner, inside.part(before))
    if first is None:
        return None
    loops = tile_loops(planner, group, tiles)
    return Band(loops, TreeSequence((first, planner.nest(inside.part(rest)))))


def _cut(
    planner: Planner, group: Group, carrier: Hyperplane, columns: Hyperplane
) -> tuple[Group, list[str]]:
    """``group`` with statements split where steps end before the columns of a tile begin, and the
    names of those parts."""
    names, before = list(group.names), list[str]()
    for s in planner.statements(group):
        step, column = carrier.at[s.name], columns.at[s.name]
        if not isinstance(step, Var) or not isinstance(column, Var) or step == column:
            continue
        where = beyond_tile(s, (step.name,), [(column, COLUMNS)])
        if where:
            edges = planner.isolate(s.name, where, group)
            before.append(s.name)
            names += edges
            for plane in (carrier, columns):
                plane.at.update(dict.fromkeys(edges, plane.at[s.name]))
    order = [s.name for s in planner.scop.statements if s.name in names]
    return planner.group(order, group.above), before


def _columns(planner: Planner, group: Group, carrier: Hyperplane) -> Hyperplane | None:
    """A loop along the vectors of all deep statements that may go around ``carrier``, in tiles.

    Each step of ``carrier`` sweeps whole arrays; in a tile of columns, what one step has loaded is
    in cache for the next.
    """
    if group.above:
        return None
    fixed: dict[str, Expr] = {}
    for s in planner.statements(group):
        dims = [d for d in planner.free(group, s.name) if carrier.at[s.name] != Var(d)]
        lanes = planner.lanes(s, dims) if len(dims) > 1 else None
        if len(dims) > 1 and lanes is None:
            return None
        if lanes is not None:
            if _band(s, lanes.dim):
                return None
            fixed[s.name] = Var(lanes.dim)
    own = {n: candidates(planner, group, n) for n in group.names}
    found = group.search().complete(fixed, own) if fixed else None
    return None if found is None or _short(planner, group, found) else found


def _band(s: Statement, column: str) -> bool:
    """Whether the domain bounds the columns by other dims: a tile of them has few of the steps."""
    forms = (linear(c.expr, s.dims) for c in s.domain)
    return any(
        f is None or (f.coefficients.get(column, 0) < 0 and len(f.coefficients) > 1) for f in forms
    )


def _carrier(planner: Planner, group: Group) -> Hyperplane | None:
    """The loop inside which ``group`` runs best; outermost, one that carries no dependence."""
    best: tuple[tuple[bool, float], Hyperplane] | None = None
    deepest = _depth(planner, group)
    for found in _carriers(planner, group):
        lone = found.coincident and _is_outer(planner, group) and not _short(planner, group, found)
        worth = (lone, -_cost(planner, group.inside(found.at), LOOK_AHEAD, deepest))
        if best is None or worth > best[0]:
            best = worth, found
    return None if best is None else best[1]


def _is_outer(planner: Planner, group: Group) -> bool:
    """Whether a loop that carries no dependence is best outside all others."""
    return group.outermost or planner.spreads(group)


def _short(planner: Planner, group: Group, plane: Hyperplane) -> bool:
    """Whether the loop is known to be no longer than a tile of columns."""
    turns = [known_range(s, plane.at[s.name]) for s in planner.statements(group)]
    return all(t is not None and t[1] <= COLUMNS for t in turns)


def _carriers(planner: Planner, group: Group) -> Iterator[Hyperplane]:
    """The hyperplanes that ``group`` may share, along the open dims of its deepest statement: a
    loop around statements that have none left orders nothing."""
    search = group.search()
    own = {n: candidates(planner, group, n) for n in group.names}
    anchor = max(group.names, key=lambda n: len(planner.free(group, n)))
    for value in map(Var, planner.free(group, anchor)):
        # Statements with a dim of that name, parts of one statement say, are asked for it first.
        asked = {n: sorted(exprs, key=value.__ne__) for n, exprs in own.items()}
        found = search.complete({anchor: value}, asked)
        if found is not None:
            yield found


def _depth(planner: Planner, group: Group) -> int:
    return max(len(s.dims) for s in planner.statements(group))


def _cost(planner: Planner, group: Group, ahead: int, deepest: int) -> float:
    """The cost of one iteration of each statement along its best loop, in vector accesses;
    ``deepest``: the dims of the deepest of all."""
    total = 0.0
    for names in group.components():
        part = group.part(names)
        if len(names) == 1:
            total += _alone(planner, part, deepest)
        elif ahead:
            inside = [part.inside(p.at) for p in _carriers(planner, part)]
            costs = [_cost(planner, each, ahead - 1, deepest) for each in inside]
            total += min(costs, default=NO_VECTOR * len(names))
        else:
            total += NO_VECTOR * len(names)
    return total


def _alone(planner: Planner, group: Group, deepest: int) -> float:
    """The cost of one statement, vectorised along a loop that carries no dependence; nothing for
    one that is around the loops of the deepest."""
    (name,) = group.names
    search = group.search()
    planes = {d: search.valid({name: Var(d)}) for d in planner.free(group, name)}
    if not planes:
        return NO_VECTOR if group.in_tile or _depth(planner, group) == deepest else 0.0
    free = [d for d, plane in planes.items() if plane is not None and plane.coincident]
    lanes = planner.lanes(planner.scop.statement(name), free)
    if lanes is None:
        return SIDE_BY_SIDE if free and group.in_tile else NO_VECTOR
    return lanes.cost


def candidates(planner: Planner, group: Group, name: str) -> tuple[Expr, ...]:
    """Loops that a statement may share: along its open dims, else along any."""
    dims = planner.free(group, name) or planner.scop.statement(name).dims
    return tuple(Var(d) for d in dims)


# ---- Shift-and-fuse: one of two sweeps over an array is fused with the other of the next step.
#
#     for k:                                          for k:
#       for i, j: r[k, j] += q[i, k] * A[i, j]          for i:
#       for i, j: A[i, j] -= q[i, k] * r[k, j]    →       for j vector:
#                                                           A[i, j] -= q[i, k-1] * r[k-1, j]
#                                                           r[k, j] += q[i, k] * A[i, j]
#
# The array goes through L1 once per step instead of twice. The first and the last step are peeled.
# Shifting before fusion, as Pluto does (Bondhugula et al., PLDI 2008); also known as software
# pipelining of loop nests.


Pairs = list[tuple[str, str]]  # dims of the two statements that run together


def shift_and_fuse(planner: Planner, group: Group) -> Tree | None:
    """The loops of ``group``; None unless it is two statements, one of which stores the whole array
    that the other reads in the next step."""
    if len(group.names) != 2:
        return None
    one, two = planner.statements(group)
    for later, first in ((one, two), (two, one)):
        for step, passes in _shared(planner, group, later, first):
            found = _shifted(planner, group, (later, first), step, passes)
            if found is not None:
                return found
    return None


def _shared(
    planner: Planner, group: Group, later: Statement, first: Statement
) -> Iterator[tuple[tuple[str, str], Pairs]]:
    """Dims that may be the steps of ``later`` and ``first``, and their other dims in pairs, by
    which they move through an array that ``later`` stores and ``first`` reads."""
    open_ = [planner.free(group, s.name) for s in (later, first)]
    if not len(open_[0]) == len(open_[1]) > 2:
        return
    for write in later.writes:
        for read in first.reads:
            if write.tensor != read.tensor or write.may or read.may:
                continue
            pairs = [
                (a.name, b.name)
                for a, b in zip(write.indices, read.indices, strict=True)
                if isinstance(a, Var) and isinstance(b, Var)
            ]
            if len(pairs) < len(write.indices):
                continue
            left = [
                [d for d in dims if d not in used]
                for dims, used in zip(open_, zip(*pairs, strict=True), strict=True)
            ]
            if len(left[0]) == len(left[1]) == 1:
                yield (left[0][0], left[1][0]), pairs


def _shifted(
    planner: Planner,
    group: Group,
    statements: tuple[Statement, Statement],
    step: tuple[str, str],
    passes: Pairs,
) -> Tree | None:
    """Both statements in one sweep, ``later`` one step behind; None if a dependence forbids it, or
    their vectors run along different loops."""
    later, first = statements
    at: At = {later.name: Var(step[0]) + 1, first.name: Var(step[1])}
    if group.search().valid(at) is None:
        return None
    inside = group.inside(at)
    planes: dict[str, At] = {a: {later.name: Var(a), first.name: Var(b)} for a, b in passes}
    if not all(map(inside.independent, planes.values())):
        return None
    lane = _lane(planner, statements, passes)
    if lane is None:
        return None
    order = by_locality(later, [a for a, _ in passes if a != lane])
    loops = (
        planner.loop(planner.name({first.name: Var(step[1])}), at),
        *(planner.loop(a, planes[a]) for a in order),
        planner.loop(lane, planner.point(group, planes[lane]), "vector"),
    )
    return Band(loops, TreeSequence((Leaf(later.name), Leaf(first.name))))


def _lane(planner: Planner, statements: tuple[Statement, Statement], passes: Pairs) -> str | None:
    """The dim of the first of ``statements`` along which both vectorise best, each lane with
    elements of its own."""
    found: list[str] = []
    for s, dims in zip(statements, zip(*passes, strict=True), strict=True):
        lanes = planner.lanes(s, dims)
        if lanes is None or folds(s, lanes.dim):
            return None
        found.append(lanes.dim)
    return found[0] if tuple(found) in passes else None
