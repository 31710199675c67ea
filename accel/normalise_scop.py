"""Scops in the form that ``work`` recognises: scalars inlined, axes collapsed, constants folded.

x = A[i]; B[i] = f(x)   →   B[i] = f(A[i])
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from weft.ir.scalar_affine import FloorDiv, to_affine, to_expr
from weft.ir.scalar_expr import Expr, Literal, Load, literal, rewrite, substitute
from weft.ir.scop import Access, Body, Scop, Statement


def inline_scalars(scop: Scop) -> Scop:
    """``scop`` without zero-dimensional temporaries that are written once, and read in the same
    iteration before their operands change."""
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
    """Whether each instance of ``reader`` follows one of ``made`` in the same iteration, with no
    write to its operands in between."""
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
    """``statement`` with the value of ``made`` for its reads of ``name``."""
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


# ---- Collapsed axes: a reader's divisions that undo a reshape go.
#
#     y[o] = s[o // 6, o - o // 6 * 6]   →   y[o] = s[o]
#
# as for the groups of a convolution.


def collapse_axes(scop: Scop) -> Scop:
    """``scop`` with neighbouring axes of its temporaries merged if that removes divisions."""
    for tensor in scop.tensors:
        if tensor.role == "temp":
            while (axis := _divided(scop, tensor.name)) is not None:
                scop = _joined(scop, tensor.name, axis)
    return scop


def _reads(scop: Scop, tensor: str) -> list[Access]:
    return [r for s in scop.statements for r in s.reads if r.tensor == tensor]


def _divided(scop: Scop, tensor: str) -> int | None:
    """An axis that all readers index, with the next one, by quotient and remainder of one index."""
    sizes = scop.tensor(tensor).shape
    reads = _reads(scop, tensor)
    if not reads or any(r.may or r.guard for r in reads):
        return None
    for axis in range(len(sizes) - 1):
        size = sizes[axis + 1]
        if isinstance(size, Literal) and all(
            _divides(r.indices[axis]) and not _divides(_one(r, axis, size)) for r in reads
        ):
            return axis
    return None


def _divides(index: Expr) -> bool:
    form = to_affine(index)
    return form is None or any(isinstance(term, FloorDiv) for term, _ in form.terms)


def _one(access: Access, axis: int, size: Expr) -> Expr:
    """The index into ``axis`` and the next one, merged."""
    whole = access.indices[axis] * size + access.indices[axis + 1]
    form = to_affine(whole)
    return whole if form is None else to_expr(form)


def _joined(scop: Scop, tensor: str, axis: int) -> Scop:
    size = scop.tensor(tensor).shape[axis + 1]

    def access(a: Access) -> Access:
        if a.tensor != tensor:
            return a
        indices = (*a.indices[:axis], _one(a, axis, size), *a.indices[axis + 2 :])
        return replace(a, indices=indices)

    def statement(s: Statement) -> Statement:
        return replace(s, writes=tuple(map(access, s.writes)), reads=tuple(map(access, s.reads)))

    tensors = []
    for each in scop.tensors:
        if each.name == tensor:
            shape = each.shape
            each = replace(each, shape=(*shape[:axis], shape[axis] * size, *shape[axis + 2 :]))
        tensors.append(each)
    return replace(scop, tensors=tuple(tensors), statements=tuple(map(statement, scop.statements)))


# ---- Constant scalars.
#
# y[i] = s[i] >> shift[] with shift = 7 → y[i] = s[i] >> 7
#
# It can be an immediate then.


def fold_scalar_constants(scop: Scop, constants: Mapping[str, np.ndarray[Any, Any]]) -> Scop:
    """``scop`` with the scalars among ``constants``, by names of its tensors, substituted."""
    numbers = {
        name: array.reshape(-1)[0].item() for name, array in constants.items() if array.size == 1
    }
    if not numbers:
        return scop
    return replace(scop, statements=tuple(_replaced(s, numbers) for s in scop.statements))


def _replaced(statement: Statement, numbers: Mapping[str, Any]) -> Statement:
    kept = [n for n, read in enumerate(statement.reads) if read.tensor not in numbers]
    if len(kept) == len(statement.reads):
        return statement
    moved: dict[Hashable, int] = {n: k for k, n in enumerate(kept)}

    def change(node: Expr) -> Expr | None:
        match node:
            case Load(source=int() as n, indices=indices):
                if n in moved:
                    return Load(moved[n], indices, node.dtype)
                return literal(numbers[statement.reads[n].tensor], node.dtype)
        return None

    body = statement.body
    return replace(
        statement,
        reads=tuple(statement.reads[n] for n in kept),
        body=Body(
            tuple((name, rewrite(each, change)) for name, each in body.lets),
            tuple(rewrite(each, change) for each in body.results),
        ),
    )
