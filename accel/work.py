"""Work for an accelerator in one form: a reduction and its epilogue.

    Work   ::= update: Statement | None, start, value: Expr, reads: Read…, write: Read, gather
    Read   ::= tensor, indices: Affine…, padded
    Gather ::= extents: dim -> size, indices: Expr…

``value`` is over ``Load(0)``, the result of ``update``, and ``Load(k + 1)``, ``reads[k]``. All
indices are over the dims of ``update``, or of the only statement. A ``padded`` read is a constant
outside of its tensor. With a ``gather``, the written tensor is in the order of the reduction, and
the program's result at a point of ``extents`` is its element at ``indices``; readers gather.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from weft.accel.normalise_scop import collapse_axes
from weft.accel.refusal import Refusal
from weft.ir.build import monoid
from weft.ir.dtypes import DType
from weft.ir.scalar_affine import Affine, Term, to_affine, to_expr
from weft.ir.scalar_condition import conjunction
from weft.ir.scalar_expr import (
    Cast,
    Expr,
    Literal,
    Load,
    Select,
    Var,
    cast,
    literal,
    rewrite,
    substitute,
    walk,
)
from weft.ir.scalar_printer import scalar_text
from weft.ir.scop import Access, Body, Scop, Statement, Update
from weft.polyhedral.analysis.linear import box

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class BlockDiagonal:
    """An array made from a tensor: its axes in the ``order`` (group, row, column, others), of sizes
    ``shape``; the rows and columns of ``groups`` groups form blocks on the diagonal, the rest is 0.
    """

    order: tuple[int, ...]
    shape: tuple[int, ...]
    groups: int

    def __str__(self) -> str:
        order, shape = (" ".join(map(str, each)) for each in (self.order, self.shape))
        return f"axes {order} of {shape}, {self.groups} groups as one"

    @property
    def made(self) -> tuple[int, ...]:
        """Its sizes: group, rows, columns, others."""
        groups, rows, columns, *others = self.shape
        return (groups // self.groups, rows * self.groups, columns * self.groups, *others)

    def of(self, array: Array) -> Array:
        """It, made from ``array``."""
        _, rows, columns, *_ = self.shape
        sizes = [0] * len(self.order)
        for place, size in zip(self.order, self.shape, strict=True):
            sizes[place] = size
        split = array.reshape(sizes).transpose(self.order)
        found = np.zeros(self.made, array.dtype)
        for n in range(self.groups):
            block = split[n :: self.groups]
            found[:, n * rows : (n + 1) * rows, n * columns : (n + 1) * columns] = block
        return found


@dataclass(frozen=True, slots=True)
class Columns:
    """An array made from a tensor: along ``dims``, of these sizes, it has the tensor's elements at
    ``indices`` or, where there is none, ``outside``. The dims from ``first`` on, ``merged`` of
    them, are one axis."""

    dims: Mapping[str, int]
    first: int
    merged: int
    indices: tuple[Affine, ...]
    outside: float

    def __str__(self) -> str:
        axes = " ".join(f"{dim}<{size}" for dim, size in self.dims.items())
        indices = ", ".join(scalar_text(to_expr(form)) for form in self.indices)
        return f"{axes} of {indices} else {self.outside}, {' '.join(self.together)} as one"

    @property
    def together(self) -> tuple[str, ...]:
        """The dims that are one axis."""
        return tuple(self.dims)[self.first : self.first + self.merged]

    @property
    def made(self) -> tuple[int, ...]:
        """Its sizes."""
        sizes = list(self.dims.values())
        end = self.first + self.merged
        return (*sizes[: self.first], prod(sizes[self.first : end]), *sizes[end:])

    def of(self, array: Array) -> Array:
        """It, made from ``array``."""
        rank = len(self.dims)
        points = {
            dim: np.arange(size).reshape([-1 if k == n else 1 for k in range(rank)])
            for n, (dim, size) in enumerate(self.dims.items())
        }
        places = [
            sum((c * points[str(term)] for term, c in form.terms), np.array(form.constant))
            for form in self.indices
        ]
        inside: Array = np.ones((1,) * rank, np.bool_)
        for at, size in zip(places, array.shape, strict=True):
            inside = inside & (at >= 0) & (at < size)
        values = array[tuple(np.where(inside, at, 0) for at in places)]
        found = np.where(inside, values, array.dtype.type(self.outside))
        return np.broadcast_to(found, list(self.dims.values())).reshape(self.made)


@dataclass(frozen=True, slots=True)
class Read:
    """``outside``: the value of a ``padded`` read there. ``made``: the read is of an array made
    from ``tensor``."""

    tensor: str
    indices: tuple[Affine, ...]
    padded: bool = False
    outside: float = 0
    made: BlockDiagonal | Columns | None = None


@dataclass(frozen=True, slots=True)
class Gather:
    extents: Mapping[str, int]
    indices: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Work:
    scop: Scop
    statement: Statement  # the update, or the only statement
    extents: Mapping[str, int]
    operands: tuple[Read, ...]  # of the update, by number of its reads
    start: float | None  # what the update begins with; None: there is no update
    value: Expr
    reads: tuple[Read, ...]
    write: Read
    gather: Gather | None = None


def work(scop: Scop) -> Work:
    """``scop``, a cluster that computes one tensor, as a reduction on one instruction and an
    epilogue. Producers must have been inlined (``inline_producer``). Raises ``Refusal`` if it has
    another form."""
    scop = collapse_axes(scop)
    if scop.parameters:
        raise Refusal(f"the size {scop.parameters[0]} is not known")
    updates = [s for s in scop.statements if s.update is not None]
    if len(updates) > 1:
        names = " and ".join(map(_called, updates))
        raise Refusal(f"{names} are sums of their own, and one is computed at a time")
    written = {w.tensor for s in updates for w in s.writes}
    inits = [s for s in scop.statements if s.update is None and s.writes[0].tensor in written]
    finals = [s for s in scop.statements if s not in updates and s not in inits]
    if len(finals) > 1 or any(len(s.writes) != 1 for s in scop.statements):
        raise Refusal("it has several results")
    if not updates:
        return _pointwise(scop, finals[0])
    return _folded(scop, updates[0], inits, finals)


def _pointwise(scop: Scop, final: Statement) -> Work:
    value, reads = _value(scop, final, None, {})
    return Work(
        scop, final, _extents(final), (), None, value, reads, _read(scop, final.writes[0], {})
    )


def _folded(scop: Scop, update: Statement, inits: list[Statement], finals: list[Statement]) -> Work:
    (target,) = update.writes
    assert update.update is not None, "it folds"
    if update.update.monoid.laws < {"associative", "commutative"}:
        raise Refusal(f"{_called(update)} keeps the order of its terms, and tiles change it")
    update, outside = _plain(scop, update)
    start = _start(inits)
    operands = tuple(_read(scop, read, {}, outside.get(n)) for n, read in enumerate(update.reads))
    extents = _extents(update)
    if not finals:
        value: Expr = Load(0, (), scop.tensor(target.tensor).dtype)
        return Work(scop, update, extents, operands, start, value, (), _read(scop, target, {}))
    (final,) = finals
    at = _read_at(final, target)
    dims = _matched(scop, final, target, at)
    if dims is not None:
        value, reads = _value(scop, final, target.tensor, dims)
        write = _read(scop, final.writes[0], dims)
        return Work(scop, update, extents, operands, start, value, reads, write)
    dims = _solved(final, at, target.indices)
    needed = {v for r in final.reads if r.tensor != target.tensor for v in _variables(r)}
    if not needed <= dims.keys():
        raise Refusal(f"{_called(final)} combines {target.tensor} with what lies in another order")
    value, reads = _value(scop, final, target.tensor, dims)
    reads = tuple(_padded_outside(scop, read, extents) for read in reads)
    write = _read(scop, target, {})
    if list(final.writes[0].indices) != [Var(d) for d in final.dims]:
        raise Refusal(f"{_called(final)} does not write its elements in order")
    gather = Gather(_extents(final), at)
    return Work(scop, update, extents, operands, start, value, reads, write, gather)


def widened(work: Work, dtype: DType) -> Work:
    """``work`` with a minimum or maximum of integers computed in the wider ``dtype``."""
    statement = work.statement
    assert statement.update is not None, "it folds"
    (result,) = statement.body.results
    own = result.dtype
    wide = replace(
        statement,
        body=Body((), (cast(result, dtype),)),
        update=Update(monoid(statement.update.monoid.name, dtype), statement.update.dims),
    )

    def narrow(node: Expr) -> Expr | None:
        match node:
            case Load(source=0):
                return cast(Load(0, (), dtype), own)
        return None

    return replace(work, statement=wide, value=rewrite(work.value, narrow))


def _called(statement: Statement) -> str:
    """The program's name of the result of ``statement``."""
    return statement.writes[0].tensor


def _variables(access: Access) -> set[str]:
    return {e.name for i in access.indices for e in walk(i) if isinstance(e, Var)}


def _solved(final: Statement, at: tuple[Expr, ...], written: tuple[Expr, ...]) -> dict[str, Expr]:
    """Dims of ``final`` in terms of those of the sums, which it reads at ``at`` and which are
    ``written``. With q = (o + 1) // 2 and p = (o + 1) % 2, o is 2 q + p - 1. One unknown at a time.
    """
    forms = [(to_affine(index), to_affine(value)) for index, value in zip(at, written, strict=True)]
    left = [(index, value) for index, value in forms if index is not None and value is not None]
    found: dict[Term, Affine] = {}
    for _ in forms:
        for index, value in left:
            unknown = [(t, c) for t, c in index.terms if t not in found]
            if len(unknown) == 1 and abs(unknown[0][1]) == 1:
                ((term, sign),) = unknown
                rest = index - Affine(((term, sign),))
                found[term] = (value - rest.replaced(found)).scaled(sign)
    single = {name: literal(0) for name, size in _extents(final).items() if size == 1}
    return single | {name: to_expr(found[name]) for name in final.dims if name in found}


def _padded_outside(scop: Scop, read: Read, extents: Mapping[str, int]) -> Read:
    """``read`` padded for all of the reduction; results that depend on the padding are not used."""
    for form, size in zip(read.indices, scop.tensor(read.tensor).shape, strict=True):
        reach = [c * (extents[str(term)] - 1) for term, c in form.terms]
        low = form.constant + sum(min(0, r) for r in reach)
        high = form.constant + sum(max(0, r) for r in reach)
        if low < 0 or not isinstance(size, Literal) or high >= int(size.value):
            return replace(read, padded=True)
    return read


def _plain(scop: Scop, statement: Statement) -> tuple[Statement, dict[int, float]]:
    """``statement`` without lets and without selects for padding; the padding, by number of the
    read."""
    lets: dict[str, Expr] = {}
    for name, value in statement.body.lets:
        lets[name] = substitute(value, lets)
    outside: dict[int, float] = {}

    def change(node: Expr) -> Expr | None:
        match node:
            case Select(
                condition, Load() | Cast(Load()) as value, Literal(value=int() | float() as other)
            ):
                load = value.children[0] if isinstance(value, Cast) else value
                assert isinstance(load, Load) and isinstance(load.source, int)
                inside = _inside(scop, statement.reads[load.source], condition)
                if inside and outside.setdefault(load.source, other) == other:
                    return value
        return None

    results = tuple(rewrite(substitute(r, lets), change) for r in statement.body.results)
    return replace(statement, body=Body((), results)), outside


def _inside(scop: Scop, access: Access, condition: Expr) -> bool:
    """Whether ``condition`` says that ``access`` is in bounds, and nothing else."""
    found = conjunction(condition)
    return found.exact and set(found.facts()) <= _bounds(scop, access)


def _bounds(scop: Scop, access: Access) -> set[Affine | None]:
    """Forms that are >= 0 if ``access`` is in bounds."""
    found: set[Affine | None] = set()
    for index, size in zip(access.indices, scop.tensor(access.tensor).shape, strict=True):
        found |= {to_affine(index), to_affine(size - index - 1)}
    return found


def _start(inits: list[Statement]) -> float:
    match [s.body.results[0] for s in inits]:
        case [Literal(value=int() | float() as value)]:
            return value
    raise Refusal("its sum does not begin with a number")


def _extents(statement: Statement) -> dict[str, int]:
    found: dict[str, int] = {}
    for dim, bounds in box(statement).items():
        match bounds:
            case Literal(value=0), Literal(value=end):
                found[dim] = int(end)
    if len(found) != len(statement.dims):
        raise Refusal(f"the loops of {_called(statement)} are no box of known sizes")
    if any(size <= 0 for size in found.values()):
        raise Refusal(f"{_called(statement)} computes nothing")
    return found


def _read_at(final: Statement, target: Access) -> tuple[Expr, ...]:
    """The indices at which ``final`` reads the sums."""
    reads = [read for read in final.reads if read.tensor == target.tensor]
    if not reads or any(read != reads[0] for read in reads) or reads[0].guard or reads[0].may:
        raise Refusal(f"{_called(final)} reads {target.tensor} at several places, or not at all")
    return reads[0].indices


def _matched(
    scop: Scop, final: Statement, target: Access, at: tuple[Expr, ...]
) -> dict[str, Expr] | None:
    """The dims of ``final`` in terms of the update's indices; None if it reads the sums in another
    order, or not all of them."""
    dims: dict[str, Expr] = {}
    extents = _extents(final)
    single = [d for d, n in extents.items() if n == 1]
    sizes = scop.tensor(target.tensor).shape
    for index, written, size in zip(at, target.indices, sizes, strict=True):
        match index:
            case Var(name) if name not in dims and to_affine(size) == Affine((), extents[name]):
                dims[name] = written
            case Literal(value=0) if to_affine(size) == Affine((), 1):
                if single and single[0] not in dims:
                    dims[single.pop(0)] = written
            case _:
                return None
    dims |= {d: literal(0) for d in single if d not in dims}
    return dims if set(dims) == set(final.dims) else None


def _value(
    scop: Scop, final: Statement, summed: str | None, dims: Mapping[str, Expr]
) -> tuple[Expr, tuple[Read, ...]]:
    """(the value that ``final`` writes, its reads other than ``summed``)."""
    final, outside = _plain(scop, final)
    numbers: dict[int, int] = {}
    reads: list[Read] = []
    for n, read in enumerate(final.reads):
        if read.tensor == summed:
            numbers[n] = 0
        else:
            reads.append(_read(scop, read, dims, outside.get(n)))
            numbers[n] = len(reads)

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Load) and isinstance(node.source, int):
            return Load(numbers[node.source], (), node.dtype)
        return None

    value = rewrite(final.body.results[0], change)
    if any(isinstance(node, Var) for node in walk(value)):
        raise Refusal(f"{_called(final)} computes with its indices")
    return value, tuple(reads)


def _read(
    scop: Scop, access: Access, dims: Mapping[str, Expr], outside: float | None = None
) -> Read:
    """``outside``: the value read outside of the tensor, if any."""
    if access.may:
        raise Refusal(f"{access.tensor} is read where data say")
    forms = []
    for index in access.indices:
        form = to_affine(substitute(index, dict(dims)))
        if form is None or any(not isinstance(term, str) for term, _ in form.terms):
            raise Refusal(f"{access.tensor} is accessed with divisions")
        forms.append(form)
    if access.guard and outside is None:
        raise Refusal(f"{access.tensor} is read under a condition that is no padding")
    return Read(access.tensor, tuple(forms), outside is not None, outside or 0)
