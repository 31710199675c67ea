"""Inline a producer: a pointwise producer is computed where it is read, and its tensor disappears.

    T[i] = f(X[i])
    Y[j] = g(T[j + 1])        →   Y[j] = g(f(X[j + 1]))

Also known as: Halide ``compute_inline``, TVM ``compute_inline``, producer-consumer fusion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.ir.dtypes import DType
from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import (
    Cast,
    Expr,
    Literal,
    Load,
    Var,
    literal,
    rewrite,
    select,
    substitute,
    walk,
)
from weft.ir.scop import Access, Body, Constraint, Scop, Statement
from weft.polyhedral.transform.edit import accesses_of, remove
from weft.polyhedral.transform.scheduled import Scheduled, fresh, path_to, transformation


def inline_producer(scop: Scop, producer: str) -> Scop:
    """``scop`` without statement ``producer``, its body in every reader of its tensor.

    The producer must write one temporary, once per element, at plain distinct dims, and no reader
    may access it with data-dependent indices. Raises ``IllegalScheduleError`` otherwise.
    """
    statement = scop.statement(producer)
    reason = why_not_inline(scop, statement)
    if reason:
        raise IllegalScheduleError("WEFT-E0454", f"{producer} cannot be inlined", why=reason)
    tensor = statement.writes[0].tensor
    dtype = {t.name: t.dtype for t in scop.tensors}
    statements = tuple(
        _absorb(s, statement, tensor, dtype, {*s.dims, *scop.parameters})
        for s in scop.statements
        if s.name != producer
    )
    tensors = tuple(t for t in scop.tensors if t.name != tensor)
    return replace(scop, statements=statements, tensors=tensors)


def why_not_inline(scop: Scop, statement: Statement) -> str:
    """The reason why ``statement`` cannot be inlined, or ''."""
    if statement.update is not None:
        return "it is a reduction"
    if len(statement.writes) != 1:
        return "it writes several tensors"
    write = statement.writes[0]
    if scop.tensor(write.tensor).role != "temp":
        return f"{write.tensor} is visible outside"
    names = [i.name for i in write.indices if isinstance(i, Var)]
    if write.may or write.guard or any(not isinstance(i, (Var, Literal)) for i in write.indices):
        return "it does not write at its own dims"
    if sorted(names) != sorted(statement.dims) or len(set(names)) != len(names):
        return "it does not write at its own dims"
    uses = accesses_of(scop, write.tensor)
    if any(s.name != statement.name for s, _, is_write in uses if is_write):
        return f"{write.tensor} is written by other statements too"
    if any(a.may for _, a, is_write in uses if not is_write):
        return f"{write.tensor} is read at data-dependent indices"
    if any(_indexes(s, write.tensor) for s in scop.statements):
        return f"elements of {write.tensor} are indices"
    if any(s.name == statement.name for s, _, is_write in uses if not is_write):
        return "it reads itself"
    read = {a.tensor for a in statement.reads}
    readers = [(s, a) for s, a, is_write in uses if not is_write]
    at_once = all(beside(statement, s, a) for s, a in readers)
    later = _before(scop, statement, readers) if at_once else after(scop, statement)
    if any(w.tensor in read for s in later for w in s.writes):
        return "what it reads is overwritten before its readers run"
    return ""


def _indexes(statement: Statement, tensor: str) -> bool:
    """Whether an index of ``statement`` is computed from ``tensor``: lets are out of scope."""
    numbers = {k for k, access in enumerate(statement.reads) if access.tensor == tensor}
    return bool(numbers) and any(
        isinstance(node, Load) and node.source in numbers
        for access in statement.accesses
        for index in access.body_indices
        for node in walk(index)
    )


def beside(producer: Statement, reader: Statement, access: Access) -> bool:
    """Whether ``reader`` uses the value of the same iteration of the producer's loops."""
    loops = producer.position[:-1]
    return (
        any(isinstance(p, str) for p in loops)
        and reader.position[:-1] == loops
        and access.indices == producer.writes[0].indices
    )


def _before(
    scop: Scop, statement: Statement, readers: Sequence[tuple[Statement, Access]]
) -> tuple[Statement, ...]:
    """The statements that run between an instance of ``statement`` and its ``readers``, which are
    beside it. What these write themselves, they write after they have read."""
    names = [s.name for s in scop.statements]
    last = max((names.index(s.name) for s, _ in readers), default=0)
    return scop.statements[names.index(statement.name) + 1 : last]


def after(scop: Scop, statement: Statement) -> tuple[Statement, ...]:
    """The statements that run after some instance of ``statement``: the later ones, and those that
    share its outermost loop."""
    at = next(k for k, s in enumerate(scop.statements) if s.name == statement.name)
    nest = statement.position[:1]
    before = (s for s in scop.statements[:at] if nest and s.position[:1] == nest)
    return (*before, *scop.statements[at + 1 :])


def _absorb(
    reader: Statement,
    producer: Statement,
    tensor: str,
    dtype: Mapping[str, DType],
    names: set[str],
) -> Statement:
    """``reader`` with every read of ``tensor`` replaced by the producer's body."""
    if not any(a.tensor == tensor for a in reader.reads):
        return reader
    reads: list[Access] = []
    kept: list[int] = []  # places in ``reads`` of the reader's own accesses
    lets: list[tuple[str, Expr]] = []
    values: dict[int, Expr] = {}  # the reader's operand number -> what it becomes
    taken = names | {name for name, _ in reader.body.lets}
    for k, access in enumerate(reader.reads):
        if access.tensor == tensor:
            values[k] = _paste(access, producer, reads, lets, taken, dtype)
        else:
            values[k] = Load(len(reads), (), dtype[access.tensor])
            kept.append(len(reads))
            reads.append(access)
    for k in kept:
        moved = tuple(_instance(e, values, {}) for e in reads[k].body_indices)
        reads[k] = replace(reads[k], body_indices=moved)
    lets += [(name, _instance(e, values, {})) for name, e in reader.body.lets]
    results = tuple(_instance(e, values, {}) for e in reader.body.results)
    writes = tuple(
        replace(w, body_indices=tuple(_instance(e, values, {}) for e in w.body_indices))
        for w in reader.writes
    )
    body = Body(tuple(lets), results)
    return replace(reader, reads=tuple(reads), writes=writes, body=body)


def _paste(
    access: Access,
    producer: Statement,
    reads: list[Access],
    lets: list[tuple[str, Expr]],
    taken: set[str],
    dtype: Mapping[str, DType],
) -> Expr:
    """Append the producer's reads and lets for the instance that ``access`` reads; its value."""
    variables = {
        index.name: value
        for index, value in zip(producer.writes[0].indices, access.indices, strict=True)
        if isinstance(index, Var)
    }
    base = len(reads)
    operands: dict[int, Expr] = {
        k: Load(base + k, (), dtype[read.tensor]) for k, read in enumerate(producer.reads)
    }
    for read in producer.reads:
        moved = read.map(lambda expr: substitute(expr, variables))
        indices = tuple(_instance(e, operands, variables) for e in read.body_indices)
        reads.append(replace(moved, guard=(*access.guard, *moved.guard), body_indices=indices))
    (result,) = producer.body.results
    for name, expr in (*producer.body.lets, (f"{producer.name}_value", result)):
        value = _where(access.guard, _instance(expr, operands, variables))
        if _is_conversion(value):
            variables[name] = value
        else:
            new = fresh(name, taken)
            lets.append((new, value))
            variables[name] = Var(new, expr.dtype)
    return variables[name]


def _is_conversion(value: Expr) -> bool:
    """Whether ``value`` is an element, in another dtype perhaps: it needs no name, and what matches
    expressions sees what becomes of the element."""
    while isinstance(value, Cast):
        value = value.arg
    return isinstance(value, Load)


def _where(guard: tuple[Constraint, ...], value: Expr) -> Expr:
    """``value``, which is not evaluated unless ``guard`` holds: a let always is."""
    if any(isinstance(node, Load) for node in walk(value)):
        for c in guard:
            value = select(c.condition, value, literal(0, value.dtype))
    return value


def _instance(expr: Expr, operands: Mapping[int, Expr], variables: Mapping[str, Expr]) -> Expr:
    """``expr`` with operands and variables replaced."""

    def change(node: Expr) -> Expr | None:
        match node:
            case Var(name, _):
                return variables.get(name)
            case Load(int(operand), _, _):
                return operands.get(operand)
        return None

    return rewrite(expr, change)


# ---- Inline: a producer is computed where it is read, and its tensor disappears.
#
#     for i: T[i] = f(X[i])
#     for j: Y[j] = g(T[j + 1])        →   for j: Y[j] = g(f(X[j + 1]))
#
# Also known as: Halide ``compute_inline``, TVM ``compute_inline``, Exo ``inline_assign``.


@transformation
def inline(scheduled: Scheduled, statement: str) -> Scheduled:
    """``scheduled`` without ``statement``, its body in every reader of what it writes.

    It must write one temporary, alone, once per element, at plain distinct dims, what it reads must
    not change until its readers run, and no reader may access the tensor at data-dependent indices.
    Raises ``IllegalScheduleError``: WEFT-E0454 otherwise, E0451 where there is no such statement.
    """
    path_to(scheduled.tree, statement)
    scop = inline_producer(scheduled.scop, statement)
    return replace(scheduled, scop=scop, tree=remove(scheduled.tree, {statement}))
