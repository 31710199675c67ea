"""Updates: which results may be computed in the memory of the inputs that they replace.

    keys' = [past <= i < past + n ? new[i - past] : keys[i]]        keys[past : past + n] = new

A pair of a graph's ``in_place`` says that a result replaces an input in the end. It may share the
input's memory throughout where one operation alone reads the input, each element for the same
element of the result: that is all that is ever lost. The result is then written where it differs
(``polyhedral/update_in_place.py``), and a cache of keys is not copied at each call. Other pairs are
computed apart, and copied. Also known as: buffer donation, destructive updates.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.ir.operator_graph import Graph
from weft.ir.scalar_expr import Expr, Load, walk
from weft.ir.tensor_expr import (
    Axis,
    Compute,
    Program,
    Reduce,
    Scatter,
    Tensor,
    operations,
    tensors_read,
)


def updates(graph: Graph) -> tuple[tuple[int, int], ...]:
    """Those (output, input) pairs of ``graph.in_place`` that may share memory during a call."""
    return tuple(_updates(graph))


def _updates(graph: Graph) -> Iterator[tuple[int, int]]:
    producers, consumers = graph.producers, graph.consumers
    outputs = {v.name for v in graph.outputs}
    for output, number in graph.in_place:
        result, given = graph.outputs[output], graph.inputs[number]
        node = producers.get(result.name)
        if node is None or given.name in outputs or consumers.get(given.name) != [node]:
            continue
        alike = (result.shape, result.dtype) == (given.shape, given.dtype)
        places = [k for k, value in enumerate(node.inputs) if value == given]
        if alike and len(places) == 1:
            made = node.program.outputs[node.outputs.index(result)]
            if _is_update(node.program, made, node.program.inputs[places[0]]):
                yield output, number


def _is_update(program: Program, result: Tensor, given: Tensor) -> bool:
    """Whether ``result`` of ``program`` is an operation that reads ``given``, each element for the
    same element of the result, and nothing else in ``program`` reads it."""
    readers = [operation for operation in operations(program) if given in operation.reads]
    if readers != [result.operation] or program.outputs.count(result) > 1:
        return False
    match result.operation:
        case Compute(axes=axes, values=(value,), scan=0):
            return _by_element(value, given, axes)
        case Scatter(base=base):
            read = tensors_read(e for e in result.operation.expressions)
            return base is given and given not in read
    return False


def _by_element(value: Expr, given: Tensor, axes: tuple[Axis, ...]) -> bool:
    """Whether ``value``, at ``axes``, is no fold and reads ``given`` there alone."""
    nodes = list(walk(value))
    loads = (n for n in nodes if isinstance(n, Load) and n.source is given)
    folds = any(isinstance(n, Reduce) for n in nodes)
    return not folds and all(n.indices == axes for n in loads)
