"""Axes of sums that a reader takes apart become one axis again.

    y[o] = s[o // 6, o - o // 6 * 6]   →   y[o] = s[o]

where a reshape stands between them: that of the groups of a convolution, say.
"""

from __future__ import annotations

from dataclasses import replace

from weft.frontend.scalar_affine import FloorDiv, to_affine, to_expr
from weft.frontend.scalar_expr import Expr, Literal
from weft.polyhedral.scop import Access, Scop, Statement


def joined_axes(scop: Scop) -> Scop:
    """``scop`` with neighbouring axes of its temporaries as one where that spares divisions."""
    for tensor in scop.tensors:
        if tensor.role == "temp":
            while (axis := _divided(scop, tensor.name)) is not None:
                scop = _joined(scop, tensor.name, axis)
    return scop


def _reads(scop: Scop, tensor: str) -> list[Access]:
    return [r for s in scop.statements for r in s.reads if r.tensor == tensor]


def _divided(scop: Scop, tensor: str) -> int | None:
    """An axis that all readers take apart from the next one, by divisions that go away."""
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
    """The index into ``axis`` and the next one together."""
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
