"""A reduction with other loops, over operands that are made from its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from weft.accel.work import Gather, Read, Work
from weft.ir.scalar_affine import Affine, to_expr, variable
from weft.ir.scalar_expr import Expr, Literal, Var, literal
from weft.ir.scop import Access, Constraint, Scop, Statement, Tensor


def rearranged(
    work: Work,
    extents: Mapping[str, int],
    operands: Sequence[Read],
    reads: Sequence[Read],
    write: Read,
    shape: tuple[int, ...],
    gather: Gather | None,
) -> Work:
    """``work`` over loops of ``extents``; its results are in a tensor of ``shape``."""
    kept = tuple(_without(read, extents) for read in operands)
    write = _without(write, extents)
    return Work(
        _scop(work.scop, kept, write, shape),
        _statement(work.statement, extents, kept, write),
        extents,
        kept,
        work.start,
        work.value,
        tuple(_without(read, extents) for read in reads),
        write,
        gather,
    )


def form_dims(form: Affine) -> set[str]:
    """The loops that ``form`` depends on."""
    return {str(term) for term, _ in form.terms}


def sizes_of(tensor: Tensor) -> tuple[int, ...]:
    """Of its axes."""
    return tuple(int(s.value) for s in tensor.shape if isinstance(s, Literal))


def unused(name: str, dims: Collection[str]) -> str:
    """``name``, or a longer one that is none of ``dims``."""
    while name in dims:
        name += "_"
    return name


def affine(terms: Mapping[str, int], constant: int) -> Affine:
    """The sum of ``terms``, loop → coefficient, and ``constant``."""
    form = Affine((), constant)
    for name, c in terms.items():
        form = form + variable(name).scaled(c)
    return form


def _without(read: Read, extents: Mapping[str, int]) -> Read:
    """``read`` without other dims than those of ``extents``: they have extent 1."""
    forms = []
    for form in read.indices:
        terms = {str(t): c for t, c in form.terms if str(t) in extents}
        forms.append(affine(terms, form.constant))
    return replace(read, indices=tuple(forms))


def _statement(
    old: Statement, extents: Mapping[str, int], operands: Sequence[Read], write: Read
) -> Statement:
    domain = []
    for dim, size in extents.items():
        domain += [Constraint(Var(dim)), Constraint(literal(size - 1) - Var(dim))]
    assert old.update is not None, "it sums up"
    written = {d for form in write.indices for d in form_dims(form)}
    return replace(
        old,
        dims=tuple(extents),
        domain=tuple(domain),
        position=(),
        writes=(Access(write.tensor, _exprs(write)),),
        reads=tuple(Access(_name(r, n), _exprs(r)) for n, r in enumerate(operands)),
        update=replace(old.update, dims=tuple(d for d in extents if d not in written)),
    )


def _scop(scop: Scop, operands: Sequence[Read], write: Read, shape: tuple[int, ...]) -> Scop:
    """``scop`` with what is made for ``operands``, and with the results in their new shape."""
    made = tuple(
        replace(
            scop.tensor(read.tensor),
            name=_name(read, n),
            shape=tuple(literal(size) for size in read.made.made),
        )
        for n, read in enumerate(operands)
        if read.made is not None
    )
    tensors = tuple(
        replace(t, shape=tuple(literal(n) for n in shape)) if t.name == write.tensor else t
        for t in scop.tensors
    )
    return replace(scop, tensors=(*tensors, *made))


def _name(read: Read, number: int) -> str:
    return f"{read.tensor}_made_{number}" if read.made is not None else read.tensor


def _exprs(read: Read) -> tuple[Expr, ...]:
    return tuple(to_expr(form) for form in read.indices)
