from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.graph.correlations import convolution, data
from weft.graph.correlation import correlation_of
from weft.graph.from_program import from_program
from weft.graph.winograd import (
    ENOUGH,
    MAX_AMPLIFICATION,
    Effort,
    best_form,
    estimate,
    steps_for,
    winograd,
)
from weft.ir.graph_interpreter import interpret_graph
from weft.ir.graph_verifier import verify_graph
from weft.ir.operator_graph import Graph
from weft.ir.scalar_expr import Var
from weft.ir.tensor_expr import operations


def graph_of(*sizes: int, constant: bool = True, seed: int = 0, **how) -> tuple[Graph, np.ndarray]:
    """A convolution whose weights are constant or an input; and its data."""
    program = convolution(*sizes, **how)
    graph = from_program(program)
    x, w = data(program, seed)
    if not constant:
        return graph, x
    w.flags.writeable = False
    name = graph.inputs[1].name
    return replace(graph, inputs=graph.inputs[:1], constants={name: w}), x


def note(graph: Graph) -> str:
    (found,) = [str(n.attributes["winograd"]) for n in graph.nodes if "winograd" in n.attributes]
    return found


def chosen(*sizes: int, effort: Effort | None = None, **how):
    """The form of that convolution, and the direct one."""
    program = convolution(*sizes, **how)
    (c,) = filter(None, map(correlation_of, operations(program)))
    return best_form(c, effort or Effort())[0], estimate(c, (), fixed=True)


@pytest.mark.parametrize("layout", ["chw", "hwc", "hcw"])
@pytest.mark.parametrize("constant", [True, False])
def test_a_large_convolution_is_replaced_and_right(layout: str, constant: bool) -> None:
    graph, x = graph_of(1, 24, 24, 27, 26, layout=layout, pads=(1, 1), constant=constant)
    new = winograd(graph)
    verify_graph(new)
    assert (new.inputs, new.outputs) == (graph.inputs, graph.outputs)
    assert len(new.nodes) > len(graph.nodes)
    assert "times fewer multiplications" in note(new)
    inputs = [x] if constant else data(convolution(1, 24, 24, 27, 26, layout=layout))
    result, expected = interpret_graph(new, inputs)[0], interpret_graph(graph, inputs, precise=True)
    form, _ = chosen(1, 24, 24, 27, 26, layout=layout, pads=(1, 1))
    np.testing.assert_allclose(result, expected[0], rtol=0, atol=form.bound)
    # What the bound allows is far from what happens: within the estimate's factor of direct sums.
    direct = np.sqrt(np.mean((interpret_graph(graph, inputs)[0] - expected[0]) ** 2))
    assert np.sqrt(np.mean((result - expected[0]) ** 2)) < 2 * form.amplification * direct


def test_the_new_nodes_say_where_they_come_from_and_what_they_are() -> None:
    graph, _ = graph_of(1, 128, 128, 30, 30)
    new = winograd(graph)
    *parts, last = new.nodes
    assert [n.op for n in parts] == [
        "y_turned", "y_last_windows", "y_last_products_windows", "y_last_weights",
        "y_last_products_weights", "y_last_products_products", "y_last_products", "y_last",
    ]  # fmt: skip
    assert {n.origin for n in new.nodes} == {graph.nodes[0].origin}
    assert last.name == graph.nodes[0].name


@pytest.mark.parametrize(
    ("sizes", "how"),
    [
        ((1, 64, 64, 30, 30), {"stride": 2}),
        ((1, 64, 64, 30, 30), {"dilation": 2}),
        ((1, 64, 64, 30, 30), {"taps": (1, 1)}),
        ((1, 64, 64, 30, 30), {"dtype": "int32"}),
        ((1, 64, 64, 30, 30), {"dtype": "float16"}),
    ],
)
def test_what_is_none_stays_without_a_word(sizes, how) -> None:
    graph, _ = graph_of(*sizes, **how)
    assert winograd(graph).nodes == graph.nodes


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        ((1, 3, 4, 9, 9), "direct, it is small"),
        ((1, 1, 16, 200, 200), "direct, not F("),  # one channel: nothing to sum
        ((64, 32, 1, 12, 12), "direct, not F("),  # one filter: nothing to use windows again for
    ],
)
def test_what_does_not_pay_stays_and_says_why(sizes, why) -> None:
    graph, _ = graph_of(*sizes)
    new = winograd(graph)
    assert [n.program for n in new.nodes] == [n.program for n in graph.nodes]
    assert why in note(new)


def test_memory_bounds_intermediates() -> None:
    free, direct = chosen(1, 64, 64, 58, 58)
    assert free.steps and free.bytes > 0
    for limit in (free.bytes, free.bytes - 1, free.bytes // 2, 0):
        form, _ = chosen(1, 64, 64, 58, 58, effort=Effort(limit))
        assert form.bytes <= limit
    graph, _ = graph_of(1, 64, 64, 58, 58)
    assert "direct, no form fits in 0 bytes" in note(winograd(graph, Effort(0)))
    assert free.cost < direct.cost


@pytest.mark.parametrize("layout", ["chw", "hwc"])
def test_the_bytes_are_those_of_all_intermediates(layout: str) -> None:
    graph, _ = graph_of(1, 64, 64, 58, 58, layout=layout)
    form, _ = chosen(1, 64, 64, 58, 58, layout=layout)
    inner = [v for n in winograd(graph).nodes[:-1] if "weights" not in n.op for v in n.outputs]
    assert form.bytes == sum(4 * int(np.prod(v.shape)) for v in inner)


@pytest.mark.parametrize("size", [7, 14, 28, 56])
def test_choices_are_worth_it_and_accurate(size: int) -> None:
    form, direct = chosen(1, 3584 // size, 3584 // size, size, size, pads=(1, 1))
    assert form.steps and form.cost * ENOUGH <= direct.cost
    assert 1 < form.amplification <= MAX_AMPLIFICATION
    (c,) = filter(None, map(correlation_of, operations(convolution(1, 8, 8, size, size))))
    least = min(estimate(c, s, fixed=True).amplification for s in steps_for(c))
    assert least == pytest.approx(1.29, abs=0.01)


def test_weights_that_others_compute_from_constants_are_constant() -> None:
    graph, _ = graph_of(1, 128, 128, 30, 30)
    again = winograd(winograd(graph))
    assert [n.op for n in again.nodes].count("y_last_weights") == 1
    verify_graph(again)


def test_the_pass_leaves_what_it_made_alone() -> None:
    graph, _ = graph_of(1, 64, 64, 58, 58, layout="hwc")
    once = winograd(graph)
    assert [n.op for n in winograd(once).nodes] == [n.op for n in once.nodes]


@pytest.mark.parametrize(("channels", "size"), [(64, 24), (128, 12), (256, 6), (512, 3)])
def test_the_form_for_an_open_batch_pays_at_each_of_several(channels: int, size: int) -> None:
    """At none is it far behind the form for that size alone, nor the direct sum."""

    def found(batch: int | Var) -> tuple[dict[str, float], str]:
        program = convolution(batch, channels, channels, size, size, pads=(1, 1))
        (c,) = filter(None, map(correlation_of, operations(program)))
        best, _, every = best_form(c, Effort())
        return {"": best.cost, **{str(form): form.cost for form in every}}, str(best)

    _, chosen = found(Var("n"))
    for batch in (1, 2, 5, 13):
        costs, _ = found(batch)
        assert costs[chosen] <= min(1.4 * costs[""], costs["direct"])
