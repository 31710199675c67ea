"""What a program knows when it is compiled: expressions of constants as arrays over their loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from weft.graph.axes import from_0, tensor_of
from weft.graph.correlation import variables
from weft.ir import dtypes
from weft.ir.errors import ExecutionError
from weft.ir.scalar_expr import Expr, Load, literal, substitute, walk
from weft.ir.tensor_expr import (
    Axis,
    Program,
    Reduce,
    Size,
    Tensor,
    axes_of,
    constant_size,
    operations,
)
from weft.ir.tensor_interpreter import interpret

SMALL = 1 << 20  # elements that an array may always have
GROWTH = 4  # times the elements of its constants that a larger one may have


class NotIntegral(Exception):
    """A program cannot be computed in integers; the text says why."""


@dataclass(frozen=True, slots=True)
class Known:
    """An array of float64, and the loops that its dimensions run along."""

    array: np.ndarray
    axes: tuple[Axis, ...]


@dataclass(slots=True)
class Constants:
    """``given``: the data of placeholders; ``made``: that of those that are new."""

    given: Mapping[Tensor, np.ndarray]
    made: dict[Tensor, np.ndarray] = field(default_factory=dict)

    def evaluated(self, expr: Expr) -> Known:
        """``expr``, which reads nothing but constants, over the loops that it moves in, in the
        order in which its loads are indexed; ``NotIntegral`` where it is not such or too large."""
        axes = self._axes(expr)
        own = {axis.name: Axis(axis.name, dtypes.int64, literal(0), axis.extent) for axis in axes}
        value = _moved(expr, axes, own)
        tensor = tensor_of("known", [own[a.name] for a in axes], value)
        order = operations(Program("known", (), (tensor,)))
        read = dict.fromkeys(t for o in order for t in o.reads if t.operation is None)
        if not all(t in self.given for t in read):
            raise NotIntegral("a factor or addend depends on an input")
        sizes = [constant_size(size) for size in tensor.shape]
        count = prod(n for n in sizes if n is not None)
        largest = max((self.given[t].size for t in read), default=1)
        if None in sizes or count > max(SMALL, GROWTH * largest):
            raise NotIntegral("a constant over open or too many loops")
        try:
            program = Program("known", tuple(read), (tensor,))
            (array,) = interpret(program, [self.given[t] for t in read], precise=True)
        except ExecutionError as error:
            raise NotIntegral(error.what) from None
        if np.isnan(array).any():
            raise NotIntegral("a constant is NaN")
        return Known(np.asarray(array, np.float64), axes)

    def _axes(self, expr: Expr) -> tuple[Axis, ...]:
        bound = {a for n in walk(expr) if isinstance(n, Reduce) for a in n.axes}
        found = {axis.name: axis for axis in axes_of(expr) if axis not in bound}
        return tuple(found[name] for name in variables(expr) if name in found)

    def load(self, known: Known, array: np.ndarray, name: str) -> Expr:
        """An element of the new constant ``array``, integers over the loops of ``known``."""
        if not known.axes:
            return literal(int(array), dtypes.as_dtype(array.dtype))
        tensor = Tensor(name, array.shape, dtypes.as_dtype(array.dtype))
        self.made[tensor] = array
        return Load(tensor, tuple(from_0(axis) for axis in known.axes), tensor.dtype)


def _moved(expr: Expr, axes: Sequence[Axis], own: Mapping[str, Axis]) -> Expr:
    """``expr`` over loops from 0."""
    return substitute(expr, {a.name: own[a.name] + a.lower for a in axes})


def elements(sizes: Sequence[Size]) -> int | None:
    """How many points a box of ``sizes`` has; None where one is open."""
    known = [constant_size(size) for size in sizes]
    return None if None in known else prod(n for n in known if n is not None)
