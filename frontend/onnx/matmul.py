"""Handlers of matrix products and Einstein sums."""

from __future__ import annotations

from weft.frontend.onnx.context import NodeContext, Results, handler


@handler("MatMul")
def matmul(node: NodeContext) -> Results:
    return node.call("matmul", node.input(0), node.input(1))


@handler("Gemm")
def gemm(node: NodeContext) -> Results:
    """Before opset 7, C broadcast only with ``broadcast=1``; the definition always does."""
    return node.call(
        "gemm",
        node.input(0),
        node.input(1),
        node.optional(2),
        alpha=float(node.attribute("alpha", 1.0)),
        beta=float(node.attribute("beta", 1.0)),
        transpose_a=bool(node.attribute("transA", 0)),
        transpose_b=bool(node.attribute("transB", 0)),
    )


@handler("Einsum")
def einsum(node: NodeContext) -> Results:
    return node.call("einsum", *node.all_inputs(), equation=str(node.required("equation")))
