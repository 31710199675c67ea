"""Online softmax: sums of exponentials in one pass over their rows, if no cache holds these.

    m[i] = max_k x[i, k];  s[i] = Σ_k exp(x[i, k] - m[i]);  y[i, k] = exp(x[i, k] - m[i]) / s[i]

reads x three times. In blocks of k, each relative to its own maximum, the first two are one pass
(``rewrite_in_blocks`` has the algebra, ``exponentials`` finds the sums by access relations). If x
is a product (attention), no row of it is ever stored whole: each block of scores is used where it
is made. Rows that fit into a cache stay as they are. The choice for each maximum is in its node's
attribute "online", for ``explain``.

What a user may want to know: each block is rounded once more, when it is rescaled; a finite factor
times an infinite value may give an infinity where exp(x - m) alone is 0 already.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import networkx as nx

from weft.graph.access_pattern import steps_of
from weft.graph.eliminate_dead import eliminate_dead
from weft.graph.exponentials import Family, families
from weft.graph.online_blocks import rewrite_in_blocks
from weft.graph.online_costs import blocks_for, context_of
from weft.graph.rebuild import rebuilt
from weft.graph.ruled_out import cuts
from weft.graph.split_node import split_node, with_makers
from weft.graph.whole_program import Key, WholeProgram, key_of
from weft.ir.machine import Machine
from weft.ir.operator_graph import Graph, Node, Value
from weft.ir.plan import Choose, by_default
from weft.ir.scalar_expr import Apply, walk
from weft.ir.tensor_expr import Compute, Operation, Program, Tensor, operations

BLOCKS, WHOLE = "in blocks", "whole rows"


def online(graph: Graph, machine: Machine, choose: Choose = by_default) -> Graph:
    """``graph`` with those sums of exponentials in blocks that are faster so on ``machine``, unless
    ``choose`` says "whole rows"."""
    if not any(_has_powers(node.program) for node in graph.nodes):
        return graph
    program = WholeProgram(graph)
    found = families(program.operations)
    cut = cuts(graph) if found else frozenset()
    chosen = []
    for f in found:
        home = _home(f, program)
        blocks, note = blocks_for(f, context_of(f, program), machine, cut=home in cut)
        name = f"{graph.nodes[home].name}.online"
        if blocks and choose(name, (BLOCKS, WHOLE), BLOCKS) == WHOLE:
            blocks, note = None, f"{WHOLE}, by plan"
        chosen.append((f, blocks, note))
    kept = {graph.nodes[_home(f, program)].name for f, blocks, _ in chosen if not blocks}
    notes = {program.home[f.maximum.operation]: note for f, blocks, note in chosen if not blocks}
    graph = _noted(graph, notes)
    homes = {program.home[o] for f, blocks, _ in chosen if blocks for o in f.operations}
    if not homes:
        return graph
    graph, parts = _split(graph, homes)
    read = {o for f, blocks, _ in chosen if blocks for s in f.sums for o in s.through}
    parts |= {v.name for o in read if (v := program.value_of(o))}
    return _joined(_rewritten(graph, machine, kept), parts)


def _home(family: Family, program: WholeProgram) -> int:
    """The number of the node that computes the maximum."""
    return program.home[family.maximum.operation]


def _noted(graph: Graph, notes: Mapping[int, str]) -> Graph:
    """``graph`` with ``notes`` in the nodes' attribute "online"."""
    nodes = [
        replace(n, attributes={**n.attributes, "online": notes[k]}) if k in notes else n
        for k, n in enumerate(graph.nodes)
    ]
    return replace(graph, nodes=tuple(nodes))


def _split(graph: Graph, numbers: Collection[int]) -> tuple[Graph, set[str]]:
    """``graph`` with the nodes of ``numbers`` split into one per operation, and the names of new
    values."""
    taken = set(graph.constants) | {v.name for v in graph.inputs}
    taken |= {v.name for node in graph.nodes for v in node.outputs}
    before = set(taken)
    nodes: list[Node] = []
    for number, node in enumerate(graph.nodes):
        nodes += split_node(node, taken) if number in numbers else [node]
    return replace(graph, nodes=tuple(nodes)), taken - before


def _joined(graph: Graph, parts: Collection[str]) -> Graph:
    """``graph`` with elementwise producers of the values ``parts`` merged into their only reader,
    so that these need no memory."""
    final = {v.name for v in graph.outputs}
    readers = graph.consumers
    makers: dict[str, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        own = {v.name: makers[v.name] for v in node.inputs if v.name in makers}
        whole = with_makers(node, own) if own else node
        (value, *others) = node.outputs
        own_ = value.name in parts and value.name not in final
        alone = not others and own_ and len(readers[value.name]) == 1
        if alone and all(step.is_map for step in steps_of(whole.program)):
            makers[value.name] = whole
        else:
            nodes.append(whole)
    return replace(graph, nodes=tuple(nodes))


def _rewritten(graph: Graph, machine: Machine, kept: Collection[str]) -> Graph:
    """``graph``, where each operation of a family is a node, with those in blocks that pay, but
    for the nodes ``kept``."""
    program = WholeProgram(graph)
    cores: dict[int, _Core] = {}
    gone: set[int] = set()
    cut = cuts(graph)
    for family in families(program.operations):
        known = {o: program.value_of(o) for o in family.operations}
        homes = {program.home[o] for o in known}
        context = context_of(family, program)
        home = _home(family, program)
        blocks, note = blocks_for(family, context, machine, cut=home in cut)
        if graph.nodes[home].name in kept:
            continue
        if blocks is None or context is None or None in known.values() or homes & gone:
            continue
        made = rewrite_in_blocks(family, blocks, context.alone, context.between)
        results = {v: Tensor(v.name, v.shape, v.dtype, made[o]) for o, v in known.items() if v}
        cores[max(homes)] = _Core(graph.nodes[max(homes)], note, results)
        gone |= homes
    for _ in range(2):  # the second time without unused results
        nodes = [
            cores[k].node(program.values) if k in cores else node
            for k, node in enumerate(graph.nodes)
            if k in cores or k not in gone
        ]
        new = eliminate_dead(replace(graph, nodes=_ordered(nodes)))
        needed = {v.name for v in new.outputs} | {v.name for n in new.nodes for v in n.inputs}
        cores = {k: core.only(needed) for k, core in cores.items()}
    return new


def _ordered(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """``nodes`` in topological order, otherwise in their own order."""
    maker = {v.name: k for k, node in enumerate(nodes) for v in node.outputs}
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(nodes)))
    graph.add_edges_from(
        (maker[v.name], k) for k, node in enumerate(nodes) for v in node.inputs if v.name in maker
    )
    return tuple(nodes[k] for k in nx.lexicographical_topological_sort(graph))


@dataclass(frozen=True, slots=True)
class _Core:
    """One node for a family: ``results`` by the values that they replace; ``last``: the last node
    that computed one of these; ``note``: the reason, for people."""

    last: Node
    note: str
    results: Mapping[Value, Tensor]

    def only(self, needed: Collection[str]) -> _Core:
        return replace(self, results={v: t for v, t in self.results.items() if v.name in needed})

    def node(self, values: Mapping[Key, Value]) -> Node:
        """The node; ``values``: existing tensors."""
        inputs: dict[Key, Tensor] = {}
        done: dict[Operation, Operation] = {}

        def of(tensor: Tensor) -> Tensor:
            key = key_of(tensor)
            if key in values:
                v = values[key]
                return inputs.setdefault(key, Tensor(v.name, v.shape, v.dtype))
            assert tensor.operation is not None
            return replace(tensor, operation=done[tensor.operation])

        for operation in _in_order(self.results.values(), values):
            done[operation] = rebuilt(operation, of, operation.name)
        outputs = tuple(map(of, self.results.values()))
        program = Program("online", tuple(inputs.values()), outputs)
        given = tuple(values[k] for k in inputs)
        notes = {**self.last.attributes, "online": self.note}
        return replace(
            self.last, inputs=given, outputs=tuple(self.results), program=program, attributes=notes
        )


def _in_order(results: Iterable[Tensor], known: Collection[Key]) -> tuple[Operation, ...]:
    """The operations that ``results`` need, down to ``known`` tensors, in topological order."""
    done: dict[Operation, None] = {}
    stack = [(t, False) for t in results]
    while stack:
        tensor, expanded = stack.pop()
        operation = tensor.operation
        if key_of(tensor) in known or operation is None or operation in done:
            continue
        if expanded:
            done[operation] = None
        else:
            stack.append((tensor, True))
            stack += [(t, False) for t in operation.reads]
    return tuple(done)


def _has_powers(program: Program) -> bool:
    return any(
        isinstance(n, Apply) and n.op == "exp"
        for operation in operations(program)
        if isinstance(operation, Compute)
        for value in operation.values
        for n in walk(value)
    )
