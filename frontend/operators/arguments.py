"""What definitions do with their arguments over and over: axes, sizes, negative indices, errors.

Definitions raise ``ExpressionError``: WEFT-E0190 for an attribute out of its range, WEFT-E0191
for shapes that do not fit, WEFT-E0192 for an element type that the operator does not take.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from weft.frontend.operators.sizes import SizesDiffer, are_equal, show_shape
from weft.ir.build import select
from weft.ir.errors import ExpressionError
from weft.ir.scalar_expr import Expr
from weft.ir.tensor_expr import Size, constant_size

Item = TypeVar("Item")


def expect(holds: bool, what: str, where: str, code: str = "WEFT-E0190") -> None:
    """Raise ``ExpressionError`` saying ``what`` unless ``holds``."""
    if not holds:
        raise ExpressionError(code, what, where=where)


def axis_index(axis: int, rank: int, where: str) -> int:
    """``axis`` counted from the front; negative ones count from the back."""
    expect(-rank <= axis < rank, f"axis {axis} of a tensor of {rank} dimensions", where)
    return axis + rank if axis < 0 else axis


def axis_indices(axes: Sequence[int], rank: int, where: str) -> tuple[int, ...]:
    """Several axes, which must differ."""
    found = tuple(axis_index(axis, rank, where) for axis in axes)
    expect(len(set(found)) == len(found), f"axes {tuple(axes)} name one axis twice", where)
    return found


def total(sizes: Sequence[Size]) -> Size:
    """The product of ``sizes``, an integer where all are."""
    product: Size = 1
    for size in sizes:
        product = product * size
    constant = constant_size(product)
    return product if constant is None else constant


def may_equal(left: Size, right: Size) -> bool:
    """Whether two sizes can be the same; symbolic ones can."""
    a, b = constant_size(left), constant_size(right)
    return a is None or b is None or a == b


def expect_same(left: Sequence[Size], right: Sequence[Size], where: str) -> None:
    """Raise WEFT-E0191 unless the two shapes are the same."""
    what = f"shapes {show_shape(left)} and {show_shape(right)} differ"
    expect(len(left) == len(right), what, where, "WEFT-E0191")
    for pair in zip(left, right, strict=True):
        if not are_equal(*pair):
            raise SizesDiffer("WEFT-E0191", what, pair, where=where)


def replaced(items: Sequence[Item], position: int, item: Item) -> tuple[Item, ...]:
    """``items`` with the one at ``position`` exchanged."""
    return (*items[:position], item, *items[position + 1 :])


def without(items: Sequence[Item], position: int) -> tuple[Item, ...]:
    """``items`` without the one at ``position``."""
    return (*items[:position], *items[position + 1 :])


def from_front(index: Expr, size: Size) -> Expr:
    """An int64 index whose negative values count from the back."""
    return select(index < 0, index + size, index)
