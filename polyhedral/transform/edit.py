"""Small edits of a Scop that several transformations share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from itertools import count

import networkx as nx

from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Expr, Var
from weft.ir.schedule_tree import Band, Leaf, Loop, Tree, children, statements_below, with_children
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.ir.scop import Access, Origin, Scop, Statement
from weft.polyhedral.analysis.linear import operands, renumber
from weft.polyhedral.transform.scheduled import Scheduled, fresh, tidy

Use = tuple[str, int]  # statement, number among its uses of a tensor: its reads, then its writes


def origin_of(statement: Statement) -> Origin:
    """Where ``statement`` comes from; an original statement is its own origin, and one that stands
    for none stays so."""
    if statement.origin is not None:
        return statement.origin
    return Origin(statement.name, tuple(Var(d) for d in statement.dims))


def none_of(statement: Statement) -> Origin:
    """The origin of a new statement that only serves ``statement``: it stands for none."""
    return Origin("", (), statement.origin.source if statement.origin else "")


def serves(statement: Statement) -> bool:
    """Whether ``statement`` only serves others: it stands for none of the original ones."""
    return statement.origin is not None and not statement.origin.statement


def loads(statement: Statement) -> set[int]:
    """The numbers of the reads of ``statement`` whose values it uses."""
    indices = (e for access in statement.accesses for e in access.body_indices)
    return {k for expr in (*statement.body.expressions, *indices) for k in operands(expr)}


def with_reads(statement: Statement, numbers: Sequence[int]) -> Statement:
    """``statement`` with its reads ``numbers`` only, which are all it loads, in that order."""

    def renumbered(expr: Expr) -> Expr:
        return renumber(expr, numbers)

    def change(access: Access) -> Access:
        return replace(access, body_indices=tuple(map(renumbered, access.body_indices)))

    return replace(
        statement,
        reads=tuple(change(statement.reads[k]) for k in numbers),
        writes=tuple(map(change, statement.writes)),
        body=statement.body.map(renumbered),
    )


def insert_nest(scop: Scop, statement: Statement, after: Statement | None) -> Scop:
    """``statement`` as a nest of its own behind that of ``after`` (None: before all others), in
    the order of the program as in that of its statements; the nests that follow move up by one.
    Statements without a textual place have no say; one ``after`` which it is to be stands last."""
    nests = [int(s.position[0]) for s in scop.statements if s.position]
    last = int(after.position[0]) if after and after.position else max(nests, default=-1)
    place = 0 if after is None else last + 1
    moved = [
        replace(s, position=(int(s.position[0]) + 1, *s.position[1:]))
        if s.position and int(s.position[0]) >= place
        else s
        for s in scop.statements
    ]
    behind = (k for k, s in enumerate(moved) if s.position and int(s.position[0]) > place)
    new = replace(statement, position=(place, *statement.position[1:]))
    moved.insert(next(behind, len(moved)), new)
    return replace(scop, statements=tuple(moved))


def nest_position(dims: tuple[str, ...]) -> tuple[int | str, ...]:
    """The 2d+1 position of a statement alone in its nest."""
    position: list[int | str] = [0]
    for dim in dims:
        position += [dim, 0]
    return tuple(position)


def accesses_of(scop: Scop, tensor: str) -> list[tuple[Statement, Access, bool]]:
    """(statement, access, is write) for every access of ``tensor``, in order."""
    return [
        (s, access, is_write)
        for s in scop.statements
        for is_write, group in ((False, s.reads), (True, s.writes))
        for access in group
        if access.tensor == tensor
    ]


def placed(scheduled: Scheduled, tensor: str, move: str) -> None:
    """Raise ``IllegalScheduleError`` (E0452 without such a tensor, E0463 otherwise) unless all that
    touch ``tensor`` have a place in the source: copies, say, have none."""
    scheduled.tensor(tensor)
    without = [s.name for s, _, _ in accesses_of(scheduled.scop, tensor) if not s.position]
    if without:
        raise IllegalScheduleError(
            "WEFT-E0463",
            f"{move} cannot change {tensor}",
            why=f"{without[0]} touches it, which has no place in the source",
            hint=f"take {move} before the steps that copy",
        )


def parts_of(
    scop: Scop, tensor: str, seen: Iterable[tuple[Use, str]], pairs: Iterable[tuple[Use, Use]] = ()
) -> list[set[Use]]:
    """The uses of ``tensor`` in parts that exchange no values, in order: a use and the writes of
    the statement of which it has ``seen`` values are in one, and so are ``pairs``.

    A use in none of them is a read that no instance performs: no value would ever be in a tensor
    of its own.
    """
    together: nx.Graph[Use] = nx.Graph()
    writes: dict[str, list[Use]] = {}
    for s in scop.statements:
        reads = sum(access.tensor == tensor for access in s.reads)
        uses = [(s.name, k) for k in range(sum(a.tensor == tensor for a in s.accesses))]
        together.add_nodes_from(uses)
        writes[s.name] = uses[reads:]
    together.add_edges_from((use, write) for use, writer in seen for write in writes[writer])
    together.add_edges_from(pairs)
    written = {write for found in writes.values() for write in found}
    return [part for part in nx.connected_components(together) if part & written]


def with_parts(scop: Scop, tensor: str, parts: Mapping[str, Collection[Use]]) -> Scop:
    """``scop`` with ``parts`` of the uses of ``tensor`` in temporaries of these names."""
    name_of = {use: name for name, part in parts.items() for use in part}
    old = scop.tensor(tensor)
    new = tuple(replace(old, name=name, role="temp") for name in parts if name != tensor)
    statements = tuple(_renamed_uses(s, tensor, name_of) for s in scop.statements)
    return replace(scop, tensors=(*scop.tensors, *new), statements=statements)


def _renamed_uses(statement: Statement, tensor: str, name_of: Mapping[Use, str]) -> Statement:
    numbers = count()

    def change(access: Access) -> Access:
        return replace(access, tensor=name_of.get((statement.name, next(numbers)), tensor))

    return statement.map_accesses(change, tensor)


# ---- Insert: a statement that was not there gets its place in a schedule tree.


@dataclass(frozen=True, slots=True)
class Place:
    """Directly inside ``loop`` ('' for outside of all loops): before the part that holds one of the
    statements ``before``, or after the last part that holds one of ``after``."""

    loop: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def insert(tree: Tree, place: Place, nest: Tree, outer: Seq[Mapping[str, Expr]]) -> Tree:
    """``nest`` at ``place``; ``outer`` gives the value of each loop around it, outermost first, for
    each statement of the nest.

    Raises ``IllegalScheduleError`` (WEFT-E0470) where there is no such place.
    """
    if not place.loop:
        return tidy(_beside(tree, place, nest))
    made = _insert(tree, place, nest, list(outer))
    if made is None:
        raise IllegalScheduleError("WEFT-E0470", f"no loop is named {place.loop!r}")
    return tidy(made)


def _insert(tree: Tree, place: Place, nest: Tree, outer: list[Mapping[str, Expr]]) -> Tree | None:
    if isinstance(tree, Band):
        names = [loop.name for loop in tree.loops]
        if place.loop in names:
            cut = names.index(place.loop) + 1
            around = tuple(map(_with_values, tree.loops[:cut], outer))
            inside = Band(tree.loops[cut:], tree.child) if tree.loops[cut:] else tree.child
            return Band(around, _beside(inside, place, nest))
        child = _insert(tree.child, place, nest, outer[len(names) :])
        if child is None:
            return None
        return Band(tuple(map(_with_values, tree.loops, outer)), child)
    for k, child in enumerate(children(tree)):
        made = _insert(child, place, nest, outer)
        if made is not None:
            parts = children(tree)
            return with_children(tree, (*parts[:k], made, *parts[k + 1 :]))
    return None


def _with_values(loop: Loop, values: Mapping[str, Expr]) -> Loop:
    return replace(loop, at={**loop.at, **values})


def _beside(tree: Tree, place: Place, nest: Tree) -> Tree:
    parts = tree.children if isinstance(tree, TreeSequence) else (tree,)
    wanted = set(place.before or place.after)
    found = [k for k, part in enumerate(parts) if wanted & set(statements_below(part))]
    missing = wanted - {s for part in parts for s in statements_below(part)}
    if not found or missing:
        what = ", ".join(sorted(missing or wanted))
        raise IllegalScheduleError(
            "WEFT-E0470",
            f"{what} is not inside loop {place.loop}" if place.loop else f"there is no {what}",
            hint=f"inside are {', '.join(statements_below(tree))}",
        )
    at = found[0] if place.before else found[-1] + 1
    return TreeSequence((*parts[:at], nest, *parts[at:]))


def with_nest(scheduled: Scheduled, scop: Scop, statement: str, place: Place) -> Scheduled:
    """``scheduled`` with ``scop``, of which ``statement`` is new: its textual loops, outside of all
    others, at ``place``."""
    taken = scheduled.names()
    dims = (p for p in scop.statement(statement).position if isinstance(p, str))
    loops = tuple(Loop(fresh(d, taken), {statement: Var(d)}) for d in dims)
    tree = insert(scheduled.tree, place, Band(loops, Leaf(statement)), ())
    return replace(scheduled, scop=scop, tree=tree)


def first_of(scheduled: Scheduled) -> Place:
    """Before everything else."""
    return Place("", before=statements_below(scheduled.tree)[:1])


# ---- Remove: statements that are gone leave a schedule tree, and so do loops around them alone.


def remove(tree: Tree, statements: Collection[str]) -> Tree:
    """``tree`` without ``statements``, which are not all there are."""
    return tidy(_remove(tree, frozenset(statements)))


def _remove(tree: Tree, gone: frozenset[str]) -> Tree:
    match tree:
        case Leaf():
            return tree
        case Band(loops, child):
            kept = (
                replace(loop, at={s: value for s, value in loop.at.items() if s not in gone})
                for loop in loops
            )
            return Band(tuple(kept), _remove(child, gone))
        case TreeSequence(parts):
            left = (part for part in parts if not set(statements_below(part)) <= gone)
            return TreeSequence(tuple(_remove(part, gone) for part in left))
    return with_children(tree, tuple(_remove(child, gone) for child in children(tree)))
