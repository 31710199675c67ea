"""The meaning of an operator graph: its nodes' programs, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from weft.ir.operator_graph import Graph
from weft.ir.tensor_expr import Program, Tensor
from weft.ir.tensor_interpreter import bind_sizes, interpret


def interpret_graph(
    graph: Graph, inputs: Sequence[np.ndarray], *, precise: bool = False
) -> tuple[np.ndarray, ...]:
    """The outputs of ``graph`` on ``inputs``, as new arrays.

    Values are dropped after their last use. With ``precise`` floats are float64 throughout. Raises
    what the interpreter of tensor expressions raises: E0121 and E0122 for inputs that do not fit,
    E0140 for an index out of range.
    """
    values = run_nodes(graph, inputs, precise=precise)
    return tuple(np.array(values[v.name]) for v in graph.outputs)


def run_nodes(
    graph: Graph,
    inputs: Sequence[np.ndarray],
    *,
    precise: bool = False,
    keep: bool = False,
) -> Mapping[str, np.ndarray]:
    """The values of ``graph`` by name: those that it outputs, or all of them where ``keep``."""
    placeholders = tuple(Tensor(v.name, v.shape, v.dtype) for v in graph.inputs)
    sizes = bind_sizes(Program(graph.name, placeholders, ()), inputs)
    values: dict[str, np.ndarray] = dict(graph.constants)
    values |= {v.name: np.asarray(a) for v, a in zip(graph.inputs, inputs, strict=True)}
    last_use = {v.name: n for n, node in enumerate(graph.nodes) for v in node.inputs}
    final = {v.name for v in graph.outputs}
    for number, node in enumerate(graph.nodes):
        given = [values[v.name] for v in node.inputs]
        results = interpret(node.program, given, sizes, precise=precise)
        values |= {v.name: r for v, r in zip(node.outputs, results, strict=True)}
        for value in () if keep else node.inputs:
            if last_use[value.name] == number and value.name not in final:
                values.pop(value.name, None)
    return values
