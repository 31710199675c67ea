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

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from weft.ir.scalar_expr import Expr, Var, substitute
from weft.ir.scop import Access, Constraint, Statement

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
        alike: dict[object, list[Use]] = {}
        for use in sorted(uses, key=_order):
            kind = _kind(use)
            if kind is not None:
                alike.setdefault(kind, []).append(use)
        # use → the plain write of the same elements by the nearest statement behind, or in front
        self._before: dict[int, Use] = {}
        self._after: dict[int, Use] = {}
        for found in alike.values():
            _enter_last(found, self._before)
            _enter_last(found[::-1], self._after)

    def pair(self, first: Use, second: Use) -> bool:
        """Whether other pairs put ``first`` before ``second`` wherever it has to be."""
        after, before = self._after.get(id(first)), self._before.get(id(second))
        if after is None and before is None:
            return False
        shared, textual = _between(first, second)
        same = first.statement is second.statement
        if not textual and not same and not _between(second, first)[1]:
            return False
        if after is not None and _between(first, after)[1]:
            depth, then = _between(after, second)
            if depth == shared and (then if textual else _between(second, after)[1]):
                return True
        if before is not None and _between(before, second)[1]:
            depth, then = _between(first, before)
            if depth == shared and (then if textual else _between(before, first)[1]):
                return True
        return False

    def overwritten(self, use: Use) -> bool:
        """Whether plain writes overwrite all elements of ``use`` later on."""
        after = self._after.get(id(use))
        return after is not None and _between(use, after)[1]


def _enter_last(uses: Sequence[Use], last: dict[int, Use]) -> None:
    """``last``: for each of ``uses`` the last plain write so far, by another statement."""
    written: list[Use] = []  # the last two
    for use in uses:
        others = [u for u in written if u.statement is not use.statement]
        if others:
            last[id(use)] = others[-1]
        if use.writes and use.statement.update is None:
            written = [*(u for u in written if u.statement is not use.statement), use][-2:]


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
