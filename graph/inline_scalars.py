"""Scalar constants as literals, where knowing their value makes what is computed cheaper.

max(x, c[])                     max(x, 0.0)     no question whether the bound is NaN
x - c[],  x * c[],  x / c[]     x               where the value is neutral
x[i, c[]]                       x[i, 7]         an affine access

Other scalars stay arguments, so that layers that differ in nothing else share their code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import copysign, isnan

import numpy as np

from weft.graph.eliminate_dead import eliminate_dead
from weft.graph.rebuild import rebuild
from weft.ir.dtypes import as_dtype
from weft.ir.operator_graph import Graph, Node
from weft.ir.scalar_expr import Apply, Cast, Expr, Literal, Load, literal, rewrite
from weft.ir.tensor_expr import (
    Compute,
    Operation,
    Scatter,
    Tensor,
    operations,
)

_BETTER_KNOWN = {"min", "max", "pow"}
_NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "div": 1}  # on the right; 0.0 is not, of an addition

_Scalars = Mapping[Tensor, Literal]


def inline_scalars(graph: Graph) -> Graph:
    """``graph`` with constants of one element written into the nodes that gain by it."""
    scalars = {
        name: value
        for name, array in graph.constants.items()
        if array.size == 1 and (value := _literal(array)) is not None
    }
    if not scalars:
        return graph
    nodes = tuple(_inlined(node, scalars) for node in graph.nodes)
    return eliminate_dead(replace(graph, nodes=nodes))


def _literal(array: np.ndarray) -> Literal | None:
    """None for NaN and -0.0: the first equals no literal, the second one too many."""
    value = array.item()
    if isinstance(value, float) and (isnan(value) or (value == 0 and copysign(1, value) < 0)):
        return None
    return literal(value, as_dtype(array.dtype)) if isinstance(value, bool | int | float) else None


def _inlined(node: Node, scalars: Mapping[str, Literal]) -> Node:
    """``node`` without the scalars that it no longer reads."""
    before = node.program
    known = {
        tensor: scalars[value.name]
        for tensor, value in zip(before.inputs, node.inputs, strict=True)
        if value.name in scalars
    }
    if not known or before.in_place:
        return node
    _, outputs = rebuild(before, before.inputs, change=lambda made: _with(made, known))
    after = replace(before, outputs=outputs)
    read = {*outputs, *(tensor for made in operations(after) for tensor in made.reads)}
    kept = [k for k, tensor in enumerate(before.inputs) if tensor not in known or tensor in read]
    if not kept:
        return node
    inputs = tuple(before.inputs[k] for k in kept)
    program = replace(after, inputs=inputs)
    return replace(node, inputs=tuple(node.inputs[k] for k in kept), program=program)


def _with(operation: Operation, known: _Scalars) -> Operation:
    """``operation`` with literals for what it loads from ``known``."""

    def change(expr: Expr) -> Expr | None:
        match expr:
            case Apply(op, args) if op in _BETTER_KNOWN:
                return Apply(op, tuple(_read(arg, known) for arg in args))
            case Apply("add" | "sub" | "mul" | "div" as op, (left, right)):
                value = _value(right, known)
                exact = op != "add" or not expr.dtype.is_float
                neutral = value is not None and value.value == _NEUTRAL[op]
                return left if neutral and exact else None
            case Load(source, indices, dtype):
                return Load(source, tuple(_read(index, known) for index in indices), dtype)
        return None

    match operation:
        case Compute():
            return replace(operation, values=tuple(rewrite(v, change) for v in operation.values))
        case Scatter():
            indices = tuple(rewrite(index, change) for index in operation.indices)
            return replace(operation, indices=indices, value=rewrite(operation.value, change))
    return operation


def _read(expr: Expr, known: _Scalars) -> Expr:
    value = _value(expr, known)
    return expr if value is None else value


def _value(expr: Expr, known: _Scalars) -> Literal | None:
    match expr:
        case Load(Tensor() as source):
            return known.get(source)
        case Cast(Load(Tensor() as source), dtype) if source in known:
            value = known[source]
            exact = {value.dtype.kind, dtype.kind} <= {"int", "uint"}
            same = literal(value.value, dtype)
            return same if exact and same.value == value.value else None
    return None
