"""How uses of memory follow each other in the initial order, and which pairs say nothing new.

    S0: A[i] = …        S0 before S1, and S1 before S2, put S0 before S2 as well: of many
    S1: A[i] = …        statements that write the same elements, only neighbours have to be asked
    S2: … = A[i]

A pair of uses (a, c) is implied if a third one, b, touches the element of a (or that of c) in every
iteration in which that does, is a plain write, and always comes between the two: then (a, b) and
(b, c) are dependences, neither of them of free order. By induction over what runs in between,
whoever keeps the pairs that are not implied keeps all. A loop that keeps a, b and c in order and
runs a and c at once runs a and b at once, or b and c.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from weft.frontend.scalar_expr import Expr, Var, substitute
from weft.polyhedral.scop import Access, Constraint, Statement

Relation = tuple[list[tuple[int, int]], bool]


@dataclass(frozen=True, slots=True)
class Use:
    """An access as the order of instances sees it."""

    number: int  # of its statement
    statement: Statement
    access: Access
    reads: bool
    writes: bool


def relation(one: Statement, place: int, two: Statement, other: int) -> Relation:
    """How two statements follow each other in the initial order: the loops that both share, as
    numbers of their dims, and whether ``one`` is first inside. ``place`` and ``other`` are their
    places in the list."""
    shared: list[tuple[int, int]] = []
    for a, b in zip_longest(one.position, two.position):
        if isinstance(a, str) and isinstance(b, str):
            shared.append((one.dims.index(a), two.dims.index(b)))
        elif isinstance(a, int) and isinstance(b, int) and a != b:
            return shared, a < b
    return shared, place < other


class Implied:
    """Asks which pairs of some ``uses`` of one tensor are implied; see above."""

    def __init__(self, uses: Sequence[Use]) -> None:
        self._kinds: dict[int, object] = {}  # by the number of the use: what is alike in each turn
        self._writers: dict[object, list[Use]] = {}  # of one kind, in textual order
        self._orders: dict[object, list[tuple[object, ...]]] = {}
        for use in sorted(uses, key=_order):
            kind = _kind(use)
            self._kinds[id(use)] = kind
            if kind is not None and use.writes and use.statement.update is None:
                self._writers.setdefault(kind, []).append(use)
                self._orders.setdefault(kind, []).append(_order(use))

    def pair(self, first: Use, second: Use) -> bool:
        """Whether other pairs put ``first`` before ``second`` wherever it has to be."""
        shared, textual = _between(first, second)
        same = first.statement is second.statement
        if not textual and not same and not _between(second, first)[1]:
            return False
        after, before = self._next(first), self._previous(second)
        if after is not None:
            depth, then = _between(after, second)
            back = _between(second, after)[1]
            if depth == shared and _between(first, after)[1] and (then if textual else back):
                return True
        if before is not None:
            depth, then = _between(first, before)
            back = _between(before, first)[1]
            if depth == shared and _between(before, second)[1] and (then if textual else back):
                return True
        return False

    def _next(self, use: Use) -> Use | None:
        """The plain write of the same elements by the next statement."""
        kind = self._kinds[id(use)]
        writers = self._writers.get(kind, [])
        place = bisect_right(self._orders.get(kind, []), _order(use))
        return writers[place] if place < len(writers) else None

    def _previous(self, use: Use) -> Use | None:
        kind = self._kinds[id(use)]
        place = bisect_left(self._orders.get(kind, []), _order(use)) - 1
        return self._writers[kind][place] if place >= 0 else None


def _between(one: Use, two: Use) -> tuple[int, bool]:
    """The number of shared loops, and whether ``one`` is textually first."""
    shared, textual = relation(one.statement, one.number, two.statement, two.number)
    return len(shared), textual


def _order(use: Use) -> tuple[object, ...]:
    """What sorts uses as they are written; those of one statement are equal."""
    return (*(x if isinstance(x, int) else -1 for x in use.statement.position), use.number)


def _kind(use: Use) -> object:
    """Equal for uses of the same elements in the same iterations, whatever these are called."""
    statement, access = use.statement, use.access
    if access.may or not statement.position:
        return None
    names: dict[str, Expr] = {d: Var(f"@{k}") for k, d in enumerate(statement.dims)}

    def renamed(constraints: Sequence[Constraint]) -> tuple[object, ...]:
        return tuple((substitute(c.expr, names), c.equality) for c in constraints)

    return (
        len(statement.dims),
        tuple(statement.dims.index(p) for p in statement.position if isinstance(p, str)),
        renamed(statement.domain),
        renamed(access.guard),
        tuple(substitute(index, names) for index in access.indices),
    )
