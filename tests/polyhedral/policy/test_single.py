"""One statement: its vector loop innermost, in strips where it would run down whole columns."""

# ruff: noqa: F821, UP037

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.polyhedral.transform.integer_programs import promise, read
from tests.polyhedral.transform.machine_code import outline
from weft.codegen.machines.named import target_named
from weft.ir.machine import Cache, Machine
from weft.ir.scop import Scop
from weft.polyhedral.schedule_loops import schedule_loops

MACHINE = Machine("test", 64, 32, (Cache(1 << 15), Cache(1 << 20), Cache(1 << 25)))


def sums_along_rows() -> Scop:
    text = """
    for i in range(N):
        for j in range(1, M):
            A[i, j] = A[i, j] + A[i, j - 1]
    """
    return read(text, "N M", A="io N M")


def sums_along_columns() -> Scop:
    text = """
    for i in range(1, N):
        for j in range(M):
            A[i, j] = A[i, j] + A[i - 1, j]
    """
    return read(text, "N M", A="io N M")


SIZES = [{"N": n, "M": m} for n, m in ((0, 3), (1, 1), (9, 2), (17, 20))]


def test_sums_along_rows_go_through_a_few_rows_at_a_time() -> None:
    made = schedule_loops(sums_along_rows(), MACHINE)
    assert outline(made) == "i_t!parallel j i!vector { S0 }"
    promise(made, *SIZES)


def test_sums_along_columns_stay_whole_rows() -> None:
    made = schedule_loops(sums_along_columns(), MACHINE)
    assert outline(made) == "i j!vector { S0 }"
    promise(made, *SIZES)


def test_sums_along_columns_are_strips_for_threads() -> None:
    made = schedule_loops(sums_along_columns(), MACHINE, threads=2)
    assert outline(made) == "j_t!parallel i j!vector { S0 }"
    promise(made, *SIZES)


@weft.kernel
def short(x: weft.f64["2 * N"], y: weft.f64["N"]):  # type: ignore[name-defined, no-untyped-def]
    for i in range(N):
        for k in range(-2, 3):
            j = 2 * i + k
            y[i] += x[j if 0 <= j < 2 * N else (-j if j < 0 else 4 * N - 2 - j)] * (k + 9)


@weft.kernel
def long(x: weft.f64["2 * N"], y: weft.f64["N"]):  # type: ignore[name-defined, no-untyped-def]
    for i in range(N):
        for k in range(-8, 9):
            j = 2 * i + k
            y[i] += x[j if 0 <= j < 2 * N else (-j if j < 0 else 4 * N - 2 - j)] * (k + 9)


@pytest.mark.parametrize("n", [0, 2, 5, 16, 31])
def test_short_sums_of_constant_length_are_written_out_inside_of_the_vector_loop(n: int) -> None:
    assert outline(schedule_loops(short.scop, MACHINE)) == "i!vector k!unrolled { S0 }"
    x, y = np.arange(2.0 * n) ** 2, np.ones(n)
    short(x, y)
    mirror = np.concatenate([x[2:0:-1], x, x[-2:-4:-1]])
    want = [1 + mirror[2 * i : 2 * i + 5] @ np.arange(7.0, 12.0) for i in range(n)]
    np.testing.assert_array_equal(y, want)


def test_longer_sums_are_around_it() -> None:
    assert outline(schedule_loops(long.scop, MACHINE)) == "k i!vector { S0 }"


@weft.kernel
def scattered(X: weft.u8["C", "H"], W: weft.i8["C", "K", 3], Y: weft.i32["K", "2*H+1"]):  # type: ignore[name-defined, no-untyped-def]
    for k in range(K):
        for h in range(H):
            for c in range(C):
                for r in range(3):
                    Y[k, 2 * h + r] += weft.i32(X[c, h]) * weft.i32(W[c, k, r])


@pytest.mark.parametrize("target", ["x86-64-v3", "znver5", "sapphirerapids"])
def test_what_other_loops_cross_is_shared_by_threads_all_the_same(target: str) -> None:
    machine = target_named(target).machine
    for threads in (1, 2):
        made = schedule_loops(scattered.scop, machine, threads=threads)
        assert outline(made).split()[0] == "k_t!parallel"


@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 5, 0), (33, 7, 65), (5, 130, 17)])
@pytest.mark.filterwarnings("error")
def test_transposed_convolutions_of_bytes(sizes: tuple[int, int, int]) -> None:
    c, k, h = sizes
    random = np.random.default_rng(c)
    x, w = random.integers(0, 255, (c, h)), random.integers(-128, 127, (c, k, 3))
    want = np.zeros((k, 2 * h + 1), np.int64)
    for r in range(3):
        want[:, r : r + 2 * h : 2] += w[:, :, r].T @ x
    y = np.zeros(want.shape, np.int32)
    scattered.compile(options=weft.Options(cache=False, threads=2))(
        x.astype(np.uint8), w.astype(np.int8), y
    )
    np.testing.assert_array_equal(y, want)
