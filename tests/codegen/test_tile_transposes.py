"""Loops that cross rows, in tiles of transposed blocks: the kernel does the same, and at once."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.kernel_runner import check
from weft.codegen import tile_transposes as module
from weft.codegen.tile_transposes import tile_transposes
from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Block, Buffer, For, Kernel, Let, Stmt, Store
from weft.ir.loop_printer import print_kernel
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, Var, literal

i, j, n, m = Var("i"), Var("j"), Var("n"), Var("m")


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles of small sizes."""
    monkeypatch.setattr(module, "ROWS", 32)
    monkeypatch.setattr(module, "ALONG", 2)


def kernel(body: Stmt, dtype: DType, rows: Expr = n, columns: Expr = m, first: str = "j") -> Kernel:
    """``body`` for all elements of x[n, m], beside y[m, n] and z[m, n]; the vector runs along n if
    ``first`` is j."""
    bounds = {"i": rows, "j": columns}
    (second,) = set(bounds) - {first}
    inner = For(second, literal(0), bounds[second], "vector", body)
    loops = For(first, literal(0), bounds[first], "parallel", inner)
    shapes = {"x": (rows, columns), "y": (columns, rows), "z": (columns, rows)}
    buffers = [Buffer(k, dtype, s, (s[1], literal(1))) for k, s in shapes.items()]
    return Kernel("k", ("n", "m"), tuple(buffers), loops, ())


def blocks(original: Kernel, n: int, m: int) -> int:
    """How many accesses go through blocks; the kernel still does what it did."""
    changed = tile_transposes(original)
    verify_kernel(changed)
    rng = np.random.default_rng(n + m)
    arrays = {b.name: rng.integers(-9, 9, n * m).astype(b.dtype.numpy) for b in original.buffers}
    sizes = {"n": n, "m": m}
    expected = {name: values.copy() for name, values in arrays.items()}
    interpret(original, sizes, expected)
    for name, values in check(changed, sizes, arrays).items():
        assert np.array_equal(values, expected[name]), name
    return print_kernel(changed).count("allocate block")


def at(name: str, dtype: DType, *indices: Expr) -> Load:
    return Load(name, indices, dtype)


def turned(dtype: DType) -> Stmt:
    return Store("y", (j, i), at("x", dtype, i, j))


@pytest.mark.parametrize("first", ["i", "j"])
@pytest.mark.parametrize(
    "sizes", [(0, 5), (1, 1), (1, 40), (16, 16), (15, 33), (17, 16), (31, 67), (40, 3)]
)
def test_transposes_of_any_size(sizes: tuple[int, int], first: str) -> None:
    assert blocks(kernel(turned(dtypes.float32), dtypes.float32, first=first), *sizes) == 1


@pytest.mark.parametrize("first", ["i", "j"])
@pytest.mark.parametrize(
    "dtype", [dtypes.float64, dtypes.int8, dtypes.float16, dtypes.bool_, dtypes.int64]
)
def test_of_any_type(dtype: DType, first: str) -> None:
    assert blocks(kernel(turned(dtype), dtype, first=first), 35, 41) == 1


@pytest.mark.parametrize("first", ["i", "j"])
@pytest.mark.parametrize("sizes", [(37, 5), (5, 37), (2, 3), (16, 8)])
def test_known_sizes_make_blocks_that_fit(sizes: tuple[int, int], first: str) -> None:
    rows, columns = map(literal, sizes)
    original = kernel(turned(dtypes.float32), dtypes.float32, rows, columns, first)
    turns = sizes["ij".index(first)]
    assert blocks(original, *sizes) == (1 if turns > 4 else 0)


def test_what_is_computed_on_the_way() -> None:
    f32 = dtypes.float32
    total = at("x", f32, i, j) + at("z", f32, j, i) * 2.0
    body = Let("t", total, Block((Store("y", (j, i), Var("t", f32) * Var("t", f32)),)))
    assert blocks(kernel(body, f32), 18, 33) == 1
    assert blocks(kernel(body, f32, first="i"), 33, 18) == 2  # z is loaded, y stored across


def test_loops_around_are_left_where_they_are() -> None:
    f32, k = dtypes.float32, Var("k")
    body = Store("y", (k, j, i), at("x", f32, i, k, j))
    inner = For("i", literal(0), n, "vector", body)
    middle = For("k", literal(0), literal(3), "parallel", inner)
    loops = For("j", literal(0), m, "parallel", middle)
    x = Buffer("x", f32, (n, literal(3), m), (m * 3, m, literal(1)))
    y = Buffer("y", f32, (literal(3), m, n), (m * n, n, literal(1)))
    original = Kernel("k", ("n", "m"), (x, y), loops, ())
    changed = tile_transposes(original)
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=3 * 37 * 21).astype(np.float32) for name in "xy"}
    sizes = {"n": 37, "m": 21}
    expected = {name: values.copy() for name, values in arrays.items()}
    interpret(original, sizes, expected)
    assert np.array_equal(check(changed, sizes, arrays)["y"], expected["y"])
    assert "allocate block" in print_kernel(changed)


@pytest.mark.parametrize(
    "body",
    [
        Store("y", (j, i), at("y", dtypes.float32, j, i) + at("x", dtypes.float32, i, j)),
        Store("y", (j, i), at("z", dtypes.float32, j, i)),
    ],
)
def test_not_where_turns_may_not_be_repeated_or_no_row_is_crossed(body: Stmt) -> None:
    original = kernel(body, dtypes.float32)
    assert tile_transposes(original) is original


def test_not_in_serial_loops() -> None:
    original = kernel(turned(dtypes.float32), dtypes.float32)
    loop = original.body
    assert isinstance(loop, For)
    serial = For(loop.var, loop.lower, loop.upper, "serial", loop.body)
    again = Kernel("k", ("n", "m"), original.buffers, serial, ())
    assert tile_transposes(again) is again
