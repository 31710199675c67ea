"""Transfers: operations that copy between a main memory and another one."""

from __future__ import annotations

from dataclasses import replace

from weft.accel.capabilities import Address, Span, Transfer
from weft.accel.read_addresses import Bounds, NotUnderstood, Reader, indices
from weft.ir.scalar_expr import Expr, Literal, Load, Select, Var, literal, substitute
from weft.ir.scalar_polynomial import Polynomial, add, polynomial, scaled
from weft.ir.scop import Access, Constraint, Statement
from weft.polyhedral.analysis.linear import mentions


def read_transfer(reader: Reader) -> Transfer:
    """Raises ``NotUnderstood``."""
    (statement, *others) = reader.scop.statements
    if others or len(statement.reads) != 1 or statement.update:
        raise NotUnderstood("it touches main memory, and is no copy")
    (write,), (read,) = statement.writes, statement.reads
    ends = [reader.machine.memory(reader.memory(a.tensor)) for a in (write, read)]
    if all(end.depth is None for end in ends):
        raise NotUnderstood("it copies from main memory to main memory")
    into = ends[1].depth is None
    inside, trips = reader.bounds(statement)
    moving = [d for d in inside if any(mentions(indices(a)[0], (d,)) for a in (write, read))]
    kept = {d: n for d, n in inside.items() if d not in moving}
    element = reader.element(write, kept)
    if element != reader.element(read, kept) or {v.name for v in element if isinstance(v, Var)} != {
        *kept
    }:
        raise NotUnderstood("what it copies does not keep its place inside of an element")
    _check_copy(statement, read)
    bounds: Bounds = {**trips, **{d: (literal(0), literal(inside[d])) for d in moving}}
    dims = [d for d in statement.dims if d in bounds]
    if len(dims) > 2:
        raise NotUnderstood("it copies more than rows of neighbours: more than two loops move it")
    spans = [_span(reader, dim, bounds[dim], read.guard) for dim in dims]
    # In main memory, addresses start at the first iteration that is no padding.
    moved = {d: Var(d) + Var(s.before) for d, s in zip(dims, spans, strict=True) if s.before}
    shifted = replace(
        read,
        indices=tuple(substitute(i, moved) for i in read.indices),
        body_indices=tuple(substitute(i, moved) for i in read.body_indices),
    )
    main, local = (shifted, write) if into else (write, read)
    at = reader.address(main, dims, kept, None)
    one = Span(offset=1)
    if len(dims) == 2:
        rows, columns = spans
    elif dims and at.steps.get(dims[0]) != 1:
        rows, columns = spans[0], one
    else:
        rows, columns = one, (spans[0] if dims else one)
    if columns != one and at.steps.get(dims[-1]) != 1:
        raise NotUnderstood("elements of a row do not lie side by side in main memory")
    step = at.steps.get(dims[0], 0) if rows != one else 0
    return Transfer(
        reader.operation, _dense(reader, local, dims, columns), at, into, rows, columns, step
    )


def _check_copy(statement: Statement, read: Access) -> None:
    """Refuse conversions, and padding other than zeros."""
    (result,) = statement.body.results
    match result:
        case Load():
            return
        case Select(_, Load(), Literal(value=0)) if read.guard:
            return
    raise NotUnderstood("it changes what it copies: a copy fills with zeros, and does nothing else")


def _span(
    reader: Reader, dim: str, bounds: tuple[Expr, Expr], guard: tuple[Constraint, ...]
) -> Span:
    """``dim`` runs over padding, then over elements, then over padding."""
    low, high = (polynomial(b) for b in bounds)
    if low:
        raise NotUnderstood(f"{dim} does not begin at 0")
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
    if not size.keys() - {()}:
        name, offset = None, size.get((), 0)
    else:
        name, offset = reader.field(size, f"the size along {dim}")
    return Span(
        name,
        reader.only_field(before, f"what is before {dim}") if before else None,
        reader.only_field(after, f"what is after {dim}") if after else None,
        offset,
    )


def _dense(reader: Reader, local: Access, dims: list[str], columns: Span) -> Address:
    """The address of the first element, of contiguous rows."""
    width: Expr = literal(columns.offset)
    for name in (columns.before, columns.size, columns.after):
        if name is not None:
            width = width + Var(name)
    place: Expr = literal(0)
    if dims:
        place = Var(dims[-1])
    if len(dims) == 2:
        place = place + Var(dims[0]) * width
    rest = add(polynomial(indices(local)[0]), scaled(polynomial(place), -1))
    base = []
    constant = rest.pop((), 0)
    for monomial, factor in rest.items():
        match monomial:
            case (Var(name),) if name in reader.fields:
                base.append((name, factor))
            case _:
                raise NotUnderstood(f"rows do not lie side by side in {local.tensor}")
    base.sort(key=lambda each: -each[1])
    return Address(reader.memory(local.tensor), tuple(base), constant, None, {})
