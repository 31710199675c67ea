"""What each read sees, by enumeration: the oracle of what validation compares.

Values are sets of contributions: an ordinary instance writes {itself}, a fold adds itself to what
was there, a statement that the original does not have hands on what it reads. Two runs agree if
every read of every instance sees what that of its original instance sees, and all final values do.
Where folds of several kinds meet in one tensor, a fold of another kind starts from the whole value
that was there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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
    folding, mixed = _folding(original), _mixed(original)
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
                start = before
                if fold and s.update is not None and origin in mixed:
                    start = _started(before, s.update.monoid.name)
                memory[w[at]] = start | own if fold else own
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
