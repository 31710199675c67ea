"""One loop around a group of statements: of which kind, and whether strip-mined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from weft.ir.machine import Machine
from weft.ir.scalar_expr import Literal, Var, walk
from weft.ir.schedule_tree import Band, Kind, Leaf, Tree
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.ir.scop import Scop, Statement
from weft.polyhedral.analysis.hyperplanes import Hyperplane
from weft.polyhedral.analysis.linear import box, hull_extent, mentions, moves
from weft.polyhedral.analysis.work import FUNCTION, operations
from weft.polyhedral.policy.lanes import fillers, folds, from_lower_bound, known_range, strided
from weft.polyhedral.policy.planner import At, Group, Planner

LONG_STRIP = 512  # iterations of a strip through a recurrence, at least, if memory is contiguous
PAGES = 2  # of a row of such a strip on one thread: prefetchers begin anew on each page of each row
# iterations per thread at a time of a vector loop around nests, inside a serial loop
ROW_STRIP = 64
ENOUGH = 4  # strips; with fewer, threads have no equal shares
WRITTEN_OUT = 16  # terms of a sum that are unrolled inside a vector loop, at most


def share(planner: Planner, group: Group, plane: Hyperplane) -> Tree:
    """``group`` under one loop, ``plane``. If it carries no dependence and recurrences are inside,
    it is strip-mined and the strip goes inside them, so that several run side by side."""
    name = planner.name(plane.at)
    inside = group.inside(plane.at)
    kind: Kind
    if any(plane is blocks for blocks in planner.row_blocks):
        within = replace(inside, strips=len(inside.above))
        return Band((planner.loop(name, plane.at, "serial"),), planner.nest(within))
    if inside.in_tile and not group.in_tile:  # the loop is in strips already
        meets = planner.folds(group, plane.at)
        alone = meets or not (plane.coincident and planner.row_tiles.get(group.names[0], True))
        kind = "serial" if alone else "parallel"
        if not alone:
            planner.spread.append(plane.at)
        strip = planner.loop(f"{_hint(plane)}_t", plane.at, kind)
        return Band((strip,), planner.nest(replace(inside, strips=len(inside.above))))
    terms = written_out(planner, group, plane)
    vector = plane.coincident and in_vectors(planner, group, plane)
    if terms is not None and (vector or not any(terms.values())):
        beside = plane.coincident and group.in_tile and group.above
        kind = "vector" if vector or beside else "serial"
        shared = vector and not planner.folds(group, plane.at)
        dealt = in_strips(planner, group, plane.at) if shared else None
        if dealt is not None:
            return dealt
        at = planner.point(group, plane.at)
        body = _unrolled(planner, terms) if any(terms.values()) else planner.nest(inside)
        return Band((planner.loop(name, at, kind),), body)
    spreads = planner.spreads(group)
    free = plane.coincident and not planner.folds(group, plane.at)
    rows = not group.in_tile and any(x is at for x in group.above for at in planner.spread)
    kind = "parallel" if free and (spreads or rows) else "serial"
    if kind == "parallel":
        planner.spread.append(plane.at)
    if spreads and group.above and free and _runs_along(planner, group, plane):
        strips = {n: e // ROW_STRIP for n, e in plane.at.items()}
        loop = planner.loop(f"{name}_t", strips, "parallel")
        return Band((loop,), planner.nest(group.inside(strips)))
    ends = _ends_in_vectors(planner, group, plane)
    if ends or (plane.coincident and (spreads or not group.in_tile) and recurs(planner, inside)):
        size = ends or _strip(planner, group, plane)
        first = _first(planner, group, plane)
        strips = {n: (e - first) // size for n, e in plane.at.items()}
        loop = planner.loop(f"{name}_t", strips, kind)
        return Band((loop,), planner.nest(group.inside(strips)))
    return Band((planner.loop(name, plane.at, kind),), planner.nest(inside))


def short_terms(scop: Scop, s: Statement, dims: Sequence[str], vector: str) -> tuple[str, ...]:
    """The dims of constant length that are written out inside the vector loop: those along which
    its stores fill each other's gaps, and those of a short reduction, whose sum stays in a register
    while the target goes through memory once."""
    folded = tuple(d for d in dims if folds(s, d))
    gaps = tuple(d for d in fillers(scop, s, vector) if d in dims) if vector else ()
    for found in ((*gaps, *folded), gaps):
        sizes = [hull_extent(s, d) for d in found]
        if vector not in found and prod(n or WRITTEN_OUT + 1 for n in sizes) <= WRITTEN_OUT:
            return found
    return ()


def written_out(
    planner: Planner, group: Group, plane: Hyperplane
) -> dict[str, tuple[str, ...]] | None:
    """The dims that the loop leaves to each statement, in the order in which they run, where these
    are the terms of short sums, or none; else None."""
    inside, found = group.inside(plane.at), dict[str, tuple[str, ...]]()
    for name in (name for names in inside.components() for name in names):
        value, dims = plane.at[name], planner.free(group, name)
        lane = value.name if isinstance(value, Var) else ""
        found[name] = short_terms(planner.scop, planner.scop.statement(name), dims, lane)
        if {*found[name]} != {*planner.free(inside, name)}:
            return None
    alone = len(inside.components()) == len(group.names)
    return found if alone or not any(found.values()) else None


def in_strips(planner: Planner, group: Group, at: At) -> Tree | None:
    """``group`` in strips of its only loop ``at``, which no dependence crosses; None for one
    thread, inside another loop, or if it is too short.

        for i vector: …   →   parallel i_t: for i in a strip, vector: …
    """
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


def _unrolled(planner: Planner, terms: Mapping[str, Sequence[str]]) -> Tree:
    """The statements of ``terms`` one after the other; the sums of each stay in registers."""
    parts: list[Tree] = []
    for name, dims in terms.items():
        loops = tuple(planner.loop(d, {name: Var(d)}, "unrolled") for d in dims)
        parts.append(Band(loops, Leaf(name)) if loops else Leaf(name))
    return TreeSequence(tuple(parts))


def _hint(strips: Hyperplane) -> str:
    """The name for the loop that is strip-mined in ``strips``."""
    inner = (n.name for e in strips.at.values() for n in walk(e) if isinstance(n, Var))
    return next(inner, "w")


def _runs_along(planner: Planner, group: Group, plane: Hyperplane) -> bool:
    """Whether all statements have further loops and vectorise best along this one."""
    for s in planner.statements(group):
        dims = planner.free(group, s.name)
        lanes = planner.lanes(s, dims)
        if len(dims) < 2 or lanes is None or plane.at[s.name] != Var(lanes.dim):
            return False
    return True


def _strip(planner: Planner, group: Group, plane: Hyperplane) -> int:
    """The iterations of a strip: one vector where each iteration is a row of memory (code
    generation transposes blocks of them), more where memory is contiguous, or one result is kept in
    registers."""
    across = moving = 0
    lanes = [
        planner.machine.lanes(planner.scop.tensor(w.tensor).dtype)
        for s in planner.statements(group)
        for w in s.writes
    ]
    for s in planner.statements(group):
        dim = plane.at[s.name]
        if isinstance(dim, Var) and len(planner.free(group, s.name)) > 1:
            for access in (a for a in s.accesses if len(a.indices) > 1):
                moving += moves(access, dim.name)
                across += strided(access, dim.name)
    if 2 * across > moving:
        return max(lanes)
    if _one_result(planner, group, plane):
        return _in_registers(planner.machine) * max(lanes)
    row = PAGES * planner.machine.page // planner.machine.vector_bytes * max(lanes)
    return LONG_STRIP if planner.threads > 1 else max(LONG_STRIP, row)


def _in_registers(machine: Machine) -> int:
    """The vectors of a strip whose results stay in registers through a recurrence: as many as hide
    the latency of an operation, if half of the registers hold them."""
    return min(machine.fma_latency * machine.fma_per_cycle, machine.vector_registers // 2)


def _ends_in_vectors(planner: Planner, group: Group, plane: Hyperplane) -> int:
    """How many iterations of the loop make vectors of what follows sums along rows of memory; 0
    where nothing follows that takes long in scalars, or that the sums wait for.

        for h: { for k vector: s[h] += …; y[h] = exp(s[h]) }
        →   for h_t: { for h: for k vector: s[h] += …; for h vector: y[h] = exp(s[h]) }
    """
    inside = group.inside(plane.at)
    ends = [s for s in planner.statements(group) if not planner.free(inside, s.name)]
    sums = [s for s in planner.statements(group) if planner.free(inside, s.name)]
    long = {s.name for s in ends if operations(s) >= FUNCTION}
    waits = any(a.dependence.source.name in long for a in inside.active)
    if group.in_tile or not plane.coincident or not (sums and long) or waits:
        return 0
    if not in_vectors(planner, group.part([s.name for s in ends]), plane):
        return 0
    if not all(_sums_along_rows(planner, inside, s) for s in sums):
        return 0
    tensors = (planner.scop.tensor(w.tensor) for s in ends for w in s.writes)
    return max(planner.machine.lanes(t.dtype) for t in tensors)


def _sums_along_rows(planner: Planner, group: Group, s: Statement) -> bool:
    """Whether ``s`` is a sum whose vectors run along the reduction."""
    lanes = planner.lanes(s, planner.free(group, s.name))
    return lanes is not None and folds(s, lanes.dim)


def _one_result(planner: Planner, group: Group, plane: Hyperplane) -> bool:
    """Whether an iteration of the loop writes the same elements again and again."""
    for s in planner.statements(group):
        others = [d for d in planner.free(group, s.name) if plane.at[s.name] != Var(d)]
        if any(mentions(i, others) for write in s.writes for i in write.indices):
            return False
    return True


def _first(planner: Planner, group: Group, plane: Hyperplane) -> int:
    """The first value of the loop, where strips begin; 0 if it is not constant."""
    found = []
    for s in planner.statements(group):
        dim = plane.at[s.name]
        lower = box(s).get(dim.name) if isinstance(dim, Var) else None
        if lower is None or not isinstance(lower[0], Literal):
            return 0
        found.append(int(lower[0].value))
    return min(found)


def in_vectors(planner: Planner, group: Group, plane: Hyperplane) -> bool:
    """Whether all statements vectorise along the loop, their innermost one."""
    for s in planner.statements(group):
        dim = plane.at[s.name]
        if not isinstance(dim, Var):
            return False
        if planner.lanes(s, [dim.name]) is None:
            return False
    return True


def recurs(planner: Planner, inside: Group) -> bool:
    """Whether the innermost loops of some statement carry dependences."""
    for names in inside.components():
        part = inside.part(names)
        if len(names) > 1 and any(planner.free(inside, n) for n in names):
            return True
        loops: list[At] = [{names[0]: Var(d)} for d in planner.free(part, names[0])]
        if loops and not any(map(part.independent, loops)):
            return True
    return False
