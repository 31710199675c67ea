"""Dead code: nodes and constants that no output needs."""

from __future__ import annotations

from dataclasses import replace

from weft.graph.operator_graph import Graph, Node


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
