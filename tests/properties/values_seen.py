"""What each read sees, by enumeration: the oracle of what validation compares.

Values are sets of contributions: an ordinary instance writes {itself}, a fold adds itself to what
was there, a statement that the original does not have hands on what it reads. Two runs agree if
every read of every instance sees what that of its original instance sees, and all final values do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tests.properties.enumeration import (
    Column,
    column,
    elements,
    enumerate_scop,
    reassociable,
    textual_rank,
)
from tests.properties.verdicts import paths, times
from weft.polyhedral.schedule_tree import Tree
from weft.polyhedral.scop import Scop, Statement

Value = frozenset[object]
Place = tuple[str, tuple[int, ...]]
Seen = dict[tuple[str, tuple[int, ...]], tuple[Value, ...]]  # by original instance


def agree(original: Scop, changed: Scop, tree: Tree, sizes: Mapping[str, int]) -> bool:
    """Whether ``changed`` under ``tree`` sees what ``original`` sees. Raises ``TooLarge``."""
    seen, before = _run(original, original, None, sizes)
    others, after = _run(original, changed, tree, sizes)
    for instance, values in others.items():
        if instance not in seen:
            return False
        expected = seen[instance]
        if len(values) == len(expected):
            if values != expected:
                return False
        elif frozenset().union(*values) != frozenset().union(*expected):
            return False
    visible = [t.name for t in original.tensors if t.role in ("output", "inout")]
    places = {place for place in (*before, *after) if place[0] in visible}
    return all(_value(before, p) == _value(after, p) for p in places)


def _run(
    original: Scop, scop: Scop, tree: Tree | None, sizes: Mapping[str, int]
) -> tuple[Seen, dict[Place, Value]]:
    one = enumerate_scop(scop, sizes)
    if tree is None:
        order = np.argsort(textual_rank(scop, sizes, one.points))
    else:
        rows, _, _ = times(one, paths(tree))
        order = np.lexsort(rows.T[::-1])
    folding = _folding(original)
    known = {s.name for s in original.statements}
    touched = [_accesses(scop, s, one.env(k), one.points[k][""].size)
               for k, s in enumerate(scop.statements)]  # fmt: skip
    memory: dict[Place, Value] = {}
    seen: Seen = {}
    for number in order.tolist():
        k = int(one.owner[number])
        s, at = scop.statements[k], number - one.first[k]
        reads, writes = touched[k]
        values = [_value(memory, r[at]) if r[at] else frozenset() for r in reads]
        origin = _origin(s, known)
        fold = s.update is not None and (origin is None or origin in folding)
        old = [_value(memory, w[at]) if w[at] else frozenset() for w in writes]
        if origin is None:
            own: Value = frozenset().union(*values)
        else:
            point = _original_point(s, one.env(k), at)
            operands = (*values, *(old if s.update is not None and not fold else ()))
            if (origin, point) in seen and seen[origin, point] != operands:
                operands = (frozenset({"different clones"}),)
            seen[origin, point] = operands
            own = frozenset({(origin, point)})
        for w, before in zip(writes, old, strict=True):
            if w[at]:
                memory[w[at]] = before | own if fold else own
    return seen, memory


def _value(memory: Mapping[Place, Value], place: Place) -> Value:
    return memory.get(place, frozenset({place}))


def _accesses(
    scop: Scop, s: Statement, env: Mapping[str, Column], count: int
) -> tuple[list[list[Place | None]], list[list[Place | None]]]:
    def places(accesses: Iterator) -> list[list[Place | None]]:  # type: ignore[type-arg]
        found = []
        for access in accesses:
            row: list[Place | None] = [None] * count
            at, indices = elements(access, env, count)
            for point, index in zip(at.tolist(), indices.tolist(), strict=True):
                row[point] = access.tensor, tuple(index)
            found.append(row)
        return found

    return places(iter(s.reads)), places(iter(s.writes))


def _origin(s: Statement, known: set[str]) -> str | None:
    if s.origin is not None and s.origin.statement:
        return s.origin.statement
    return s.name if s.name in known else None


def _original_point(s: Statement, env: Mapping[str, Column], at: int) -> tuple[int, ...]:
    if s.origin is None or not s.origin.statement:
        return tuple(int(np.asarray(env[d])[at]) for d in s.dims)
    columns = (np.atleast_1d(column(e, env)) for e in s.origin.instance)
    return tuple(int(c[at] if c.size > 1 else c[0]) for c in columns)


def _folding(original: Scop) -> set[str]:
    """Updates whose order is free, and that share their tensors with no other kind of update."""
    found = set()
    for s in original.statements:
        others = [o for o in original.statements if o.update is not None
                  and {w.tensor for w in o.writes} & {w.tensor for w in s.writes}]  # fmt: skip
        if s.update is not None and all(
            reassociable(o) and o.update is not None and o.update.monoid == s.update.monoid
            for o in others
        ):
            found.add(s.name)
    return found
