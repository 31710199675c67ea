"""Sums that read several places at once: the same sums, bit by bit, for any number of rows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.kernel_runner import check
from weft import dtypes
from weft.codegen.loop_ir import Block, Buffer, For, Kernel, Stmt, Store, Update
from weft.codegen.loop_printer import print_kernel
from weft.codegen.loop_verifier import verify_kernel
from weft.codegen.several_places import several_places
from weft.codegen.size_arithmetic import evaluate
from weft.frontend.build import monoid
from weft.frontend.scalar_expr import Expr, Load, Var, literal

F32 = dtypes.float32
i, r, k = Var("i"), Var("r"), Var("k")
WIDTH = 21
AVX512, AVX2 = 32 * 64, 16 * 32  # bytes of registers


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


def planes(count: int, width: int = WIDTH, low: int = 0) -> Kernel:
    """s[i, k] = sum of x[i, …, k]"""
    each = For("r", literal(0), literal(50), "serial", along(add((i, k), i, r, k), width))
    body = Block((along(zero(i, k), width), each))
    return kernel(body, (count, 50, width), (count, width), low)


def same_sums(original: Kernel) -> None:
    changed = several_places(original, 256, AVX512)
    verify_kernel(changed)
    rng = np.random.default_rng(1)
    given = {
        b.name: rng.uniform(1, 2, evaluate(b.strides[0] * b.shape[0], {})).astype(np.float32)
        for b in original.buffers
    }
    expected, found = check(original, {}, given, rtol=1e-5), check(changed, {}, given, rtol=1e-5)
    np.testing.assert_array_equal(found["s"], expected["s"])


def test_planes_all_places_in_each_turn() -> None:
    changed = print_kernel(several_places(planes(16), 256, AVX512))
    assert changed.splitlines()[3:] == [
        "  for i.turn in 0 .. 4 parallel:",
        "    for i.place in 0 .. 4 unrolled:",
        "      for k in 0 .. 21 vector:",
        "        s[i.place * 4 + i.turn, k] = 0.0",
        "    for r in 0 .. 50 serial:",
        "      for i.place in 0 .. 4 unrolled:",
        "        for k.line in 0 .. 2 unrolled:",
        "          prefetch x[i.place * 4 + i.turn, r, k.line * 16 + 256] for later",
        "        for k in 0 .. 21 vector:",
        "          s[i.place * 4 + i.turn, k] add= x[i.place * 4 + i.turn, r, k]",
    ]


@pytest.mark.parametrize("count, width, low", [(16, 21, 0), (32, 1, 0), (19, 16, 3), (20, 96, 0)])
def test_the_same_sums(count: int, width: int, low: int) -> None:
    same_sums(planes(count, width, low))


@pytest.mark.parametrize(
    "original",
    [
        planes(12),  # too few for threads to share
        planes(18),  # not as many for each place
        planes(16, 97),  # sums of four places are more than registers
        kernel(along(Store("s", (i, k), Load("x", (i, k), F32))), (64, WIDTH), (64, WIDTH)),
        kernel(Block((zero(i), along(add((i,), i, k)))), (64, WIDTH), (64,)),  # nothing serial
        kernel(
            For("r", literal(0), literal(64), "serial", along(add((i, k), r, k, i))),
            (64, WIDTH, 64), (64, WIDTH),
        ),  # across rows
    ],
)  # fmt: skip
def test_what_stays_as_it_is(original: Kernel) -> None:
    assert several_places(original, 256, AVX512) is original


def test_fewer_registers() -> None:
    """Four rows of 24 floats take three quarters."""
    assert several_places(planes(16, 24), 256, AVX2) != planes(16, 24)
    assert several_places(planes(16, 25), 256, AVX2) == planes(16, 25)


def test_small_arrays_are_in_a_cache() -> None:
    size = 16 * 50 * WIDTH * 4
    assert several_places(planes(16), size, AVX512) == planes(16)
    assert several_places(planes(16), size - 1, AVX512) != planes(16)
