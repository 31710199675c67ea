"""Layouts across the graph: what lies between operators is stored as those around it like best.

    y[n, k, h, w] = Σ x[n, c, h, w] * v[k, c]            y'[n, h, w, k] = …
    z[n, k, h, w] = Σ y[n, k, h + r, w + s] * u[k, r, s]    →    z[…] = Σ y'[n, h + r, w + s, k] * …

Where a chain of operators gains by having its channels last, all that lies between them is stored
so. ``layout_facts`` finds channels by accesses, ``layout_costs`` says what each operation takes in
either layout, and the cheapest choice for the whole graph is a minimum cut: an operation lies on
one of two sides, and costs more if it reads something from the other. So conversions are where the
cut is; nothing is copied for them: operations there read or write across. Inputs and outputs of
the graph stay. What is said about a value is in its node's attribute "layout", for ``explain``.

Liu et al., "Optimizing CNN model inference on CPUs", ATC 2019, choose layouts by dynamic
programming over operators' measured times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import networkx as nx

from weft.frontend.tensor_expr import Operation, Tensor, operations
from weft.graph.layout import Layout, Layouts, relaid
from weft.graph.layout_costs import Order, cycles
from weft.graph.layout_facts import Item, Key, channels, items_of
from weft.graph.operator_graph import Graph, Node, Value
from weft.polyhedral.machine import Machine

ENOUGH = 1.02  # times as costly as with layouts what is around a chain must be without
PART = 1000  # operations that are decided about together: a cut takes longer than linear time
_NEAR, _FAR = "near", "far"


def layouts(graph: Graph, machine: Machine) -> Graph:
    """``graph`` with values stored as the operations around them gain by on ``machine``.

    Sizes that are not known, views and scatters keep what they touch as it is.
    """
    items = items_of(graph)
    found = channels(items)
    costs = _Costs(
        items, {key: _last(len(items[key].shape), dim) for key, dim in found.items()}, machine
    )
    chosen: set[Key] = set()
    keys = list(items)
    for first in range(0, len(keys), PART):
        chosen |= _cut(costs, keys[first : first + PART], chosen)
    gains = {key: gain for key, gain in _gains(costs, chosen) if gain >= ENOUGH}
    return _stored(graph, {key: (Layout(costs.turned[key]), gain) for key, gain in gains.items()})


def _last(rank: int, dim: int) -> tuple[int, ...]:
    """The dims of a tensor with ``dim`` last."""
    return (*(d for d in range(rank) if d != dim), dim)


class _Costs:
    """Cycles of items by the layouts of what they make and read: ``turned`` or as they are."""

    def __init__(
        self, items: Mapping[Key, Item], turned: Mapping[Key, tuple[int, ...]], machine: Machine
    ) -> None:
        self.items = items
        self.turned = turned
        self.machine = machine

    def of(self, item: Item, far: Collection[Key]) -> float:
        """Of ``item``, where the results of ``far`` are turned."""

        def order(key: Key | None, rank: int) -> Order:
            own = self.turned.get(key) if key is not None and key in far else None
            return range(rank) if own is None else own

        orders = [order(read.source, len(read.shape)) for read in item.reads]
        return cycles(item, order(item.key, len(item.shape)), orders, self.machine)


def _cut(costs: _Costs, keys: list[Key], before: set[Key]) -> set[Key]:
    """Those of ``keys`` whose results are better turned, on the far side of a minimum cut. Of what
    is not among them, the results ``before`` are turned."""
    graph = nx.DiGraph()
    graph.add_nodes_from((_NEAR, _FAR))
    open_ = {key for key in keys if key in costs.turned}

    def pay(one: object, other: object, cost: float) -> None:
        """``cost``, where ``one`` is near and ``other`` far."""
        if cost > 0 and one != other:
            known = graph.get_edge_data(one, other, {"capacity": 0.0})["capacity"]
            graph.add_edge(one, other, capacity=known + cost)

    for key in keys:
        item = costs.items[key]
        read = {r.source for r in item.reads if r.source is not None}
        sources, others = read & open_, read & before
        place: object = key if key in open_ else _NEAR
        near = costs.of(item, others)
        far = costs.of(item, {key, *sources, *others})
        if key in open_:
            pay(key, _FAR, near)
            pay(_NEAR, key, far)
        for source in sources:
            pay(place, source, costs.of(item, {source, *others}) - near)
            if key in open_:
                pay(source, key, costs.of(item, {key, *sources, *others} - {source}) - far)
    _, (_, chosen) = nx.minimum_cut(graph, _NEAR, _FAR)
    return {key for key in open_ if key in chosen}


def _gains(costs: _Costs, chosen: set[Key]) -> Iterator[tuple[Key, float]]:
    """For each of ``chosen`` by how much, as estimated, all the operations around what is turned
    together with it take less time."""
    graph = nx.Graph()
    graph.add_nodes_from(chosen)
    readers: dict[Key, set[Key]] = {}
    for key, item in costs.items.items():
        for source in {r.source for r in item.reads if r.source in chosen}:
            assert source is not None
            readers.setdefault(source, set()).add(key)
            if key in chosen:
                graph.add_edge(source, key)
    for part in nx.connected_components(graph):
        around = set(part).union(*(readers.get(key, ()) for key in part))
        near = sum(costs.of(costs.items[key], ()) for key in around)
        far = sum(costs.of(costs.items[key], chosen) for key in around)
        yield from ((key, near / far) for key in part)


def _stored(graph: Graph, chosen: Mapping[Key, tuple[Layout, float]]) -> Graph:
    """``graph`` with the results of ``chosen`` operations in their layouts, and what these gain."""
    stored: dict[str, Layout] = {}
    nodes: list[Node] = []
    for number, node in enumerate(graph.nodes):
        given = zip(node.program.inputs, node.inputs, strict=True)
        own: dict[Tensor | Operation, Layout]
        own = {t: stored[v.name] for t, v in given if v.name in stored}
        made = {o: chosen[number, o] for o in operations(node.program) if (number, o) in chosen}
        own |= {operation: layout for operation, (layout, _) in made.items()}
        notes = []
        for value, tensor in zip(node.outputs, node.program.outputs, strict=True):
            if tensor.operation is not None and tensor.operation in made:
                layout, gain = made[tensor.operation]
                stored[value.name] = layout
                notes.append(_said(value, layout, gain))
        node = _laid(node, own) if own else node
        attributes = {**node.attributes, "layout": "; ".join(notes)} if notes else node.attributes
        nodes.append(replace(node, attributes=attributes))
    return replace(graph, nodes=tuple(nodes))


def _said(value: Value, layout: Layout, gain: float) -> str:
    before, after = (" x ".join(map(str, s)) for s in (value.shape, layout.shape(value.shape)))
    return (
        f"{value.name}, {before}, is stored as {after} (dimensions {layout}): all around it takes "
        f"an estimated {gain:.3g} times less time so"
    )


def _laid(node: Node, layouts: Layouts) -> Node:
    program = relaid(node.program, layouts)
    sides = ((node.inputs, program.inputs), (node.outputs, program.outputs))
    inputs, outputs = (
        tuple(replace(v, shape=t.shape) for v, t in zip(values, tensors, strict=True))
        for values, tensors in sides
    )
    return replace(node, inputs=inputs, outputs=outputs, program=program)
