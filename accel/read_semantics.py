"""What operations of an accelerator can do, read off their semantics (``abilities``).

Addresses are polynomials of fields and loops; what is none of the forms that ``abilities`` lists is
of no use to the compiler, which says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.accel.abilities import (
    Abilities,
    Address,
    Bits,
    Compute,
    Copy,
    Span,
    Step,
    Transfer,
    Turn,
    Words,
)
from weft.accel.accelerator import Accelerator, Operation
from weft.dtypes import DType
from weft.frontend.scalar_expr import (
    Apply,
    Cast,
    Expr,
    Literal,
    Load,
    Select,
    Var,
    literal,
    rewrite,
    substitute,
)
from weft.frontend.scalar_polynomial import Polynomial, add, polynomial, scaled
from weft.polyhedral.analysis.linear import box, mentions
from weft.polyhedral.instruction import ACCUMULATOR
from weft.polyhedral.scop import Access, Body, Constraint, Scop, Statement


class _No(Exception):
    """Why not."""


def read_semantics(machine: Accelerator, semantics: Mapping[str, Scop]) -> Abilities:
    """What the operations of ``machine`` can do, whose semantics are ``semantics`` by name."""
    transfers: list[Transfer] = []
    computes: list[Compute] = []
    refusals: dict[str, str] = {}
    for operation in machine.operations:
        if operation.name not in semantics:
            continue
        reader = _Reader(machine, operation, semantics[operation.name])
        try:
            found = reader.read()
        except _No as no:
            refusals[operation.name] = str(no)
            continue
        if isinstance(found, Transfer):
            transfers.append(found)
        else:
            computes.append(found)
    return Abilities(tuple(transfers), tuple(computes), refusals)


class _Reader:
    def __init__(self, machine: Accelerator, operation: Operation, scop: Scop) -> None:
        self.machine, self.operation, self.scop = machine, operation, scop
        self.fields = {each.name for each in operation.encoding.fields}

    def read(self) -> Transfer | Compute:
        first, *others = self.scop.statements
        if len(first.writes) != 1:
            raise _No("its statement writes several elements")
        ends = {self._memory(first.writes[0].tensor)}
        ends |= {self._memory(read.tensor) for read in first.reads}
        if any(self.machine.memory(name).depth is None for name in ends):
            return self._transfer(first)
        return self._compute(first, others)

    def _memory(self, tensor: str) -> str:
        return self.operation.memories.get(tensor, tensor)

    # ---- loops ------------------------------------------------------------------------------

    def _bounds(self, statement: Statement) -> tuple[dict[str, int], dict[str, tuple[Expr, Expr]]]:
        """Extents of the dims inside the instruction, bounds of its turns."""
        inside: dict[str, int] = {}
        turns: dict[str, tuple[Expr, Expr]] = {}
        ranges = box(statement)
        for dim in statement.dims:
            if dim not in ranges:
                raise _No(f"the bounds of {dim} depend on other loops")
            match ranges[dim]:
                case Literal(value=0), Literal(value=end):
                    inside[dim] = int(end)
                case bounds:
                    turns[dim] = bounds
        return inside, turns

    def _field(self, value: Polynomial, what: str) -> str:
        match list(value.items()):
            case [((Var(name),), 1)] if name in self.fields:
                return name
        raise _No(f"{what} is not just a field")

    # ---- addresses --------------------------------------------------------------------------

    def _address(self, access: Access, turns: Mapping[str, object], words: str | None) -> Address:
        index = _indices(access)[0]
        base: list[tuple[str, int]] = []
        steps: dict[str, Step] = {}
        constant, bits = 0, None
        for monomial, factor in polynomial(index).items():
            names = [each.name if isinstance(each, Var) else "" for each in monomial]
            match names:
                case []:
                    constant = factor
                case [name] if name in turns and name != words:
                    steps[name] = factor
                case [name] if name in self.fields:
                    base.append((name, factor))
                case [one, other] if factor == 1 and {one, other} & turns.keys():
                    dim, field = (one, other) if one in turns else (other, one)
                    if field not in self.fields or dim in steps:
                        raise _No(f"no address: {one} * {other}")
                    steps[dim] = field
                case [""] if factor == 1 and bits is None:
                    bits = _bits(monomial[0])
                case _:
                    raise _No(f"an address of {access.tensor} is no sum of fields and loops")
        base.sort(key=lambda each: -each[1])
        return Address(self._memory(access.tensor), tuple(base), constant, bits, steps)

    # ---- computations -----------------------------------------------------------------------

    def _compute(self, first: Statement, others: list[Statement]) -> Compute:
        inside, bounds = self._bounds(first)
        words = self._words(first, bounds)
        found = [
            self._turn(dim, bounds[dim]) for dim in bounds if words is None or dim != words.dim
        ]
        dim = words.dim if words is not None else None
        numbers = [
            n
            for n, read in enumerate(first.reads)
            if words is None or self._memory(read.tensor) != words.memory
        ]
        target = self._address(first.writes[0], bounds, dim)
        reads = [first.reads[n] for n in numbers]
        addresses = [self._address(read, bounds, dim) for read in reads]
        # What it reads of its own target is no operand.
        own = {
            n
            for n, read, at in zip(numbers, reads, addresses, strict=True)
            if at == target and _indices(read)[1:] == _indices(first.writes[0])[1:]
        }
        operands = [n for n in numbers if n not in own]
        order = {n: Load(k, (), self._dtype(first.reads[n])) for k, n in enumerate(operands)}
        order |= {n: Load(-1, (), self._dtype(first.reads[n])) for n in own}
        if len(first.body.results) != 1 or first.body.lets:
            raise _No("it has more than one result")
        result = rewrite(first.body.results[0], lambda e: _renumbered(e, order))
        if own and first.update is not None:
            raise _No("what it adds depends on what was there")
        step = Statement(
            "step",
            tuple(inside),
            (),
            (0, *(part for dim in inside for part in (dim, 0))),
            (Access(ACCUMULATOR, _indices(first.writes[0])[1:]),),
            tuple(
                Access(f"operand{k}", _indices(first.reads[n])[1:]) for k, n in enumerate(operands)
            ),
            Body((), (result,)),
            None
            if first.update is None
            else replace(
                first.update,
                dims=tuple(
                    d
                    for d in first.update.dims
                    if d in inside
                    and not any(mentions(i, (d,)) for i in _indices(first.writes[0])[1:])
                ),
            ),
        )
        at = dict(zip(numbers, addresses, strict=True))
        return Compute(
            self.operation,
            step,
            inside,
            tuple(found),
            words,
            target,
            tuple(at[n] for n in operands),
            tuple(self._copy(each, target, bounds, dim) for each in others),
        )

    def _dtype(self, read: Access) -> DType:
        return self.scop.tensor(read.tensor).dtype

    def _turn(self, dim: str, bounds: tuple[Expr, Expr]) -> Turn:
        low, high = bounds
        count = add(polynomial(high), scaled(polynomial(low), -1))
        offset = count.pop((), 0)
        if polynomial(low):
            raise _No(f"{dim} does not begin at 0")
        return Turn(dim, self._field(count, f"the number of turns along {dim}"), offset)

    def _words(self, statement: Statement, bounds: Mapping[str, tuple[Expr, Expr]]) -> Words | None:
        """The loop over micro-operations: one along which a memory of scalars is read."""
        for read in statement.reads:
            match read.indices:
                case (Var(dim),) if dim in bounds and not read.may:
                    low, high = bounds[dim]
                    begin = self._field(polynomial(low), f"the begin of {dim}")
                    end = self._field(polynomial(high), f"the end of {dim}")
                    return Words(dim, self._memory(read.tensor), begin, end)
        return None

    def _copy(
        self, other: Statement, target: Address, bounds: Mapping[str, object], words: str | None
    ) -> Copy:
        """What ``other`` copies of the target, to the same place in another memory."""
        (write,) = other.writes
        reads = {
            n: self._address(r, bounds, words)
            for n, r in enumerate(other.reads)
            if r.indices[:1] != (Var(words or ""),)
        }
        place = self._address(write, bounds, words)
        same = replace(place, memory=target.memory) == target
        if not same or other.update is not None or any(at != target for at in reads.values()):
            raise _No(f"what it writes into {write.tensor} is no function of its target")
        order = {n: Load(0, (), self._dtype(other.reads[n])) for n in reads}
        value = rewrite(other.body.results[0], lambda e: _renumbered(e, order))
        return Copy(place.memory, value)

    # ---- transfers --------------------------------------------------------------------------

    def _transfer(self, statement: Statement) -> Transfer:
        if len(self.scop.statements) != 1 or len(statement.reads) != 1 or statement.update:
            raise _No("it touches main memory, and is no copy")
        (write,), (read,) = statement.writes, statement.reads
        inside, bounds = self._bounds(statement)
        into = self.machine.memory(self._memory(read.tensor)).depth is None
        if _indices(write)[1:] != tuple(Var(d) for d in inside) != _indices(read)[1:]:
            raise _No("what it copies does not keep its place inside of an element")
        self._is_copy(statement, read)
        dims = tuple(bounds)
        if not 1 <= len(dims) <= 2:
            raise _No("it copies neither a row nor rows")
        spans = [self._span(dim, bounds[dim], read.guard) for dim in dims]
        # In main memory, turns count from the first one that is not filled with zeros.
        moved = {d: Var(d) + Var(s.before) for d, s in zip(dims, spans, strict=True) if s.before}
        shifted = replace(
            read,
            indices=tuple(substitute(i, moved) for i in read.indices),
            body_indices=tuple(substitute(i, moved) for i in read.body_indices),
        )
        from_, to = (shifted, write)
        main, local = (from_, to) if into else (to, from_)
        main_address = self._address(main, bounds, None)
        rows, columns = (Span(), spans[0]) if len(dims) == 1 else (spans[0], spans[1])
        local_address = self._dense(local, dims, columns)
        if main_address.steps.get(dims[-1]) != 1:
            raise _No("elements of a row do not lie side by side")
        step = main_address.steps.get(dims[0], 0) if len(dims) == 2 else 0
        return Transfer(self.operation, local_address, main_address, into, rows, columns, step)

    def _is_copy(self, statement: Statement, read: Access) -> None:
        """Refuse what changes values, or fills with anything but zeros."""
        (result,) = statement.body.results
        match result:
            case Load():
                return
            case Select(_, Load(), Literal(value=0)) if read.guard:
                return
        raise _No("it changes what it copies")

    def _span(self, dim: str, bounds: tuple[Expr, Expr], guard: tuple[Constraint, ...]) -> Span:
        """``dim`` goes over zeros, then over elements, then over zeros."""
        low, high = (polynomial(b) for b in bounds)
        if low:
            raise _No(f"{dim} does not begin at 0")
        before: Polynomial = {}
        end = high
        for each in guard:
            form = polynomial(each.expr)
            sign = form.pop((Var(dim),), 0)
            if sign == 1:
                before = scaled(form, -1)
            elif sign == -1:
                end = add(form, {(): 1})
        after = add(high, scaled(end, -1))
        size = add(end, scaled(before, -1))
        return Span(
            self._field(size, f"the size along {dim}"),
            self._field(before, f"what is before {dim}") if before else None,
            self._field(after, f"what is after {dim}") if after else None,
        )

    def _dense(self, local: Access, dims: tuple[str, ...], columns: Span) -> Address:
        """The address of the first element, of rows side by side."""
        width: Expr = literal(0)
        for name in (columns.before, columns.size, columns.after):
            if name is not None:
                width = width + Var(name)
        place: Expr = Var(dims[-1])
        if len(dims) == 2:
            place = place + Var(dims[0]) * width
        rest = add(polynomial(_indices(local)[0]), scaled(polynomial(place), -1))
        base = []
        constant = rest.pop((), 0)
        for monomial, factor in rest.items():
            match monomial:
                case (Var(name),) if name in self.fields:
                    base.append((name, factor))
                case _:
                    raise _No(f"rows do not lie side by side in {local.tensor}")
        base.sort(key=lambda each: -each[1])
        return Address(self._memory(local.tensor), tuple(base), constant, None, {})


def _indices(access: Access) -> tuple[Expr, ...]:
    return access.body_indices if access.may else access.indices


def _renumbered(node: Expr, order: Mapping[int, Load]) -> Expr | None:
    if isinstance(node, Load) and isinstance(node.source, int):
        return order.get(node.source, node)
    return None


def _bits(expr: Expr) -> Bits:
    """``int64(word >> place & mask)``."""
    while isinstance(expr, Cast):
        expr = expr.arg
    match expr:
        case Apply("and", (inner, Literal(value=mask))) if (int(mask) & (int(mask) + 1)) == 0:
            width = int(mask).bit_length()
        case inner:
            width = inner.dtype.bits
    place = 0
    match inner:
        case Apply("shr", (word, Literal(value=by))):
            inner, place = word, int(by)
    if not isinstance(inner, Load):
        raise _No("an operand's place is not some bits of a micro-operation")
    return Bits(place, min(width, inner.dtype.bits - place))
