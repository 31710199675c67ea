"""Full tiles get constant loops; partial ones keep theirs; nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

from weft.codegen.split_tails import split_tails
from weft.ir import dtypes
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Allocate, Block, Buffer, For, If, Kernel, Stmt, Store, walk
from weft.ir.loop_printer import print_stmt
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, Var, apply, literal

F = dtypes.float32
t, s, u, v = Var("t"), Var("s"), Var("u"), Var("v")
m, n = Var("m"), Var("n")


def tiled(rows: Expr, columns: Expr, kind: str = "parallel") -> Kernel:
    """x[i, j] = i * 100 + j in tiles of 4 x 16, by way of registers."""
    r = Buffer("r", F, (literal(4), literal(16)), (literal(16), literal(1)), "register")
    x = Buffer("x", F, (rows, columns), (columns, literal(1)))

    def points(body: Stmt) -> Stmt:
        inner = For("v", literal(0), apply("min", literal(16), columns - s * 16), "vector", body)
        return For("u", literal(0), apply("min", literal(4), rows - t * 4), "unrolled", inner)

    value = ((t * 4 + u) * 100 + s * 16 + v).astype(F)
    tile = Block((
        points(Store("r", (u, v), value)),
        points(Store("x", (t * 4 + u, s * 16 + v), Load("r", (u, v), F))),
    ))  # fmt: skip
    inner = For("s", literal(0), (columns + 15) // 16, kind, Allocate(r, tile))  # type: ignore
    outer = For("t", literal(0), (rows + 3) // 4, kind, inner)  # type: ignore[arg-type]
    return Kernel("k", ("m", "n"), (x,), outer)


def run(kernel: Kernel, rows: int, columns: int) -> np.ndarray:
    memory = {"x": np.zeros(rows * columns, np.float32)}
    interpret(kernel, {"m": rows, "n": columns}, memory)
    return memory["x"].reshape(rows, columns)


@pytest.mark.parametrize("kind", ["parallel", "serial"])
@pytest.mark.parametrize("rows, columns", [(4, 16), (8, 32), (5, 17), (3, 7), (1, 16), (7, 33)])
def test_every_element_is_written_once_as_before(rows: int, columns: int, kind: str) -> None:
    expected = np.arange(rows)[:, None] * 100.0 + np.arange(columns)
    np.testing.assert_array_equal(run(split_tails(tiled(m, n, kind)), rows, columns), expected)
    fixed = split_tails(tiled(literal(rows), literal(columns), kind))
    np.testing.assert_array_equal(run(fixed, rows, columns), expected)


def test_constant_sizes_leave_only_constant_point_loops() -> None:
    kernel = split_tails(tiled(literal(6), literal(20)))
    assert "min" not in print_stmt(kernel.body)
    for stmt in walk(kernel.body):
        if isinstance(stmt, Allocate):
            assert stmt.buffer.scope == "register"


def test_whole_tiles_are_not_split() -> None:
    kernel = split_tails(tiled(literal(8), literal(32)))
    assert not any(isinstance(stmt, If) for stmt in walk(kernel.body))


def test_parallel_loops_stay_perfectly_nested() -> None:
    kernel = split_tails(tiled(m, n))
    assert isinstance(kernel.body, For) and isinstance(kernel.body.body, For)
    assert kernel.body.body.kind == "parallel"


def test_symbolic_partial_tiles_use_no_registers() -> None:
    scopes = [
        stmt.buffer.scope
        for stmt in walk(split_tails(tiled(m, n)).body)
        if isinstance(stmt, Allocate)
    ]
    assert scopes.count("register") == 1 and scopes.count("local") == 3


def test_bounds_that_a_loop_between_decides_stay() -> None:
    """No condition outside that loop can tell whether a tile is full."""
    points = For(
        "v", literal(0), apply("min", literal(4), n + u * 4 - t * 16), "unrolled",
        Store("x", (t * 16 - u * 4 + v,), literal(1.0, F)),
    )  # fmt: skip
    between = For("u", literal(-3), literal(1), "serial", points)
    x = Buffer("x", F, (n,), (literal(1),))
    kernel = Kernel("k", ("n",), (x,), For("t", literal(0), (n + 15) // 16, "serial", between))
    made = split_tails(kernel)
    verify_kernel(made)
    memory = {"x": np.zeros(21, np.float32)}
    interpret(made, {"n": 21}, memory)
    assert memory["x"].all()


def test_tiles_that_grow_with_the_loop_keep_their_bounds() -> None:
    """Where one bound shrinks and another grows, only what shrinks is full below a limit."""

    def row(name: str, room: Expr) -> Stmt:
        store = Store(name, (t * 4 + v,), literal(1.0, F))
        return For("v", literal(0), apply("min", literal(4), room), "vector", store)

    x, y = (Buffer(name, F, (n + 4,), (literal(1),)) for name in "xy")
    body = Block((row("x", n - t * 4), row("y", t + 1)))
    made = split_tails(
        Kernel("k", ("n",), (x, y), For("t", literal(0), (n + 3) // 4, "serial", body))
    )
    memory = {name: np.zeros(25, np.float32) for name in "xy"}
    interpret(made, {"n": 21}, memory)
    assert memory["x"].sum() == 21
    assert memory["y"].sum() == 1 + 2 + 3 + 4 + 4 + 4


def test_a_tail_that_two_bounds_cut_is_told_apart() -> None:
    """Lanes that end at a column of the other size as well as at the array."""
    end = apply("min", apply("min", literal(4), n - t * 4), m + 2 - t * 4)
    points = For("v", literal(0), end, "vector", Store("x", (t * 4 + v,), literal(1.0, F)))
    x = Buffer("x", F, (literal(99),), (literal(1),))
    whole = For("t", literal(0), (apply("min", n, m + 2) + 3) // 4, "serial", points)
    made = split_tails(Kernel("k", ("m", "n"), (x,), whole))
    assert literal(4) in [s.upper for s in walk(made.body) if isinstance(s, For) and s.var == "v"]
    for rows, columns in ((0, 0), (1, 9), (9, 3), (10, 12), (11, 12), (6, 8), (7, 40)):
        memory = {"x": np.zeros(99, np.float32)}
        interpret(made, {"m": rows, "n": columns}, memory)
        assert memory["x"].sum() == memory["x"][: min(columns, rows + 2)].sum()
        assert memory["x"].sum() == min(columns, rows + 2)
