"""Graphs in parts for an accelerator and the processor: random ones, whatever the one takes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random

from tests.graph.graph_examples import Maker
from weft.graph.partition import Cluster
from weft.ir.operator_graph import Graph, Value
from weft.offload.accelerated import Part, offload_parts

Takes = Callable[[Cluster], bool]


def random_graph(pick: Random, size: int) -> Graph:
    maker = Maker()
    values = [maker.input((4,)), maker.input((4,)), maker.constant((4,))]
    for _ in range(size):
        recent = values[-4:] if pick.random() < 0.7 else values
        if pick.random() < 0.5:
            values.append(maker.call("relu", pick.choice(recent)))
        else:
            values.append(maker.call("add", pick.choice(recent), pick.choice(values)))
    read = {v.name for node in maker.nodes for v in node.inputs}
    made = [node.outputs[0] for node in maker.nodes]
    outputs = [v for v in made if v.name not in read or pick.random() < 0.1]
    return maker.graph(*outputs)


def random_takes(pick: Random) -> Takes:
    """Up to so many nodes, of which some are refused alone or as the last ones of a part."""
    most, share, seed = pick.choice((1, 2, 3, 9)), pick.random(), pick.random()

    def takes(cluster: Cluster) -> bool:
        chosen = all(Random(f"{seed} {node.name}").random() < share for node in cluster.nodes)
        return chosen and len(cluster.nodes) <= most and len(cluster.outputs) == 1

    return takes


def check(graph: Graph, parts: tuple[Part, ...], takes: Takes) -> None:
    names = [node.name for part in parts for node in part.cluster.nodes]
    assert sorted(names) == sorted(node.name for node in graph.nodes), "each node once"
    there = {value.name for value in graph.inputs} | set(graph.constants)
    for part in parts:
        cluster = part.cluster
        inputs = {value.name for value in cluster.inputs}
        assert inputs <= there, "what a part needs is there when it runs"
        made: set[str] = set()
        for node in cluster.nodes:
            assert {v.name for v in node.inputs} <= inputs | made
            made |= {v.name for v in node.outputs}
        outputs = {value.name for value in cluster.outputs}
        assert outputs <= made
        there |= outputs
        if part.offloaded:
            assert takes(cluster)
    assert {value.name for value in graph.outputs} <= there


def test_random_graphs() -> None:
    offloaded = long = 0
    for seed in range(250):
        pick = Random(f"parts {seed}")
        graph, takes = random_graph(pick, pick.choice((1, 2, 5, 12, 30))), random_takes(pick)
        parts = offload_parts(graph, takes)
        check(graph, parts, takes)
        offloaded += sum(part.offloaded for part in parts)
        long += sum(part.offloaded and len(part.cluster.nodes) > 1 for part in parts)
        for one, other in pairwise(parts):
            assert one.offloaded or other.offloaded, "the processor's are as large as can be"
        again = offload_parts(graph, takes)
        assert [[n.name for n in p.cluster.nodes] for p in parts] == [
            [n.name for n in p.cluster.nodes] for p in again
        ]
    assert offloaded > 300 and long > 60


def chain(*ops: str) -> tuple[Maker, list[Value]]:
    maker = Maker()
    values = [maker.input((4,))]
    for op in ops:
        values.append(maker.call(op, values[-1]))
    return maker, values


def test_a_part_grows_as_long_as_it_is_taken() -> None:
    maker, values = chain("relu", "relu", "exp", "relu")
    parts = offload_parts(
        maker.graph(values[-1]), lambda c: all(node.op == "relu" for node in c.nodes)
    )
    assert [(p.offloaded, [n.op for n in p.cluster.nodes]) for p in parts] == [
        (True, ["relu", "relu"]), (False, ["exp"]), (True, ["relu"]),
    ]  # fmt: skip


def test_a_result_of_the_graph_ends_a_part() -> None:
    maker, values = chain("relu", "relu")
    parts = offload_parts(maker.graph(values[1], values[2]), lambda c: True)
    assert [len(p.cluster.nodes) for p in parts] == [1, 1]


def test_what_two_read_ends_a_part() -> None:
    """A residual: the first relu is read by the second and by the sum."""
    maker, values = chain("relu", "relu")
    total = maker.call("add", values[1], values[2])
    parts = offload_parts(maker.graph(total), lambda c: True)
    assert [[n.op for n in p.cluster.nodes] for p in parts] == [["relu"], ["relu", "add"]]


def test_nothing_is_taken() -> None:
    maker, values = chain("relu", "exp")
    (part,) = offload_parts(maker.graph(values[-1]), lambda c: False)
    assert not part.offloaded and len(part.cluster.nodes) == 2


def test_no_nodes() -> None:
    maker = Maker()
    assert offload_parts(maker.graph(maker.input((4,))), lambda c: True) == ()


def test_long_graphs() -> None:
    """Questions grow with the nodes, not with their square."""
    asked = {}
    for size in (100, 400):
        maker, values = chain(*["relu"] * size)
        count = 0

        def takes(cluster: Cluster) -> bool:
            nonlocal count
            count += 1
            return len(cluster.nodes) <= 3

        offload_parts(maker.graph(values[-1]), takes)
        asked[size] = count
    assert asked[400] <= 4.5 * asked[100]
