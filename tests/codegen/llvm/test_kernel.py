"""The emitter against the loop interpreter, on buffers that end at a page nobody may touch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.kernel_runner import Compiled, check
from tests.codegen.random_kernels import Generator
from weft.codegen.llvm.kernel import emit_kernel
from weft.codegen.llvm.target import host_target, inspect
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.errors import CompileError
from weft.ir.loop_ir import (
    Allocate,
    Block,
    Buffer,
    Check,
    For,
    If,
    Kernel,
    Let,
    Store,
    Update,
    While,
)
from weft.ir.scalar_expr import Expr, Load, Var, literal, select
from weft.ir.tensor_expr import Monoid

F, I64 = dtypes.float32, dtypes.int64
i, j, k, n = Var("i"), Var("j"), Var("k"), Var("n")
zero = literal(0)


def vector(name: str, size: object = n, dtype: object = F, **more: object) -> Buffer:
    size = size if isinstance(size, Expr) else literal(size)  # type: ignore[arg-type]
    return Buffer(name, dtype, (size,), (literal(1),), **more)  # type: ignore[arg-type]


def loop(body: object, kind: str = "vector", upper: Expr = n, var: str = "i") -> For:
    return For(var, zero, upper, kind, body)  # type: ignore[arg-type]


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-8, 9, shape).astype(np.float32).ravel()


@pytest.mark.parametrize("seed", range(40, 70))
def test_random_kernels(seed: int) -> None:
    kernel, parameters, buffers = Generator(seed).kernel()
    check(kernel, parameters, buffers)


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.float32, dtypes.float64], ids=str)
def test_every_length_around_the_vector(dtype: dtypes.DType) -> None:
    x, y = Load("x", (i,), dtype), literal(3, dtype)
    total = Update((("s", (zero,)),), monoid("add", dtype), (x,))
    body = Block((Store("y", (i,), x * y), total))
    buffers = (vector("x", dtype=dtype, writable=False), vector("y", dtype=dtype))
    kernel = Kernel("k", ("n",), (*buffers, vector("s", 1, dtype)), loop(body))
    width = 64 // dtype.itemsize
    for size in {0, 1, 2, 3, width - 1, width, width + 1, 4 * width, 4 * width + 1, 257}:
        values = floats(size).astype(dtype.numpy)
        memory = {"x": values, "y": np.zeros_like(values), "s": np.ones(1, dtype.numpy)}
        check(kernel, {"n": size}, memory)


@pytest.mark.parametrize("stride", [-1, 0, 1, 2, 3, 4, 5, 16])
@pytest.mark.parametrize("size", [1, 7, 16, 33])
def test_strided_loads_touch_nothing_else(stride: int, size: int) -> None:
    first = -stride * (size - 1) if stride < 0 else 0
    x = vector("x", (size - 1) * abs(stride) + 1, writable=False)
    body = Store("y", (i,), Load("x", (i * stride + first,), F))
    kernel = Kernel("k", (), (x, vector("y", size)), loop(body, upper=literal(size)))
    symbolic = Kernel("k", ("n",), (x, vector("y", size)), loop(body))
    memory = {"x": floats((size - 1) * abs(stride) + 1), "y": np.zeros(size, np.float32)}
    check(kernel, {}, memory)
    check(symbolic, {"n": size}, memory)


def test_a_masked_load_stays_inside() -> None:
    """A window that hangs over both ends of its row, as padding does."""
    inside = (i >= 2) & (i < n + 2)
    value = select(inside, Load("x", (i - 2,), F), 0.5)
    kernel = Kernel(
        "k",
        ("n",),
        (vector("x", writable=False), vector("y", n + 4)),
        loop(Store("y", (i,), value), upper=n + 4),
    )
    for size in (1, 13, 16, 30):
        check(kernel, {"n": size}, {"x": floats(size), "y": np.zeros(size + 4, np.float32)})


def test_nested_selects_are_lazy_on_every_level() -> None:
    at = Load("at", (i,), I64)
    inner = select(at < n, Load("x", (at,), F), -1.0)
    value = select(at >= 0, inner, -2.0)
    buffers = (vector("x", writable=False), vector("at", dtype=I64, writable=False), vector("y"))
    for kind in ("vector", "serial"):
        kernel = Kernel("k", ("n",), buffers, loop(Store("y", (i,), value), kind))
        at_values = np.random.default_rng(1).integers(-40, 60, 37)
        memory = {"x": floats(37), "at": at_values, "y": np.zeros(37, np.float32)}
        check(kernel, {"n": 37}, memory)


def test_argmax_in_lanes() -> None:
    """A monoid of two components whose laws allow any order."""
    lv, li, rv, ri = Var("lv", F), Var("li", I64), Var("rv", F), Var("ri", I64)
    wins = (rv > lv) | (rv.equal(lv) & (ri < li))
    combined = (select(wins, rv, lv), select(wins, ri, li))
    best = Monoid("argmax", (lv, li), (rv, ri), combined, (float("-inf"), (1 << 62)))
    body = Update((("v", (zero,)), ("p", (zero,))), best, (Load("x", (i,), F), i))
    buffers = (vector("x", writable=False), vector("v", 1), vector("p", 1, I64))
    for size in (0, 1, 5, 16, 100, 131):
        memory = {
            "x": floats(size), "v": np.full(1, -np.inf, np.float32), "p": np.full(1, 1 << 62)
        }  # fmt: skip
        check(Kernel("k", ("n",), buffers, loop(body)), {"n": size}, memory)


def test_a_fold_without_laws_keeps_its_order() -> None:
    left, right = Var("l", F), Var("r", F)
    halve = Monoid("halve", (left,), (right,), (left * 0.5 + right,), (0.0,), frozenset())
    body = Update((("s", (zero,)),), halve, (Load("x", (i,), F),))
    kernel = Kernel("k", ("n",), (vector("x", writable=False), vector("s", 1)), loop(body))
    check(kernel, {"n": 40}, {"x": floats(40), "s": np.zeros(1, np.float32)})


@pytest.mark.parametrize("size", [1, 5, 16, 40])
def test_updates_that_meet(size: int) -> None:
    """Several lanes fold into one element: by a division, and by an index that is data."""
    x, at = Load("x", (i,), F), Load("at", (i,), I64)
    buffers = (
        vector("x", writable=False), vector("at", dtype=I64, writable=False),
        vector("y"), vector("h", 3),
    )  # fmt: skip
    body = Block((
        Update((("y", (i // 3,)),), monoid("add", F), (x,)),
        If(x > 0.0, Update((("h", (at,)),), monoid("add", F), (x,))),
    ))  # fmt: skip
    memory = {
        "x": floats(size), "at": np.arange(size) * 7 % 3, "y": np.zeros(size, np.float32),
        "h": np.zeros(3, np.float32),
    }  # fmt: skip
    check(Kernel("k", ("n",), buffers, loop(body)), {"n": size}, memory)


@pytest.mark.parametrize("rows, columns, depth", [(3, 32, 5), (14, 32, 9), (2, 20, 4), (5, 7, 3)])
def test_register_tiles(rows: int, columns: int, depth: int) -> None:
    kernel = tile(rows, columns, depth)
    memory = {
        "a": floats(depth, rows), "b": floats(depth, columns),
        "c": np.zeros(rows * columns, np.float32),
    }  # fmt: skip
    check(kernel, {}, memory)


def test_a_register_tile_stays_in_registers() -> None:
    """No stack in the inner loop: LLVM has promoted every accumulator."""
    optimised = inspect(emit_kernel(tile(14, 32, 9), host_target()).text, host_target()).optimised
    assert "alloca" not in optimised
    if host_target().vector_bytes == 64:
        assert "<16 x float>" in optimised


@pytest.mark.parametrize("width, first, count", [(40, 0, 5), (21, 16, 5), (21, 16, 3), (40, 32, 8)])
def test_part_of_a_row_of_registers_leaves_the_rest(width: int, first: int, count: int) -> None:
    """Lanes that no vector fills may be stored to only where they are no elements."""

    def row(begin: int, end: int, body: Store) -> For:
        return For("i", literal(begin), literal(end), "vector", body)

    shape, strides = (literal(2), literal(width)), (literal(width), literal(1))
    r = Buffer("r", F, shape, strides, "register")
    parts = [
        For("j", zero, literal(2), "unrolled", body)
        for body in (
            row(0, width, Store("r", (j, i), Load("x", (j, i), F))),
            row(first, first + count, Store("r", (j, i), literal(7, F))),
            row(0, width, Store("y", (j, i), Load("r", (j, i), F))),
        )
    ]
    x, y = Buffer("x", F, shape, strides, writable=False), Buffer("y", F, shape, strides)
    kernel = Kernel("k", (), (x, y), Allocate(r, Block(tuple(parts))))
    check(kernel, {}, {"x": floats(2, width), "y": np.zeros(2 * width, np.float32)})


def tile(rows: int, columns: int, depth: int) -> Kernel:
    """One register tile of a product of packed panels."""
    u, v = Var("u"), Var("v")

    def points(body: object) -> For:
        inner = For("v", zero, literal(columns), "vector", body)  # type: ignore[arg-type]
        return For("u", zero, literal(rows), "unrolled", inner)

    def matrix(name: str, m: int, w: int, **more: object) -> Buffer:
        return Buffer(name, F, (literal(m), literal(w)), (literal(w), literal(1)), **more)  # type: ignore

    product = Load("a", (k, u), F) * Load("b", (k, v), F)
    update = Update((("acc", (u, v)),), monoid("add", F), (product,))
    body = Block((
        points(Store("acc", (u, v), literal(0, F))),
        For("k", zero, literal(depth), "serial", points(update)),
        points(Store("c", (u, v), Load("acc", (u, v), F))),
    ))  # fmt: skip
    buffers = (
        matrix("a", depth, rows, writable=False), matrix("b", depth, columns, writable=False),
        matrix("c", rows, columns),
    )  # fmt: skip
    acc = matrix("acc", rows, columns, scope="register")
    return Kernel("tile", (), buffers, Allocate(acc, body))


def test_checks_say_what_failed_and_nothing_is_touched() -> None:
    at = Load("at", (i,), I64)
    inside = (at >= 0) & (at < 5)
    body = Block((
        Check(inside, 2, (at, literal(5))),
        If(inside, Store("y", (at,), Load("x", (i,), F))),
    ))  # fmt: skip
    buffers = (vector("x", writable=False), vector("at", dtype=I64, writable=False), vector("y", 5))
    for kind in ("serial", "vector"):
        kernel = Kernel("k", ("n",), buffers, loop(body, kind), ("another", "out of range"))
        at_values = np.array([4, 0, 3, 900, 1] + [2] * 20)
        memory = {"x": floats(25), "at": at_values, "y": np.zeros(5, np.float32)}
        done, status = Compiled(kernel)({"n": 25}, memory)
        assert (status.code, status.detail) == (2, (900, 5))
        assert done["y"][4] == memory["x"][0] and done["y"][1] == memory["x"][4]


def test_while_and_lets() -> None:
    count = Let("m", Load("x", (i,), I64), Block((
        Store("y", (i,), zero),
        While(
            Load("y", (i,), I64) * Load("y", (i,), I64) < Var("m"),
            Store("y", (i,), Load("y", (i,), I64) + 1),
        ),
    )))  # fmt: skip
    buffers = (vector("x", dtype=I64, writable=False), vector("y", dtype=I64))
    for kind in ("serial", "vector"):
        memory = {"x": np.arange(0, 60, 3), "y": np.full(20, 9)}
        check(Kernel("k", ("n",), buffers, loop(count, kind)), {"n": 20}, memory)


def test_parallel_loops_are_spread_and_others_are_not() -> None:
    store = Store("y", (i,), Load("x", (i,), F))
    buffers = (vector("x", writable=False), vector("y"))
    spread = Kernel("k", ("n",), buffers, Let("m", n + 0, loop(store, "parallel")))
    twice = replace(spread, body=Block((spread.body, spread.body)))
    assert Compiled(spread).extent({"n": 33}) == 33 and Compiled(twice).extent({"n": 33}) == 1
    check(spread, {"n": 33}, {"x": floats(33), "y": np.zeros(33, np.float32)})


def test_aliased_buffers() -> None:
    """Two names of one memory: what is written through one is read through the other."""
    one, two = vector("x", aliases=("y",)), vector("y", aliases=("x",))
    text = emit_kernel(
        Kernel("k", ("n",), (one, two), loop(Store("y", (i,), zero.astype(F)))), host_target()
    ).text
    assert "ptr noalias align 64 %b" not in text


def test_deep_expressions_and_long_chains_of_lets() -> None:
    deep: Expr = Load("x", (i,), F)
    for _ in range(3000):
        deep = select(deep > 0.0, deep, -deep) if _ % 1000 == 999 else deep + 1.0
    stmt: object = Store("y", (i,), Var("t0", F))
    for position in range(1500):
        value = Var(f"t{position + 1}", F) + 1.0 if position < 1499 else deep
        stmt = Let(f"t{position}", value, stmt)  # type: ignore[arg-type]
    kernel = Kernel("k", ("n",), (vector("x", writable=False), vector("y")), loop(stmt))
    done, _ = Compiled(kernel)({"n": 3}, {"x": floats(3), "y": np.zeros(3, np.float32)})
    np.testing.assert_array_equal(done["y"], np.abs(floats(3) + 3000 - 3 + 1499))


def test_narrow_vectors_and_other_targets() -> None:
    """The same kernels for processors with shorter vectors and without AVX-512."""
    narrow = replace(host_target(), cpu="x86-64-v3", features="", vector_bytes=32)
    if not host_target().triple.startswith("x86_64"):
        pytest.skip("written for x86-64")
    for seed in range(6):
        kernel, parameters, buffers = Generator(seed).kernel()
        check(kernel, parameters, buffers, target=narrow)


def test_dynamic_register_buffers_are_refused() -> None:
    buffer = vector("r", n, scope="register")
    kernel = Kernel(
        "k", ("n",), (vector("y"),), Allocate(buffer, loop(Store("r", (i,), zero.astype(F))))
    )
    with pytest.raises(CompileError, match="WEFT-E0501"):
        emit_kernel(kernel, host_target())


def test_scratch_of_a_size_that_varies_is_refused() -> None:
    buffer = vector("s", i + 1, scope="local")
    body = Allocate(buffer, Store("s", (i,), zero.astype(F)))
    kernel = Kernel("k", ("n",), (vector("y"),), loop(body, "serial"))
    with pytest.raises(CompileError, match="WEFT-E0502"):
        emit_kernel(kernel, host_target())


def test_an_unreasonable_unrolled_loop_stays_a_loop() -> None:
    body = Store("y", (i,), Load("x", (i,), F) * 2.0)
    size = literal(1 << 20)
    kernel = Kernel(
        "k",
        (),
        (vector("x", size, writable=False), vector("y", size)),
        loop(body, "unrolled", size),
    )
    assert len(emit_kernel(kernel, host_target()).text) < 10_000
    done, _ = Compiled(kernel)({}, {"x": floats(1 << 20), "y": np.zeros(1 << 20, np.float32)})
    np.testing.assert_array_equal(done["y"], floats(1 << 20) * 2)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.int32, dtypes.float64, dtypes.int8])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 16, 31, 64, 67])
def test_every_other_element_is_stored_and_the_ones_between_are_left(
    size: int, dtype: dtypes.DType
) -> None:
    body = Store("y", (i * 2 + 1,), Load("x", (i,), dtype))
    loop = For("i", literal(0), n, "vector", body)
    buffers = (
        Buffer("x", dtype, (n,), (literal(1),), writable=False),
        Buffer("y", dtype, (n * 2,), (literal(1),)),
    )
    arrays = {
        "x": np.arange(size).astype(dtype.numpy),
        "y": np.full(2 * size, 77, dtype.numpy),
    }
    found = check(Kernel("k", ("n",), buffers, loop), {"n": size}, arrays)["y"]
    assert np.array_equal(found[1::2], arrays["x"]) and np.all(found[::2] == 77)
