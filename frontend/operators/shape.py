"""Operators on shapes: the same elements elsewhere, or ones that follow from the index alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from weft.frontend.operators.arguments import axis_indices, expect, may_equal, total, without
from weft.frontend.operators.registry import operator
from weft.frontend.operators.sizes import SizesDiffer, are_equal, show_shape
from weft.ir import build, dtypes
from weft.ir.build import compute, select
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Expr, Number, literal
from weft.ir.scalar_polynomial import from_polynomial, product, quotient
from weft.ir.tensor_expr import Size, Tensor, as_size, constant_size


@operator("reshape")
def reshape(x: Tensor, *, shape: Sequence[Size]) -> Tensor:
    """``x`` in row-major order under another shape with the same number of elements."""
    expect(
        may_equal(total(x.shape), total(shape)),
        f"{show_shape(x.shape)} and {show_shape(shape)} hold different numbers of elements",
        "reshape",
        "WEFT-E0191",
    )
    return build.reshape(x, shape, name="reshaped")


def resolve_shape(old: Sequence[Size], target: Sequence[Size], *, allowzero: bool) -> list[Size]:
    """The sizes that ONNX's ``target`` asks for: 0 copies a size, one -1 takes what is left.

    Symbols that appear on both sides cancel, so that (n, 4, 6) to (0, -1) gives (n, 24). Open sizes
    in ``target`` are taken for what they are: whoever has them says what happens where one is 0.
    """
    where = "reshape"
    numbers = [constant_size(size) for size in target]
    below = [n for n in numbers if n is not None and n < -1]
    expect(numbers.count(-1) <= 1, f"more than one -1 in {target}", where)
    expect(not below, f"a size below -1 in {target}", where)
    expect(not (allowzero and 0 in numbers and -1 in numbers), f"0 and -1 in {target}", where)
    shape: list[Size] = []
    for d, (size, number) in enumerate(zip(target, numbers, strict=True)):
        copies = number == 0 and not allowzero
        expect(not copies or d < len(old), f"0 in {target} copies a missing size", where)
        shape.append(old[d] if copies else size)
    if -1 in numbers:
        hole = numbers.index(-1)
        shape[hole] = _quotient(old, shape[:hole] + shape[hole + 1 :])
    return shape


def _quotient(sizes: Sequence[Size], by: Sequence[Size]) -> Size:
    """The product of ``sizes`` over the product of ``by``; sizes of 0 in both cancel, too."""
    for _ in range(min([*sizes].count(0), [*by].count(0))):
        sizes, by = without(sizes, sizes.index(0)), without(by, by.index(0))
    if any(constant_size(size) is None for size in (*sizes, *by)):
        exact = quotient(product(map(as_size, sizes)), product(map(as_size, by)))
        if exact is not None:
            return build.shape_of((from_polynomial(exact),))[0]
    above = [size for size in sizes if constant_size(size) is None]
    below = [size for size in by if constant_size(size) is None]
    for size in tuple(below):
        if size in above:
            above.remove(size)
            below.remove(size)
    factor = prod(n for n in map(constant_size, sizes) if n is not None)
    divisor = prod(n for n in map(constant_size, by) if n is not None)
    if divisor == 0:
        return 0  # an empty tensor: every size would do
    common = gcd(factor, divisor)
    numerator, denominator = (
        total([*above, factor // common]),
        total([*below, divisor // common]),
    )
    if isinstance(numerator, int) and isinstance(denominator, int):
        whole = denominator == 1 or numerator == 0
        expect(whole, f"{tuple(sizes)} does not divide by {tuple(by)}", "reshape", "WEFT-E0191")
        return numerator
    return as_size(numerator) // as_size(denominator)


@operator("transpose")
def transpose(x: Tensor, *, perm: Sequence[int]) -> Tensor:
    """Dimension d of the result is dimension ``perm[d]`` of ``x``."""
    perm = axis_indices(perm, x.rank, "transpose")
    expect(len(perm) == x.rank, f"perm {perm} for {x.rank} dimensions", "transpose")

    def body(*i: Expr) -> Expr:
        return x[tuple(i[perm.index(d)] for d in range(x.rank))]

    return compute([x.shape[d] for d in perm], body, name="transposed")


@operator("identity")
def identity(x: Tensor) -> Tensor:
    """A copy of ``x``."""
    return compute(x.shape, lambda *i: x[i], name="copied")


@operator("expand")
def expand(x: Tensor, *, shape: Sequence[Size]) -> Tensor:
    """``x`` broadcast with ``shape``, both ways: size 1 stretches on either side."""
    rank = max(x.rank, len(shape))
    own = (1,) * (rank - x.rank) + x.shape
    asked = (1,) * (rank - len(shape)) + tuple(shape)
    sizes: list[Size] = []
    for a, b in zip(own, asked, strict=True):
        if constant_size(a) != 1 and constant_size(b) != 1 and not are_equal(a, b):
            what = f"{show_shape(x.shape)} does not broadcast to {show_shape(shape)}"
            raise SizesDiffer("WEFT-E0191", what, (a, b), where="expand")
        sizes.append(b if constant_size(a) == 1 else a)

    def body(*i: Expr) -> Expr:
        index = i[rank - x.rank :]
        return x[
            tuple(
                literal(0) if constant_size(s) == 1 else e
                for e, s in zip(index, x.shape, strict=True)
            )
        ]

    return compute(sizes, body, name="expanded")


@operator("tile")
def tile(x: Tensor, *, repeats: Sequence[Size]) -> Tensor:
    """``x`` laid out ``repeats[d]`` times along dimension d.

    The repetition is a dimension of its own before it is folded away, which keeps reads linear.
    """
    expect(len(repeats) == x.rank, f"{len(repeats)} repeats for {x.rank} dimensions", "tile")
    counts = [constant_size(r) for r in repeats]
    expect(all(r is None or r >= 0 for r in counts), f"negative repeats {counts}", "tile")
    sizes: list[Size] = []
    kept: list[int] = []  # positions of x's own dimensions
    for size, repeat in zip(x.shape, repeats, strict=True):
        if repeat != 1:
            sizes.append(repeat)
        kept.append(len(sizes))
        sizes.append(size)
    tiled = compute(sizes, lambda *i: x[tuple(i[d] for d in kept)], name="tiled")
    return build.reshape(
        tiled, [total((s, r)) for s, r in zip(x.shape, repeats, strict=True)], name="tiled"
    )


@operator("fill")
def fill(*, shape: Sequence[Size], value: Number, dtype: DType) -> Tensor:
    """Every element is ``value``."""
    return compute(shape, lambda *i: literal(value, dtype), name="filled")


@operator("arange")
def arange(*, start: Number, step: Number, count: Size, dtype: DType, compute_in: DType) -> Tensor:
    """``start + i * step`` for i below ``count``, computed in ``compute_in``."""
    return compute(
        (count,), lambda i: (i.astype(compute_in) * step + start).astype(dtype), name="range"
    )


@operator("eye")
def eye(*, rows: Size, columns: Size, k: int, dtype: DType) -> Tensor:
    """Ones on diagonal ``k`` (above the main one where positive), zeros elsewhere."""
    one, zero = literal(1, dtype), literal(0, dtype)
    return compute((rows, columns), lambda i, j: select((j - i).equal(k), one, zero), name="eye")


@operator("shape_of")
def shape_of(x: Tensor, *, start: int, end: int) -> Tensor:
    """The sizes ``start`` to ``end`` of ``x`` as int64; for symbolic ones, known at the call."""
    sizes = [as_size(size) for size in x.shape[start:end]]

    def body(i: Expr) -> Expr:
        value: Expr = literal(0)
        for d, size in enumerate(sizes):
            value = select(i.equal(d), size, value)
        return value

    return compute((len(sizes),), body, name="shape")


@operator("size_of")
def size_of(x: Tensor) -> Tensor:
    """The number of elements of ``x``, an int64 scalar."""
    return compute((), lambda: as_size(total(x.shape)), name="size", dtype=dtypes.int64)
