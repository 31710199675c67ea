"""A correlation along one loop, by fewer multiplications: four operations that compute the same.

    S[.., i, ..] = Σ_{.., k, ..} x(.., i + k, ..) * w(.., k, ..)          k < r, tiles of m outputs
    →
    V[j, .., t, ..] = Σ_p B[j, p] * x(.., m*t + p, ..)                    transformed windows
    U[j, ..] = Σ_k G[j, k] * w(.., k, ..)                                 transformed weights
    P[j, .., t, ..] = Σ_{..} V[j, .., t, ..] * U[j, ..]                   n sums without k
    S[.., i, ..] = Σ_j A[i mod m, j] * P[j, .., i div m, ..]

``minimal_filtering`` has B, G and A. They are numbers in the program: no factor is multiplied that
is 0, 1 or -1. Which x are in a window beyond the last output, they are 0. U is computed in float64
and rounded once; if w is constant, when compiling. P is a correlation along S's other loops if S
is, so that the same step applies to it again: two steps make the two-dimensional form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from weft.graph.axes import FreshAxes, from_0, tensor_of, window_indices
from weft.graph.correlation import Correlation, Slide, correlation_of, positioned, variables
from weft.graph.minimal_filtering import Filter
from weft.ir import dtypes
from weft.ir.scalar_expr import Expr, cast, literal, rewrite, select, substitute
from weft.ir.scalar_simplify import simplify
from weft.ir.tensor_expr import Axis, Compute, Reduce, Tensor

Steps = tuple[tuple[Slide, Filter], ...]


def derive(c: Correlation, steps: Steps) -> Compute:
    """What computes ``c.operation`` by ``steps``, one after the other: at least one.

    Each is along another of ``c.slides``, by a filter of as many taps.
    """
    (slide, f), *others = steps
    products = _products(c, slide, f)
    if others:
        assert products.operation is not None
        inner = correlation_of(products.operation)
        assert inner is not None, "the products slide along what is left"
        products = replace(products, operation=derive(inner, tuple(others)))
    return _result(c, slide, f, products)


def _products(c: Correlation, slide: Slide, f: Filter) -> Tensor:
    names = FreshAxes(c)
    tile = names.axis(f"{slide.axis.name}_tile", -(-slide.outputs // f.m))
    point = names.axis("point", f.n)
    v = _windows(c, slide, f, tile, point, names)
    u = _weights(c, slide, f, names)
    loops = tuple(tile if a == slide.axis else a for a in c.operation.axes)
    kept = tuple(a for a in c.fold.axes if a != slide.tap)
    value = v.at(point) * u.at(point)
    if kept:
        value = replace(c.fold, axes=kept, values=(value,), condition=None)
    return tensor_of(f"{c.operation.name}_products", (point, *loops), value)


@dataclass(frozen=True, slots=True)
class _Operand:
    """A transformed operand, with the loops of the products at which its other indices are."""

    tensor: Tensor
    indices: tuple[Expr, ...]

    def at(self, point: Axis) -> Expr:
        return self.tensor[(point, *self.indices)]


def _windows(
    c: Correlation, slide: Slide, f: Filter, tile: Axis, point: Axis, names: FreshAxes
) -> _Operand:
    """V, with the dimensions of x in their order, and where in it a product reads."""
    own = window_indices(c, names)
    here = own.places[slide].name
    at_tile = names.axis(tile.name, tile.extent)
    length = slide.outputs + slide.taps - 1

    def window(p: int) -> Expr:
        place = at_tile * f.m + p
        value = positioned(c.x, {**own.places, slide: place})
        value = simplify(substitute(value, own.shifted))
        return select(place < length, value, 0) if slide.outputs % f.m else value

    values = [window(p) for p in range(f.n)]
    rows = [_combination(row, values) for row in f.b]
    loops = (point, *(at_tile if n == here else axis for n, axis in own.axes.items()))
    tensor = tensor_of(f"{c.operation.name}_windows", loops, _one_of(point, rows))
    return _Operand(tensor, tuple(tile if n == here else own.read[n] for n in own.axes))


def _weights(c: Correlation, slide: Slide, f: Filter, names: FreshAxes) -> _Operand:
    """U, and where in it a product reads."""
    loops = {axis.name: axis for axis in (*c.operation.axes, *c.fold.axes)}
    order = [n for n in variables(c.w) if n in loops and n != slide.tap.name]
    point = names.axis("point", f.n)
    own = tuple(names.axis(n, loops[n].extent) for n in order)
    shifted = {n: a + loops[n].lower for n, a in zip(order, own, strict=True)}
    places = [shifted | {slide.tap.name: literal(slide.tap_at(k))} for k in range(slide.taps)]
    taps = [cast(simplify(substitute(c.w, place)), dtypes.float64) for place in places]
    rows = [cast(_combination(row, taps), c.fold.dtype) for row in f.g]
    tensor = tensor_of(f"{c.operation.name}_weights", (point, *own), _one_of(point, rows))
    return _Operand(tensor, tuple(from_0(loops[n]) for n in order))


def _result(c: Correlation, slide: Slide, f: Filter, products: Tensor) -> Compute:
    """The operation that ``c`` is of, from the products."""
    tile = slide.axis // f.m
    indices = [tile if a == slide.axis else a for a in c.operation.axes]
    terms = [products[(j, *indices)] for j in range(f.n)]
    outputs = [_combination(row, terms) for row in f.a]
    total = _one_of(slide.axis % f.m, outputs)

    def change(node: Expr) -> Expr | None:
        return total if isinstance(node, Reduce) else None

    return replace(c.operation, values=(rewrite(c.operation.values[0], change),))


def _combination(factors: Sequence[Fraction], terms: Sequence[Expr]) -> Expr:
    """Σ factor * term, without the factors 0, 1 and -1."""
    total: Expr | None = None
    for factor, term in zip(factors, terms, strict=True):
        if not factor:
            continue
        part = term if abs(factor) == 1 else term * float(abs(factor))
        if total is None:
            total = part if factor > 0 else -part
        else:
            total = total + part if factor > 0 else total - part
    assert total is not None, "no row of A, G or B is 0"
    return total


def _one_of(number: Expr, values: Sequence[Expr]) -> Expr:
    """``values[number]``."""
    *others, chosen = values
    for k, value in reversed(list(enumerate(others))):
        chosen = select(number.equal(k), value, chosen)
    return chosen


# ---- The same correlation on a transposed copy of x, in which the loops of its sum are innermost.
#
#     S[n, o, i] = Σ_{c, k} x(n, c, i + k) * w(o, c, k)
#     →
#     X[n, p, c] = x(n, c, p)
#     T[n, i, o] = Σ_{c, k} X[n, i + k, c] * w(o, c, k)
#     S[n, o, i] = T[n, i, o]
#
# Then no slide is contiguous, and the transforms along it have vectors along the other loops. T is
# a correlation along the same loops as S.


def transpose_operand(c: Correlation) -> Tensor:
    """T, for ``c``."""
    own = window_indices(c, FreshAxes(c))
    summed = {axis.name for axis in c.fold.axes}
    order = sorted(own.axes, key=lambda name: name in summed)
    value = simplify(substitute(positioned(c.x, own.places), own.shifted))
    copy = tensor_of(f"{c.operation.name}_turned", [own.axes[n] for n in order], value)
    moving = set(variables(c.x))
    loops = sorted(c.operation.axes, key=lambda axis: axis.name not in moving)
    product = copy[tuple(own.read[n] for n in order)] * c.w
    total = replace(c.fold, values=(product,), condition=None)
    return tensor_of(f"{c.operation.name}_last", loops, total)


def transpose_back(c: Correlation, sums: Tensor) -> Compute:
    """The operation of ``c``, from T."""
    assert isinstance(sums.operation, Compute)
    total = sums[sums.operation.axes]

    def change(node: Expr) -> Expr | None:
        return total if isinstance(node, Reduce) else None

    return replace(c.operation, values=(rewrite(c.operation.values[0], change),))
