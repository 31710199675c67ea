"""Parts in a row compute what the whole does, whatever layouts they want and give."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

import weft
from weft.driver.providers import WEFT, Runner
from weft.graph.from_program import from_program
from weft.ir.errors import ExecutionError, ProviderError
from weft.ir.operator_graph import Graph
from weft.tuner.pipeline import Pipeline, Step

SHAPE = (2, 3, 4)
ORDER = (2, 0, 1)


def three_sums() -> Graph:
    """a = x + x, b = a + x, y = a + b; outputs y, a and x."""
    x = weft.placeholder(SHAPE, "float32", name="x")
    a = weft.compute(SHAPE, lambda *i: x[i] + x[i], name="a")
    b = weft.compute(SHAPE, lambda *i: a[i] + x[i], name="b")
    y = weft.compute(SHAPE, lambda *i: a[i] + b[i], name="y")
    return from_program(weft.program([y, a, x]))


def step(graph: Graph, number: int, call: object, **layouts: dict[str, tuple[int, ...]]) -> Step:
    node = graph.nodes[number]
    inputs = tuple(dict.fromkeys(node.inputs))
    part = Graph("part", inputs, node.outputs, (node,))
    return Step(f"p{number}", part, Runner(call, **layouts))  # type: ignore[arg-type]


def test_layouts_between_parts() -> None:
    graph, orders = three_sums(), []

    def dense(array: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
        orders.append((array.transpose(order).flags.c_contiguous, id(array)))
        return array

    def moved(array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(array.transpose(ORDER)).transpose(np.argsort(ORDER))

    both = {"a": ORDER, "x": ORDER}
    steps = [
        step(graph, 0, lambda x: moved(x + x), outputs={"a": ORDER}),
        step(graph, 1, lambda *given: sum(dense(g, ORDER) for g in given), inputs=both),
        step(graph, 2, lambda a, b: (dense(a, (0, 1, 2)) + b,)),
    ]  # fmt: skip
    # What the second gives is not declared: whoever reads it gets it row-major all the same.
    x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    y, a, same = Pipeline(graph, steps)([x])
    np.testing.assert_array_equal(a, x + x)
    np.testing.assert_array_equal(y, (x + x) + ((x + x) + x))
    np.testing.assert_array_equal(same, x)
    assert not np.shares_memory(same, x)
    assert all(array.flags.c_contiguous for array in (y, a, same))
    assert [fine for fine, _ in orders] == [True] * 3


def test_values_are_dropped_behind_their_last_reader() -> None:
    held = list[weakref.ref[np.ndarray]]()

    def watched(*arrays: np.ndarray) -> np.ndarray:
        held.append(weakref.ref(made := arrays[0] + arrays[-1]))
        return made

    def last(*arrays: np.ndarray) -> np.ndarray:
        held[:] = [ref for ref in held if ref() is not None]
        return arrays[0]

    x = weft.placeholder(SHAPE, "float32", name="x")
    for name in "abcd":
        x = _doubled(x, name)
    graph = from_program(weft.program(x))
    steps = [step(graph, k, watched) for k in range(3)] + [step(graph, 3, last)]
    Pipeline(graph, steps)([np.ones(SHAPE, np.float32)])
    assert len(held) == 1


def test_one_that_fails_at_a_call() -> None:
    graph, x = three_sums(), np.ones(SHAPE, np.float32)

    def fails(*arrays: np.ndarray) -> np.ndarray:
        raise ExecutionError("WEFT-E0610", "an index is out of range")

    for call, code in ((fails, "WEFT-E1510"), (lambda *arrays: arrays, "WEFT-E1514")):
        steps = [step(graph, 0, lambda x: x + x), step(graph, 1, call), step(graph, 2, np.add)]
        with pytest.raises(ProviderError, match=code) as caught:
            Pipeline(graph, steps)([x])
        assert caught.value.where == "provider p1, node 'b'"
    own = Step(WEFT, steps[1].graph, Runner(fails))
    with pytest.raises(ExecutionError):  # what data forbid, they forbid without providers, too
        Pipeline(graph, [steps[0], own, steps[2]])([x])


def _doubled(x: weft.Tensor, name: str) -> weft.Tensor:
    return weft.compute(SHAPE, lambda *i: x[i] * 2, name=name)
