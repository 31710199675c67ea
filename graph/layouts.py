"""Data layouts across the graph: chains of operators store their intermediates with channels last.

    y[n, k, h, w] = Σ x[n, c, h, w] * v[k, c]            y'[n, h, w, k] = …
    z[n, k, h, w] = Σ y[n, k, h + r, w + s] * u[k, r, s]    →    z[…] = Σ y'[n, h + r, w + s, k] * …

``layout_facts`` finds channels by access relations, ``cycles`` estimates each operation in either
layout, and the cheapest choice for the whole graph is a minimum cut: each operation is on one of
two sides, and reading across the cut costs more. No layout conversion is inserted at the cut:
operations there read or write strided. Inputs and outputs of the graph keep their layout. The
choice for a value is in its node's attribute "layout", for ``explain``.

Liu et al., "Optimizing CNN model inference on CPUs", ATC 2019, choose layouts by dynamic
programming over operators' measured times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import ceil, prod

import networkx as nx

from weft.graph.layout import Layout, Layouts, relaid
from weft.graph.layout_facts import Item, Key, Read, channels, items_of
from weft.ir.machine import Machine
from weft.ir.operator_graph import Graph, Node, Value
from weft.ir.plan import Choose, by_default
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Var
from weft.ir.tensor_expr import Operation, Tensor, operations

LEAST_GAIN = 1.02  # change the layout of a chain only if the estimate gains at least 2%
PART = 1000  # operations in one minimum cut, which takes more than linear time
_AS_IS, _CHANNELS_LAST = "as is", "channels last"


def layouts(graph: Graph, machine: Machine, choose: Choose = by_default) -> Graph:
    """``graph`` with the layouts of intermediates that are fastest on ``machine``, or that
    ``choose`` says.

    Values that views and scatters touch keep their layout.
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
    gains = {key: gain for key, gain in _gains(costs, chosen) if gain >= LEAST_GAIN}
    for key, name in _names(graph, costs.channels_last).items():
        default = _CHANNELS_LAST if key in gains else _AS_IS
        if choose(f"{name}.layout", (_AS_IS, _CHANNELS_LAST), default) == _AS_IS:
            gains.pop(key, None)
        else:
            gains.setdefault(key, 1.0)
    return _stored(
        graph, {key: (Layout(costs.channels_last[key]), gain) for key, gain in gains.items()}
    )


def _names(graph: Graph, keys: Collection[Key]) -> dict[Key, str]:
    """The operations by the names of what they compute: their values where they are results of
    nodes."""
    found: dict[Key, str] = {}
    for number, node in enumerate(graph.nodes):
        results = zip(node.program.outputs, node.outputs, strict=True)
        values = {t.operation: v.name for t, v in results}
        for operation in operations(node.program):
            if (number, operation) in keys:
                own = f"{node.name}.{operation.name}"
                found[number, operation] = values.get(operation, own)
    return found


def _last(rank: int, dim: int) -> tuple[int, ...]:
    """The order of a tensor's dims with ``dim`` last."""
    return (*(d for d in range(rank) if d != dim), dim)


class _Costs:
    """Cycles of operations by the layouts of their results and operands: channels last, or as they
    are."""

    def __init__(
        self,
        items: Mapping[Key, Item],
        channels_last: Mapping[Key, tuple[int, ...]],
        machine: Machine,
    ) -> None:
        self.items = items
        self.channels_last = channels_last
        self.machine = machine

    def of(self, item: Item, moved: Collection[Key]) -> float:
        """Cycles of ``item``, where the results in ``moved`` have channels last."""

        def order(key: Key | None, rank: int) -> Order:
            own = self.channels_last.get(key) if key is not None and key in moved else None
            return range(rank) if own is None else own

        orders = [order(read.source, len(read.shape)) for read in item.reads]
        return cycles(item, order(item.key, len(item.shape)), orders, self.machine)


def _cut(costs: _Costs, keys: list[Key], before: set[Key]) -> set[Key]:
    """Those of ``keys`` whose results should have channels last: one side of a minimum cut. Of
    results of earlier parts, those in ``before`` have channels last."""
    graph: nx.DiGraph[Key | str] = nx.DiGraph()
    graph.add_nodes_from((_AS_IS, _CHANNELS_LAST))
    open_ = {key for key in keys if key in costs.channels_last}

    def pay(one: Key | str, other: Key | str, cost: float) -> None:
        """``cost``, where ``one`` is as_is and ``other`` moved."""
        if cost > 0 and one != other:
            known = graph.get_edge_data(one, other, {"capacity": 0.0})["capacity"]
            graph.add_edge(one, other, capacity=known + cost)

    for key in keys:
        item = costs.items[key]
        read = {r.source for r in item.reads if r.source is not None}
        sources, others = read & open_, read & before
        place: Key | str = key if key in open_ else _AS_IS
        as_is = costs.of(item, others)
        moved = costs.of(item, {key, *sources, *others})
        if key in open_:
            pay(key, _CHANNELS_LAST, as_is)
            pay(_AS_IS, key, moved)
        for source in sources:
            pay(place, source, costs.of(item, {source, *others}) - as_is)
            if key in open_:
                pay(source, key, costs.of(item, {key, *sources, *others} - {source}) - moved)
    _, (_, chosen) = nx.minimum_cut(graph, _AS_IS, _CHANNELS_LAST)
    return {key for key in open_ if key in chosen}


def _gains(costs: _Costs, chosen: set[Key]) -> Iterator[tuple[Key, float]]:
    """For each of ``chosen``, the estimated speedup of all operations around its connected
    component of results with channels last."""
    graph: nx.Graph[Key] = nx.Graph()
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
        as_is = sum(costs.of(costs.items[key], ()) for key in around)
        moved = sum(costs.of(costs.items[key], chosen) for key in around)
        yield from ((key, as_is / moved) for key in part)


def _stored(graph: Graph, chosen: Mapping[Key, tuple[Layout, float]]) -> Graph:
    """``graph`` with the results of ``chosen`` operations in their layouts, and the gain in their
    notes."""
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
        f"{value.name}, {before}, is stored as {after} (dimensions {layout}): the operations "
        f"around it are an estimated {gain:.3g} times as fast"
    )


def _laid(node: Node, layouts: Layouts) -> Node:
    program = relaid(node.program, layouts)
    sides = ((node.inputs, program.inputs), (node.outputs, program.outputs))
    inputs, outputs = (
        tuple(replace(v, shape=t.shape) for v, t in zip(values, tensors, strict=True))
        for values, tensors in sides
    )
    return replace(node, inputs=inputs, outputs=outputs, program=program)


# ---- Cycles of an operation in given layouts, in closed form.
#
# Vectors run along one loop, or along several that all accesses walk contiguously; a partial vector
# costs a whole one. An operand that does not move along the vector is broadcast; a contiguous one
# is a load, more where windows slide over it or strides leave gaps; others are packed, one element
# after the other. A load serves all rows, or all vectors, of a register tile. Sums that lie across
# the vectors are transposed in registers. In cycles of one core: ``polyhedral/policy`` decides
# about the code later, by finer models of the same kind.


ROWS, VECTORS = 8, 4  # of a register tile
GAPS = 4  # the longest stride that is loaded in whole vectors

Order = Sequence[int]  # dims of a tensor as they are stored


def cycles(item: Item, order: Order, orders: Sequence[Order], machine: Machine) -> float:
    """Cycles of all of ``item``, its result stored by ``order`` and its operands by ``orders``."""
    lanes = [d for d, size in enumerate(item.shape) if size > 1]
    return min((_along(item, d, order, orders, machine) for d in lanes), default=0.0)


def _along(item: Item, lane: int, order: Order, orders: Sequence[Order], machine: Machine) -> float:
    """The same, with vectors along the loop of dim ``lane``."""
    size = prod(item.shape[d] for d in _run(item, lane, order, orders))
    in_row = ceil(size / machine.lanes(item.dtype))
    vectors = in_row * prod(item.shape) // size
    load, once, each = 1 / machine.loads_per_cycle, 0.0, 0.0
    accesses, moves = machine.accesses, machine.moves
    sums = item.steps > 1
    for read, own in zip(item.reads, orders, strict=True):
        stride = _stride(read, own, item.loops[lane])
        if stride == 0:
            each += load / min(VECTORS, in_row) if sums and read.indices else 0.0
            continue
        still = prod(
            n for n, loop in zip(item.shape, item.loops, strict=True) if not read.moves(loop)
        )
        again = min(ROWS, still) if sums or read.constant else 1
        if read.constant:
            each += load / again  # packed at compile time
        elif 1 <= stride <= GAPS:
            slides = not isinstance(read.indices[own[-1]], Var)
            each += load * stride * (accesses.shifted if slides else 1.0) / again
        elif item.contraction:
            each, once = each + load / again, once + moves.pack * prod(read.shape)
        else:
            each += accesses.strided * machine.lanes(item.dtype) / again
    step = max(each, 1 / machine.fma_per_cycle if sums else 0.0)
    across = moves.transpose if item.contraction else accesses.strided * machine.lanes(item.dtype)
    stored = 1.0 if lane == order[-1] else across
    return vectors * (item.steps * step + stored) + once


def _run(item: Item, lane: int, order: Order, orders: Sequence[Order]) -> list[int]:
    """``lane`` and the dims outside it with which all accesses are contiguous as with one."""
    run = [lane]
    for d in reversed(order[: order.index(lane)]):
        reads = zip(item.reads, orders, strict=True)
        if item.shape[d] > 1:
            if not all(_together(item, r, own, d, run[-1]) for r, own in reads):
                break
            run.append(d)
    return run


def _together(item: Item, read: Read, own: Order, outer: int, inner: int) -> bool:
    """Whether ``read`` moves along both loops as along one contiguous loop, or along neither."""
    one, other = item.loops[outer], item.loops[inner]
    if not read.moves(one) and not read.moves(other):
        return True
    for d, after in pairwise(own):
        match read.indices[d], read.indices[after]:
            case Var(x), Var(y) if (x, y) == (one, other):
                return read.shape[after] == item.shape[inner]
    return False


def _stride(read: Read, own: Order, loop: str) -> int:
    """Elements between what neighbours along ``loop`` read: 0 for the same one, -1 for no constant
    stride."""
    moving = [d for d in own if loop in read.loops[d]]
    if not moving:
        return 0
    form = to_affine(read.indices[own[-1]])
    return form.coefficient(loop) if moving == [own[-1]] and form is not None else -1
