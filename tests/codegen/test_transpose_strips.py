"""Vectors across rows, in blocks: the kernel does the same, on exactly the same elements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.kernel_runner import Compiled, assert_same
from weft.codegen.llvm.kernel import emit_kernel
from weft.codegen.llvm.target import host_target
from weft.codegen.scalar_replacement import scalar_replacement
from weft.codegen.transpose_strips import transpose_strips
from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Allocate, Block, Buffer, For, Kernel, Let, Stmt, Store
from weft.ir.loop_printer import print_stmt
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, Var, literal, select

i, j, n = Var("i"), Var("j"), Var("n")
SIDE = 40


def at(name: str, *indices: Expr, dtype: DType = dtypes.int64) -> Load:
    return Load(name, indices, dtype)


def loop(body: Stmt, width: int = 8) -> For:
    lanes = For("i", literal(0), literal(width), "vector", body)
    return For("j", literal(1), n, "serial", lanes)


def kernel(body: Stmt, dtype: DType = dtypes.int64, side: int = SIDE) -> Kernel:
    shape = (literal(side), literal(side))
    buffers = [Buffer(name, dtype, shape, (literal(side), literal(1))) for name in "xyb"]
    return Kernel("k", ("n",), tuple(buffers), body, ())


def blocks(body: Stmt, dtype: DType = dtypes.int64, side: int = SIDE) -> int:
    """How many accesses go through blocks; the kernel still does the same."""
    original = kernel(body, dtype, side)
    changed = transpose_strips(scalar_replacement(original))
    verify_kernel(changed)
    for size in (0, 1, 2, 8, 9, 10, 17, 31, SIDE - 4):
        rng = np.random.default_rng(size)
        arrays = {
            b.name: rng.integers(-9, 9, side * side).astype(dtype.numpy) for b in original.buffers
        }
        expected = {name: a.copy() for name, a in arrays.items()}
        interpret(original, {"n": size}, expected)
        actual = {name: a.copy() for name, a in arrays.items()}
        interpret(changed, {"n": size}, actual)
        native, _ = Compiled(changed)({"n": size}, arrays)
        for name, values in expected.items():
            assert_same(actual[name], values, 0.0, name)
            assert_same(native[name], values, 0.0, name)
    return print_stmt(changed.body).count("allocate block")


@pytest.mark.parametrize("width", [4, 8, 16, 32])
def test_rows_are_loaded_and_stored_in_blocks(width: int) -> None:
    body = Store("x", (i, j), at("x", i, j - 1) * 3 + at("b", i + 2, j + 1))
    assert blocks(loop(body, width)) == 2


@pytest.mark.parametrize("width", [9, 16, 23, 39])
def test_many_rows_are_several_blocks_one_after_the_other(width: int) -> None:
    """The last one starts early; where rows need what was there, all are side by side."""
    first = Store("x", (i, j + 1), at("b", i, j) * 3)
    assert blocks(loop(Block((first, Store("y", (j, i), at("b", i, j)))), width)) == 2
    meeting = Store("y", (literal(0), i + j), at("b", i, j))  # the last turn of j counts
    assert blocks(loop(meeting, min(width, 4))) == 1
    assert blocks(loop(Store("x", (i, j), at("x", i, j) + at("b", i, j)), width)) == 3


@pytest.mark.parametrize("dtype", [dtypes.float64, dtypes.float32, dtypes.int32, dtypes.int8])
def test_of_any_type(dtype: DType) -> None:
    body = Store("x", (i, j), at("x", i, j - 1, dtype=dtype) + at("b", i, j, dtype=dtype))
    assert blocks(loop(body), dtype) == 2


def test_from_right_to_left() -> None:
    back = n - j
    body = Store("x", (i, back), at("x", i, back + 1) + at("b", i, back + 1))
    assert blocks(loop(body)) == 2


def test_columns_stay_vectors() -> None:
    body = Store("x", (i, j), at("x", i, j - 1) + at("b", j, i) + at("y", j, literal(3)))
    assert blocks(loop(body)) == 1


def test_values_of_this_turn() -> None:
    first = Store("x", (i, j), at("x", i, j - 1) + at("b", i, j))
    second = Store("y", (literal(0), i), at("x", i, j) * 2)
    third = Store("y", (literal(0), i), at("y", literal(0), i) + at("x", i, j))
    assert blocks(loop(Block((first, second, third)))) == 2


def test_lets_of_the_loop() -> None:
    value = Let("p", at("b", i, j) + j, Let("q", Var("p") * j, Store("x", (i, j), Var("q"))))
    assert blocks(loop(value)) == 2


def test_rows_that_begin_one_behind_the_other() -> None:
    assert blocks(loop(Store("x", (i, j + i), at("b", i, j + 3 - i)), 4)) == 2


def test_what_moves_between_lanes_stays_between_the_columns() -> None:
    """Each row reads what the one before has stored: in registers, but for the first row."""
    body = Store("x", (i + 1, j + 3 - i), at("x", i, j + 3 - i) * 3 + at("x", i, j + 2 - i))
    assert blocks(loop(body, 4)) == 1
    far = Store("x", (i + 2, j + 3 - i), at("x", i, j + 4 - i) + at("x", i + 2, j + 2 - i))
    assert blocks(loop(far, 4)) == 1
    assert blocks(loop(Block((body, Store("x", (i + 20, j), n))), 4)) == 0


@pytest.mark.parametrize("lanes", [4, 5, 7, 8, 9, 16])
def test_rows_that_feed_those_behind_them(lanes: int) -> None:
    """As many lanes as there are columns in a block, fewer, one more, and several times that."""
    body = Store("x", (i + 1, j + lanes - i), at("x", i, j + lanes - i) * 3 + at("b", i, j))
    assert blocks(loop(body, lanes), side=50) == 2


@pytest.mark.parametrize(
    "first",
    [
        Store("b", (i, j), j * 3),  # what a block would have loaded before
        Store("x", (i, j), j * 3),  # … would store after
    ],
)
def test_what_is_stored_before_the_lanes_is_not_passed(first: Stmt) -> None:
    before = For("i", literal(0), literal(8), "vector", first)
    lanes = For("i", literal(0), literal(8), "vector", Store("x", (i, j), at("b", i, j) + 1))
    assert blocks(For("j", literal(1), n, "serial", Block((before, lanes)))) == 0


@pytest.mark.parametrize(
    "body",
    [
        Store("x", (i, j), at("x", i, j - 1) + at("x", i, j + 1)),  # may be stored in the block
        Block((Store("x", (i, j), n), Store("x", (i, j - 1), j))),  # in this order
        Store("x", (j, i), at("b", j, i)),  # no row is crossed
        Store("x", (j, i), select(j > 3, at("b", i, j), literal(0))),  # not always
        Store("x", (j, i), at("b", i, j * 2 % SIDE)),
    ],
)
def test_not_in_blocks(body: Stmt) -> None:
    assert blocks(loop(body)) == 0


def tile(turns: tuple[int, int], lanes: int, dtype: DType, vector_bytes: int = 64) -> Kernel:
    """The kernel that stores the results of a register tile across rows beside a residual: in
    blocks, on the same elements as before."""
    first, stop = turns
    results = [Var("r"), Var("l")]
    held = Load("t", tuple(results), dtype)
    place = (literal(1), Var("l") + n, Var("r") + 2)
    filled = Load("b", (literal(0), Var("r"), Var("l")), dtype)
    sums = Store("x", place, held + Load("y", place, dtype))

    def over(body: Stmt) -> For:
        inner = For("l", literal(0), literal(lanes), "vector", body)
        return For("r", literal(first), literal(stop), "unrolled", inner)

    strides = (literal(SIDE * SIDE), literal(SIDE), literal(1))
    shape = (literal(2), literal(SIDE), literal(SIDE))
    sizes = (literal(stop), literal(lanes))
    register = Buffer("t", dtype, sizes, (literal(lanes), literal(1)), "register")
    body = Allocate(register, Block((over(Store("t", tuple(results), filled)), over(sums))))
    buffers = tuple(Buffer(name, dtype, shape, strides) for name in "xyb")
    original = Kernel("k", ("n",), buffers, body, ())
    changed = transpose_strips(original)
    verify_kernel(changed)
    assert print_stmt(changed.body).count("allocate block") >= (2 if stop - first > 1 else 0)
    rng = np.random.default_rng(stop)
    arrays = {b.name: rng.integers(0, 9, 2 * SIDE * SIDE).astype(dtype.numpy) for b in buffers}
    expected = {name: a.copy() for name, a in arrays.items()}
    size = {"n": SIDE - lanes}
    interpret(original, size, expected)
    actual = {name: a.copy() for name, a in arrays.items()}
    interpret(changed, size, actual)
    target = replace(host_target(), vector_bytes=vector_bytes)
    native, _ = Compiled(changed, target)(size, arrays)
    for name, values in expected.items():
        assert_same(actual[name], values, 0.0, name)
        assert_same(native[name], values, 0.0, name)
    return changed


@pytest.mark.long
@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("lanes", [4, 5, 16, 21, 32])
@pytest.mark.parametrize("turns", [(0, 1), (0, 2), (1, 4), (0, 6), (0, 13), (0, 17)])
def test_results_of_register_tiles(turns: tuple[int, int], lanes: int, vector_bytes: int) -> None:
    tile(turns, lanes, dtypes.float32, vector_bytes)


@pytest.mark.parametrize(
    "dtype", [dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.int8, dtypes.int64]
)
@pytest.mark.parametrize("turns", [(0, 3), (0, 8), (2, 35)])
def test_register_tiles_of_any_type(turns: tuple[int, int], dtype: DType) -> None:
    tile(turns, 24, dtype)


@pytest.mark.parametrize(
    ("vector_bytes", "load", "store"),
    [
        (32, "= load <6 x float>", " store <6 x float>"),
        (64, "call <8 x float> @llvm.masked.load", "call void @llvm.masked.store"),
    ],
)
def test_results_of_tiles_are_stored_as_vectors(vector_bytes: int, load: str, store: str) -> None:
    target = replace(host_target(), vector_bytes=vector_bytes)
    text = emit_kernel(tile((0, 6), 16, dtypes.float32), target).text
    assert text.count(load) == text.count(store) == 16
    assert " store float" not in text


def test_buffers_that_overlap_are_left_alone() -> None:
    original = kernel(loop(Store("x", (i, j), at("b", i, j))))
    x, y, b = original.buffers
    overlapping = Buffer("x", x.dtype, x.shape, x.strides, aliases=("b",))
    again = Kernel("k", ("n",), (overlapping, y, b), original.body, ())
    assert transpose_strips(again) is again


def test_elements_that_are_read_and_stored_in_place() -> None:
    body = Store("x", (i, j), at("x", i, j) * 3 + at("x", i, j - 1))
    assert blocks(loop(body)) == 2
    alone = Store("x", (i, j), select(at("x", i, j) > 0, at("x", i, j), at("b", i, j)))
    assert blocks(loop(alone)) == 2  # not b, which is not always read
