"""Small integer tensors whose elements follow from open sizes, element by element.

    Shape(x) of x: (n, 3, h)                  → [n, 3, h]
    Gather, Concat, Mul, Where … of those     → [n * h, 3]

What exporters write to compute shapes is evaluated as any other operator is, by the meaning of its
tensor program (``tensor_interpreter``), but over expressions instead of numbers. There is nothing
about single operators here. An element that needs data has no expression: then nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np

from weft.frontend.size_symbols import SizeSymbols
from weft.ir import dtypes
from weft.ir.dtypes import as_dtype
from weft.ir.scalar_expr import (
    Apply,
    Expr,
    Literal,
    Load,
    Var,
    literal,
    rewrite,
    substitute,
    walk,
)
from weft.ir.scalar_interpreter import evaluate
from weft.ir.tensor_expr import (
    Axis,
    Compute,
    Operation,
    Program,
    Reduce,
    Reshape,
    Size,
    Tensor,
    constant_size,
    operations,
)

MOST = 64  # elements of a tensor that is followed
MOST_POINTS = 1024  # of a reduction

Elements: TypeAlias = np.ndarray[Any, Any]  # of dtype object: expressions


def as_elements(data: np.ndarray) -> Elements | None:
    """``data`` as literals; None where these are too many, or no integers."""
    if data.size > MOST or data.dtype.kind not in "iub":
        return None
    found = np.empty(data.shape, object)
    dtype = as_dtype(data.dtype)
    for index in np.ndindex(data.shape):
        found[index] = literal(data[index].item(), dtype)
    return found


def as_data(elements: Elements, dtype: dtypes.DType) -> np.ndarray | None:
    """The numbers that ``elements`` are; None where one depends on sizes."""
    flat = list(elements.flat)
    if not all(isinstance(e, Literal) for e in flat):
        return None
    return np.array([e.value for e in flat], dtype.numpy).reshape(elements.shape)


def may_be_sizes(program: Program) -> bool:
    """Whether results of ``program`` are few integers."""
    shapes = [_known_shape(t.shape) for t in program.outputs]
    return all(s is not None and prod(s) <= MOST for s in shapes) and all(
        t.dtype.is_integer or t.dtype == dtypes.bool_ for t in program.outputs
    )


def elements_of(
    program: Program, inputs: Sequence[Elements | None], sizes: SizeSymbols
) -> tuple[Elements, ...] | None:
    """The elements of the results of ``program`` on ``inputs``, None where these are not known;
    None where some have no expression over ``sizes``."""
    run = _Run(sizes, dict(zip(program.inputs, inputs, strict=True)))
    try:
        for operation in operations(program):
            run.operation(operation)
        return tuple(run.checked(run.tensor(t)) for t in program.outputs)
    except _UnknownError:
        return None


class _UnknownError(Exception):
    """An element has no expression."""


def _known_shape(shape: Sequence[Size]) -> tuple[int, ...] | None:
    known = [constant_size(size) for size in shape]
    return None if None in known else tuple(n for n in known if n is not None)


@dataclass(slots=True)
class _Run:
    sizes: SizeSymbols
    inputs: Mapping[Tensor, Elements | None]
    results: dict[Operation, tuple[Elements, ...]] = field(default_factory=dict)

    def tensor(self, tensor: Tensor) -> Elements:
        if tensor.operation is None:
            given = self.inputs[tensor]
            if given is None:
                raise _UnknownError
            return given
        shape = _known_shape(tensor.shape)
        found = self.results[tensor.operation][tensor.index]
        if shape is None or prod(shape) != found.size:
            raise _UnknownError
        return found.reshape(shape)

    def operation(self, operation: Operation) -> None:
        match operation:
            case Reshape():
                self.results[operation] = (self.tensor(operation.source),)
            case Compute(scan=0):
                self.results[operation] = self.compute(operation)
            case _:
                raise _UnknownError

    def compute(self, operation: Compute) -> tuple[Elements, ...]:
        shape = _known_shape([axis.extent for axis in operation.axes])
        if shape is None or prod(shape) > MOST:
            raise _UnknownError
        found = tuple(np.empty(shape, object) for _ in operation.values)
        for index in np.ndindex(shape):
            at = dict(zip((a.name for a in operation.axes), map(literal, index), strict=True))
            for array, value in zip(found, operation.values, strict=True):
                array[index] = self.element(value, at)
        return found

    def element(self, value: Expr, at: Mapping[str, Expr]) -> Expr:
        """``value`` at a point. What it does not read there may be out of range."""

        def change(node: Expr) -> Expr | None:
            match node:
                case Var(name) if name in at:
                    return at[name]
                case Load(Tensor() as source, indices):
                    return self.read(source, indices)
                case Reduce():
                    return self.fold(node, at)
                case _ if node.children and all(isinstance(c, Literal) for c in node.children):
                    return literal(evaluate(node, {}).item(), node.dtype)
                case Apply("truncdiv" | "rem" as op, (a, b)) if self.is_counted(a, b):
                    return a // b if op == "truncdiv" else a % b
            return None

        return self.sizes.simple(rewrite(value, change))

    def is_counted(self, a: Expr, b: Expr) -> bool:
        """Whether division of ``a`` by ``b`` rounds down."""
        same = a.dtype == dtypes.int64
        return same and self.sizes.at_least(a, 0) and self.sizes.at_least(b, 1)

    def read(self, source: Tensor, indices: Sequence[Expr]) -> Expr | None:
        found = self.tensor(source)
        at = tuple(int(i.value) for i in map(self.sizes.simple, indices) if isinstance(i, Literal))
        inside = len(at) == len(indices) and all(
            0 <= i < n for i, n in zip(at, found.shape, strict=True)
        )
        return found[at] if inside else None

    def fold(self, node: Reduce, at: Mapping[str, Expr]) -> Expr:
        extents = _known_shape([self.sizes.normal(axis.extent) for axis in node.axes])
        lowest = {constant_size(axis.lower) for axis in node.axes}
        if (
            extents is None
            or prod(extents) > MOST_POINTS
            or lowest != {0}
            or node.condition is not None
        ):
            raise _UnknownError
        monoid = node.monoid
        total: list[Expr] = [
            literal(n, d) for n, d in zip(monoid.identity, monoid.dtypes, strict=True)
        ]
        names = [axis.name for axis in node.axes]
        for index in np.ndindex(extents):
            inner = {**at, **dict(zip(names, map(literal, index), strict=True))}
            values = [self.element(value, inner) for value in node.values]
            both = [
                *zip((v.name for v in monoid.left), total, strict=True),
                *zip((v.name for v in monoid.right), values, strict=True),
            ]
            total = [substitute(combined, dict(both)) for combined in monoid.combined]
        return total[node.index]

    def checked(self, elements: Elements) -> Elements:
        """``elements``, each an expression over size symbols alone."""
        for element in elements.flat:
            for node in walk(element):
                whole = node.dtype in (dtypes.int64, dtypes.bool_) or isinstance(node, Literal)
                if not whole or isinstance(node, Load | Reduce | Axis):
                    raise _UnknownError
        return elements
