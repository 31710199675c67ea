"""Row-major index arithmetic, and the composition of an access with a reshape."""

from __future__ import annotations

from collections.abc import Sequence

from weft.ir.scalar_affine import Ranges
from weft.ir.scalar_expr import Expr, literal
from weft.ir.scalar_polynomial import Polynomial, multiply, polynomial
from weft.ir.scalar_simplify import simplify


def linearize(indices: Sequence[Expr], shape: Sequence[Expr]) -> Expr:
    """The row-major number of element ``indices`` in a tensor of ``shape``."""
    flat: Expr = literal(0)
    for index, size in zip(indices, shape, strict=True):
        flat = flat * size + index
    return flat


def delinearize(
    flat: Expr, shape: Sequence[Expr], ranges: Ranges | None = None
) -> tuple[Expr, ...]:
    """The indices of element number ``flat``; free of divisions where ``ranges`` prove it."""
    indices: list[Expr] = []
    for dim in range(len(shape) - 1, 0, -1):
        indices.append(simplify(flat % shape[dim], ranges))
        flat = simplify(flat // shape[dim], ranges)
    return (*([flat] if shape else []), *reversed(indices))


def reshape_indices(
    indices: Sequence[Expr],
    shape: Sequence[Expr],
    source: Sequence[Expr],
    ranges: Ranges | None = None,
) -> tuple[Expr, ...]:
    """Where element ``indices`` of a reshape to ``shape`` lies in its source.

    Dimensions are grouped from the left wherever the products of sizes so far agree, symbolic or
    not, so that a dimension that the reshape leaves alone keeps its index:
    ``[n, 64] -> [n, 2, 32]`` reads element ``(i, 32*j + k)``.
    """
    kept = [(i, n) for i, n in zip(indices, shape, strict=True) if polynomial(n) != _ONE]
    inner = [n for n in source if polynomial(n) != _ONE]
    outer = [n for _, n in kept]
    found: list[Expr] = []
    for (a, b), (c, d) in _groups(outer, inner):
        if d - c == 1 and b - a == 1:
            found.append(kept[a][0])
        elif d > c:
            flat = simplify(linearize([i for i, _ in kept[a:b]], outer[a:b]), ranges)
            found += delinearize(flat, inner[c:d], ranges)
    rest = iter(found)
    return tuple(literal(0) if polynomial(n) == _ONE else next(rest) for n in source)


Span = tuple[int, int]
_ONE: Polynomial = {(): 1}


def _groups(shape: Sequence[Expr], source: Sequence[Expr]) -> list[tuple[Span, Span]]:
    """The finest spans of dimensions of both sides whose sizes have equal products."""
    left, right = _prefixes(shape), _prefixes(source)
    groups: list[tuple[Span, Span]] = []
    a = c = 0
    for b in range(1, len(left)):
        d = next((d for d in range(c + 1, len(right)) if left[b] == right[d]), None)
        if d is not None:
            groups.append(((a, b), (c, d)))
            a, c = b, d
    if a < len(shape) or c < len(source):
        groups.append(((a, len(shape)), (c, len(source))))
    return groups


def _prefixes(sizes: Sequence[Expr]) -> list[Polynomial]:
    products: list[Polynomial] = [_ONE]
    for size in sizes:
        products.append(multiply(products[-1], polynomial(size)))
    return products
