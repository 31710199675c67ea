"""Handlers of products of matrices."""

from __future__ import annotations

from weft.frontend.torch.context import NodeContext, Results, handler
from weft.frontend.torch.pointwise import pointwise
from weft.ir import dtypes
from weft.ir.operator_graph import Value


@handler(
    "aten.mm.default", "aten.bmm.default", "aten.matmul.default", "aten.mv.default",
    "aten.dot.default",
)  # fmt: skip
def matmul(node: NodeContext, a: Value, b: Value) -> Results:
    _check_numbers(node)
    return node.call("matmul", a, b)


@handler("aten.addmm.default")
def addmm(
    node: NodeContext, addend: Value, a: Value, b: Value, *, beta: float = 1, alpha: float = 1
) -> Results:
    _check_numbers(node)
    return node.call("gemm", a, b, addend, alpha=alpha, beta=beta)


@handler("aten.baddbmm.default", "aten.addmv.default")
def added(
    node: NodeContext, addend: Value, a: Value, b: Value, *, beta: float = 1, alpha: float = 1
) -> Results:
    """beta · addend + alpha · a b; an addend that does not count need not be a number."""
    _check_numbers(node)
    product = node.call("matmul", a, b)
    if beta == 0:
        return pointwise(node, lambda x: x * alpha, product)
    return pointwise(node, lambda x, c: x * alpha + c * beta, product, addend)


@handler("aten.addbmm.default")
def addbmm(
    node: NodeContext, addend: Value, a: Value, b: Value, *, beta: float = 1, alpha: float = 1
) -> Results:
    """beta · addend + alpha · Σ a[i] b[i]: a product over batch and inner dimension together."""
    _check_numbers(node)
    batch, rows, inner = node.sizes(a)
    left = node.call("transpose", a, perm=(1, 0, 2))
    left = node.call("reshape", left, shape=(rows, batch * inner))
    right = node.call("reshape", b, shape=(batch * inner, node.sizes(b)[2]))
    return node.call("gemm", left, right, addend, alpha=alpha, beta=beta)


@handler("aten.linear.default")
def linear(node: NodeContext, x: Value, weight: Value, bias: Value | None = None) -> Results:
    """x wᵀ + bias; dimensions before the last are rows of one matrix."""
    _check_numbers(node)
    if len(weight.shape) == 1:
        product = node.call("matmul", x, weight)
        return product if bias is None else pointwise(node, lambda p, b: p + b, product, bias)
    return node.call("linear", x, weight, bias)


def _check_numbers(node: NodeContext) -> None:
    if node.dtype == dtypes.bool_:
        raise node.unsupported("sums of bools")
