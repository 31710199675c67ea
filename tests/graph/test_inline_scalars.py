from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.graph_examples import Maker, random_inputs
from weft.graph.inline_scalars import inline_scalars
from weft.ir.build import compute
from weft.ir.dtypes import as_dtype
from weft.ir.graph_interpreter import interpret_graph
from weft.ir.graph_verifier import verify_graph
from weft.ir.operator_graph import Graph, Node, Value
from weft.ir.scalar_expr import apply
from weft.ir.tensor_expr import Program, Tensor

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 6.0, 1e-45]
OPS = ("min", "max", "pow", "add", "sub", "mul", "div")


def one_node(op: str, scalar: np.ndarray, *, left: bool = False) -> Graph:
    """y = op(x, scalar), or op(scalar, x)."""
    m = Maker()
    given = (m.input((len(SPECIAL),), str(scalar.dtype)), m.constant((), data=scalar))
    x, c = (Tensor(v.name, v.shape, v.dtype) for v in given)
    at = (0,) * scalar.ndim
    y = compute(
        (len(SPECIAL),), lambda i: apply(op, *((c[at], x[i]) if left else (x[i], c[at]))), name="y"
    )
    program = Program("node", (x, c), (y,))
    result = Value("y", y.shape, y.dtype)
    m.nodes.append(Node("node", op, given, (result,), {}, program))
    return m.graph(result)


def check_same(graph: Graph, *arrays: np.ndarray) -> Graph:
    after = inline_scalars(graph)
    verify_graph(after)
    with np.errstate(all="ignore"):
        (found,), (wanted,) = (interpret_graph(g, list(arrays)) for g in (after, graph))
    np.testing.assert_array_equal(found, wanted)
    assert np.array_equal(np.signbit(found), np.signbit(wanted))
    return after


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_every_bit_stays(op: str, left: bool, shape: tuple[int, ...]) -> None:
    for value in SPECIAL:
        scalar = np.full(shape, value, np.float32)
        check_same(one_node(op, scalar, left=left), np.array(SPECIAL, np.float32))


@given(st.sampled_from(OPS[:2] + OPS[3:6]), st.integers(-128, 127), st.booleans())
@settings(max_examples=30, deadline=None)
def test_integers(op: str, value: int, left: bool) -> None:
    graph = one_node(op, np.array(value, np.int8), left=left)
    check_same(graph, np.array([-128, -127, -1, 0, 1, 2, 7, 126, 127], np.int8))


def constants(op: str, value: Any, **options: Any) -> int:
    return len(inline_scalars(one_node(op, np.array(value), **options)).constants)


def test_only_what_is_cheaper_known_is_written_in() -> None:
    assert constants("max", np.float32(6)) == 0
    assert constants("min", np.float32(6), left=True) == 0
    assert constants("mul", np.float32(1)) == 0
    assert constants("mul", np.float32(1.5)) == 1
    assert constants("add", np.float32(0)) == 1  # -0.0 + 0.0 is 0.0
    assert constants("add", np.int32(0)) == 0
    assert constants("max", np.float32(np.nan)) == 1


def test_indices_become_affine() -> None:
    m = Maker()
    given = (m.input((3, 5)), m.constant((), data=np.int64(2)))
    x, c = (Tensor(v.name, v.shape, v.dtype) for v in given)
    y = compute((5,), lambda i: x[c[()], i], name="y")
    result = Value("y", y.shape, as_dtype("float32"))
    m.nodes.append(Node("node", "gather", given, (result,), {}, Program("node", (x, c), (y,))))
    graph = m.graph(result)
    after = check_same(graph, *random_inputs(graph))
    assert not after.constants


def test_a_node_of_scalars_alone_keeps_them() -> None:
    m = Maker()
    given = (m.constant((), data=np.float32(2)),)
    (c,) = (Tensor(v.name, v.shape, v.dtype) for v in given)
    y = compute((5,), lambda i: apply("max", c[()], c[()]), name="y")
    result = Value("y", y.shape, y.dtype)
    m.nodes.append(Node("node", "full", given, (result,), {}, Program("node", (c,), (y,))))
    after = check_same(m.graph(result))
    assert len(after.constants) == 1
