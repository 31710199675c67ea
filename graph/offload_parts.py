"""The graph in parts: those that an accelerator takes, and what the processor computes in between.

An accelerator's part begins with a node that it can compute, and grows along results that one node
alone reads, as long as it can compute all of it together. Which nodes these are, the caller says:
nothing is decided by an operator's name. Parts of the processor are as large as can be: everything
between the same two rounds of the accelerator.

As a part grows only along results with one reader, the graph of parts has no cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weft.graph.operator_graph import Graph, Node, Value
from weft.graph.partition import Cluster


@dataclass(frozen=True, slots=True)
class Part:
    """``offloaded``: for the accelerator. ``cluster.inputs`` has constants of the graph, too."""

    cluster: Cluster
    offloaded: bool


def offload_parts(graph: Graph, takes: Callable[[Cluster], bool]) -> tuple[Part, ...]:
    """The parts of ``graph`` in an order in which they can run; every node is in one of them."""
    return _Parts(graph, takes).parts()


class _Parts:
    def __init__(self, graph: Graph, takes: Callable[[Cluster], bool]) -> None:
        self.graph, self.takes = graph, takes
        self.producers, self.consumers = graph.producers, graph.consumers
        self.results = {value.name for value in graph.outputs}

    def parts(self) -> tuple[Part, ...]:
        offloaded: dict[str, list[Node]] = {}  # by name of each of its nodes
        for node in self.graph.nodes:
            if node.name not in offloaded and self.takes(self._cluster([node])):
                grown = self._grown(node, offloaded)
                offloaded |= {each.name: grown for each in grown}
        rounds = self._rounds(offloaded)
        found: list[Part] = []
        for number in range(max(rounds.values(), default=-1) + 1):
            here = [n for n in self.graph.nodes if rounds[n.name] == number]
            rest = [n for n in here if n.name not in offloaded]
            if rest:
                found.append(Part(self._cluster(rest), False))
            first = [n for n in here if n.name in offloaded and offloaded[n.name][0] is n]
            found += [Part(self._cluster(offloaded[n.name]), True) for n in first]
        return tuple(found)

    def _grown(self, node: Node, taken: dict[str, list[Node]]) -> list[Node]:
        """``node`` and those after it that can be computed with it."""
        nodes = [node]
        while True:
            reader = self._only_reader(nodes[-1])
            if reader is None or reader.name in taken:
                return nodes
            if not self.takes(self._cluster([*nodes, reader])):
                return nodes
            nodes.append(reader)

    def _only_reader(self, node: Node) -> Node | None:
        if len(node.outputs) != 1 or node.outputs[0].name in self.results:
            return None
        readers = self.consumers.get(node.outputs[0].name, [])
        return readers[0] if len(readers) == 1 else None

    def _rounds(self, offloaded: dict[str, list[Node]]) -> dict[str, int]:
        """After how many rounds of the accelerator each node runs; those of one part together."""
        rounds: dict[str, int] = {}
        for node in self.graph.nodes:
            part = offloaded.get(node.name, [node])
            if node is not part[-1]:
                continue  # what the part needs is there when its last node can run
            number = 0
            for each in part:
                for value in each.inputs:
                    maker = self.producers.get(value.name)
                    if maker is not None and maker not in part:
                        number = max(number, rounds[maker.name] + (maker.name in offloaded))
            rounds |= {each.name: number for each in part}
        return rounds

    def _cluster(self, nodes: list[Node]) -> Cluster:
        """``nodes`` with what goes in, and what others read."""
        made = {value.name for node in nodes for value in node.outputs}
        own = {node.name for node in nodes}
        inputs = {v.name: v for node in nodes for v in node.inputs if v.name not in made}
        outputs: list[Value] = []
        for node in nodes:
            for value in node.outputs:
                readers = self.consumers.get(value.name, [])
                if value.name in self.results or any(r.name not in own for r in readers):
                    outputs.append(value)
        return Cluster(nodes[-1].name, tuple(nodes), tuple(inputs.values()), tuple(outputs))
