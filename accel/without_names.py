"""Scalars that only name a value are replaced by it.

x = A[i]; B[i] = f(x)   →   B[i] = f(A[i])
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from weft.frontend.scalar_expr import Expr, Load, rewrite, substitute
from weft.polyhedral.scop import Body, Scop, Statement


def without_names(scop: Scop) -> Scop:
    """``scop`` without temporaries of no dimensions that are written once, and read in the same
    iteration, before what they were computed from changes."""
    for tensor in scop.tensors:
        if tensor.role != "temp" or tensor.shape:
            continue
        made = [s for s in scop.statements if any(w.tensor == tensor.name for w in s.writes)]
        readers = [s for s in scop.statements if any(r.tensor == tensor.name for r in s.reads)]
        if len(made) == 1 and all(_follows(scop, made[0], reader) for reader in readers):
            statements = tuple(
                _inlined(s, made[0], tensor.name) for s in scop.statements if s is not made[0]
            )
            tensors = tuple(t for t in scop.tensors if t.name != tensor.name)
            scop = replace(scop, statements=statements, tensors=tensors)
    return scop


def _follows(scop: Scop, made: Statement, reader: Statement) -> bool:
    """Whether each instance of ``reader`` comes after one of ``made`` in the same iteration, and
    nothing in between writes to what that read."""
    block = made.position[:-1]
    if made.update is not None or len(made.writes) != 1 or reader is made:
        return False
    if reader.position[: len(block)] != block or made.position >= reader.position[: len(block) + 1]:
        return False
    if made.domain != reader.domain and made.dims == reader.dims:
        return False
    read = {access.tensor for access in made.reads}
    between = scop.statements[scop.statements.index(made) + 1 : scop.statements.index(reader)]
    return not any(write.tensor in read for s in between for write in s.writes)


def _inlined(statement: Statement, made: Statement, name: str) -> Statement:
    """``statement`` with the value of ``made`` for what it reads of ``name``."""
    if all(read.tensor != name for read in statement.reads):
        return statement
    kept = [n for n, read in enumerate(statement.reads) if read.tensor != name]
    numbers: dict[Hashable, int] = {n: k for k, n in enumerate(kept)}

    def moved(node: Expr) -> Expr | None:
        return _shifted(node, len(kept))

    value = rewrite(_value(made), moved)

    def change(node: Expr) -> Expr | None:
        match node:
            case Load(source=int() as n, indices=indices):
                return Load(numbers[n], indices, node.dtype) if n in numbers else value
        return None

    body = statement.body
    return replace(
        statement,
        reads=(*(statement.reads[n] for n in kept), *made.reads),
        body=Body(
            tuple((let, rewrite(each, change)) for let, each in body.lets),
            tuple(rewrite(each, change) for each in body.results),
        ),
    )


def _value(made: Statement) -> Expr:
    lets: dict[str, Expr] = {}
    for name, value in made.body.lets:
        lets[name] = substitute(value, lets)
    return substitute(made.body.results[0], lets)


def _shifted(node: Expr, by: int) -> Expr | None:
    match node:
        case Load(source=int() as n, indices=indices):
            return Load(n + by, indices, node.dtype)
    return None
