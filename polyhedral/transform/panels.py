"""Panels: an update by its own rows and columns, in blocks of steps.

    for k: for i: for j:                        for each block of steps k:
      P[i, j] ⊕= f(P[i, k], P[k, j])     →        its corner, in place, step by step
                                                    each strip of its rows, step by step
                                                    each strip of its columns, step by step
                                                    everything else: one product

The row and the column of step k are copied as they are before and after it changes them. Rows and
columns read the copies of the corner, and the product those of both; so strips are independent.
What the rest reads is what it read before, value for value: nothing is asked of ⊕ and f. (The usual
blocked all-pairs shortest paths reads later values, which is right only without negative cycles.)
The product has no dependence on itself any more, and can be tiled.
Also known as: right-looking blocking, as of LU factorisation (LAPACK), for arbitrary updates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Expr, Load, Var, literal
from weft.ir.scop import Access, Body, Constraint, Scop, Statement, Tensor
from weft.polyhedral.analysis.linear import between, box
from weft.polyhedral.transform.edit import origin_of
from weft.polyhedral.transform.initial import in_textual_order
from weft.polyhedral.transform.scheduled import (
    Scheduled,
    fresh,
    path_to,
    positive,
    transformation,
)

_PARTS = ("low", "corner", "high")  # of rows or columns: before the block's, the block's, after
_WHEN = {"low": "before", "high": "after"}  # what these read of the block's rows or columns
_GAP = 8  # between neighbouring places, so that statements fit before and after each
_BEFORE = 3  # of them


@dataclass(frozen=True, slots=True)
class _Cycle:
    """``P[i, j] ⊕= f(P[i, k], P[k, j])``: the dims, and which reads are of its column and row."""

    statement: Statement
    k: str
    i: str
    j: str
    column: int  # the number of the read P[i, k]
    row: int  # of P[k, j]
    before: tuple[str, ...] = ()  # ``row_conditions``


@transformation
def panels(scheduled: Scheduled, statement: str, size: int) -> Scheduled:
    """``statement``, an update by its own rows and columns over a box, in blocks of ``size`` steps.

    For the order of the source. Raises ``IllegalScheduleError``: WEFT-E0451 where there is no such
    statement, E0463 where it is no such update, or in another order, E0460 for a size below 1.
    """
    path_to(scheduled.tree, statement)
    found = in_panels(scheduled.scop, statement, positive("the size", size))
    if found is None:
        raise IllegalScheduleError(
            "WEFT-E0463",
            f"{statement} has no panels",
            why="it is no update P[i, j] += f(P[i, k], P[k, j]) over a box",
        )
    return in_textual_order(scheduled, found[0], "panels")


def in_panels(scop: Scop, statement: str, size: int) -> tuple[Scop, tuple[str, ...]] | None:
    """``scop`` with ``statement`` in blocks of ``size`` steps; the names of all its new statements.

    None where the statement is no such update over a box.
    """
    found = _cycle(scop.statement(statement))
    if found is None:
        return None
    found = replace(found, before=row_conditions(scop, statement))
    spread = replace(scop, statements=tuple(map(_spread, scop.statements)))
    taken = {s.name for s in scop.statements}
    names = {t.name for t in scop.tensors}
    made = _Panels(replace(found, statement=spread.statement(statement)), spread, size)
    new, tensors = made.build(taken, names)
    statements: list[Statement] = []
    for s in spread.statements:
        statements += new if s.name == statement else (s,) if s.name not in found.before else ()
    result = replace(spread, statements=tuple(statements), tensors=(*spread.tensors, *tensors))
    return result, tuple(s.name for s in new)


def _cycle(s: Statement) -> _Cycle | None:
    loops = tuple(p for p in s.position if isinstance(p, str))
    if s.update is None or len(loops) != 3 or set(box(s)) != set(s.dims):
        return None
    k, i, j = loops
    (write,) = s.writes[:1]
    if len(s.writes) != 1 or write.indices != (Var(i), Var(j)) or write.guard or write.may:
        return None
    own = {a.indices: n for n, a in enumerate(s.reads) if a.tensor == write.tensor}
    column, row = own.get((Var(i), Var(k))), own.get((Var(k), Var(j)))
    if column is None or row is None or len(own) != 2 or any(a.guard for a in s.reads):
        return None
    return _Cycle(s, k, i, j, column, row)


def row_conditions(scop: Scop, statement: str) -> tuple[str, ...]:
    """The statements that go with ``statement`` into blocks of steps: temporaries for a row of one
    step, ``t[k, i] = g(P[i, k])``, worked out before the row's loop, for ``statement`` alone."""
    c = _cycle(scop.statement(statement))
    if c is None:
        return ()
    place = c.statement.position.index(c.i) + 1
    around, after = c.statement.position[:place], c.statement.position[place]
    return tuple(
        s.name
        for s in scop.statements
        if len(s.position) == place + 1 and s.position[:place] == around
        if s.position[place] < after and _of_its_row(scop, s, c)  # type: ignore[operator]
    )


def _of_its_row(scop: Scop, s: Statement, c: _Cycle) -> bool:
    """Whether ``s`` works out temporaries that only ``c`` reads, of elements of its column and of
    what nothing writes."""
    (target,) = c.statement.writes
    made = {w.tensor for w in s.writes}
    readers = {x.name for x in scop.statements for read in x.reads if read.tensor in made}
    written = {w.tensor for x in scop.statements for w in x.writes}
    return (
        s.update is None
        and set(box(s)) == set(s.dims)
        and readers <= {c.statement.name}
        and all(scop.tensor(name).role == "temp" for name in made)
        and all(
            read.indices == (Var(c.i), Var(c.k)) if read.tensor == target.tensor else
            read.tensor not in written
            for read in s.reads
        )
    )  # fmt: skip


def _spread(s: Statement) -> Statement:
    position = tuple(p if isinstance(p, str) else p * _GAP + _BEFORE for p in s.position)
    return replace(s, position=position)


class _Panels:
    def __init__(self, cycle: _Cycle, scop: Scop, size: int) -> None:
        self.c, self.scop, self.size = cycle, scop, size
        self.tensor = scop.tensor(cycle.statement.writes[0].tensor)
        k = Var(cycle.k)
        self.first = k // size * size  # of the block

    def build(self, taken: set[str], names: set[str]) -> tuple[tuple[Statement, ...], list[Tensor]]:
        s, c = self.c.statement, self.c
        tensors = {
            (which, when): self._copy_tensor(which, fresh(f"{self.tensor.name}_{which}", names))
            for which in ("row", "column")
            for when in ("before", "after")
        }
        copies: dict[tuple[str, str], list[Statement]] = {}
        for (which, when), tensor in tensors.items():
            copies[which, when] = [
                self._copy(fresh(f"{s.name}_{which}", taken), which, when, tensor.name, where)
                for where in _PARTS
            ]
        conditions = [
            self._condition(name if where == "low" else fresh(name, taken), name, where)
            for name in c.before
            for where in _PARTS
        ]
        updates: list[Statement] = []
        for rows in _PARTS:
            for columns in _PARTS:
                # What comes before the block's columns reads a column before it changes.
                reads: dict[int, str] = {}
                if columns != "corner":
                    reads[c.column] = tensors["column", _WHEN[columns]].name
                if rows != "corner":
                    reads[c.row] = tensors["row", _WHEN[rows]].name
                where = (*self._where(c.i, rows), *self._where(c.j, columns))
                turns = self._turns() if rows != "corner" == columns else ((),)
                for turn in turns:
                    name = fresh(s.name, taken) if updates else s.name
                    updates.append(self._part(name, (*where, *turn), reads))
        return (
            *conditions, *copies["row", "before"], *copies["column", "before"], *updates,
            *copies["column", "after"], *copies["row", "after"],
        ), list(tensors.values())  # fmt: skip

    def _turns(self) -> tuple[tuple[Constraint, ...], ...]:
        """Before column k changes, when it does, and after: in each, a row is one vector."""
        step = Var(self.c.j) - Var(self.c.k)
        turns = Constraint(-step - 1), Constraint(step, equality=True), Constraint(step - 1)
        return tuple((turn,) for turn in turns)

    def _where(self, dim: str, part: str) -> tuple[Constraint, ...]:
        """Where ``dim`` is in the block, before it or after it."""
        match part:
            case "low":
                return (Constraint(self.first - 1 - Var(dim)),)
            case "high":
                return (Constraint(Var(dim) - self.first - self.size),)
        return self._within(dim)

    def _within(self, dim: str) -> tuple[Constraint, ...]:
        return (
            Constraint(Var(dim) - self.first),
            Constraint(self.first + (self.size - 1) - Var(dim)),
        )

    def _part(
        self,
        name: str,
        where: tuple[Constraint, ...],
        reads: Mapping[int, str],
    ) -> Statement:
        s = self.c.statement
        changed = list(s.reads)
        for number, copy in reads.items():
            along = self.c.j if number == self.c.row else self.c.i
            changed[number] = Access(copy, self._place(along))
        return replace(
            s,
            name=name,
            domain=(*s.domain, *where),
            reads=tuple(changed),
            origin=origin_of(s),
        )

    def _condition(self, name: str, whole: str, where: str) -> Statement:
        """The part of a condition for the rows before the block's, the block's, or those after."""
        s = self.scop.statement(whole)
        domain = (*s.domain, *self._where(self.c.i, where))
        return replace(s, name=name, domain=domain, origin=origin_of(s))

    # ---- copies ---------------------------------------------------------------------------------

    def _place(self, along: str) -> tuple[Expr, ...]:
        k = Var(self.c.k)
        return (k // self.size, k % self.size, Var(along))

    def _copy_tensor(self, which: str, name: str) -> Tensor:
        steps = box(self.c.statement)[self.c.k][1]
        along = self.tensor.shape[1 if which == "row" else 0]
        shape = ((steps + (self.size - 1)) // self.size, literal(self.size), along)
        return Tensor(name, shape, self.tensor.dtype, "temp", "global", contracted=1)

    def _copy(self, name: str, which: str, when: str, tensor: str, where: str) -> Statement:
        """Copies a part of row or column k of the tensor, before or after step k changes it."""
        c = self.c
        s = c.statement
        along, fixed = (c.j, c.i) if which == "row" else (c.i, c.j)
        element = s.reads[c.row if which == "row" else c.column]
        dims = (c.k, along) if when == "before" else (c.k, c.i, c.j)
        domain = [*between(box(s), (c.k, along)), *self._where(along, where)]
        if when == "after":
            domain.append(Constraint(Var(fixed) - Var(c.k), equality=True))
        value = Load(0, (), self.tensor.dtype)
        return Statement(
            name,
            dims,
            tuple(domain),
            self._position(which, when, _PARTS.index(where)),
            (Access(tensor, self._place(along)),),
            (element,),
            Body((), (value,)),
        )

    def _position(self, which: str, when: str, part: int) -> tuple[int | str, ...]:
        c0, k, c1, i, c2, j, c3 = self.c.statement.position
        assert isinstance(c1, int) and isinstance(c2, int) and isinstance(c3, int)
        before, after = part - _BEFORE, part + 1
        match which, when:
            case "row", "before":
                return (c0, k, c1 + before, j, 0)
            case "row", "after":
                return (c0, k, c1, i, c2 + after, j, 0)
            case "column", "before":
                return (c0, k, c1, i, c2 + before)
        return (c0, k, c1, i, c2, j, c3 + after)
