"""Sizes of loop kernels, and numbers that steer loops: what is taken for granted is checked."""

# ruff: noqa: F821

import itertools

import numpy as np
import pytest

import weft
from tests.frontend.loops.kernels import jacobi
from weft.ir.errors import CallError, WeftError


def test_sizes_that_a_program_takes_for_granted_are_checked_at_each_call() -> None:
    @weft.kernel
    def first(A: weft.f64["N", "M"], f: weft.f64["T"], steps: int):
        A[0, 0] = 1.0
        for t in range(steps):
            for i in range(N):
                A[i, i] += f[t]

    A, f = np.zeros((3, 4)), np.ones(5)
    first(A, f, 5)
    assert A[2, 2] == 5
    for wrong in (np.zeros((0, 4)), np.zeros((4, 3))):
        with pytest.raises(CallError, match="E0608"):
            first(wrong, f, 5)
    with pytest.raises(CallError, match=r"E0608.*T - steps >= 0"):
        first(A, f, 6)
    assert "T - steps >= 0" in first.explain()


def test_numbers_that_would_overflow_in_conditions_are_refused() -> None:
    """4·k wraps to a negative number, and x[k] would be far outside."""

    @weft.kernel
    def one(x: weft.f64["N"], k: int):
        if 4 * k < N and k >= 0:
            x[k] = 1.0

    x = np.zeros(5)
    one(x, 1)
    assert x.tolist() == [0, 1, 0, 0, 0]
    one(x, 1 << 40)
    with pytest.raises(CallError, match=r"E0608.*k from -1099511627776 to 1099511627776"):
        one(x, (1 << 40) + 1)
    for wrong in (3 << 60, (1 << 63) - 1, -(1 << 63)):
        with pytest.raises(CallError):
            one(x, wrong)


def test_large_numbers_in_a_program_leave_less_room_for_sizes() -> None:
    @weft.kernel
    def far(x: weft.f64["N"], k: int):
        for i in range(k, k + N):
            if i * 2**50 < 2**53:
                x[i - k] = 1.0

    x = np.zeros(10)
    far(x, 0)
    assert x.tolist() == [1] * 8 + [0] * 2
    with pytest.raises(CallError, match="E0608"):
        far(x, 1 << 13)


def test_a_bound_on_a_size_is_no_assumption_but_a_mistake() -> None:
    @weft.kernel
    def doubled(A: weft.f64["N"]):
        for i in range(N):
            A[2 * i] = 1.0

    with pytest.raises(WeftError, match=r"E0430.*\n.*\n.*touches A\[2\] of shape \[2\]"):
        doubled(np.zeros(1))


def test_asserted_sizes() -> None:
    @weft.kernel
    def halves(A: weft.f64["N"], B: weft.f64["M"]):
        assert N == 2 * M
        for i in range(M):
            B[i] = A[i] + A[M + i]

    B = np.zeros(2)
    halves(np.arange(4.0), B)
    assert B.tolist() == [2, 4]
    with pytest.raises(CallError, match="E0608"):
        halves(np.arange(5.0), B)


def test_sizes_that_are_products_of_others() -> None:
    @weft.kernel
    def flat(A: weft.f64["N", "M"], B: weft.f64["N * M"], k: int):
        for i in range(N * M):
            B[i] = k
        for i in range(N):
            for j in range(M):
                A[i, j] = N * M // (k + 1)

    A, B = np.zeros((3, 5)), np.zeros(15)
    flat(A, B, 2)
    assert (A == 5).all() and (B == 2).all()
    with pytest.raises(CallError, match="E0605"):
        flat(A, B[1:], 2)


def test_numbers_that_would_leave_an_array_are_refused() -> None:
    @weft.kernel
    def between(x: weft.f64["N"], low: int, high: int):
        for i in range(low, high):
            x[i] = 1.0

    whole = np.zeros(12)
    for low, high, guard in ((-1, 2, "low >= 0"), (0, 5, "N - high >= 0"), (-9, -8, "low >= 0")):
        with pytest.raises(CallError, match=f"E0608.*{guard}"):
            between(whole[4:8], low, high)
    assert not whole.any()
    between(whole[4:8], 1, 3)
    assert whole.nonzero()[0].tolist() == [5, 6]


def test_numbers_may_be_negative() -> None:
    """Unlike sizes of arrays: conditions on them are not left out."""

    @weft.kernel
    def scattered(x: weft.f64["N"], a: int, b: int):
        for i in range(N):
            if 0 <= 2 * i + a < N:
                x[2 * i + a] += 1.0
            x[max(min(i + a, N - 1), 0)] += 2.0
        for i in range(min(a, N), max(b, 0)):
            x[i % N] += i

    for n, a, b in itertools.product((1, 4, 5), (-6, -1, 0, 3, 9), (-8, -2, 0, 5)):
        canvas, wanted = np.zeros(n + 20), np.zeros(n)
        scattered.python(wanted, a, b)
        scattered(canvas[10 : 10 + n], a, b)
        np.testing.assert_array_equal(canvas, np.pad(wanted, 10))


def test_a_local_array_of_negative_size_is_refused() -> None:
    @weft.kernel
    def local(x: weft.f64["N"], k: int):
        t = weft.zeros(k)
        for i in range(N):
            x[i] = 1.0
        for i in range(k):
            t[i] = x[0]

    with pytest.raises(CallError, match="k >= 0"):
        local(np.zeros(3), -2)


def test_a_negative_step_count_runs_nothing() -> None:
    A = np.ones((4, 4))
    jacobi(-3, A, A.copy())
    assert (A == 1).all()


def test_a_window_of_open_size_has_to_fit_into_what_is_cut_off() -> None:
    """What is assumed is said, by ``explain`` and by the call that it refuses."""

    @weft.kernel
    def conv(
        x: weft.f64["N", "C", "S", "S"],
        w: weft.f64["K", "C", "F", "F"],
        y: weft.f64["N", "K", "S - 4", "S - 4"],
    ):
        for n in range(8):
            for k in range(K):
                for i in range(S - 4):
                    for j in range(S - 4):
                        for c in range(C):
                            for p in range(F):
                                for q in range(F):
                                    y[n, k, i, j] += x[n, c, i + p, j + q] * w[k, c, p, q]

    r = np.random.default_rng(0)
    for images, size, taps in itertools.product((7, 8, 9), (5, 8), (0, 1, 5, 6)):
        x, w = r.normal(size=(images, 2, size, size)), r.normal(size=(3, 2, taps, taps))
        y, wanted = np.zeros((2, images, 3, size - 4, size - 4))
        if images < 8 or taps > 5:
            with pytest.raises(CallError, match="E0608.*" + ("N - 8" if images < 8 else "5 - F")):
                conv(x, w, y)
            assert not y.any()
            continue
        conv(x, w, y)
        for p, q in np.ndindex(taps, taps):
            part = x[:8, :, p : p + size - 4, q : q + size - 4]
            wanted[:8] += np.einsum("ncij,kc->nkij", part, w[:, :, p, q])
        np.testing.assert_allclose(y, wanted, atol=1e-12)
    assert "5 - F >= 0" in conv.explain() and "N - 8 >= 0" in conv.explain()


def test_rows_that_tiles_reuse_take_the_memory_of_one_tile() -> None:
    """A closure, whose tiles copy rows and columns to one place, all of them in turn."""

    @weft.kernel
    def closure(R: weft.i32[200, 200]):
        for k in range(200):
            for i in range(200):
                for j in range(200):
                    R[i, j] |= R[i, k] & R[k, j]

    compiled = closure.compile(options=weft.Options(threads=2))
    R = np.random.default_rng(0).integers(0, 99, (200, 200)).astype(np.int32)
    wanted = R.copy()
    for k in range(200):
        wanted |= wanted[:, k : k + 1] & wanted[k]
    np.testing.assert_array_equal(compiled(R), wanted)
    assert "R_row: int32[32, 200] at arena" in compiled.as_text("program")
