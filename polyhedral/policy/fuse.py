"""Which neighbours share a loop: those that stream through the same large tensor.

Fusion saves a pass over memory, and is done only where it costs no parallelism: no dependence
crosses the shared loop, or every part is serial along it anyway. What has reuse of its own to gain
from tiles stays alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import networkx as nx

from weft.frontend.scalar_affine import Affine, to_affine
from weft.frontend.scalar_expr import Expr, Literal, Var, literal, substitute, walk
from weft.polyhedral.analysis.hyperplanes import Hyperplane
from weft.polyhedral.analysis.linear import box, linear, mentions
from weft.polyhedral.policy.blocked import together
from weft.polyhedral.policy.columns import columns
from weft.polyhedral.policy.confine import confined
from weft.polyhedral.policy.lanes import choose_lanes, jumps
from weft.polyhedral.policy.planner import Group, Planner
from weft.polyhedral.policy.product import products_of
from weft.polyhedral.policy.row_tiles import row_tiles
from weft.polyhedral.policy.sizes import turns_of
from weft.polyhedral.policy.strips import in_strips
from weft.polyhedral.schedule_tree import Band, Kind, Tree
from weft.polyhedral.scop import Statement

Choice = tuple[Hyperplane | None] | None  # what two groups share, if anything

TOGETHER = 64  # statements in a loop that is shared: a search over more takes too long
LONG_STRIP = 512  # iterations that run side by side through a recurrence, if memory is contiguous
IN_REGISTERS = 4  # vectors of a strip whose results stay in registers through a recurrence
ROW_STRIP = 64  # elements of rows that nests inside a serial loop run through together, on a thread


def fuse(planner: Planner, group: Group) -> list[tuple[Group, Hyperplane | None]]:
    """The components of ``group``, sources first; neighbours with a common loop together."""
    special = None if group.above else confined(planner, group)
    special = special or row_tiles(planner, group) or columns(planner, group)
    if special is None:
        return _neighbours(planner, group)
    inside, plane = special
    edges = [(a.dependence.source.name, a.dependence.sink.name) for a in group.active]
    graph = nx.DiGraph(edges)
    needed = {n for name in inside.names if name in graph for n in nx.ancestors(graph, name)}
    before = [n for n in group.names if n in needed and n not in inside.names]
    after = [n for n in group.names if n not in needed and n not in inside.names]
    return [
        *_neighbours(planner, group.part(before)),
        (inside, plane),
        *fuse(planner, group.part(after)),
    ]


def _neighbours(planner: Planner, group: Group) -> list[tuple[Group, Hyperplane | None]]:
    found: list[tuple[Group, Hyperplane | None]] = []
    for names in group.components():
        part, plane, place = group.part(names), None, len(found)
        while (partner := _partner(planner, group, found[:place], part)) is not None:
            moved = [found[k] for k in partner.needed]
            found = [f for k, f in enumerate(found) if k not in (*partner.needed, partner.place)]
            found[partner.place : partner.place] = moved
            place, part, plane = partner.place + len(moved), partner.both, partner.plane
        found.insert(place, (part, plane))
    return found


@dataclass(frozen=True, slots=True)
class _Partner:
    """The group at ``place`` and a later one share ``plane``, or the tiles of a product, once what
    the later one needs, at the places ``needed`` between them, goes before both."""

    place: int
    needed: tuple[int, ...]
    both: Group
    plane: Hyperplane | None


def _partner(
    planner: Planner,
    group: Group,
    before: Sequence[tuple[Group, Hyperplane | None]],
    part: Group,
) -> _Partner | None:
    """The last of the groups ``before`` that shares a loop with ``part``, with nothing in between
    that uses the one for the other."""
    edges = {(a.dependence.source.name, a.dependence.sink.name) for a in group.active}

    def feeds(one: Group, other: Group) -> bool:
        return any((a, b) in edges for a in one.names for b in other.names)

    def tiles(first: Group, both: Group) -> Choice:
        return None if both.in_tile or together(planner, both) is None else (None,)

    def loop(first: Group, both: Group) -> Choice:
        plane = _common(planner, first, part, both)
        return None if plane is None else (plane,)

    for choice in (tiles, loop):  # the tiles of a product come first
        needed: list[int] = []
        for place in reversed(range(len(before))):
            first = before[place][0]
            if not any(feeds(first, before[k][0]) for k in needed):
                if len(first.names) + len(part.names) <= TOGETHER:
                    both = group.part((*first.names, *part.names))
                    found = choice(first, both)
                    if found is not None:
                        return _Partner(place, tuple(reversed(needed)), both, found[0])
                if feeds(first, part):
                    needed.append(place)
            else:
                needed.append(place)
    return None


def share(planner: Planner, group: Group, plane: Hyperplane) -> Tree:
    """``group`` under one loop.

    Where recurrences fill the iterations of a loop that nothing crosses, a strip of them goes
    inside, to run side by side.
    """
    name = planner.name(plane.at)
    inside = group.inside(plane.at)
    kind: Kind
    if any(plane is blocks for blocks in planner.row_blocks):
        within = replace(inside, strips=len(inside.above))
        return Band((planner.loop(name, plane.at, "serial"),), planner.nest(within))
    if inside.in_tile and not group.in_tile:  # the loop is in strips already
        meets = _folds(planner, group, plane)
        alone = meets or not planner.row_tiles.get(group.names[0], True)
        kind = "serial" if alone else "parallel"
        if not alone:
            planner.spread.append(plane.at)
        strip = planner.loop(f"{_hint(plane)}_t", plane.at, kind)
        return Band((strip,), planner.nest(replace(inside, strips=len(inside.above))))
    if all(len(planner.free(group, n)) == 1 for n in group.names):
        vector = plane.coincident and _vectors(planner, group, plane)
        beside = plane.coincident and group.in_tile and group.above
        kind = "vector" if vector or beside else "serial"
        shared = vector and not _folds(planner, group, plane)
        dealt = in_strips(planner, group, plane.at) if shared else None
        if dealt is not None:
            return dealt
        at = planner.point(group, plane.at)
        return Band((planner.loop(name, at, kind),), planner.nest(inside))
    spreads = planner.spreads(group)
    free = plane.coincident and not _folds(planner, group, plane)
    rows = not group.in_tile and any(x is at for x in group.above for at in planner.spread)
    kind = "parallel" if free and (spreads or rows) else "serial"
    if kind == "parallel":
        planner.spread.append(plane.at)
    if spreads and group.above and free and _runs_along(planner, group, plane):
        starts = _starts(planner, group, plane)
        strips = {n: (e - starts[n]) // ROW_STRIP for n, e in plane.at.items()}
        loop = planner.loop(f"{name}_t", strips, "parallel")
        return Band((loop,), planner.nest(group.inside(strips)))
    if plane.coincident and (spreads or not group.in_tile) and _recurs(planner, inside):
        size = _strip(planner, group, plane)
        first = _first(planner, group, plane)
        strips = {n: (e - first) // size for n, e in plane.at.items()}
        loop = planner.loop(f"{name}_t", strips, kind)
        return Band((loop,), planner.nest(group.inside(strips)))
    return Band((planner.loop(name, plane.at, kind),), planner.nest(inside))


def _hint(strips: Hyperplane) -> str:
    """What the loop is called after that is in ``strips``."""
    inner = (n.name for e in strips.at.values() for n in walk(e) if isinstance(n, Var))
    return next(inner, "w")


def _runs_along(planner: Planner, group: Group, plane: Hyperplane) -> bool:
    """Whether all statements have more loops, and run best in vectors along this one."""
    for s in planner.statements(group):
        dims = planner.free(group, s.name)
        lanes = choose_lanes(planner.scop, s, dims, planner.machine)
        if len(dims) < 2 or lanes is None or plane.at[s.name] != Var(lanes.dim):
            return False
    return True


def _starts(planner: Planner, group: Group, plane: Hyperplane) -> dict[str, Expr]:
    """Where the loop begins, by statement, so that strips are whole from its first iteration on;
    0 where statements do not agree."""
    found: dict[str, Expr] = {}
    forms = set()
    for s in planner.statements(group):
        known = planner.solved(group, s.name)
        dim = getattr(plane.at[s.name], "name", "")
        for constraint in s.domain:
            form = linear(constraint.expr, (dim,))
            rest = None if form is None else form.rest * -1
            if form is None or rest is None or form.coefficients != {dim: 1}:
                continue
            value = _form(rest, known, s.dims)
            if value is not None and s.name not in found:
                found[s.name] = rest
                forms.add(value)
    agreed = len(forms) == 1 and len(found) == len(group.names)
    return found if agreed else dict.fromkeys(group.names, literal(0))


def _strip(planner: Planner, group: Group, plane: Hyperplane) -> int:
    """How many iterations of the loop go together: a vector where each is a row of memory (code
    generation transposes blocks of them), more where they are contiguous, or have one result."""
    jumping = moving = 0
    lanes = [
        planner.machine.lanes(planner.scop.tensor(w.tensor).dtype)
        for s in planner.statements(group)
        for w in s.writes
    ]
    for s in planner.statements(group):
        dim = plane.at[s.name]
        if isinstance(dim, Var) and len(planner.free(group, s.name)) > 1:
            for access in (a for a in (*s.reads, *s.writes) if len(a.indices) > 1):
                moving += any(mentions(i, (dim.name,)) for i in access.indices)
                jumping += jumps(access, dim.name)
    if 2 * jumping > moving:
        return max(lanes)
    return IN_REGISTERS * max(lanes) if _one_result(planner, group, plane) else LONG_STRIP


def _one_result(planner: Planner, group: Group, plane: Hyperplane) -> bool:
    """Whether an iteration of the loop writes the same elements again and again."""
    for s in planner.statements(group):
        others = [d for d in planner.free(group, s.name) if plane.at[s.name] != Var(d)]
        if any(mentions(i, others) for write in s.writes for i in write.indices):
            return False
    return True


def _first(planner: Planner, group: Group, plane: Hyperplane) -> int:
    """The first value of the loop, if it is a constant: where strips begin."""
    found = []
    for s in planner.statements(group):
        dim = plane.at[s.name]
        lower = box(s).get(dim.name) if isinstance(dim, Var) else None
        if lower is None or not isinstance(lower[0], Literal):
            return 0
        found.append(int(lower[0].value))
    return min(found)


# ---- a common loop ------------------------------------------------------------------------------


def _common(planner: Planner, first: Group, second: Group, both: Group) -> Hyperplane | None:
    """The loop that two parts may share: along a dimension of a tensor of rank two or more."""
    free = {n: planner.free(both, n) for n in both.names}
    if not all(free.values()) or any(n in planner.planned for n in both.names):
        return None
    products = [] if both.in_tile else products_of(planner, both)
    search = both.search()
    last = all(len(dims) == 1 for dims in free.values())
    for tensor in _large(planner, first, second, rank=1):
        for place in range(len(planner.scop.tensor(tensor).shape)):
            at = {n: _along(planner.scop.statement(n), tensor, place, free[n]) for n in both.names}
            fixed = {n: e for n, e in at.items() if e is not None}
            if len(set(fixed) & set(second.names)) * len(set(fixed) & set(first.names)) == 0:
                continue
            plane = search.complete(fixed, {n: tuple(map(Var, dims)) for n, dims in free.items()})
            if plane is None or (plane.coincident and both.in_tile and not last):
                continue  # within a strip, what nothing crosses stays for the vectors
            if planner.threads > 1 and _loses_threads(planner, both, plane):
                continue
            if _across(planner, both, plane) or _barely(planner, both, plane):
                continue
            if any(plane.at[p.statement] not in [Var(d) for d in p.outer] for p in products):
                continue  # what has reuse of its own shares no loop but one around it
            if _loses_nothing(planner, plane, first, second, tensor) and _meet(
                planner, both, plane, tensor, first
            ):
                return plane
    return None


def _meet(planner: Planner, both: Group, plane: Hyperplane, tensor: str, first: Group) -> bool:
    """Whether the parts use the same elements of ``tensor`` in one iteration, as far as the loops
    so far determine them."""
    inside = both.inside(plane.at)
    places: tuple[set[object], set[object]] = (set(), set())
    for s in planner.statements(both):
        known = planner.solved(inside, s.name)
        for access in (*s.reads, *s.writes):
            if access.tensor == tensor and not access.may:
                forms = (_form(index, known, s.dims) for index in access.indices)
                places[s.name in first.names].add(tuple(forms))
    return any(_agree(a, b) for a in places[0] for b in places[1])


def _form(index: Expr, known: Mapping[str, Expr], dims: Sequence[str]) -> Affine | None:
    """``index`` over the loops; None where it is still open."""
    value = to_affine(substitute(index, dict(known)))
    return None if value is None or value.variables() & set(dims) else value


def _agree(one: object, two: object) -> bool:
    assert isinstance(one, tuple) and isinstance(two, tuple)
    pairs = [(a, b) for a, b in zip(one, two, strict=True) if a is not None and b is not None]
    return bool(pairs) and all(a == b for a, b in pairs)


def _loses_nothing(
    planner: Planner, plane: Hyperplane, first: Group, second: Group, tensor: str
) -> bool:
    """Whether each part is as parallel under ``plane`` as alone; for one thread, and to keep a
    temporary in the cache, it is enough that its vectors are."""
    if plane.coincident:
        return True
    vectors = planner.threads == 1 and planner.scop.tensor(tensor).role == "temp"
    for part in (first, second):
        alone = part.search().valid({n: plane.at[n] for n in part.names})
        if alone is None:
            return False
        if alone.coincident and not (vectors and _vectors_inside(planner, part, plane)):
            return False
    return True


def _vectors_inside(planner: Planner, part: Group, plane: Hyperplane) -> bool:
    """Whether all statements run best in vectors along other loops than this one."""
    for s in planner.statements(part):
        dims = planner.free(part, s.name)
        lanes = choose_lanes(planner.scop, s, dims, planner.machine)
        if lanes is None or plane.at[s.name] == Var(lanes.dim):
            return False
    return True


def _large(planner: Planner, first: Group, second: Group, rank: int) -> list[str]:
    """Tensors of ``rank`` or more that both parts use, in the order of the Scop."""
    uses = [
        {a.tensor for s in planner.statements(part) for a in (*s.reads, *s.writes)}
        for part in (first, second)
    ]
    return [
        t.name
        for t in planner.scop.tensors
        if len(t.shape) >= rank and all(t.name in used for used in uses)
    ]


def _along(s: Statement, tensor: str, place: int, free: Sequence[str]) -> Expr | None:
    """The loop that moves ``s`` through dimension ``place`` of ``tensor``."""
    for access in (*s.writes, *s.reads):
        if access.tensor == tensor:
            form = linear(access.indices[place], free)
            if form is not None and len(form.coefficients) == 1:
                ((dim, step),) = form.coefficients.items()
                if step > 0:
                    return Var(dim)
    return None


def _across(planner: Planner, both: Group, plane: Hyperplane) -> bool:
    """Whether a statement with more loops would run through its rows of memory as columns, other
    than in strips of a recurrence."""
    if both.in_tile or not plane.coincident or _recurs(planner, both.inside(plane.at)):
        return False
    for s in planner.statements(both):
        dims = planner.free(both, s.name)
        lanes = choose_lanes(planner.scop, s, dims, planner.machine) if len(dims) > 1 else None
        if lanes is not None and (
            plane.at[s.name] == Var(lanes.dim) or _turns(s, plane, lanes.dim)
        ):
            return True
    return False


def _turns(s: Statement, plane: Hyperplane, lane: str) -> bool:
    """Whether an access of ``s`` is contiguous along the loop, while its vectors run across the
    rows: together the two are transposed in blocks."""
    value = plane.at[s.name]
    if s.update is not None or not isinstance(value, Var):
        return False
    return any(
        mentions(a.indices[-1], (value.name,))
        and not jumps(a, value.name)
        and any(mentions(i, (lane,)) for i in a.indices)
        for a in (*s.writes, *s.reads)
        if a.indices
    )


def _barely(planner: Planner, both: Group, plane: Hyperplane) -> bool:
    """Whether a part runs so much later than another that they share less than half of the loop."""
    begin, end, longest = None, None, 0
    for s in planner.statements(both):
        turns = turns_of(s, plane.at[s.name])
        if turns is None:
            return False
        first, size = turns
        begin = first if begin is None else max(begin, first)
        end = first + size if end is None else min(end, first + size)
        longest = max(longest, size)
    return begin is not None and end is not None and 2 * (end - begin) < longest


def _loses_threads(planner: Planner, both: Group, plane: Hyperplane) -> bool:
    """Whether a statement folds along the loop that might run in parallel along another."""
    return bool(both.above and not both.in_tile) and any(
        s.update is not None
        and mentions(plane.at[s.name], s.update.dims)
        and any(d not in s.update.dims for d in planner.free(both, s.name))
        for s in planner.statements(both)
    )


# ---- its kind -----------------------------------------------------------------------------------


def _folds(planner: Planner, group: Group, plane: Hyperplane) -> bool:
    """Whether a statement folds along the loop, so that its iterations meet in an element."""
    return any(
        mentions(plane.at[s.name], s.update.dims) for s in planner.statements(group) if s.update
    )


def _vectors(planner: Planner, group: Group, plane: Hyperplane) -> bool:
    """Whether the loop, the innermost of all statements, is better run in vectors."""
    for s in planner.statements(group):
        dim = plane.at[s.name]
        if not isinstance(dim, Var):
            return False
        if choose_lanes(planner.scop, s, [dim.name], planner.machine) is None:
            return False
    return True


def _recurs(planner: Planner, inside: Group) -> bool:
    """Whether the innermost loops of some statement cannot be vectors."""
    for names in inside.components():
        part = inside.part(names)
        if len(names) > 1 and any(planner.free(inside, n) for n in names):
            return True
        search = part.search()
        planes = [search.valid({names[0]: Var(d)}) for d in planner.free(part, names[0])]
        if planes and not any(p is not None and p.coincident for p in planes):
            return True
    return False
