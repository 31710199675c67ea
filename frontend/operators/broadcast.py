"""NumPy-style multidirectional broadcasting as index maps: no operator ever copies to broadcast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

from weft.frontend.operators.sizes import SizesDiffer, are_equal, show
from weft.ir.build import compute
from weft.ir.scalar_expr import Expr, as_expr
from weft.ir.tensor_expr import Size, Tensor

Shape = tuple[Size, ...]


def broadcast_shape(shapes: Sequence[Shape], where: str) -> Shape:
    """The common shape: dimensions are aligned from the last, and a 1 gives way to any size.

    Symbolic sizes agree where their expressions are equal. Raises ``ExpressionError`` (E0180).
    """
    reversed_sizes = zip_longest(*(reversed(s) for s in shapes), fillvalue=1)
    return tuple(_common(sizes, shapes, where) for sizes in reversed_sizes)[::-1]


def _common(sizes: tuple[Size, ...], shapes: Sequence[Shape], where: str) -> Size:
    wide = list(dict.fromkeys(s for s in sizes if s != 1))
    if len(wide) > 1 and not all(are_equal(wide[0], other) for other in wide[1:]):
        raise SizesDiffer(
            "WEFT-E0180",
            f"{where} cannot broadcast the shapes {', '.join(_text(s) for s in shapes)}",
            next((wide[0], other) for other in wide if not are_equal(wide[0], other)),
            where=where,
            why=f"the sizes {_text(tuple(wide))} meet in one dimension, and neither is 1",
            hint="give both dimensions one size or one size symbol, or make one of them 1",
        )
    return wide[0] if wide else 1


def _text(shape: Shape) -> str:
    return f"({', '.join(map(show, shape))})"


def at(tensor: Tensor, indices: Sequence[Expr], shape: Shape) -> Expr:
    """The element of ``tensor``, broadcast to ``shape``, at ``indices``."""
    skip = len(shape) - tensor.rank
    stretched = zip(tensor.shape, indices[skip:], shape[skip:], strict=True)
    return tensor[tuple(0 if own == 1 and size != 1 else i for own, i, size in stretched)]


def elementwise(
    name: str, function: Callable[..., Expr], *tensors: Tensor, wide: bool = False
) -> Tensor:
    """``function`` of the elements of ``tensors``, broadcast together.

    With ``wide``, elements of a narrow float type are widened first and the result is rounded
    once, instead of after every operation inside ``function``.
    """
    shape = broadcast_shape([t.shape for t in tensors], name)

    def body(*i: Expr) -> Expr:
        elements = [at(t, i, shape) for t in tensors]
        if not wide:
            return function(*elements)
        result = function(*(e.astype(e.dtype.compute) for e in elements))
        return result if result.dtype.kind == "bool" else result.astype(tensors[0].dtype)

    return compute(shape, body, name=name)


def number(value: float, like: Expr) -> Expr:
    """``value`` as a literal of the dtype of ``like``."""
    return as_expr(value, like.dtype)
