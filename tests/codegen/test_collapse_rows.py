"""Short rows one behind the other run as one vector loop, and come out the same."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.kernel_runner import Compiled
from weft.codegen.collapse_rows import collapse_rows
from weft.codegen.llvm.kernel import flat_indices
from weft.ir import dtypes
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Block, Buffer, For, If, Kernel, Kind, Let, Stmt, Store, walk
from weft.ir.loop_printer import print_stmt
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Apply, Expr, Load, Var, literal, select
from weft.ir.scalar_expr import walk as walk_expr

F32 = dtypes.float32
i, j, n = Var("i"), Var("j"), Var("n")
ROWS = 90


def x(*at: Expr) -> Load:
    return Load("x", at, F32)


def y(*at: Expr) -> Load:
    return Load("y", at, F32)


def kernel(
    body: Stmt, short: int, kind: Kind = "parallel", bounds: tuple[Expr | int, Expr | int] = (0, n)
) -> Kernel:
    """``body`` in a loop over rows and one along them; those of ``w`` are longer."""
    lanes = For("j", literal(0), literal(short), "vector", body)
    low, high = (e if isinstance(e, Expr) else literal(e) for e in bounds)
    sizes = {"x": short, "y": short, "w": short + 1}
    buffers = tuple(
        Buffer(name, F32, (literal(ROWS), literal(size)), (literal(size), literal(1)))
        for name, size in sizes.items()
    )
    return Kernel("k", ("n",), buffers, For("i", low, high, kind, lanes))


def same(before: Kernel) -> Kernel:
    """What ``collapse_rows`` makes of it, once it is known to do the same; as machine code too."""
    after = collapse_rows(before)
    verify_kernel(after)
    rng = np.random.default_rng(3)
    arrays = {
        b.name: rng.standard_normal(ROWS * b.strides[0].value).astype(np.float32)  # type: ignore[attr-defined]
        for b in before.buffers
    }
    for size in (0, 1, 2, 33, ROWS):
        expected = {name: a.copy() for name, a in arrays.items()}
        interpret(before, {"n": size}, expected)
        actual = {name: a.copy() for name, a in arrays.items()}
        interpret(after, {"n": size}, actual)
        native, _ = Compiled(after)({"n": size}, arrays)
        for name, values in expected.items():
            np.testing.assert_array_equal(actual[name], values, err_msg=name)
            np.testing.assert_array_equal(native[name], values, err_msg=name)
    return after


def joined(kernel: Kernel) -> bool:
    return any(isinstance(s, For) and "." in s.var for s in walk(kernel.body))


@pytest.mark.parametrize("short", [2, 3, 4, 7, 17])
@pytest.mark.parametrize("bounds", [(0, n), (0, 5), (3, 40)])
def test_rows_are_joined(short: int, bounds: tuple[Expr | int, Expr | int]) -> None:
    body = Store("y", (i, j), x(i, j) * 2.0 + x(literal(0), literal(1)))
    after = same(kernel(body, short, bounds=bounds))
    assert joined(after)
    floors = [
        node
        for stmt in walk(flat_indices(after).body)
        if isinstance(stmt, Store)
        for e in (*stmt.indices, stmt.value)
        for node in walk_expr(e)
        if isinstance(node, Apply) and node.op in ("floordiv", "mod")
    ]
    assert not floors


def test_text() -> None:
    body = Let("v", x(i, j), Store("y", (i, j), Var("v", F32)))
    found = flat_indices(collapse_rows(kernel(body, 3)))
    assert print_stmt(found.body) == (
        "for i.rows in 0 .. (n + 79) // 80 parallel:\n"
        "  for i.j in 0 .. min(80, n - i.rows * 80) * 3 vector:\n"
        "    let v = x[0, i.j + i.rows * 240]\n"
        "    y[0, i.j + i.rows * 240] = v"
    )  # fmt: skip


def test_serial_loops_whose_turns_are_apart() -> None:
    assert joined(same(kernel(Store("y", (i, j), x(i, j) + y(i, j)), 4, "serial")))


STAY = {
    "what another row has stored": (Store("y", (i, j), y(i - 1, j) + 1.0), "serial", (1, n)),
    "two stores to one buffer": (
        Block((Store("y", (i, j), x(i, j)), Store("y", (i - 1, j), x(i, j)))),
        "serial",
        (1, n),
    ),
    "longer rows": (Store("y", (i, j), Load("w", (i, j), F32)), "parallel", (0, n)),
    "one number for each row": (Store("y", (i, j), x(i, literal(0))), "parallel", (0, n)),
    "one for each column": (Store("y", (i, j), x(literal(0), j)), "parallel", (0, n)),
    "a choice by rows": (
        Store("y", (i, j), select(i >= 2, x(i, j), literal(0.0, F32))),
        "parallel",
        (0, n),
    ),
    "a condition on columns": (If(j >= 2, Store("y", (i, j), x(i, j))), "parallel", (0, n)),
}


@pytest.mark.parametrize("name", STAY)
def test_stays(name: str) -> None:
    body, kind, bounds = STAY[name]
    assert not joined(same(kernel(body, 4, kind, bounds)))  # type: ignore[arg-type]


def test_rows_that_fill_vectors_stay() -> None:
    for short in (16, 31, 64):
        assert not joined(collapse_rows(kernel(Store("y", (i, j), x(i, j)), short)))
