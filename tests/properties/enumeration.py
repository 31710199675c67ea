"""What a schedule does, by enumeration: all instances, all elements, all pairs, in NumPy arrays.

The fast twin of ``brute_force`` (they are tested against each other), and like it without isl: a
Scop is enumerated once for each choice of sizes, and each tree is judged by comparing the times of
all conflicting pairs at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weft.ir.scalar_expr import Apply, Cast, Expr, Literal, Load, Var, walk
from weft.ir.scop import Access, Constraint, Scop, Statement

Array = np.ndarray[Any, Any]
Column = Array | int
LOW, HIGH = -400, 600  # no dim of a program enumerated here reaches them, skewed or not
MOST = 200_000  # candidates at one level of a domain


class TooLarge(Exception):
    """The program is not one to enumerate."""


def column(expr: Expr, env: Mapping[str, Column]) -> Column:
    """The value of an index expression at many points: by the definition in ``scalar_expr``."""
    match expr:
        case Var(name):
            return env[name]
        case Literal(value):
            return int(value)
        case Apply("neg", (only,)):
            return -column(only, env)
        case Apply(op, (left, right)):
            a, b = column(left, env), column(right, env)
            match op:
                case "add":
                    return a + b
                case "sub":
                    return a - b
                case "mul":
                    return a * b
                case "floordiv":
                    return a // b
                case "mod":
                    return a % b
    raise AssertionError(expr)


def mask(constraints: Sequence[Constraint], env: Mapping[str, Column], count: int) -> Array:
    """Where all ``constraints`` hold, of ``count`` points."""
    inside = np.ones(count, bool)
    for c in constraints:
        value = column(c.expr, env)
        inside &= value == 0 if c.equality else value >= 0
    return inside


def variables(expr: Expr) -> set[str]:
    if isinstance(expr, Var):
        return {expr.name}
    return set().union(*map(variables, expr.children)) if expr.children else set()


Form = tuple[dict[str, int], int]  # coefficients and constant


def _linear(expr: Expr, sizes: Mapping[str, int]) -> Form | None:
    """``expr`` as a sum, or None where it divides."""
    match expr:
        case Var(name):
            return ({}, sizes[name]) if name in sizes else ({name: 1}, 0)
        case Literal(value):
            return {}, int(value)
        case Apply("neg", (only,)):
            return _scaled(_linear(only, sizes), -1)
        case Apply("add" | "sub" as op, (left, right)):
            one = _linear(left, sizes)
            two = _scaled(_linear(right, sizes), 1 if op == "add" else -1)
            if one is None or two is None:
                return None
            names = {**one[0], **two[0]}
            return {n: one[0].get(n, 0) + two[0].get(n, 0) for n in names}, one[1] + two[1]
        case Apply("mul", (part, Literal(factor))) | Apply("mul", (Literal(factor), part)):
            return _scaled(_linear(part, sizes), int(factor))
    return None


def _scaled(form: Form | None, factor: int) -> Form | None:
    if form is None:
        return None
    return {n: c * factor for n, c in form[0].items()}, form[1] * factor


def _ranges(statement: Statement, sizes: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Values, the last one excluded, outside of which no dim can lie: by interval arithmetic."""
    found = dict.fromkeys(statement.dims, (LOW, HIGH))
    forms: list[Form] = []
    for c in statement.domain:
        form = _linear(c.expr, sizes)
        both = (form, _scaled(form, -1)) if c.equality else (form,)
        forms += [f for f in both if f is not None]
    for _ in range(len(statement.dims) + 1):
        for coefficients, constant in forms:
            for dim, factor in coefficients.items():
                most = constant  # of all the others
                for other, c in coefficients.items():
                    if other != dim:
                        most += max(c * found[other][0], c * (found[other][1] - 1))
                low, high = found[dim]
                if factor > 0:
                    low = max(low, -(most // factor))
                elif factor < 0:
                    high = min(high, most // -factor + 1)
                if low >= HIGH or high <= LOW:
                    raise TooLarge(statement.name)
                found[dim] = low, max(low, high)
    return found


def points(statement: Statement, sizes: Mapping[str, int]) -> dict[str, Array]:
    """The instances of ``statement``: one column for each dim, and '' that counts them.

    Dim by dim, each with all values of its range that the constraints on the dims so far allow.
    """
    known: dict[str, Column] = {**sizes}
    columns: dict[str, Array] = {"": np.zeros(1, np.int64)}
    left = [(c, variables(c.expr)) for c in statement.domain]
    ranges = _ranges(statement, sizes)
    for dim in ("", *statement.dims):
        if dim:
            count, (low, high) = columns[""].size, ranges[dim]
            if count * (high - low) > MOST:
                raise TooLarge(statement.name)
            columns = {name: np.repeat(c, high - low) for name, c in columns.items()}
            columns[dim] = np.tile(np.arange(low, high), count)
            known |= columns
        ready = [c for c, names in left if names <= known.keys()]
        left = [(c, names) for c, names in left if not names <= known.keys()]
        inside = mask(ready, known, columns[""].size)
        columns = {name: c[inside] for name, c in columns.items()}
        known |= columns
    for dim in statement.dims:
        if columns[dim].size and not LOW < columns[dim].min() <= columns[dim].max() < HIGH - 1:
            raise TooLarge(statement.name)
    columns[""] = np.arange(columns[""].size)
    return columns


# ---- what instances touch -----------------------------------------------------------------------


class Use(NamedTuple):
    """An access as the order of instances sees it."""

    statement: int
    access: Access
    reads: bool
    writes: bool


def uses_of(scop: Scop) -> list[Use]:
    found = []
    for number, s in enumerate(scop.statements):
        found += [Use(number, a, True, False) for a in s.reads]
        found += [Use(number, a, s.update is not None, True) for a in s.writes]
    return found


KEPT, FREE, UNORDERED = range(3)


class Record(NamedTuple):
    """One reason for order: ``source`` before ``sink`` wherever they touch one element.

    FREE: updates that may change places, but not run at the same time on two threads. UNORDERED:
    one of the two has no place in the initial order; they must not run at the same time.
    """

    source: int  # number of the use
    sink: int
    order: int


@dataclass(frozen=True, slots=True, eq=False)
class Enumerated:
    """All instances of a Scop at one choice of sizes, and all pairs that conflict."""

    scop: Scop
    sizes: Mapping[str, int]
    points: tuple[dict[str, Array], ...]  # by statement
    first: tuple[int, ...]  # number of each statement's first instance
    owner: Array  # statement of each instance
    source: Array  # instance numbers of the pairs …
    sink: Array
    record: Array  # … and the number of their record
    order: Array

    @property
    def count(self) -> int:
        return int(self.owner.size)

    def env(self, statement: int) -> dict[str, Column]:
        return {**self.sizes, **self.points[statement]}

    def instance(self, number: int) -> str:
        s = int(self.owner[number])
        at = number - self.first[s]
        dims = ", ".join(f"{d}={self.points[s][d][at]}" for d in self.scop.statements[s].dims)
        return f"{self.scop.statements[s].name}[{dims}]"


def enumerate_scop(
    scop: Scop, sizes: Mapping[str, int], records: dict[Record, int] | None = None
) -> Enumerated:
    """``records`` collects the records that have pairs, over several choices of sizes.

    Raises ``TooLarge`` where that would be too many points.
    """
    found = tuple(points(s, sizes) for s in scop.statements)
    return enumerated(scop, sizes, found, {} if records is None else records)


def enumerated(
    scop: Scop,
    sizes: Mapping[str, int],
    found: tuple[dict[str, Array], ...],
    numbers: dict[Record, int],
) -> Enumerated:
    counts = [p[""].size for p in found]
    first = tuple(int(n) for n in np.cumsum([0, *counts[:-1]]))
    owner = np.repeat(np.arange(len(counts)), counts)
    if owner.size > 2500:
        raise TooLarge(scop.name)
    rank = textual_rank(scop, sizes, found)
    touched = _touched(scop, sizes, found, first)
    parts: list[tuple[Array, Array, int, int]] = []
    uses = uses_of(scop)
    for a, one in enumerate(uses):
        for b, two in enumerate(uses):
            if one.access.tensor != two.access.tensor or not (one.writes or two.writes):
                continue
            placed = _placed(scop, one) and _placed(scop, two)
            if not placed and a > b:
                continue
            source, sink = _meet(touched[a], touched[b], rank if placed else None, a == b)
            for order, chosen in _split(scop, found, first, (a, b), source, sink):
                order = UNORDERED if order == KEPT and not placed else order
                number = numbers.setdefault(Record(a, b, order), len(numbers))
                parts.append((source[chosen], sink[chosen], number, order))
    source = np.concatenate([p[0] for p in parts]) if parts else np.zeros(0, np.int64)
    sink = np.concatenate([p[1] for p in parts]) if parts else np.zeros(0, np.int64)
    lengths = [p[0].size for p in parts]
    record = np.repeat(np.array([p[2] for p in parts], np.int64), lengths)
    orders = np.repeat(np.array([p[3] for p in parts], np.int64), lengths)
    return Enumerated(scop, dict(sizes), found, first, owner, source, sink, record, orders)


def _placed(scop: Scop, use: Use) -> bool:
    return bool(scop.statements[use.statement].position)


def textual_rank(scop: Scop, sizes: Mapping[str, int], found: Sequence[dict[str, Array]]) -> Array:
    """The place of each instance in the initial order."""
    longest = max(len(s.position) for s in scop.statements) + 1
    blocks = []
    for number, (s, columns) in enumerate(zip(scop.statements, found, strict=True)):
        block = np.zeros((columns[""].size, longest), np.int64)
        for k, entry in enumerate(s.position):
            block[:, k] = columns[entry] if isinstance(entry, str) else entry
        block[:, -1] = number
        blocks.append(block)
    rows = np.concatenate(blocks)
    rank = np.empty(len(rows), np.int64)
    rank[np.lexsort(rows.T[::-1])] = np.arange(len(rows))
    return rank


def elements(access: Access, env: Mapping[str, Column], count: int) -> tuple[Array, Array]:
    """(which of ``count`` points, with what indices) an access is performed at."""
    performed = np.flatnonzero(mask(access.guard, env, count))
    rows = np.zeros((performed.size, len(access.indices)), np.int64)
    for k, index in enumerate(access.indices):
        rows[:, k] = np.broadcast_to(column(index, env), count)[performed]
    return performed, rows


def touchable(
    scop: Scop, access: Access, env: Mapping[str, Column], count: int, sizes: Mapping[str, int]
) -> tuple[Array, Array]:
    """As ``elements``; of a may access all elements that have the subscripts which are no data."""
    if not access.may:
        return elements(access, env, count)
    at, _ = elements(Access(access.tensor, (), access.guard), env, count)
    extent = shape(scop, access.tensor, sizes)
    every = list(np.ndindex(*extent))
    box = np.array(every, np.int64).reshape(len(every), len(extent))
    rows, at = np.tile(box, (at.size, 1)), np.repeat(at, len(box))
    for k, index in enumerate(access.body_indices):
        if not any(isinstance(node, Load | Cast) for node in walk(index)):
            chosen = rows[:, k] == np.broadcast_to(column(index, env), count)[at]
            rows, at = rows[chosen], at[chosen]
    return at, rows


def shape(scop: Scop, tensor: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(int(column(e, sizes)) for e in scop.tensor(tensor).shape)


def _touched(
    scop: Scop, sizes: Mapping[str, int], found: Sequence[dict[str, Array]], first: Sequence[int]
) -> list[tuple[Array, Array]]:
    """For each use: instance numbers, and the elements they touch, numbered within the tensor."""
    result = []
    for use in uses_of(scop):
        columns, access = found[use.statement], use.access
        env: dict[str, Column] = {**sizes, **columns}
        at, rows = touchable(scop, access, env, columns[""].size, sizes)
        cell = np.zeros(len(rows), np.int64)
        for k in range(rows.shape[1]):
            cell = cell * 4099 + (rows[:, k] + 2000)
        result.append((at + first[use.statement], cell))
    return result


def _meet(
    one: tuple[Array, Array], two: tuple[Array, Array], rank: Array | None, same: bool
) -> tuple[Array, Array]:
    """Pairs of instances that touch one element, the first one earlier; in any order without
    ``rank``, each pair of the ``same`` use once."""
    if not one[0].size or not two[0].size:
        return one[0][:0], two[0][:0]
    together = one[1][:, None] == two[1][None, :]
    if rank is not None:
        together &= rank[one[0]][:, None] < rank[two[0]][None, :]
    elif same:
        together &= one[0][:, None] < two[0][None, :]
    else:
        together &= one[0][:, None] != two[0][None, :]
    a, b = np.nonzero(together)
    return one[0][a], two[0][b]


def _split(
    scop: Scop,
    found: Sequence[dict[str, Array]],
    first: Sequence[int],
    numbers: tuple[int, int],
    source: Array,
    sink: Array,
) -> Iterator[tuple[int, Array]]:
    """The pairs whose order the updates' monoid leaves free, and the others."""
    if not source.size:
        return
    uses = uses_of(scop)
    one, two = (uses[n] for n in numbers)
    s, other = scop.statements[one.statement], scop.statements[two.statement]
    free = np.zeros(source.size, bool)
    if one.writes and two.writes and reassociable(s) and reassociable(other):
        if one.statement != two.statement:
            free[:] = (
                s.update is not None
                and other.update is not None
                and (s.update.monoid == other.update.monoid)
            )
        elif s.update is not None:
            free[:] = True
            values, base = found[one.statement], first[one.statement]
            for dim in s.dims:
                if dim not in s.update.dims:
                    free &= values[dim][source - base] == values[dim][sink - base]
    for order in (KEPT, FREE):
        chosen = np.flatnonzero(free == (order == FREE))
        if chosen.size:
            yield order, chosen


def reassociable(s: Statement) -> bool:
    laws = s.update.monoid.laws if s.update else frozenset()
    return len(s.writes) == 1 and laws >= {"associative", "commutative"}
