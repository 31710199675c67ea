"""Sums that read several places at once: the same sums, bit by bit, for any number of rows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.kernel_runner import check
from weft.codegen.multi_stream_loads import multi_stream_loads
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.loop_ir import Block, Buffer, For, Kernel, Stmt, Store, Update
from weft.ir.loop_printer import print_kernel
from weft.ir.loop_verifier import verify_kernel
from weft.ir.machine import Cache
from weft.ir.scalar_expr import Expr, Load, Var, literal
from weft.ir.size_arithmetic import evaluate

F32 = dtypes.float32
i, r, k = Var("i"), Var("r"), Var("k")
WIDTH = 21
FIRST = 8192  # bytes of a first cache: four places


def add(at: tuple[Expr, ...], *place: Expr) -> Update:
    return Update((("s", at),), monoid("add", F32), (Load("x", place, F32),))


def zero(*at: Expr) -> Store:
    return Store("s", at, literal(0.0, F32))


def along(body: Stmt, width: int = WIDTH) -> For:
    return For("k", literal(0), literal(width), "vector", body)


def kernel(body: Stmt, x: tuple[int, ...], s: tuple[int, ...], low: int = 0) -> Kernel:
    def buffer(name: str, shape: tuple[int, ...]) -> Buffer:
        strides = tuple(int(np.prod(shape[d + 1 :], dtype=int)) for d in range(len(shape)))
        return Buffer(name, F32, tuple(map(literal, shape)), tuple(map(literal, strides)))

    buffers = (buffer("x", x), buffer("s", s))
    return Kernel("k", (), buffers, For("i", literal(low), literal(x[0]), "parallel", body))


def planes(count: int, width: int = WIDTH, low: int = 0, steps: int = 50) -> Kernel:
    """s[i, k] = sum of x[i, …, k]"""
    each = For("r", literal(0), literal(steps), "serial", along(add((i, k), i, r, k), width))
    body = Block((along(zero(i, k), width), each))
    return kernel(body, (count, steps, width), (count, width), low)


def rows(count: int, width: int = WIDTH, low: int = 0) -> Kernel:
    """s[i] = sum of x[i, …]"""
    return kernel(Block((zero(i), along(add((i,), i, k), width))), (count, width), (count,), low)


def near(size: int) -> Cache:
    """A first cache whose ways are pages."""
    return Cache(size, ways=max(1, size // 4096))


def changed(original: Kernel, first: int = FIRST, threads: int = 1) -> Kernel:
    return multi_stream_loads(original, near(first), 256, threads)


def same_sums(original: Kernel, threads: int = 1) -> None:
    other = changed(original, threads=threads)
    verify_kernel(other)
    rng = np.random.default_rng(1)
    given = {
        b.name: rng.uniform(1, 2, evaluate(b.strides[0] * b.shape[0], {})).astype(np.float32)
        for b in original.buffers
    }
    expected, found = check(original, {}, given, rtol=1e-5), check(other, {}, given, rtol=1e-5)
    np.testing.assert_array_equal(found["s"], expected["s"])


def test_rows_all_places_in_each_turn() -> None:
    """78 turns of 83: four places that are not close to each other within their pages."""
    assert print_kernel(changed(rows(333))).splitlines()[3:] == [
        "  for i.turn in 0 .. 78 parallel:",
        "    for i.place in 0 .. 4 serial:",
        "      for line in 0 .. 2 unrolled:",
        "        prefetch x[i.place * 78 + i.turn, line * 16 + 256]",
        "      s[i.place * 78 + i.turn] = 0.0",
        "      for k in 0 .. 21 vector:",
        "        s[i.place * 78 + i.turn] add= x[i.place * 78 + i.turn, k]",
        "    if i.turn < 21:",
        "      s[i.turn + 312] = 0.0",
        "      for k in 0 .. 21 vector:",
        "        s[i.turn + 312] add= x[i.turn + 312, k]",
    ]


def test_planes_one_row_of_each_behind_that_of_the_last() -> None:
    assert print_kernel(changed(planes(16), threads=2)).splitlines()[3:] == [
        "  for i.turn in 0 .. 4 parallel:",
        "    for i.place in 0 .. 4 serial:",
        "      for k in 0 .. 21 vector:",
        "        s[i.place + i.turn * 4, k] = 0.0",
        "    for i.step in 0 .. 89 serial:",
        "      for i.place in max(0, (i.step + 2) // 13 - 3) .. min(4, i.step // 13 + 1) serial:",
        "        for line in 0 .. 2 unrolled:",
        "          prefetch x[i.place + i.turn * 4, i.step - i.place * 13, line * 16 + 256]",
        "        for k in 0 .. 21 vector:",
        "          s[i.place + i.turn * 4, k] add="
        " x[i.place + i.turn * 4, i.step - i.place * 13, k]",
    ]


@pytest.mark.parametrize("count, turns", [(16, 4), (5, 2), (3, 1)])
def test_planes_for_threads(count: int, turns: int) -> None:
    """As many turns as share out evenly."""
    outer = changed(planes(count)).body
    assert (outer.upper if isinstance(outer, For) else literal(1)) == literal(turns)


@pytest.mark.long
@pytest.mark.parametrize(
    "original",
    [rows(320), rows(333, 9, 3), rows(383, 96), rows(400, 256, 7), rows(321, 17)],
)
def test_the_same_sums_of_rows(original: Kernel) -> None:
    same_sums(original)


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    "original",
    [
        planes(16),
        planes(7, 1),
        planes(19, 16, 3),
        planes(2, 97),
        planes(5, 8, 0, 1),
        planes(3, 256),
    ],
)
def test_the_same_sums_of_planes(original: Kernel, threads: int) -> None:
    same_sums(original, threads)


@pytest.mark.parametrize(
    "original",
    [
        rows(319),  # too few
        rows(400, 257),  # long rows
        planes(1),
        planes(16, 257),
        planes(64, 21),  # sums are more than half of the first cache
        kernel(along(Store("s", (i, k), Load("x", (i, k), F32))), (640, WIDTH), (640, WIDTH)),
        kernel(along(add((i,), k, i)), (640, 640), (640,)),  # across rows
        kernel(
            For("r", literal(0), literal(64), "serial", along(add((i, k), r, k, i))),
            (64, WIDTH, 64), (64, WIDTH),
        ),
    ],
)  # fmt: skip
def test_what_stays_as_it_is(original: Kernel) -> None:
    assert changed(original) is original


def test_small_arrays_are_in_a_cache() -> None:
    for original in (planes(16), rows(50 * 16)):
        size = 16 * 50 * WIDTH * 4
        assert multi_stream_loads(original, near(FIRST), size) == original
        assert multi_stream_loads(original, near(FIRST), size - 1) != original
