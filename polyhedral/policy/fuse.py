"""Loop fusion: neighbours that stream through the same large tensor share a loop.

Fusion saves a pass over memory, and is done only where it costs no parallelism: no dependence
crosses the fused loop, or every part is serial along it anyway. Statements with reuse of their own
to gain from tiles stay alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx

from weft.ir.scalar_expr import Expr, Var
from weft.ir.scop import Statement
from weft.polyhedral.analysis.hyperplanes import Hyperplane
from weft.polyhedral.analysis.linear import linear, mentions, moves
from weft.polyhedral.analysis.work import operations
from weft.polyhedral.policy.lanes import known_range, strided
from weft.polyhedral.policy.loop_orders import streamed_operand
from weft.polyhedral.policy.planner import At, Group, Planner
from weft.polyhedral.policy.product import Product, products_of, shape
from weft.polyhedral.policy.row_tiles import (
    column_reduction,
    row_tiles,
    split_node_strips,
    strip_mined_temporaries,
)
from weft.polyhedral.policy.share import in_vectors, recurs, written_out
from weft.polyhedral.policy.tile_ends import fusable_epilogue
from weft.polyhedral.transform.edit import accesses_of
from weft.polyhedral.transform.inline_producer import beside

Choice = tuple[Hyperplane | None] | None  # what two groups share, if anything

TOGETHER = 64  # statements in a fused loop, at most: the search takes too long for more


def fuse(planner: Planner, group: Group) -> list[tuple[Group, Hyperplane | None]]:
    """The components of ``group`` in topological order, neighbours with a common loop together."""
    special = None if group.above else strip_mined_temporaries(planner, group)
    special = special or split_node_strips(planner, group)
    special = special or row_tiles(planner, group) or column_reduction(planner, group)
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
    """The group at ``place`` shares ``plane``, or the tiles of a product, with a later one, once
    the groups at ``needed``, between the two, are moved before both."""

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
    """The last of the groups ``before`` that can share a loop with ``part``; groups in between that
    only ``part`` depends on move before both."""
    edges = {(a.dependence.source.name, a.dependence.sink.name) for a in group.active}

    def feeds(one: Group, other: Group) -> bool:
        return any((a, b) in edges for a in one.names for b in other.names)

    def tiles(first: Group, both: Group) -> Choice:
        return None if both.in_tile or fusable_epilogue(planner, both) is None else (None,)

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
                    name = f"{planner.title(first)} & {planner.title(part)}.loop_fusion"
                    if found is not None and planner.accepts(name, "shared", "apart"):
                        return _Partner(place, tuple(reversed(needed)), both, found[0])
                if feeds(first, part):
                    needed.append(place)
            else:
                needed.append(place)
    return None


def _common(planner: Planner, first: Group, second: Group, both: Group) -> Hyperplane | None:
    """The loop that two parts may share: along a dimension of a tensor that both use."""
    free = {n: planner.free(both, n) for n in both.names}
    if not all(free.values()) or any(n in planner.planned for n in both.names):
        return None
    products = [] if both.in_tile else products_of(planner, both)
    last = all(len(dims) == 1 for dims in free.values())
    for tensor in _large(planner, first, second):
        for place in range(len(planner.scop.tensor(tensor).shape)):
            at = {n: _along(planner.scop.statement(n), tensor, place, free[n]) for n in both.names}
            fixed = {n: e for n, e in at.items() if e is not None}
            if len(set(fixed) & set(second.names)) * len(set(fixed) & set(first.names)) == 0:
                continue
            plane = planner.common(both, fixed)
            if plane is None or (plane.coincident and both.in_tile and not last):
                continue  # within a strip, what nothing crosses stays for the vectors
            if planner.threads > 1 and _loses_threads(planner, both, plane):
                continue
            if _overlap_little(planner, both, plane):
                continue
            if not (_short_sums(planner, both, plane) and not any(p.rows for p in products)):
                if _across(planner, both, plane):
                    continue
                if any(_takes_rows(planner, part, products, plane) for part in (first, second)):
                    continue  # what has reuse of its own shares no loop but one around it
            if _loses_nothing(planner, plane, first, second, tensor):
                return plane
    return None


def _takes_rows(
    planner: Planner, part: Group, products: Sequence[Product], plane: Hyperplane
) -> bool:
    """Whether tiles of those of ``products`` that are in ``part`` may have several iterations of
    the loop: it carries nothing there, or all of ``part`` may run in tiles across the loop. So may
    what reads a streamed operand again in each of its iterations."""
    own = [p for p in products if p.statement in part.names]
    if all(plane.at[p.statement] in [Var(d) for d in _around(planner, p)] for p in own):
        return False
    alone = part.search().valid({n: plane.at[n] for n in part.names})
    if alone is None or alone.coincident:
        return True
    across: At = {}  # the lanes, or the rows where the loop runs along the lanes
    for p in own:
        lanes, other = Var(p.lanes), Var((*p.rows, p.lanes)[0])
        across[p.statement] = other if plane.at[p.statement] == lanes else lanes
    return planner.common(part, across) is not None


def _around(planner: Planner, p: Product) -> list[str]:
    """The outer dims of ``p`` whose loops go around all that it reuses."""
    streamed = streamed_operand(planner, p, shape(planner, p))
    return [d for d in p.outer if streamed is None or d not in streamed.inside]


def _loses_nothing(
    planner: Planner, plane: Hyperplane, first: Group, second: Group, tensor: str
) -> bool:
    """Whether each part is as parallel under ``plane`` as alone. On one thread, to keep a temporary
    in a cache, it is enough that each is as good in vectors."""
    if plane.coincident:
        return True
    vectors = planner.threads == 1 and planner.scop.tensor(tensor).role == "temp"
    for part in (first, second):
        if _starts_sums(planner, part, second) or _only_copies(planner, part):
            continue  # which takes less than the memory between would
        alone = part.search().valid({n: plane.at[n] for n in part.names})
        if alone is None:
            return False
        if alone.coincident and not (vectors and _vectors_inside(planner, part, plane)):
            return False
    return True


def _starts_sums(planner: Planner, part: Group, other: Group) -> bool:
    """Whether all that ``part`` does is to fill temporaries into which ``other`` sums."""
    folded = {s.writes[0].tensor for s in planner.statements(other) if s.update is not None}
    temporary = {name for name in folded if planner.scop.tensor(name).role == "temp"}
    return all(
        not s.reads and all(w.tensor in temporary for w in s.writes)
        for s in planner.statements(part)
    )


def _only_copies(planner: Planner, part: Group) -> bool:
    """Whether all that ``part`` does is to copy elements that are used in the same iteration."""
    scop = planner.scop
    for s in planner.statements(part):
        tensor = s.writes[0].tensor
        uses = ((r, a) for r, a, is_write in accesses_of(scop, tensor) if not is_write)
        if operations(s) or scop.tensor(tensor).role != "temp":
            return False
        if not all(beside(s, reader, access) for reader, access in uses):
            return False
    return True


def _vectors_inside(planner: Planner, part: Group, plane: Hyperplane) -> bool:
    """Whether all statements vectorise best along other loops."""
    for s in planner.statements(part):
        dims = planner.free(part, s.name)
        lanes = planner.lanes(s, dims)
        if lanes is None or plane.at[s.name] == Var(lanes.dim):
            return False
    return True


def _large(planner: Planner, first: Group, second: Group) -> list[str]:
    """The tensors, no scalars, that both parts use, in the order of the Scop."""
    uses = [
        {a.tensor for s in planner.statements(part) for a in s.accesses} for part in (first, second)
    ]
    return [
        t.name for t in planner.scop.tensors if t.shape and all(t.name in used for used in uses)
    ]


def _along(s: Statement, tensor: str, place: int, free: Sequence[str]) -> Expr | None:
    """The loop along which ``s`` moves through dimension ``place`` of ``tensor``."""
    for access in (*s.writes, *s.reads):
        if access.tensor == tensor:
            form = linear(access.indices[place], free)
            if form is not None and len(form.coefficients) == 1:
                ((dim, step),) = form.coefficients.items()
                if step > 0:
                    return Var(dim)
    return None


def _across(planner: Planner, both: Group, plane: Hyperplane) -> bool:
    """Whether a statement with further loops would run across its rows of memory, other than in
    strips of a recurrence."""
    if both.in_tile or not plane.coincident or recurs(planner, both.inside(plane.at)):
        return False
    swaps = any(_in_place(s) for s in planner.statements(both))
    for s in planner.statements(both):
        dims = planner.free(both, s.name)
        lanes = planner.lanes(s, dims) if len(dims) > 1 else None
        if lanes is not None and (
            plane.at[s.name] == Var(lanes.dim) or (not swaps and _transposes(s, plane, lanes.dim))
        ):
            return True
    return False


def _short_sums(planner: Planner, both: Group, plane: Hyperplane) -> bool:
    """Whether a vector of iterations is a few instances of each statement, short sums among them,
    which then stay in registers."""
    alone = all(len(planner.free(both, n)) == 1 for n in both.names)
    if alone or both.in_tile or not plane.coincident or not in_vectors(planner, both, plane):
        return False
    return written_out(planner, both, plane) is not None


def _transposes(s: Statement, plane: Hyperplane, lane: str) -> bool:
    """Whether an access of ``s`` is contiguous along the loop while its vectors run across rows:
    block transposes then serve both."""
    value = plane.at[s.name]
    if s.update is not None or not isinstance(value, Var):
        return False
    return any(
        mentions(a.indices[-1], (value.name,)) and not strided(a, value.name) and moves(a, lane)
        for a in (*s.writes, *s.reads)
        if a.indices
    )


def _in_place(s: Statement) -> bool:
    """Whether ``s`` reads other elements of what it writes: what keeps their old values shares its
    loop, or would be as large."""
    written = {w.tensor: w for w in s.writes}
    return any(r.tensor in written and r.indices != written[r.tensor].indices for r in s.reads)


def _overlap_little(planner: Planner, both: Group, plane: Hyperplane) -> bool:
    """Whether parts overlap in less than half of the iterations of the loop."""
    begin, end, longest = None, None, 0
    for s in planner.statements(both):
        turns = known_range(s, plane.at[s.name])
        if turns is None:
            return False
        first, size = turns
        begin = first if begin is None else max(begin, first)
        end = first + size if end is None else min(end, first + size)
        longest = max(longest, size)
    return begin is not None and end is not None and 2 * (end - begin) < longest


def _loses_threads(planner: Planner, both: Group, plane: Hyperplane) -> bool:
    """Whether a statement reduces along the loop that might run in parallel along another."""
    return bool(both.above and not both.in_tile) and any(
        s.update is not None
        and mentions(plane.at[s.name], s.update.dims)
        and any(d not in s.update.dims for d in planner.free(both, s.name))
        for s in planner.statements(both)
    )
