"""Sums of exponentials in one pass: what is found, what gains from it, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from weft.frontend.operators.attention import attention
from weft.frontend.operators.softmax import log_softmax, softmax
from weft.graph.from_program import from_program
from weft.graph.online import online
from weft.ir.graph_interpreter import interpret_graph
from weft.ir.graph_verifier import verify_graph
from weft.ir.machine import Cache, Machine
from weft.ir.operator_graph import Graph
from weft.ir.tensor_expr import Program, Tensor

MACHINE = Machine("test", 16, 8, (Cache(1024), Cache(7168), Cache(1 << 16)))
INF, NAN = np.inf, np.nan


def graph_of(*outputs: Tensor, inputs: tuple[Tensor, ...]) -> Graph:
    return from_program(Program("own", inputs, outputs))


def notes(graph: Graph) -> list[str]:
    return [str(n.attributes["online"]) for n in graph.nodes if "online" in n.attributes]


def rewritten(graph: Graph) -> Graph:
    new = online(graph, MACHINE)
    verify_graph(new)
    assert (new.inputs, new.outputs) == (graph.inputs, graph.outputs)
    return new


def in_blocks(graph: Graph) -> Graph:
    new = rewritten(graph)
    assert any("blocks of" in note for note in notes(new))
    return new


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return (3 * np.random.default_rng(seed).normal(size=shape)).astype(np.float32)


def exponentials(x: np.ndarray, axis: int = -1) -> np.ndarray:
    wide = x.astype(np.float64)
    return np.exp(wide - wide.max(axis, keepdims=True))


def own_softmax(shape: tuple[int, int], axis: int) -> Graph:
    """A user's own, with the rows along ``axis``: no operator's name, and a quotient of its own."""
    z = weft.placeholder(shape, name="z")
    q = weft.reduce_axis((0, shape[axis]), name="within")  # as the pass calls its own

    def at(row, along):
        return z[(along, row) if axis == 0 else (row, along)]

    rows = (shape[1 - axis],)
    top = weft.compute(rows, lambda block: weft.max_over(at(block, q), q), name="top")
    total = weft.compute(
        rows, lambda block: weft.sum(weft.exp(at(block, q) - top[block]), q), name="total"
    )

    def body(u, v):
        row = (u, v)[1 - axis]
        return weft.exp(z[u, v] - top[row]) / total[row]

    return graph_of(weft.compute(shape, body, name="result"), inputs=(z,))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("length", [897, 1009, 1024, 1536])
def test_long_rows_in_blocks(length: int, axis: int) -> None:
    shape = (length, 3) if axis == 0 else (3, length)
    graph, x = own_softmax(shape, axis), random(*shape)
    powers = exponentials(x, axis)
    (result,) = interpret_graph(in_blocks(graph), [x])
    np.testing.assert_allclose(result, powers / powers.sum(axis, keepdims=True), rtol=2e-6)


def test_the_operators_of_onnx_and_small_ones() -> None:
    x = weft.placeholder((2, 1000), name="x")
    data = random(2, 1000)
    powers = exponentials(data)
    soft = powers / powers.sum(-1, keepdims=True)
    for operator, expected in ((softmax, soft), (log_softmax, np.log(soft))):
        graph = graph_of(operator(x), inputs=(x,))
        np.testing.assert_allclose(interpret_graph(in_blocks(graph), [data])[0], expected, 1e-5)
    small = weft.placeholder((2, 896), name="small")
    assert "which stay in a cache" in notes(rewritten(graph_of(softmax(small), inputs=(small,))))[0]


@pytest.mark.parametrize("rows", [0, 1])
def test_no_rows_and_one(rows: int) -> None:
    data = random(rows, 1000)
    graph = own_softmax((rows, 1000), 1)
    (result,) = interpret_graph(in_blocks(graph), [data])
    np.testing.assert_allclose(result, interpret_graph(graph, [data])[0], rtol=1e-5)


def hostile() -> np.ndarray:
    """Rows of 1000: blocks, then all of it -inf; infinities and NaN in some; huge and tiny ones."""
    rows = np.tile(random(1000), (10, 1))
    rows[0, :600] = rows[1, 128:256] = rows[2, :] = rows[9, 1:] = -INF
    rows[3, 700] = rows[4, 10] = INF
    rows[4, 500:] = -INF
    rows[5, 999] = rows[6, 0] = NAN
    rows[6, 3] = INF
    rows[7] *= 1e37
    rows[8] = -3e38
    rows[8, :200] = -INF
    return rows


@pytest.mark.parametrize("guarded", [False, True])
def test_infinities_and_nan_as_without_blocks(guarded: bool) -> None:
    x = weft.placeholder((10, 1000), name="x")
    v = weft.placeholder((1000, 2), name="v")
    k = weft.reduce_axis((0, 1000), name="k")
    top = weft.compute((10,), lambda i: weft.max_over(x[i, k], k), name="top")

    def power(i, k):
        shift = weft.select(top[i].equal(-INF), 0.0, top[i]) if guarded else top[i]
        return weft.exp(x[i, k] - shift)

    total = weft.compute((10,), lambda i: weft.sum(power(i, k), k), name="total")
    mean = weft.compute((10, 2), lambda i, j: weft.sum(v[k, j] * power(i, k), k), name="mean")
    graph = graph_of(top, total, mean, inputs=(x, v))
    data = [hostile(), random(1000, 2, seed=1)]
    with np.errstate(all="ignore"):
        new, old = interpret_graph(in_blocks(graph), data), interpret_graph(graph, data)
    for result, expected in zip(new, old, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    assert np.isnan(old[1]).sum() == (4 if guarded else 5)  # so that they are there


def scores_of(queries: int, keys: int, features: int = 4) -> tuple[tuple[Tensor, ...], Tensor]:
    """A user's scores, keys before queries: s[j, h, i] of 2 heads, scaled, later ones left out."""
    a = weft.placeholder((2, queries, features), name="a")
    b = weft.placeholder((2, features, keys), name="b")
    d = weft.reduce_axis((0, features), name="d")
    raw = weft.compute(
        (keys, 2, queries), lambda j, h, i: weft.sum(a[h, i, d] * b[h, d, j], d) * 0.5, name="raw"
    )
    seen = weft.compute(
        raw.shape, lambda j, h, i: weft.select(j <= i + 900, raw[j, h, i], -INF), name="seen"
    )
    return (a, b), seen


def own_attention(queries: int, keys: int, late: bool) -> Graph:
    """Means of values by these scores; ``late``: divided by the sum of weights in the end."""
    (a, b), s = scores_of(queries, keys)
    c = weft.placeholder((keys, 2, 3), name="c")
    j = weft.reduce_axis((0, keys), name="j")
    rows = (2, queries)
    top = weft.compute(rows, lambda h, i: weft.max_over(s[j, h, i], j), name="top")
    power = weft.compute(s.shape, lambda j, h, i: weft.exp(s[j, h, i] - top[h, i]), name="power")
    total = weft.compute(rows, lambda h, i: weft.sum(power[j, h, i], j), name="total")
    weight = weft.compute(s.shape, lambda j, h, i: power[j, h, i] / total[h, i], name="weight")

    def mean(i, h, e):
        if late:
            return weft.sum(c[j, h, e] * power[j, h, i], j) / total[h, i]
        return weft.sum(weight[j, h, i] * c[j, h, e], j)

    return graph_of(weft.compute((queries, 2, 3), mean, name="mean"), inputs=(a, b, c))


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("keys", [1009, 1024])
def test_attention_without_a_whole_row_of_scores(keys: int, late: bool) -> None:
    graph = own_attention(20, keys, late)
    new = in_blocks(graph)
    assert "of scores that are made block by block" in notes(new)[0]
    assert all(keys not in v.shape or len(v.shape) == 3 for n in new.nodes for v in n.inputs)
    assert {v.name for n in new.nodes for v in n.outputs} == {"mean"}  # all else is inside
    a, b, c = (random(2, 20, 4), random(2, 4, keys, seed=1), random(keys, 2, 3, seed=2))
    s = np.einsum("hid,hdj->hij", *(x.astype(np.float64) for x in (a, b))) / 2
    s[:, np.arange(keys) > np.arange(20)[:, None] + 900] = -INF
    p = exponentials(s)
    expected = np.einsum("hij,jhe->ihe", p / p.sum(-1, keepdims=True), c.astype(np.float64))
    (result,) = interpret_graph(new, [a, b, c])
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_onnx_attention_with_a_mask_and_shared_heads() -> None:
    q, k, v = (weft.placeholder((1, h, n, 4), name=x) for x, h, n in (("q", 4, 20), *KEYS))
    mask = weft.placeholder((20, 1000), name="mask")
    (y,) = attention(q, k, v, mask)
    graph = graph_of(y, inputs=(q, k, v, mask))
    data = [random(*t.shape, seed=s) for s, t in enumerate((q, k, v, mask))]
    data[3][5, :] = data[3][:, 256:700] = -INF
    (result,), (expected,) = (interpret_graph(g, data) for g in (in_blocks(graph), graph))
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    assert not result[0, :, 5].any()  # without any key left a row is 0


KEYS = (("k", 2, 1000), ("v", 2, 1000))


def test_rows_of_a_product_that_are_only_summed_up_are_stored() -> None:
    (a, b), s = scores_of(20, 1000)
    j = weft.reduce_axis((0, 1000), name="j")
    top = weft.compute((2, 20), lambda h, i: weft.max_over(s[j, h, i], j), name="top")

    def body(h, i):
        return weft.log(weft.sum(weft.exp(s[j, h, i] - top[h, i]), j)) + top[h, i]

    graph = graph_of(weft.compute((2, 20), body, name="entropy"), inputs=(a, b))
    new, data = in_blocks(graph), [random(2, 20, 4), random(2, 4, 1000, seed=1)]
    assert "seen" in {v.name for n in new.nodes for v in n.outputs}
    result, expected = (interpret_graph(g, data)[0] for g in (new, graph))
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_what_others_read_is_there_as_a_whole() -> None:
    (a, b), s = scores_of(20, 1000)
    j = weft.reduce_axis((0, 1000), name="j")
    top = weft.compute((2, 20), lambda h, i: weft.max_over(s[j, h, i], j), name="top")
    power = weft.compute(s.shape, lambda j, h, i: weft.exp(s[j, h, i] - top[h, i]), name="power")
    total = weft.compute((2, 20), lambda h, i: weft.sum(power[j, h, i], j), name="total")
    graph = graph_of(total, power, inputs=(a, b))
    data = [random(2, 20, 4), random(2, 4, 1000, seed=1)]
    for result, expected in zip(
        interpret_graph(in_blocks(graph), data), interpret_graph(graph, data), strict=True
    ):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


Make = Callable[[Tensor, Tensor], tuple[Tensor, ...]]
K = weft.reduce_axis((0, 1000), name="k")


def _chained(x: Tensor, top: Tensor) -> tuple[Tensor, ...]:
    total = weft.compute((9,), lambda i: weft.sum(weft.exp(x[i, K] - top[i]), K), name="total")

    def term(i):
        return weft.sum(weft.exp(x[i, K] - top[i]) * (x[i, K] - total[i]), K)

    return (weft.compute((9,), term, name="second"),)


def _other(x: Tensor, top: Tensor) -> tuple[Tensor, ...]:
    return (weft.compute((9,), lambda i: weft.sum(weft.exp(x[i, K] - top[8 - i]), K), name="o"),)


def _twice(x: Tensor, top: Tensor) -> tuple[Tensor, ...]:
    return (weft.compute((9,), lambda i: weft.sum(weft.exp(x[i, K] * 2 - top[i]), K), name="o"),)


def _shifted(x: Tensor, top: Tensor) -> tuple[Tensor, ...]:
    low = weft.compute((9,), lambda i: weft.select(top[i].equal(0.0), 1.0, top[i]), name="low")
    return (weft.compute((9,), lambda i: weft.sum(weft.exp(x[i, K] - low[i]), K), name="o"),)


def _chosen(x: Tensor, top: Tensor) -> tuple[Tensor, ...]:
    place = weft.compute((9,), lambda i: top[i].astype("int64") % 9, name="place")

    def body(i):
        return weft.sum(weft.exp(x[place[i], K] - top[place[i]]), K)

    return (weft.compute((9,), body, name="o"),)


@pytest.mark.parametrize("make", [_chained, _chosen, _other, _twice, _shifted])
def test_sums_that_are_something_else_stay(make: Make) -> None:
    x = weft.placeholder((9, 1000), name="x")
    top = weft.compute((9,), lambda i: weft.max_over(x[i, K], K), name="top")
    graph = graph_of(*make(x, top), inputs=(x,))
    new = rewritten(graph)
    assert [n.program for n in new.nodes] == [n.program for n in graph.nodes]
    said = ["whole rows, since terms of one sum depend on another"] if make is _chained else []
    assert notes(new) == said


def test_unknown_lengths_stay_and_unknown_rows_do_not_matter() -> None:
    n = weft.var("n")
    for shape, said in (((3, n), "how long they are is not known"), ((n, 1000), "blocks of 64")):
        x = weft.placeholder(shape, name="x")
        (found,) = notes(rewritten(graph_of(softmax(x), inputs=(x,))))
        assert said in found


def test_two_layers_are_two_families() -> None:
    x = weft.placeholder((2, 1000), name="x")
    graph = graph_of(softmax(softmax(x)), inputs=(x,))
    new, data = in_blocks(graph), random(2, 1000)
    assert len(notes(new)) == 2
    result, expected = (interpret_graph(g, [data])[0] for g in (new, graph))
    np.testing.assert_allclose(result, expected, rtol=1e-5)
