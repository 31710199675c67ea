"""Handlers of linear algebra that needs no pivots: systems of triangular matrices, Cholesky's
factors. Steps go from row to row, and what belongs to one is independent."""

from __future__ import annotations

from collections.abc import Callable

from weft.frontend.operators.arguments import replaced
from weft.frontend.operators.broadcast import at, broadcast_shape
from weft.frontend.torch.context import NodeContext, Results, handler
from weft.frontend.torch.factories import filled
from weft.ir import build, dtypes
from weft.ir.build import compute, reduce_axis, scan
from weft.ir.operator_graph import Value
from weft.ir.scalar_expr import Expr, apply, cast, select
from weft.ir.tensor_expr import Tensor, as_size


def solved(
    node: NodeContext, a: Value, b: Value, upper: bool, *, transposed: bool = False,
    unit: bool = False,
) -> Value:  # fmt: skip
    """X with A X = B, or Aᵀ X = B, for triangular matrices A (…, n, n), of which the other half is
    not read, and B (…, n, k). Batches broadcast; of a ``unit`` matrix the diagonal counts as 1."""

    def definition(matrix: Tensor, right: Tensor) -> Tensor:
        batch = broadcast_shape([matrix.shape[:-2], right.shape[:-2]], "solve_triangular")
        n, columns = right.shape[-2:]
        lead, backwards = len(batch), upper != transposed
        wide = right.dtype.compute

        def row(step: Expr) -> Expr:
            return as_size(n) - 1 - step if backwards else step

        def element(b: tuple[Expr, ...], i: Expr, j: Expr) -> Expr:
            place = (row(j), row(i)) if transposed else (row(i), row(j))
            shape = (*batch, *matrix.shape[-2:])
            return cast(at(matrix, (*b, *place), shape), wide)

        def body(itself: Callable[..., Expr], *index: Expr) -> tuple[Expr]:
            *b, i, c = index
            k = reduce_axis((0, i), name="k")
            known = build.sum(element((*b,), i, k) * itself(0, *b, k, c), k)
            left = cast(at(right, (*b, row(i), c), (*batch, n, columns)), wide) - known
            return (left if unit else left / element((*b,), i, i),)

        (found,) = scan(
            (*batch, n, columns), body, dtypes_=(wide,), along=lead + 1, name="substituted"
        )
        return compute(
            found.shape,
            lambda *i: cast(found[replaced(i, lead, row(i[lead]))], right.dtype),
            name="solved",
        )

    return node.call(definition, a, b)  # type: ignore[no-any-return]


def _swapped(node: NodeContext, x: Value) -> Value:
    """The matrices ``x`` (…, m, n), transposed."""
    rank = len(x.shape)
    return node.call("transpose", x, perm=(*range(rank - 2), rank - 1, rank - 2))  # type: ignore[no-any-return]


@handler("aten.linalg_solve_triangular.default")
def solve_triangular(
    node: NodeContext, a: Value, b: Value, *, upper: bool, left: bool = True,
    unitriangular: bool = False,
) -> Results:  # fmt: skip
    """Where A is on the right, X A = B is Aᵀ Xᵀ = Bᵀ."""
    if 0 in node.shape:
        return filled(node, 0)
    if left:
        return solved(node, a, b, upper, unit=unitriangular)
    found = solved(node, a, _swapped(node, b), upper, transposed=True, unit=unitriangular)
    return _swapped(node, found)


@handler("aten.triangular_solve.default")
def triangular_solve(
    node: NodeContext, b: Value, a: Value, upper: bool = True, transpose: bool = False,
    unitriangular: bool = False,
) -> Results:  # fmt: skip
    copy = node.call("identity", a) if node.is_used(1) else None
    if 0 in node.shape:
        return filled(node, 0), copy
    found = solved(node, a, b, upper, transposed=transpose, unit=unitriangular)
    return found, None if copy is None else node.call("expand", copy, shape=node.results[1].shape)  # type: ignore[union-attr]


@handler("aten.cholesky_solve.default")
def cholesky_solve(node: NodeContext, b: Value, factor: Value, upper: bool = False) -> Results:
    """X with L Lᵀ X = B, or of an ``upper`` factor U, Uᵀ U X = B."""
    if 0 in node.shape:
        return filled(node, 0)
    first = solved(node, factor, b, upper, transposed=upper)
    return solved(node, factor, first, upper, transposed=not upper)


@handler("aten.cholesky_inverse.default")
def cholesky_inverse(node: NodeContext, factor: Value, upper: bool = False) -> Results:
    """The same for the identity."""

    def definition() -> Tensor:
        def body(*i: Expr) -> Expr:
            return cast(i[-2].equal(i[-1]), node.dtype)

        return compute(node.shape, body, name="identity")

    identity = node.call(definition)
    return cholesky_solve(node, identity, factor, upper)


@handler("aten.linalg_cholesky_ex.default")
def cholesky(
    node: NodeContext, a: Value, *, upper: bool = False, check_errors: bool = False
) -> Results:
    """L with L Lᵀ = A, or U with Uᵀ U = A, of the lower or ``upper`` half of A, NaN where there is
    none; and the order of the first leading minor that is not positive, 0 where all are."""
    if check_errors:
        raise node.unsupported("check_errors=True")
    if 0 in node.shape:
        _, info = node.results
        assert info is not None
        return filled(node, 0), node.call("fill", shape=info.shape, value=0, dtype=info.dtype)

    def definition(matrix: Tensor) -> tuple[Tensor, Tensor]:
        *batch, n, _ = matrix.shape
        wide = matrix.dtype.compute

        def body(itself: Callable[..., Expr], *index: Expr) -> tuple[Expr]:
            """Row i of U from those above: what is left of A's, by the root of its pivot."""
            *b, i, j = index
            k = reduce_axis((0, i), name="k")

            def left(column: Expr) -> Expr:
                place = (i, column) if upper else (column, i)
                known = build.sum(itself(0, *b, k, i) * itself(0, *b, k, column), k)
                return cast(matrix[(*b, *place)], wide) - known

            root = apply("sqrt", left(i))
            return (select(j < i, 0, select(j.equal(i), root, left(j) / root)),)

        (rows,) = scan(
            matrix.shape, body, dtypes_=(wide,), along=len(batch) + 1, name="cholesky_rows"
        )

        def element(*index: Expr) -> Expr:
            *b, i, j = index
            return cast(rows[(*b, i, j)] if upper else rows[(*b, j, i)], matrix.dtype)

        def order(*b: Expr) -> Expr:
            k = reduce_axis((0, n), name="k")
            wrong = ~(rows[(*b, k, k)] > 0)
            first = build.min_over(select(wrong, k + 1, as_size(n) + 1), k)
            return cast(select(first > as_size(n), 0, first), dtypes.int32)

        return compute(matrix.shape, element, name="cholesky"), compute(batch, order, name="info")

    return node.call(definition, a)
