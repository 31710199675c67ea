"""What each read sees, by enumeration: the oracle of what validation compares.

Values are sets of contributions: an ordinary instance writes {itself}, a fold adds itself to what
was there, a statement that the original does not have hands on what it reads. Two runs agree if
every read of every instance sees what that of its original instance sees, and all final values do.
Where folds of several kinds meet in one tensor, a fold of another kind starts from the whole value
that was there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tests.properties.enumeration import (
    Column,
    column,
    enumerate_scop,
    reassociable,
    textual_rank,
    touchable,
)
from tests.properties.verdicts import paths, times
from weft.ir.schedule_tree import Tree
from weft.ir.scop import Access, Scop, Statement

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
    folding, mixed = _folding(original), _mixed(original)
    known = {s.name for s in original.statements}
    touched = [_accesses(scop, s, one.env(k), one.points[k][""].size, sizes)
               for k, s in enumerate(scop.statements)]  # fmt: skip
    memory: dict[Place, Value] = {}
    seen: Seen = {}
    for number in order.tolist():
        k = int(one.owner[number])
        s, at = scop.statements[k], number - one.first[k]
        reads, writes = touched[k]
        values = [_values(memory, r[at]) for r in reads]
        origin = _origin(s, known)
        fold = s.update is not None and (origin is None or origin in folding)
        old = [_values(memory, w[at]) for w in writes]
        if origin is None:
            own: Value = frozenset().union(*values)
        else:
            point = _original_point(s, one.env(k), at)
            operands = (*values, *(old if s.update is not None and not fold else ()))
            if (origin, point) in seen and seen[origin, point] != operands:
                operands = (frozenset({"different clones"}),)
            seen[origin, point] = operands
            own = frozenset({(origin, point)})
        for access, w in zip(s.writes, writes, strict=True):
            for place in w[at]:
                start = _value(memory, place)
                if fold and s.update is not None and origin in mixed:
                    start = _started(start, s.update.monoid.name)
                memory[place] = start | own if fold or access.may else own
    return seen, memory


def _values(memory: Mapping[Place, Value], places: Sequence[Place]) -> Value:
    return frozenset[object]().union(*(_value(memory, place) for place in places))


def _value(memory: Mapping[Place, Value], place: Place) -> Value:
    return memory.get(place, frozenset({place}))


def _accesses(
    scop: Scop, s: Statement, env: Mapping[str, Column], count: int, sizes: Mapping[str, int]
) -> tuple[list[list[list[Place]]], list[list[list[Place]]]]:
    """For each read, and each write, what it touches at each point: one element, none where it is
    not performed, and several where data decide."""

    def places(accesses: Sequence[Access]) -> list[list[list[Place]]]:
        found = []
        for access in accesses:
            row: list[list[Place]] = [[] for _ in range(count)]
            at, indices = touchable(scop, access, env, count, sizes)
            for point, index in zip(at.tolist(), indices.tolist(), strict=True):
                row[point].append((access.tensor, tuple(index)))
            found.append(row)
        return found

    return places(s.reads), places(s.writes)


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
    """Updates whose order is free."""
    return {s.name for s in original.statements if s.update is not None and reassociable(s)}


def _mixed(original: Scop) -> set[str]:
    """Updates of tensors with updates of several kinds, or of some whose order is not free."""
    kinds: dict[str, set[str]] = {}
    updates = [s for s in original.statements if s.update is not None]
    for s in updates:
        assert s.update is not None
        kind = s.update.monoid.name if reassociable(s) else s.name
        for w in s.writes:
            kinds.setdefault(w.tensor, set()).add(kind)
    return {s.name for s in updates if any(len(kinds[w.tensor]) > 1 for w in s.writes)}


def _started(before: Value, kind: str) -> Value:
    """What a fold of ``kind`` adds to, where ``before`` may be folds of another."""
    if any(isinstance(part, _Start) and part.kind == kind for part in before):
        return before
    return frozenset({_Start(kind, before)})


@dataclass(frozen=True, slots=True)
class _Start:
    """All that was there before folds of one kind."""

    kind: str
    value: Value
