"""Constant folding within a budget that is counted, not timed, so that it is reproducible."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from weft.graph.eliminate_dead import eliminate_dead
from weft.graph.known import elements
from weft.ir.errors import ExecutionError
from weft.ir.operator_graph import Graph, Node
from weft.ir.scalar_expr import walk
from weft.ir.tensor_axes import symbols_in
from weft.ir.tensor_expr import (
    Compute,
    Operation,
    Program,
    Reduce,
    Reshape,
    Scatter,
    operations,
)
from weft.ir.tensor_interpreter import interpret

_TRIANGLE = 1 << 20  # points taken for a reduction whose bounds depend on outer axes


@dataclass(frozen=True, slots=True)
class FoldBudget:
    """``points`` and ``bytes`` bound the whole pass, growth a single node.

    ``points``: of iteration spaces that are interpreted, about 20 million a second. A result of
    more than ``small_bytes`` may be at most ``growth`` times as large as its constants: what is
    cheaply made from little is better made again than stored.
    """

    points: int = 1 << 26
    bytes: int = 1 << 31
    small_bytes: int = 1 << 16
    growth: int = 2


def fold_constants(graph: Graph, budget: FoldBudget | None = None) -> Graph:
    """``graph`` with nodes on nothing but constants replaced by their results.

    Nodes beyond the budget stay; their cost is known from their iteration spaces before anything is
    allocated. Nodes that fail on their constants (an index out of range) stay, to fail when run.
    """
    left = budget or FoldBudget()
    constants = dict(graph.constants)
    kept: list[Node] = []
    for node in graph.nodes:
        arrays = [constants.get(v.name) for v in node.inputs]
        known = [a for a in arrays if a is not None]
        cost = fold_cost(node.program) if len(known) == len(arrays) else None
        if cost is None or not _affordable(cost, sum(a.nbytes for a in known), left):
            kept.append(node)
            continue
        try:
            results = interpret(node.program, known)
        except ExecutionError:
            kept.append(node)
            continue
        left = replace(left, points=left.points - cost[0], bytes=left.bytes - cost[1])
        for value, array in zip(node.outputs, results, strict=True):
            constants[value.name] = _read_only(array)
    if len(kept) == len(graph.nodes):
        return graph
    return eliminate_dead(replace(graph, nodes=tuple(kept), constants=constants))


def fold_cost(program: Program) -> tuple[int, int] | None:
    """(points of its iteration spaces, bytes of its results); None where a size is symbolic."""
    points = 0
    stored = 0
    for operation in operations(program):
        found = _points(operation)
        if found is None or symbols_in(operation):
            return None
        points += found
    for tensor in program.outputs:
        count = elements(tensor.shape)
        if count is None:
            return None
        stored += count * tensor.dtype.itemsize
    return points, stored


def _points(operation: Operation) -> int | None:
    match operation:
        case Reshape(_, source):
            return elements(source.shape)
        case Compute(_, axes, values):
            copied: int | None = 0
        case Scatter(_, base, axes, _, value):
            values, copied = (value,), elements(base.shape)
    domain = elements([axis.extent for axis in axes])
    if domain is None or copied is None:
        return None
    inner = 1
    for node in (n for value in values for n in walk(value)):
        if isinstance(node, Reduce):
            inner = max(inner, elements([a.extent for a in node.axes]) or _TRIANGLE)
    return copied + domain * inner


def _affordable(cost: tuple[int, int], given: int, left: FoldBudget) -> bool:
    points, stored = cost
    grown = stored > left.small_bytes and stored > left.growth * given
    return points <= left.points and stored <= left.bytes and not grown


def _read_only(array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array).reshape(array.shape)
    array.flags.writeable = False
    return array
