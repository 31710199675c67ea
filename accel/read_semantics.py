"""Capabilities of an accelerator's operations, derived from their semantics (``capabilities``).

Addresses are polynomials of fields and loop variables. The compiler cannot use operations of other
forms than ``capabilities`` lists, and says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.accel.capabilities import (
    Address,
    Capabilities,
    Compute,
    Copy,
    HardwareLoop,
    Transfer,
    Words,
)
from weft.accel.read_addresses import Bounds, NotUnderstood, Reader, indices
from weft.accel.read_transfer import read_transfer
from weft.ir.accelerator import Accelerator, Operation
from weft.ir.dtypes import DType
from weft.ir.instruction import ACCUMULATOR
from weft.ir.scalar_expr import Expr, Literal, Load, Select, Var, rewrite, substitute, walk
from weft.ir.scalar_polynomial import add, polynomial, scaled
from weft.ir.scop import Access, Body, Scop, Statement
from weft.polyhedral.analysis.linear import mentions


def read_semantics(machine: Accelerator, semantics: Mapping[str, Scop]) -> Capabilities:
    """The capabilities of ``machine``, whose operations have ``semantics``, by name."""
    transfers: list[Transfer] = []
    computes: list[Compute] = []
    refusals: dict[str, str] = {}
    for operation in machine.operations:
        if operation.name not in semantics:
            continue
        try:
            found = _read(machine, operation, semantics[operation.name])
        except NotUnderstood as no:
            refusals[operation.name] = f"{no}{_where(semantics[operation.name])}"
            continue
        if isinstance(found, Transfer):
            transfers.append(found)
        else:
            computes.append(found)
    return Capabilities(tuple(transfers), tuple(computes), refusals)


def _where(scop: Scop) -> str:
    origins = [s.origin.source for s in scop.statements if s.origin is not None]
    return f" ({origins[-1]})" if origins else ""


def _read(machine: Accelerator, operation: Operation, scop: Scop) -> Transfer | Compute:
    reader = Reader(machine, operation, scop)
    if not scop.statements:
        raise NotUnderstood("it does nothing")
    touched = {a.tensor for s in scop.statements for a in (*s.reads, *s.writes)}
    for tensor in scop.tensors:
        if tensor.role == "temp" and tensor.name in touched:
            raise NotUnderstood(
                f"{tensor.name} is no memory, and not just a name for a value: sums are added up "
                "in the memory itself"
            )
    if any(machine.memory(reader.memory(name)).depth is None for name in touched):
        return read_transfer(reader)
    return _Computation(reader).read()


class _Computation:
    def __init__(self, reader: Reader) -> None:
        self.reader, self.scop = reader, reader.scop

    def read(self) -> Compute:
        start, main, others = self._parts()
        if len(main.writes) != 1 or len(main.body.results) != 1:
            raise NotUnderstood("it has more than one result")
        inside, bounds = self.reader.bounds(main)
        words = self._words(main, bounds)
        self.inside, self.bounds, self.words = inside, bounds, words
        self.listed = words.dim if words is not None else None
        loops = tuple(self._hardware_loop(dim, bounds[dim]) for dim in bounds if dim != self.listed)
        numbers = [
            n
            for n, read in enumerate(main.reads)
            if words is None or self.reader.memory(read.tensor) != words.memory
        ]
        target = self._address(main.writes[0])
        at = {n: self._address(main.reads[n]) for n in numbers}
        own = {n for n in numbers if at[n] == target and self._same(main.reads[n], main.writes[0])}
        if own and main.update is not None:
            raise NotUnderstood("what it adds depends on what was there")
        operands = [n for n in numbers if n not in own]
        step = self._step(main, operands, own)
        first, repeats = self._first(start, main, target)
        return Compute(
            self.reader.operation,
            step,
            inside,
            loops,
            words,
            target,
            tuple(at[n] for n in operands),
            tuple(self._copy(each, target) for each in others),
            first,
            repeats,
        )

    def _parts(self) -> tuple[Statement | None, Statement, list[Statement]]:
        """(what initialises its target, what it computes, what is copied from that)."""
        first, *others = self.scop.statements
        sums = others and others[0].update is not None and first.update is None
        if sums and others[0].writes[0].tensor == first.writes[0].tensor:
            return first, others[0], others[1:]
        return None, first, others

    def _address(self, access: Access) -> Address:
        return self.reader.address(access, self.bounds, self.inside, self.listed)

    def _same(self, one: Access, other: Access) -> bool:
        element = self.reader.element
        return element(one, self.inside) == element(other, self.inside)

    def _dtype(self, read: Access) -> DType:
        return self.scop.tensor(read.tensor).dtype

    def _step(self, main: Statement, operands: list[int], own: set[int]) -> Statement:
        """What it computes in one iteration, over operands by number. Reads of its own target are
        no operands."""
        order = {n: Load(k, (), self._dtype(main.reads[n])) for k, n in enumerate(operands)}
        order |= {n: Load(-1, (), self._dtype(main.reads[n])) for n in own}
        lets: dict[str, Expr] = {}
        for name, value in main.body.lets:
            lets[name] = substitute(value, lets)
        result = rewrite(substitute(main.body.results[0], lets), lambda e: _renumbered(e, order))
        self._check_value(main, result)
        element = self.reader.element(main.writes[0], self.inside)
        inside = self.inside
        update = main.update
        if update is not None:
            summed = (d for d in update.dims if d in inside)
            kept = tuple(d for d in summed if not any(mentions(i, (d,)) for i in element))
            update = replace(update, dims=kept)
        return Statement(
            "step",
            tuple(inside),
            (),
            (0, *(part for dim in inside for part in (dim, 0))),
            (Access(ACCUMULATOR, element),),
            tuple(
                Access(f"operand{k}", self.reader.element(main.reads[n], inside))
                for k, n in enumerate(operands)
            ),
            Body((), (result,)),
            update,
        )

    def _check_value(self, main: Statement, result: Expr) -> None:
        """Refuse values that depend on loop variables or, by a select, on fields."""
        for node in walk(result):
            if isinstance(node, Var) and node.name in main.dims:
                raise NotUnderstood(f"it computes with {node.name}, the number of a turn")
            if isinstance(node, Select) and main.update is None:
                loads = [e for side in node.children[1:] for e in walk(side) if _loads(e)]
                fields = [e.name for e in walk(node.children[0]) if isinstance(e, Var)]
                narrow = [f for f in fields if self._width(f) == 1]
                if narrow and loads:
                    raise NotUnderstood(
                        f"what it does depends on {narrow[0]}: make two operations of it, told "
                        f"apart by a value of that field, Field({narrow[0]!r}, 1, value=…)"
                    )

    def _width(self, field: str) -> int:
        every = self.reader.operation.encoding.fields
        return next((f.width for f in every if f.name == field), 0)

    def _hardware_loop(self, dim: str, bounds: tuple[Expr, Expr]) -> HardwareLoop:
        low, high = bounds
        count = add(polynomial(high), scaled(polynomial(low), -1))
        if polynomial(low):
            raise NotUnderstood(f"{dim} does not begin at 0")
        return HardwareLoop(dim, *self.reader.field(count, f"the number of turns along {dim}"))

    def _words(self, statement: Statement, bounds: Bounds) -> Words | None:
        """The loop over micro-operations: one that indexes a memory of scalars."""
        for read in statement.reads:
            match read.indices:
                case (Var(dim),) if dim in bounds and not read.may:
                    low, high = (polynomial(bound) for bound in bounds[dim])
                    begin = self.reader.only_field(low, f"the begin of {dim}")
                    end = self.reader.only_field(high, f"the end of {dim}")
                    return Words(dim, self.reader.memory(read.tensor), begin, end)
        return None

    def _first(
        self, start: Statement | None, main: Statement, target: Address
    ) -> tuple[Expr | None, frozenset[str]]:
        """(the initial value of the target, the loops that accumulate onto it: those that do not
        surround ``start``)."""
        if start is None:
            return None, frozenset()
        value = self._value(start)
        if start.reads or not isinstance(value, Literal):
            raise NotUnderstood("what its sum begins with is no number")
        inside, bounds = self.reader.bounds(start)
        renamed = self._renamed(inside, bounds)
        write = replace(
            start.writes[0], indices=tuple(substitute(i, renamed) for i in start.writes[0].indices)
        )
        names = {v.name for v in renamed.values() if isinstance(v, Var)}
        repeats = frozenset(d for d in self.bounds if d not in names and d != self.listed)
        moved = repeats & target.steps.keys()
        if moved or indices(write) != indices(main.writes[0]):
            raise NotUnderstood("what its sum begins with is not all that it adds to")
        return value, repeats

    def _value(self, statement: Statement) -> Expr:
        (result,) = statement.body.results
        return result

    def _renamed(self, inside: Mapping[str, int], bounds: Bounds) -> dict[str, Expr]:
        """The loops around the initialisation → those around the update, with equal trip counts."""
        found: dict[str, Expr] = {}
        for mine, theirs in ((inside, self.inside), (bounds, self.bounds)):
            for dim, size in mine.items():
                named = {v.name for v in found.values() if isinstance(v, Var)}
                same = [d for d, n in theirs.items() if n == size and d not in named]
                if not same:
                    raise NotUnderstood(f"its sum does not go through {dim}, where it begins")
                found[dim] = Var(dim if dim in same else same[0])
        return found

    def _copy(self, other: Statement, target: Address) -> Copy:
        """What ``other`` copies from the target to the same address of another memory."""
        (write,) = other.writes
        reads = {
            n: self._address(r)
            for n, r in enumerate(other.reads)
            if r.indices[:1] != (Var(self.listed or ""),)
        }
        place = self._address(write)
        same = replace(place, memory=target.memory) == target
        if not same or other.update is not None or any(at != target for at in reads.values()):
            raise NotUnderstood(f"what it writes into {write.tensor} is no function of its target")
        order = {n: Load(0, (), self._dtype(other.reads[n])) for n in reads}
        return Copy(place.memory, rewrite(self._value(other), lambda e: _renumbered(e, order)))


def _loads(node: Expr) -> bool:
    return isinstance(node, Load)


def _renumbered(node: Expr, order: Mapping[int, Load]) -> Expr | None:
    if isinstance(node, Load) and isinstance(node.source, int):
        return order.get(node.source, node)
    return None
