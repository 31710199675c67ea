"""Products of differences: the same integers, from products of the stored elements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weft.frontend.operators.registry import instantiate
from weft.graph.differences import differences
from weft.graph.eliminate_dead import eliminate_dead
from weft.graph.from_program import from_program
from weft.ir import dtypes
from weft.ir.build import compute, placeholder, reduce_axis, sum, var
from weft.ir.dtypes import DType
from weft.ir.graph_interpreter import interpret_graph
from weft.ir.graph_verifier import verify_graph
from weft.ir.operator_graph import Graph, Node, Value
from weft.ir.scalar_expr import Apply, Cast, Load, walk
from weft.ir.tensor_expr import Program, Reduce, Tensor, operations

i8, u8, i16, i32 = dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.int32
random = np.random.default_rng(7)


def numbers(dtype: DType, *shape: int) -> np.ndarray:
    low, high = int(dtype.lowest), int(dtype.highest)
    return random.integers(low, high, shape, endpoint=True).astype(dtype.numpy)


def one_node(program: Program, **constants: np.ndarray) -> Graph:
    """``program`` as one node, with constants in place of some of its inputs."""
    whole = from_program(program)
    node = Node("own", "own", whole.inputs, whole.outputs, {}, program)
    inputs = tuple(v for v in whole.inputs if v.name not in constants)
    for array in constants.values():
        array.flags.writeable = False
    return replace(whole, inputs=inputs, nodes=(node,), constants=constants)


def operator(op: str, *arrays: np.ndarray | None, known: str = "", **attributes: object) -> Graph:
    """``op`` on tensors named a, b, c …, those in ``known`` constant."""
    named = [(name, a) for name, a in zip("abcd", arrays, strict=False) if a is not None]
    tensors = {n: placeholder(a.shape, dtypes.as_dtype(a.dtype), name=n) for n, a in named}
    given = [tensors.get(name) for name in "abcd"[: len(arrays)]]
    program = instantiate(op, given, **attributes)
    return one_node(program, **{n: a for n, a in named if n in known})


def products(graph: Graph) -> list[bool]:
    """Of each sum of products: whether it is of elements as they are stored."""
    found = []
    for operation in (o for node in graph.nodes for o in operations(node.program)):
        for fold in (n for v in getattr(operation, "values", ()) for n in walk(v)):
            match fold:
                case Reduce(values=(Apply("mul", (left, right)),)):
                    stored = (
                        isinstance(e, Cast) and isinstance(e.arg, Load) for e in (left, right)
                    )
                    found.append(all(stored))
    return found


def sums(graph: Graph) -> int:
    """How many operations sum up."""
    every = (o for node in graph.nodes for o in operations(node.program))
    values = (v for o in every for v in getattr(o, "values", ()))
    return len([n for v in values for n in walk(v) if isinstance(n, Reduce)])


def promise(graph: Graph, *inputs: np.ndarray) -> Graph:
    """The graph after the pass: as valid, with the same results; again, nothing changes."""
    new = differences(graph)
    verify_graph(new)
    assert (new.inputs, new.outputs) == (graph.inputs, graph.outputs)
    results = zip(interpret_graph(new, inputs), interpret_graph(graph, inputs), strict=True)
    for result, expected in results:
        np.testing.assert_array_equal(result, expected)
    return new


@pytest.mark.parametrize("left, right", [(u8, i8), (i8, i8), (u8, u8), (i8, u8)])
@pytest.mark.parametrize("shapes", [((), ()), ((12,), (14,)), ((1,), (14,))])
@pytest.mark.parametrize("known", ["", "bd", "bcd"])
def test_zero_points(left: DType, right: DType, shapes, known: str) -> None:
    a, b = numbers(left, 12, 5), numbers(right, 5, 14)
    zeros = numbers(left, *shapes[0]), numbers(right, *shapes[1])
    graph = operator("matmul_integer", a, b, *zeros, known=known)
    given = [x for n, x in zip("abcd", (a, b, *zeros), strict=True) if n not in known]
    new = promise(graph, *given)
    assert products(new) == [True]
    assert sums(new) == 3


@pytest.mark.parametrize("m, k, n", [(0, 5, 7), (6, 0, 7), (6, 5, 0), (6, 1, 7)])
def test_nothing_and_one(m: int, k: int, n: int) -> None:
    arrays = numbers(u8, m, k), numbers(i8, k, n), numbers(u8), numbers(i8)
    promise(operator("matmul_integer", *arrays), *arrays)


def test_what_is_known_to_be_0_is_no_work() -> None:
    a, b, none = numbers(u8, 12, 5), numbers(i8, 5, 14), np.zeros((), np.int8)
    zero = np.uint8(0), none
    new = promise(operator("matmul_integer", a, b, *map(np.asarray, zero), known="bcd"), a)
    assert (products(new), sums(new)) == ([True], 1)
    new = promise(operator("matmul_integer", a, b, numbers(u8), none, known="bcd"), a)
    assert (products(new), sums(new)) == ([True], 2)


@pytest.mark.parametrize("group, pads", [(1, (1, 2, 0, 1)), (2, (0, 0, 0, 0)), (2, (1, 1, 1, 1))])
def test_convolutions_pad_with_the_zero_point(group: int, pads: tuple[int, ...]) -> None:
    x, w = numbers(u8, 2, 4, 6, 5), numbers(i8, 16, 4 // group, 3, 2)
    zeros = numbers(u8), numbers(i8, 16)
    how = {"pads": pads, "group": group, "strides": (2, 1)}
    new = promise(operator("conv_integer", x, w, *zeros, known="bd", **how), x, zeros[0])
    assert products(new) == [True]


def own(left: DType, result: DType, offset: int = 0, **sizes: object) -> Program:
    """C[j, i] = 5 - Σ_k (3 + B[j, k] - q[j]) * (x[k + offset, i] + p), k from 2 on."""
    m, n, k = (sizes.get(name, size) for name, size in (("m", 12), ("n", 14), ("k", 9)))
    x, b = placeholder((k, m), left, name="x"), placeholder((n, k), i8, name="b")
    p, q = placeholder((), left, name="p"), placeholder((n,), result, name="q")
    axis = reduce_axis((2, k), name="k")

    def body(j, i):
        return 5 - sum(
            (3 + b[j, axis].astype(result) - q[j])
            * (x[axis, i].astype(result) + p[()].astype(result)),
            axis,
        )

    return Program("own", (x, b, p, q), (compute((n, m), body, name="C"),))


@pytest.mark.parametrize("left, result", [(i8, i32), (i16, i32), (u8, i16), (i16, dtypes.int64)])
def test_words_of_one_s_own(left: DType, result: DType) -> None:
    """Sums that wrap wrap alike; the sum need not be all of the value."""
    inputs = numbers(left, 9, 12), numbers(i8, 14, 9), numbers(left), numbers(result, 14)
    new = promise(one_node(own(left, result)), *inputs)
    assert products(new) == [True]


def test_differences_of_other_nodes() -> None:
    """x - p and its conversion are nodes of their own, one of which somebody else reads as well."""
    x, w = placeholder((12, 9), u8, name="x"), placeholder((9, 14), i8, name="w")
    p = placeholder((), u8, name="p")
    wide = compute((12, 9), lambda i, k: x[i, k].astype(i32), name="wide")
    shifted = compute((12, 9), lambda i, k: wide[i, k] - p[()].astype(i32), name="shifted")
    turned = compute((14, 9), lambda j, k: w[k, j].astype(i32), name="turned")
    k = reduce_axis((0, 9), name="k")
    y = compute((12, 14), lambda i, j: sum(shifted[i, k] * turned[j, k], k), name="y")
    z = compute((12, 9), lambda i, k: shifted[i, k] * 2, name="z")
    graph = from_program(Program("own", (x, w, p), (y, z)))
    new = eliminate_dead(promise(graph, numbers(u8, 12, 9), numbers(i8, 9, 14), numbers(u8)))
    assert products(new) == [True]
    made = {v.name for node in new.nodes for v in node.outputs}
    assert "turned" not in made and {"shifted", "y", "z"} <= made


def test_open_sizes() -> None:
    graph = one_node(own(u8, i32, m=var("m"), k=var("depth"), n=8))
    for m, k in ((5, 2), (5, 3), (0, 4), (1, 11)):
        inputs = numbers(u8, k, m), numbers(i8, 8, k), numbers(u8), numbers(i32, 8)
        assert products(promise(graph, *inputs)) == [True]


def test_what_does_not_pay_stays() -> None:
    """For one row, the sums over columns are as much work as the products."""
    arrays = numbers(u8, 1, 5), numbers(i8, 5, 7), numbers(u8), np.asarray(np.int8(0))
    graph = operator("matmul_integer", *arrays, known="d")
    assert differences(graph).nodes == graph.nodes
    assert products(differences(operator("matmul_integer", *arrays, known="bd"))) == [True]


def floats() -> Program:
    x, p = placeholder((5, 6), "float32", name="x"), placeholder((), "float32", name="p")
    k = reduce_axis((0, 6), name="k")
    y = compute((5, 5), lambda i, j: sum((x[i, k] - p[()]) * x[j, k], k), name="y")
    return Program("own", (x, p), (y,))


def moving() -> Program:
    x, p = placeholder((5, 6), i8, name="x"), placeholder((6,), i32, name="p")
    k = reduce_axis((0, 6), name="k")
    y = compute(
        (5, 5),
        lambda i, j: sum((x[i, k].astype(i32) - p[k]) * x[j, k].astype(i32), k),
        name="y",
    )
    return Program("own", (x, p), (y,))


def wide() -> Program:
    x, p = placeholder((5, 6), i32, name="x"), placeholder((), i32, name="p")
    k = reduce_axis((0, 6), name="k")
    y = compute((5, 5), lambda i, j: sum((x[i, k] - p[()]) * x[j, k], k), name="y")
    return Program("own", (x, p), (y,))


@pytest.mark.parametrize("program", [floats, moving, wide])
def test_what_is_no_such_product_stays(program) -> None:
    """Floats round; what moves along the sum is no constant of it; int32 is nothing narrow."""
    graph = one_node(program())
    assert differences(graph).nodes == graph.nodes


def test_other_nodes_stay_and_names_are_new() -> None:
    first, second = own(u8, i32), own(u8, i32)
    graph = one_node(first)
    twin = graph.nodes[0], replace(one_node(second).nodes[0], name="twin")
    outputs = replace(twin[1].outputs[0], name="D")
    nodes = twin[0], replace(twin[1], outputs=(outputs,))
    both = replace(graph, nodes=nodes, outputs=(*graph.outputs, outputs))
    inputs = numbers(u8, 9, 12), numbers(i8, 14, 9), numbers(u8), numbers(i32, 14)
    new = promise(both, *inputs)
    assert products(new) == [True, True]
    names = [v.name for node in new.nodes for v in node.outputs]
    assert len(set(names)) == len(names)


def doubled(x: Tensor) -> Tensor:
    return compute(x.shape, lambda i, j: x[i, j] + x[i, j], name="twice")


def test_long_chains_of_sums_are_not_read_through() -> None:
    """Each doubling doubles the terms of all: a graph of 40 would have 10**12 of them."""
    x, y = placeholder((3, 4), i8, name="x"), placeholder((4, 2), i8, name="y")
    value = compute((3, 4), lambda i, j: x[i, j].astype(i32), name="wide")
    for _ in range(40):
        value = doubled(value)
    r = reduce_axis((0, 4), name="r")
    product = compute(
        (3, 2), lambda i, j: sum(value[i, r] * (y[r, j].astype(i32) - 1), r), name="p"
    )
    graph = from_program(Program("chain", (x, y), (product,)))
    changed = differences(graph)
    verify_graph(changed)
    given = [numbers(i8, 3, 4), numbers(i8, 4, 2)]
    for before, after in zip(
        interpret_graph(graph, given), interpret_graph(changed, given), strict=True
    ):
        np.testing.assert_array_equal(before, after)


def test_nodes_that_compute_nothing_stay() -> None:
    x = placeholder((3,), "int8", name="x")
    value = Value("x", x.shape, x.dtype)
    same = Node(
        "same", "split", (value,), (replace(value, name="y"),), {}, Program("p", (x,), (x,))
    )
    graph = Graph("g", (value,), same.outputs, (same,))
    assert differences(graph).nodes == (same,)
