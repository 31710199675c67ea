"""Handlers of RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.frontend.operators.recurrent import ACTIVATIONS, Activation

# alpha and beta of the activations that have them, as the ONNX operators of the same name do
_DEFAULTS: dict[str, tuple[float | None, float | None]] = {
    "affine": (1.0, 0.0),
    "leakyrelu": (0.01, None),
    "thresholdedrelu": (1.0, None),
    "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5),
    "elu": (1.0, None),
}


@handler("RNN")
def rnn(node: NodeContext) -> Results:
    attributes = _attributes(node, ("Tanh",))
    return node.call("rnn", *_inputs(node), **attributes)[: node.n_outputs]


@handler("GRU")
def gru(node: NodeContext) -> Results:
    attributes = _attributes(node, ("Sigmoid", "Tanh"))
    linear = bool(node.attribute("linear_before_reset", 0))
    results = node.call("gru", *_inputs(node), **attributes, linear_before_reset=linear)
    return results[: node.n_outputs]


@handler("LSTM")
def lstm(node: NodeContext) -> Results:
    attributes = _attributes(node, ("Sigmoid", "Tanh", "Tanh"))
    forget = bool(node.attribute("input_forget", 0))
    inputs = (*_inputs(node), node.optional(6), node.optional(7))
    return node.call("lstm", *inputs, **attributes, input_forget=forget)[: node.n_outputs]


def _inputs(node: NodeContext) -> Sequence[Any]:
    return (*(node.input(i) for i in range(3)), *(node.optional(i) for i in range(3, 6)))


def _attributes(node: NodeContext, default: tuple[str, ...]) -> dict[str, Any]:
    direction = str(node.attribute("direction", "forward"))
    if direction not in ("forward", "reverse", "bidirectional"):
        raise node.malformed(f"direction is {direction!r}")
    passes = 2 if direction == "bidirectional" else 1
    names = [str(n).lower() for n in node.attribute("activations") or default * passes]
    if len(names) != len(default) * passes:
        raise node.malformed(f"{len(names)} activations, must be {len(default) * passes}")
    hidden, given = node.attribute("hidden_size"), node.input(2).shape[-1]
    if hidden is not None and isinstance(given, int) and hidden != given:
        raise node.malformed(f"hidden_size is {hidden}, the recurrent weights have {given}")
    clip = node.attribute("clip")
    return {
        "direction": direction,
        "activations": _activations(node, names),
        "clip": None if clip is None else float(clip),
        "batch_first": bool(node.attribute("layout", 0)),
    }


def _activations(node: NodeContext, names: Sequence[str]) -> tuple[Activation, ...]:
    """Names with their parameters, which are listed in the order of the names that take them."""
    alphas, betas = (list(node.attribute(f"activation_{p}") or ()) for p in ("alpha", "beta"))
    found: list[Activation] = []
    for name in names:
        if name not in ACTIVATIONS:
            raise node.malformed(f"unknown activation {name!r}")
        alpha, beta = _DEFAULTS.get(name, (None, None))
        if alpha is not None and alphas:
            alpha = float(alphas.pop(0))
        if beta is not None and betas:
            beta = float(betas.pop(0))
        found.append((name, alpha or 0.0, beta or 0.0))
    return tuple(found)
