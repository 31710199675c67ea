"""Which small number stands for each size of a graph, so that the structure stays.

Equal constants stay equal. A constant is mapped on its own as long as the operators that use it
stay valid; where one does not, its constants keep the relations that they have (``128 = 64 + 64``
of a concatenation, ``58 = 56 + 2`` of padding), and where that fails too they keep their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import prod

from weft.ir import dtypes
from weft.ir.scalar_affine import Range, bounds
from weft.ir.scalar_expr import Expr, Literal, Load, rewrite, walk
from weft.ir.tensor_expr import (
    Axis,
    Compute,
    Operation,
    Program,
    Reduce,
    Reshape,
    Scatter,
    Size,
    Tensor,
    as_size,
    constant_size,
    operations,
)

KEPT = 3  # constants up to this stay: kernel sizes, strides, ranks
FRESH = (4, 5, 6, 7)  # what the others become, in turn
NEAR = 4  # constants that differ by at most this are related

Sizes = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Reach:
    """An index that stays inside a dimension of ``size`` without any guard."""

    size: int
    index: Expr
    axes: tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """What one operator's program says about sizes."""

    constants: frozenset[int]
    products: tuple[tuple[int, tuple[int, ...]], ...]  # a reshape: size = product of others
    reaches: tuple[Reach, ...]


def facts_of(program: Program) -> Facts:
    constants: set[int] = set()
    products: list[tuple[int, tuple[int, ...]]] = []
    reaches: list[Reach] = []
    order = operations(program)
    shapes = [t.shape for t in (*program.inputs, *program.outputs)]
    shapes += [t.shape for operation in order for t in operation.reads]
    constants.update(n for shape in shapes for n in _constants(map(as_size, shape)))
    for operation in order:
        constants.update(_constants(_expressions(operation)))
        reaches += _reaches(operation)
    for tensor in (*program.outputs, *(t for operation in order for t in operation.reads)):
        if isinstance(tensor.operation, Reshape):
            products += _products(tensor.shape, tensor.operation.source.shape)
    return Facts(frozenset(constants), tuple(products), tuple(reaches))


def _constants(expressions: Iterable[Expr]) -> Iterator[int]:
    for expr in expressions:
        for node in walk(expr):
            if isinstance(node, Literal) and node.dtype == dtypes.int64:
                yield abs(int(node.value))


def axes_inside(operation: Operation) -> tuple[Axis, ...]:
    """The axes of ``operation`` and of the reductions inside it."""
    if isinstance(operation, Reshape):
        return ()
    folds = (n for e in _values(operation) for n in walk(e) if isinstance(n, Reduce))
    return (*operation.axes, *dict.fromkeys(axis for fold in folds for axis in fold.axes))


def _values(operation: Operation) -> tuple[Expr, ...]:
    match operation:
        case Compute():
            return operation.values
        case Scatter(condition=condition):
            extra = () if condition is None else (condition,)
            return (*operation.indices, operation.value, *extra)
    return ()


def _expressions(operation: Operation) -> tuple[Expr, ...]:
    """Every expression in ``operation``, the bounds of axes included."""
    limits = (e for axis in axes_inside(operation) for e in (axis.lower, axis.upper))
    return (*_values(operation), *limits)


def _reaches(operation: Operation) -> Iterator[Reach]:
    axes = axes_inside(operation)
    ranges = axis_ranges(axes)
    for expr in _values(operation):
        for node in walk(expr):
            if isinstance(node, Load) and isinstance(node.source, Tensor):
                for index, size in zip(node.indices, node.source.shape, strict=True):
                    known = constant_size(size)
                    _, high = bounds(index, ranges)
                    if known is not None and high is not None and high < known:
                        used = {n.name for n in walk(index) if isinstance(n, Axis)}
                        yield Reach(known, index, tuple(a for a in axes if a.name in used))


def axis_ranges(
    axes: Sequence[Axis], sizes: Sizes | None = None, known: Mapping[str, Range] | None = None
) -> dict[str, Range]:
    """The values of each axis, its bounds under ``sizes``, where symbols are as ``known``."""
    found: dict[str, Range] = dict(known or {})
    for axis in axes:
        lower, upper = (mapped(e, sizes or {}) for e in (axis.lower, axis.upper))
        low, high = bounds(lower, found)[0], bounds(upper, found)[1]
        found[axis.name] = (low, None if high is None else high - 1)
    return found


def mapped(expr: Expr, sizes: Sizes) -> Expr:
    """``expr`` with the int64 constants of ``sizes`` replaced."""

    def change(node: Expr) -> Expr | None:
        if not isinstance(node, Literal) or node.dtype != dtypes.int64:
            return None
        value = int(node.value)
        new = sizes.get(abs(value), abs(value))
        return Literal(new if value >= 0 else -new, dtypes.int64)

    return rewrite(expr, change) if sizes else expr


def _products(new: Sequence[Size], old: Sequence[Size]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Groups of dimensions that a reshape splits or merges: one size and its factors."""
    sides = [[constant_size(s) for s in shape] for shape in (new, old)]
    left, right = ([s for s in side if s is not None and s != 1] for side in sides)
    if None in (*sides[0], *sides[1]) or 0 in (*left, *right):
        return
    while left and right:
        one, two = [left.pop(0)], [right.pop(0)]
        while prod(one) != prod(two):
            side, rest = (one, left) if prod(one) < prod(two) else (two, right)
            if not rest:
                return
            side.append(rest.pop(0))
        for whole, parts in ((one, two), (two, one)):
            if len(whole) == 1 and len(parts) > 1:
                yield whole[0], tuple(parts)


# ---- choosing -----------------------------------------------------------------------------------

FREE, RELATED, FIXED = range(3)  # how much of an operator's constants is kept


def small_sizes(facts: Sequence[Facts], levels: Sequence[int]) -> dict[int, int]:
    """Each constant -> what it becomes; ``levels`` says how strictly each operator's are kept."""
    products = dict(pair for fact in facts for pair in fact.products)
    fixed = {n for fact, level in zip(facts, levels, strict=True) if level == FIXED
             for n in fact.constants}  # fmt: skip
    related = [
        sorted(n for n in fact.constants if n > KEPT)
        for fact, level in zip(facts, levels, strict=True)
        if level == RELATED
    ]
    reaches: dict[int, list[Reach]] = {}
    for fact in facts:
        for reach in fact.reaches:
            reaches.setdefault(reach.size, []).append(reach)
    chosen: dict[int, int] = {}
    fresh = 0
    for n in sorted({n for fact in facts for n in fact.constants if n > KEPT}):
        if n in fixed:
            chosen[n] = n
        elif n in products:
            chosen[n] = prod(chosen.get(p, p) for p in products[n])
        elif (sum_ := _related(n, related, chosen)) is not None:
            chosen[n] = sum_
        else:
            least = max((_needed(r, chosen) for r in reaches.get(n, ())), default=0)
            chosen[n] = min(n, max(FRESH[fresh % len(FRESH)], least))
            fresh += 1
    return {n: small for n, small in chosen.items() if small != n}


def _related(n: int, groups: Sequence[Sequence[int]], chosen: Sizes) -> int | None:
    """``n`` by way of smaller constants of one operator: a sum, a product or a small distance."""
    for group in groups:
        if n not in group:
            continue
        smaller = [m for m in group if m < n]
        for a, b in combinations_with_replacement(smaller, 2):
            if a + b == n:
                return chosen[a] + chosen[b]
        for a, b in combinations_with_replacement((2, 3, *smaller), 2):
            if a * b == n:
                return chosen.get(a, a) * chosen.get(b, b)
        if smaller and n - smaller[-1] <= NEAR:
            return chosen[smaller[-1]] + n - smaller[-1]
    return None


def _needed(reach: Reach, chosen: Sizes) -> int:
    """The least size that keeps ``reach`` inside, 0 where larger constants decide."""
    limits = (e for axis in reach.axes for e in (axis.lower, axis.upper))
    if any(n >= reach.size for n in _constants((reach.index, *limits))):
        return 0
    high = bounds(mapped(reach.index, chosen), axis_ranges(reach.axes, chosen))[1]
    return 0 if high is None else high + 1
