"""Handlers of recurrent layers, which stay whole: PyTorch's own definitions write every step out.

A layer's weights are joined over its directions, with their gates in ONNX's order; each layer is
one call of the operator. What PyTorch alone has, projected states, is left to its definitions
(``decompositions``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.frontend.torch.context import NodeContext, Results, handler
from weft.ir.operator_graph import Value
from weft.ir.tensor_expr import Size

# The gates in ONNX's order, by their places in PyTorch's.
LSTM, GRU, PLAIN = (0, 3, 1, 2), (1, 0, 2), (0,)


@handler("aten.lstm.input")
def lstm(
    node: NodeContext, x: Value, hx: Sequence[Value], params: Sequence[Value], *options: Any
) -> Results:
    return _layers(node, "lstm", x, hx, params, options, LSTM, {})


@handler("aten.gru.input")
def gru(node: NodeContext, x: Value, hx: Value, params: Sequence[Value], *options: Any) -> Results:
    return _layers(node, "gru", x, [hx], params, options, GRU, {"linear_before_reset": True})


@handler("aten.rnn_tanh.input")
def rnn_tanh(
    node: NodeContext, x: Value, hx: Value, params: Sequence[Value], *options: Any
) -> Results:
    return _layers(node, "rnn", x, [hx], params, options, PLAIN, {})


@handler("aten.rnn_relu.input")
def rnn_relu(
    node: NodeContext, x: Value, hx: Value, params: Sequence[Value], *options: Any
) -> Results:
    each = ("relu", 0.0, 0.0)
    passes = 2 if options[4] else 1
    return _layers(node, "rnn", x, [hx], params, options, PLAIN, {"activations": [each] * passes})


def _layers(
    node: NodeContext, op: str, x: Value, states: Sequence[Value], params: Sequence[Value],
    options: Sequence[Any], gates: Sequence[int], attributes: dict[str, Any],
) -> Results:  # fmt: skip
    """All layers of ``op``, each on what the one before makes of ``x``; then the last states."""
    biases, layers, dropout, training, both, batch_first = options
    if dropout and training and layers > 1:
        raise node.unsupported("dropout between layers draws random numbers")
    passes, each = 2 if both else 1, 4 if biases else 2
    direction = "bidirectional" if both else "forward"
    y = node.call("transpose", x, perm=(1, 0, 2)) if batch_first else x
    last: list[list[Value]] = []
    for layer in range(layers):
        own = params[layer * passes * each : (layer + 1) * passes * each]
        w, r = (_joined(node, own[k::each], gates) for k in (0, 1))
        bias = _biases(node, own, each, gates) if biases else None
        begin = [_part(node, s, layer * passes, passes) for s in states]
        steps, *ends = node.call(op, y, w, r, bias, None, *begin, direction=direction, **attributes)
        time, _, batch, hidden = steps.shape
        y = node.call("transpose", steps, perm=(0, 2, 1, 3))
        y = node.call("reshape", y, shape=(time, batch, passes * hidden))
        last.append(ends)
    y = node.call("transpose", y, perm=(1, 0, 2)) if batch_first else y
    return y, *(node.call("concat", *ends, axis=0) for ends in zip(*last, strict=True))


def _biases(node: NodeContext, own: Sequence[Value], each: int, gates: Sequence[int]) -> Value:
    """(directions, both biases): those of the input, then those of the state."""
    both = [_joined(node, own[k::each], gates) for k in (2, 3)]
    return node.call("concat", *both, axis=1)  # type: ignore[no-any-return]


def _joined(node: NodeContext, directions: Sequence[Value], gates: Sequence[int]) -> Value:
    """One parameter of all directions, its gates in another order."""
    found = []
    for value in directions:
        rows, *rest = value.shape
        hidden = node.known(rows, "the rows of a recurrent weight") // len(gates)
        parts = [_part(node, value, gate * hidden, hidden) for gate in gates]
        ordered = node.call("concat", *parts, axis=0)
        found.append(node.call("reshape", ordered, shape=(1, rows, *rest)))
    return node.call("concat", *found, axis=0)  # type: ignore[no-any-return]


def _part(node: NodeContext, value: Value, first: int, size: int) -> Value:
    """``size`` rows of ``value`` from ``first`` on."""
    _, *rest = value.shape
    starts: tuple[Size, ...] = (first, *(0 for _ in rest))
    steps = tuple(1 for _ in value.shape)
    return node.call("strided_slice", value, starts=starts, steps=steps, sizes=(size, *rest))  # type: ignore[no-any-return]
