from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings

from tests.graph.graph_examples import Maker, random_graphs, random_inputs
from weft.codegen.machines.named import target_named
from weft.graph.canonical import canonical_text
from weft.graph.layouts import layouts
from weft.ir.graph_interpreter import interpret_graph
from weft.ir.graph_verifier import verify_graph
from weft.ir.operator_graph import Graph, Value
from weft.ir.scalar_expr import Var

MACHINE = target_named("znver5").machine


def each_channel(maker: Maker, x: Value, stride: int = 1, taps: int = 3) -> Value:
    channels = int(x.shape[1])
    w = maker.constant((channels, 1, taps, taps), seed=taps)
    sizes = {"strides": (stride, stride), "pads": (taps // 2,) * 4, "group": channels}
    return maker.call("relu", maker.call("conv", x, w, **sizes))


def bottleneck(maker: Maker, x: Value, wide: int, stride: int = 1) -> Value:
    """1×1, each channel by itself 3×3, 1×1, with a shortcut around if there is one."""
    channels = int(x.shape[1])
    y = maker.call("relu", maker.call("conv", x, maker.constant((wide, channels, 1, 1), seed=1)))
    y = each_channel(maker, y, stride)
    y = maker.call("conv", y, maker.constant((channels, wide, 1, 1), seed=2))
    return maker.call("add", x, y) if stride == 1 else y


def chain(
    channels: int, wide: int, size: int, strides: tuple[int, ...] = (1,), batch: int | Var = 1
) -> Graph:
    maker = Maker()
    x = maker.call("relu", maker.input((batch, channels, size, size)))
    for stride in strides:
        x = bottleneck(maker, x, wide, stride)
    return maker.graph(maker.call("relu", x))


def turned(graph: Graph) -> set[str]:
    return {node.op for node in graph.nodes if "layout" in node.attributes}


def test_channels_go_last_where_that_pays_and_results_stay() -> None:
    graph = chain(16, 96, 7, (1, 2))
    new = layouts(graph, MACHINE)
    verify_graph(new)
    assert (new.inputs, new.outputs) == (graph.inputs, graph.outputs)
    assert [v.name for n in new.nodes for v in n.outputs] == [
        v.name for n in graph.nodes for v in n.outputs
    ]
    (wide,) = {v.shape for n in new.nodes for v in n.outputs if 96 in v.shape and 7 in v.shape}
    assert wide == (1, 7, 7, 96)
    notes = [str(n.attributes["layout"]) for n in new.nodes if "layout" in n.attributes]
    assert any("1 x 96 x 7 x 7, is stored as 1 x 7 x 7 x 96" in note for note in notes)
    inputs = random_inputs(graph)
    for result, expected in zip(
        interpret_graph(new, inputs), interpret_graph(graph, inputs), strict=True
    ):
        np.testing.assert_array_equal(result, expected)


@given(random_graphs())
@settings(max_examples=40, deadline=None)
def test_random_graphs_stay_what_they_are(graph: Graph) -> None:
    new = layouts(graph, MACHINE)
    verify_graph(new)
    inputs = random_inputs(graph)
    for result, expected in zip(
        interpret_graph(new, inputs), interpret_graph(graph, inputs), strict=True
    ):
        np.testing.assert_array_equal(result, expected)


def test_what_gains_nothing_stays() -> None:
    maker = Maker()
    x = maker.call("relu", maker.input((5, 4)))
    y = maker.call("relu", maker.call("matmul", x, maker.constant((4, 3))))
    graph = maker.graph(maker.call("relu", y))
    assert [n.program for n in layouts(graph, MACHINE).nodes] == [n.program for n in graph.nodes]


def test_an_open_batch_turns_what_a_fixed_one_does() -> None:
    graph, fixed = chain(16, 96, 7, (1, 2), Var("n")), chain(16, 96, 7, (1, 2), 4)
    new = layouts(graph, MACHINE)
    verify_graph(new)
    assert turned(new) and turned(new) == turned(layouts(fixed, MACHINE))
    for n in (1, 3):
        inputs = [np.random.default_rng(n).standard_normal((n, 16, 7, 7)).astype(np.float32)]
        for result, expected in zip(
            interpret_graph(new, inputs), interpret_graph(graph, inputs), strict=True
        ):
            np.testing.assert_array_equal(result, expected)


def test_no_size_is_taken_to_be_positive_that_is_none() -> None:
    for batch in (0, Var("n")):
        maker = Maker()
        x = maker.call("relu", maker.input((batch, 0, 7, 7)))
        graph = maker.graph(maker.call("relu", maker.call("relu", x)))
        assert not turned(layouts(graph, MACHINE))


def test_outputs_views_and_recurrences_keep_their_order() -> None:
    maker = Maker()
    x = maker.input((1, 16, 7, 7))
    y = maker.call("conv", x, maker.constant((96, 16, 1, 1)))
    z = each_channel(maker, y)
    flat = maker.call("reshape", z, shape=(1, 96 * 49))
    sums = maker.call("cum_sum", y, axis=2)
    graph = maker.graph(y, maker.call("relu", flat), maker.call("relu", sums))
    new = layouts(graph, MACHINE)
    verify_graph(new)
    assert new.outputs == graph.outputs
    shapes = {v.name: v.shape for n in new.nodes for v in n.outputs}
    assert all(shapes[v.name] == v.shape for v in (y, z, sums))
    inputs = random_inputs(graph)
    for result, expected in zip(
        interpret_graph(new, inputs), interpret_graph(graph, inputs), strict=True
    ):
        np.testing.assert_array_equal(result, expected)


def test_names_of_operators_do_not_matter() -> None:
    graph = chain(16, 96, 7)
    nodes = tuple(replace(n, op="mine", attributes={}) for n in graph.nodes)
    programs = [n.program for n in layouts(replace(graph, nodes=nodes), MACHINE).nodes]
    text = [canonical_text(p) for p in programs]
    assert text == [canonical_text(n.program) for n in layouts(graph, MACHINE).nodes]
