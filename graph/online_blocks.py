"""Sums of exponentials in blocks, each relative to its own maximum: one pass over their operands.

    m[i] = max_k x(i, k);  S[p] = Σ_k exp(x(i, k) - g(m[i])) * f(p, k) / t(p)
    →
    M[i, b] = max_c x(i, K*b + c);  L[i, b] = max(M[i, b], the least number)
    E[i, b, c] = exp(x(i, K*b + c) - L[i, b])
    P[p, b] = Σ_c E[i, b, c] * f(p, K*b + c)
    m[i] = max_b M[i, b];  F[i, b] = exp(L[i, b] - g(m[i]))
    S[p] = (Σ_b P[p, b] * F[i, b]) / t(p)

exp(x - L) * exp(L - g) = exp(x - g) for any L, so that blocks are independent: loops over b are
parallel, and only M and P outlive a block. L is finite, so that blocks that are -inf throughout add
0, as they do in the sum. If m is +inf or NaN, so is the M of a block, and E with it; if m is -inf,
F is infinite or what g makes of it, as E was. The remainder after the last whole block is a part of
its own, of the same form without the loop over b.

Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Rabe and Staats,
"Self-attention does not need O(n²) memory", 2021; Dao et al., "FlashAttention", 2022.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TypeVar

import numpy as np

from weft.graph.axes import tensor_of
from weft.graph.correlation import variables
from weft.graph.exponentials import Family, Sum, reads_maximum
from weft.ir import dtypes
from weft.ir.build import maximum
from weft.ir.scalar_expr import Expr, Load, Var, apply, literal, rewrite
from weft.ir.tensor_expr import Axis, Compute, Operation, Reduce, Tensor

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part:
    """``count`` blocks of ``size`` elements from ``first`` on; a single one has no loop."""

    first: int
    count: int
    size: int


@dataclass(frozen=True, slots=True)
class Blocks:
    """``length`` elements in blocks of ``size``; the remainder is one more."""

    length: int
    size: int

    @property
    def parts(self) -> tuple[Part, ...]:
        count, rest = divmod(self.length, self.size)
        whole = (Part(0, count, self.size),) if count else ()
        return (*whole, Part(self.length - rest, 1, rest)) if rest else whole

    @property
    def count(self) -> int:
        return -(-self.length // self.size)


def rewrite_in_blocks(
    family: Family,
    blocks: Blocks,
    alone: Collection[Operation],
    between: Collection[Operation],
) -> dict[Operation, Compute]:
    """Operation of ``family`` → its computation from blocks.

    ``alone``: operations that only ``family`` needs, which are computed block by block, too.
    ``between``: those that compute factors of sums from other results of it.
    """
    names = ("blocks", "rest") if len(blocks.parts) > 1 else ("blocks",)
    parts = (_PartInBlocks(family, p, n, alone) for p, n in zip(blocks.parts, names, strict=True))
    state = _BlockedFamily(family, tuple(parts))
    made: dict[Operation, Compute] = {family.maximum.operation: state.greatest}
    for operation in dict.fromkeys(s.operation for s in family.sums):
        own = [s for s in family.sums if s.operation is operation]
        found = _on_sums(operation, own, state)
        (value,) = found.values
        made[operation] = replace(found, values=(_on_results(value, made, between, {}),))
    return made


def _on_sums(operation: Compute, sums: Sequence[Sum], state: _BlockedFamily) -> Compute:
    totals = {s.fold: state.total(s, number) for number, s in enumerate(sums)}

    def change(node: Expr) -> Expr | None:
        return totals.get(node) if isinstance(node, Reduce) else None

    return replace(operation, values=(rewrite(operation.values[0], change),))


def _on_results(
    value: Expr,
    made: Mapping[Operation, Compute],
    between: Collection[Operation],
    done: dict[Operation, Compute],
) -> Expr:
    """``value`` with new results ``made`` for old ones, also in operations in between."""

    def change(node: Expr) -> Expr | None:
        match node:
            case Load(Tensor(operation=Compute() as old) as source, indices) if old in made:
                return Load(replace(source, operation=made[old]), indices, node.dtype)
            case Load(Tensor(operation=Compute() as old) as source, indices) if old in between:
                if old not in done:
                    values = tuple(_on_results(v, made, between, done) for v in old.values)
                    done[old] = replace(old, values=values)
                return Load(replace(source, operation=done[old]), indices, node.dtype)
        return None

    return rewrite(value, change)


@dataclass(slots=True)
class _BlockedFamily:
    """``family`` in ``parts``, and the maximum of all."""

    family: Family
    parts: tuple[_PartInBlocks, ...]
    greatest: Compute = field(init=False)  # m

    def __post_init__(self) -> None:
        m = self.family.maximum
        first, *others = (part.greatest() for part in self.parts)
        value = reduce(maximum, others, first)
        self.greatest = replace(m.operation, values=(value,))

    def total(self, s: Sum, number: int) -> Expr:
        """The value of ``s``, from sums over blocks."""
        first, *others = (part.total(s, number, self.greatest) for part in self.parts)
        found = reduce(lambda left, right: left + right, others, first)
        for factor, divides in s.outside:
            found = found / factor if divides else found * factor
        return found


@dataclass(slots=True)
class _PartInBlocks:
    """The tensors of one ``part`` that are computed block by block, named after ``name``."""

    family: Family
    part: Part
    name: str
    alone: Collection[Operation]
    largest: Tensor = field(init=False)  # M
    powers: Tensor = field(init=False)  # E
    order: tuple[str, ...] = field(init=False)  # the loops of x, as it is read
    relaid: dict[tuple[Tensor, int], Tensor] = field(default_factory=dict)
    factors: dict[Expr, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        m = self.family.maximum
        loops = {a.name: a for a in m.operation.axes}
        read = variables(m.x)
        self.order = (
            *(n for n in loops if n not in read),
            *(n for n in read if n in loops or n == m.axis.name),
        )
        b, c = self.axes({*loops, *read})
        value = self.at(m.x, m.axis.name, b, c)
        name = f"{m.operation.name}_{self.name}"
        fold = Reduce(m.fold.monoid, (c,), (value,))
        self.largest = tensor_of(name, self.placed(loops, *b), fold)
        shifted = value - self.least(tuple(loops.values()), b)
        axes = self.placed(loops, *b, c)
        self.powers = tensor_of(f"{name}_powers", axes, apply("exp", shifted))

    # ---- indices ---------------------------------------------------------------------------------

    def axes(self, taken: Collection[str]) -> tuple[tuple[Axis, ...], Axis]:
        """(the loop over blocks, if there is one; that within a block)."""
        blocks = (_axis("block", self.part.count, taken),) if self.part.count > 1 else ()
        return blocks, _axis("within", self.part.size, taken)

    def place(self, b: Sequence[Expr], c: Expr) -> Expr:
        """The position in a row of element ``c`` of block ``b``."""
        start: Expr = literal(self.part.first)
        for block in b:
            start = start + block * self.part.size
        return start + c

    def placed(self, loops: Mapping[str, Axis], *own: Axis) -> tuple[Axis, ...]:
        """``loops`` in the order of x, with ``own`` in place of the blocked loop."""
        return self._placed(loops, own)

    def index(self, at: Sequence[Expr], *own: Expr) -> tuple[Expr, ...]:
        """The indices of M (or E) for the maximum's element ``at``."""
        names = (a.name for a in self.family.maximum.operation.axes)
        return self._placed(dict(zip(names, at, strict=True)), own)

    def _placed(self, loops: Mapping[str, T], own: Sequence[T]) -> tuple[T, ...]:
        found: list[T] = []
        for name in self.order:
            found += own if name == self.family.maximum.axis.name else [loops[name]]
        return tuple(found)

    def after(self, s: Sum) -> int:
        """The position among the loops of ``s`` after those that x has before the blocked loop."""
        at = dict(zip((a.name for a in self.family.maximum.operation.axes), s.at, strict=True))
        before = self.order[: self.order.index(self.family.maximum.axis.name)]
        names = {n for loop in before for n in variables(at[loop])}
        places = [k + 1 for k, a in enumerate(s.operation.axes) if a.name in names]
        return max(places, default=0)

    # ---- values ----------------------------------------------------------------------------------

    def greatest(self) -> Expr:
        """The maximum of the part, over the loops of the maximum."""
        m = self.family.maximum
        b, _ = self.axes([a.name for a in m.operation.axes])
        found = self.largest[self.index(m.operation.axes, *b)]
        return Reduce(m.fold.monoid, b, (found,)) if b else found

    def least(self, at: Sequence[Expr], b: Sequence[Expr]) -> Expr:
        """L: the maximum of a block, or the least number if all of it is -inf."""
        found = self.largest[self.index(at, *b)]
        return maximum(found, float(np.finfo(found.dtype.numpy).min))

    def total(self, s: Sum, number: int, greatest: Compute) -> Expr:
        """The part of ``s``, without its outer factors."""
        loops = s.operation.axes
        b, c = self.axes({a.name for a in (*loops, *s.fold.axes)} | {*variables(s.fold)})
        value: Expr = self.powers[self.index(s.at, *b, c)]
        for factor in s.along:
            value = value * self.at(factor, s.axis.name, b, c)
        summed = replace(
            s.fold, axes=tuple(c if a == s.axis else a for a in s.fold.axes), values=(value,)
        )
        where = self.after(s)
        own = (*loops[:where], *b, *loops[where:])
        name = f"{s.operation.name}_{self.name}{number or ''}"
        scaled = tensor_of(name, own, summed)[own]
        scaled = scaled * self.factor(s, greatest)[self.index(s.at, *b)]
        return replace(s.fold, axes=b, values=(scaled,)) if b else scaled

    def factor(self, s: Sum, greatest: Compute) -> Tensor:
        """F, by the maximum that ``s`` is relative to."""
        m = self.family.maximum.operation
        read = reads_maximum(s.shift)
        whole = Load(replace(_tensor(read), operation=greatest), tuple(m.axes), read.dtype)
        shift = rewrite(s.shift, lambda node: whole if node == read else None)
        key = rewrite(s.shift, lambda node: replace(read, indices=()) if node == read else None)
        if key not in self.factors:
            b, _ = self.axes([a.name for a in m.axes])
            value = apply("exp", self.least(m.axes, b) - shift)
            axes = self.placed({a.name: a for a in m.axes}, *b)
            self.factors[key] = tensor_of(f"{m.name}_{self.name}_factors", axes, value)
        return self.factors[key]

    # ---- operands --------------------------------------------------------------------------------

    def at(self, expr: Expr, along: str, b: Sequence[Axis], c: Axis) -> Expr:
        """``expr`` with ``along`` at element ``c`` of block ``b``."""
        where = self.place(b, c)
        own = {a.name for a in (*b, c)}

        def change(node: Expr) -> Expr | None:
            match node:
                case Var(name) if name == along:
                    return where
                case Load(Tensor() as source, indices) if where in indices:
                    dim = indices.index(where)
                    others = (*indices[:dim], *indices[dim + 1 :])
                    apart = all(own.isdisjoint(variables(i)) for i in others)
                    if apart and source.operation in self.alone:
                        return self.split(source, dim)[(*indices[:dim], *b, c, *indices[dim + 1 :])]
            return None

        return rewrite(expr, change)

    def split(self, tensor: Tensor, dim: int) -> Tensor:
        """``tensor``, computed with dimension ``dim`` in blocks."""
        if (tensor, dim) not in self.relaid:
            operation = tensor.operation
            assert isinstance(operation, Compute)
            (value,) = operation.values
            b, c = self.axes({a.name for a in operation.axes} | {*variables(value)})
            value = self.at(value, operation.axes[dim].name, b, c)
            axes = (*operation.axes[:dim], *b, c, *operation.axes[dim + 1 :])
            self.relaid[tensor, dim] = tensor_of(f"{operation.name}_{self.name}", axes, value)
        return self.relaid[tensor, dim]


def _tensor(load: Load) -> Tensor:
    assert isinstance(load.source, Tensor)
    return load.source


def _axis(name: str, extent: int, taken: Collection[str]) -> Axis:
    while name in taken:
        name += "_"
    return Axis(name, dtypes.int64, literal(0), literal(extent))
