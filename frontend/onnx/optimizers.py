"""Handlers of the optimizers in ai.onnx.preview.training: one call per optimised tensor."""

from __future__ import annotations

from typing import Any

from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.ir.operator_graph import Value

DOMAIN = "ai.onnx.preview.training"


@handler("Adagrad", domain=DOMAIN)
def adagrad(node: NodeContext) -> Results:
    return _each(
        node,
        "adagrad",
        states=1,
        decay=_number(node, "decay_factor", 0.0),
        epsilon=_number(node, "epsilon", 1e-6),
        norm=_number(node, "norm_coefficient", 0.0),
    )


@handler("Adam", domain=DOMAIN)
def adam(node: NodeContext) -> Results:
    return _each(
        node,
        "adam",
        states=2,
        alpha=_number(node, "alpha", 0.9),
        beta=_number(node, "beta", 0.999),
        epsilon=_number(node, "epsilon", 1e-6),
        norm=_number(node, "norm_coefficient", 0.0),
        norm_after=_number(node, "norm_coefficient_post", 0.0),
    )


@handler("Momentum", domain=DOMAIN)
def momentum(node: NodeContext) -> Results:
    mode = str(node.required("mode"))
    if mode not in ("standard", "nesterov"):
        raise node.malformed(f"mode is {mode!r}")
    return _each(
        node,
        "momentum",
        states=1,
        alpha=float(node.required("alpha")),
        beta=float(node.required("beta")),
        norm=float(node.required("norm_coefficient")),
        nesterov=mode == "nesterov",
    )


def _number(node: NodeContext, name: str, default: float) -> float:
    return float(node.attribute(name, default))


def _each(node: NodeContext, op: str, *, states: int, **attributes: Any) -> list[Value]:
    """Inputs are R, T, then all x, all gradients, all of each state; outputs likewise."""
    rate, count, *rest = node.all_inputs()
    tensors, left = divmod(len(rest), 2 + states)
    if left or not tensors:
        raise node.malformed(f"{len(rest)} tensors are not a multiple of {2 + states}")
    calls = [node.call(op, rate, count, *rest[n::tensors], **attributes) for n in range(tensors)]
    return [results[kind] for kind in range(1 + states) for results in calls]
