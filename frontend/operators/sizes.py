"""Checks on sizes, axes and attributes, and the types in which sums are kept."""

from __future__ import annotations

from collections.abc import Sequence

from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.errors import ExpressionError
from weft.ir.scalar_expr import Expr, Literal, binary, cast, literal
from weft.ir.scalar_polynomial import polynomial
from weft.ir.scalar_printer import scalar_text
from weft.ir.tensor_expr import Axis, Size, Tensor, as_size, constant_size


class SizesDiffer(ExpressionError):
    """Two ``sizes`` that have to be one are not known to be."""

    def __init__(
        self, code: str, what: str, sizes: tuple[Size, Size], where: str = "", why: str = "",
        hint: str = "",
    ) -> None:  # fmt: skip
        super().__init__(code, what, where=where, why=why, hint=hint)
        self.sizes = sizes


def unify(left: Size, right: Size, what: str) -> Size:
    """The one size that ``left`` and ``right`` both are; E0150 where they are not equal."""
    if not are_equal(left, right):
        raise SizesDiffer(
            "WEFT-E0150",
            f"{what} differ: {show(left)} and {show(right)}",
            (left, right),
            hint="symbolic sizes agree where their expressions are equal",
        )
    return left


def are_equal(left: Size, right: Size) -> bool:
    """Whether two sizes are known to be one, however they are written."""
    a, b = as_size(left), as_size(right)
    return a == b or (
        not (isinstance(a, Literal) and isinstance(b, Literal)) and not polynomial(a - b)
    )


def show(size: Size) -> str:
    """A size as people write it."""
    return scalar_text(as_size(size))


def show_shape(shape: Sequence[Size]) -> str:
    """The same of a shape."""
    return f"({', '.join(map(show, shape))}{',' if len(shape) == 1 else ''})"


def known(size: Size, what: str) -> int:
    """A size that must be an integer at compile time; E0153 where it is a symbol."""
    value = constant_size(size)
    if value is None:
        raise ExpressionError("WEFT-E0153", f"{what} must be known to compile, it is {show(size)}")
    return value


def require(holds: bool, what: str, why: str = "") -> None:
    """E0153, a bad attribute or combination of shapes, where ``holds`` is false."""
    if not holds:
        raise ExpressionError("WEFT-E0153", what, why=why)


def normal_axis(axis: int, rank: int, what: str = "axis") -> int:
    """``axis`` counted from the front; E0151 where it is outside ``-rank … rank-1``."""
    if not -rank <= axis < rank:
        raise ExpressionError("WEFT-E0151", f"{what} {axis} is outside a rank of {rank}")
    return axis % rank


def normal_axes(axes: Sequence[int], rank: int, what: str = "axes") -> tuple[int, ...]:
    """Distinct axes counted from the front, ascending; E0151, and E0153 where one comes twice."""
    normal = sorted(normal_axis(axis, rank, what) for axis in axes)
    require(len(set(normal)) == len(normal), f"{what} {list(axes)} name a dimension twice")
    return tuple(normal)


def require_rank(tensor: Tensor, what: str, least: int, most: int | None = None) -> None:
    """E0152 where ``tensor`` has fewer than ``least`` dimensions, or more than ``most``."""
    if tensor.rank >= least and (most is None or tensor.rank <= most):
        return
    bound = f"at least {least}" if most is None else str(least)
    bound = bound if most in (None, least) else f"{least} to {most}"
    raise ExpressionError("WEFT-E0152", f"{what} has rank {tensor.rank}, must be {bound}")


def total_size(shape: Sequence[Size]) -> Expr:
    """The number of elements of ``shape``."""
    product: Expr = literal(1)
    for size in shape:
        product = product * as_size(size)
    return product


def maximum_size(left: Size, right: Size) -> Size:
    return binary("max", as_size(left), as_size(right))


def accumulator(dtype: DType) -> DType:
    """The type in which sums over elements of ``dtype`` are kept before they are rounded."""
    if dtype.is_float:
        return dtype.compute
    return dtypes.int32 if dtype.bits < 32 else dtype


def wide(value: Expr) -> Expr:
    """``value`` in the type in which its dtype is computed: small floats as float32."""
    return cast(value, value.dtype.compute)


def axes_over(sizes: Sequence[Size], names: Sequence[str]) -> tuple[Axis, ...]:
    """One reduction axis from 0 for each size."""
    return tuple(
        Axis(name, dtypes.int64, literal(0), as_size(size))
        for name, size in zip(names, sizes, strict=True)
    )
