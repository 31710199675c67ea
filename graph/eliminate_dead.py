"""Dead code: nodes and constants that no output needs."""

from __future__ import annotations

from dataclasses import replace

from weft.graph.rebuild import fresh_name
from weft.ir.build import compute
from weft.ir.operator_graph import Graph, Node, Value
from weft.ir.tensor_expr import Program, Tensor


def eliminate_dead(graph: Graph) -> Graph:
    """``graph`` with only what its outputs need; inputs stay, needed or not."""
    needed = {v.name for v in graph.outputs}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if any(v.name in needed for v in node.outputs):
            kept.append(node)
            needed.update(v.name for v in node.inputs)
    constants = {name: data for name, data in graph.constants.items() if name in needed}
    if len(kept) == len(graph.nodes) and len(constants) == len(graph.constants):
        return graph
    return replace(graph, nodes=tuple(reversed(kept)), constants=constants)


# ---- Own outputs: every output of the graph is one node's result, in memory of its own.
#
# An output that is an input, a constant, or listed before is computed by a copy. Such an output
# gets a name of its own inside the graph; callers keep the names of the graph as it was given.


def own_outputs(graph: Graph) -> Graph:
    """``graph`` with copies for the outputs that no node computes for them alone."""
    free = {v.name for node in graph.nodes for v in node.outputs}
    taken = graph.names
    copies: list[Node] = []
    outputs: list[Value] = []
    for value in graph.outputs:
        if value.name in free:
            free.discard(value.name)  # a second mention is another output
            outputs.append(value)
        else:
            copies.append(
                _copy(value, replace(value, name=fresh_name(f"{value.name}.copy", taken)))
            )
            outputs.append(copies[-1].outputs[0])
    return replace(graph, nodes=(*graph.nodes, *copies), outputs=tuple(outputs))


def _copy(source: Value, result: Value) -> Node:
    given = Tensor(source.name, source.shape, source.dtype)
    copied = compute(source.shape, lambda *i: given[i], name="copy")
    program = Program("copy", (given,), (copied,))
    return Node(result.name, "copy", (source,), (result,), {}, program, f"output {source.name!r}")
