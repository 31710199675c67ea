"""Strategy for two passes over one array in each step: the second goes with the first of the next.

    for k:                                          for k:
      for i, j: r[k, j] += q[i, k] * A[i, j]          for i:
      for i, j: A[i, j] -= q[i, k] * r[k, j]    →       for j vector:
                                                          A[i, j] -= q[i, k-1] * r[k-1, j]
                                                          r[k, j] += q[i, k] * A[i, j]

The array comes into the first cache once in a step, and what is stored is used at once. The two are
apart at the first step and the last. Shifting before fusion, as Pluto does (Bondhugula et al., PLDI
2008); also known as software pipelining of loop nests.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.frontend.scalar_expr import Var
from weft.polyhedral.policy.lanes import by_locality, choose_lanes
from weft.polyhedral.policy.planner import At, Group, Planner
from weft.polyhedral.schedule_tree import Band, Leaf, Tree
from weft.polyhedral.schedule_tree import Sequence as TreeSequence
from weft.polyhedral.scop import Statement

Pairs = list[tuple[str, str]]  # dims of the two statements that run together


def one_pass(planner: Planner, group: Group) -> Tree | None:
    """The loops of ``group``; None unless it is two statements of which one stores the whole array
    that the other reads in the next step."""
    if len(group.names) != 2:
        return None
    one, two = planner.statements(group)
    for later, first in ((one, two), (two, one)):
        for step, passes in _shared(planner, group, later, first):
            found = _together(planner, group, (later, first), step, passes)
            if found is not None:
                return found
    return None


def _shared(
    planner: Planner, group: Group, later: Statement, first: Statement
) -> Iterator[tuple[tuple[str, str], Pairs]]:
    """Dims that may be the steps of ``later`` and ``first``, and all their others in pairs, as they
    move through an array that ``later`` stores and ``first`` reads."""
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


def _together(
    planner: Planner,
    group: Group,
    statements: tuple[Statement, Statement],
    step: tuple[str, str],
    passes: Pairs,
) -> Tree | None:
    """Both statements in one pass, ``later`` one step behind; None where a dependence forbids it,
    or their vectors run along different loops."""
    later, first = statements
    at: At = {later.name: Var(step[0]) + 1, first.name: Var(step[1])}
    if group.search().valid(at) is None:
        return None
    inside = group.inside(at)
    search = inside.search()
    planes: dict[str, At] = {a: {later.name: Var(a), first.name: Var(b)} for a, b in passes}
    for plane in planes.values():
        found = search.valid(plane)
        if found is None or not found.coincident:
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
    """The dim of the first of ``statements`` along which both are best run in vectors, each lane
    with elements of its own."""
    found: list[str] = []
    for s, dims in zip(statements, zip(*passes, strict=True), strict=True):
        lanes = choose_lanes(planner.scop, s, dims, planner.machine)
        if lanes is None or (s.update is not None and lanes.dim in s.update.dims):
            return None
        found.append(lanes.dim)
    return found[0] if tuple(found) in passes else None
