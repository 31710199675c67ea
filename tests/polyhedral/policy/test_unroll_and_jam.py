"""Slanted rows: recurrences in every direction run a few rows side by side."""

# Loop kernels are read as text, and not run by Python as they stand.
# ruff: noqa: F821, UP037

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
from tests.polyhedral.policy import time_programs as programs
from weft.loop_kernel import Kernel

SIZES = (0, 1, 2, 3, 7, 8, 9, 10, 11, 17)  # strips have 8 rows
LONG = (17, 31, 33, 66)  # as many as there are lanes, and some over


@weft.kernel
def paths(A: weft.i64["N", "M"]):
    for i in range(1, N):
        for j in range(1, M):
            A[i, j] = max(A[i - 1, j], A[i, j - 1] - 1) + A[i - 1, j - 1]


@weft.kernel
def paths_times(T: weft.i64, A: weft.i64["N", "M"]):
    for i in range(1, N):
        for j in range(1, M - 1):
            A[i, j] = max(A[i - 1, j + 1], A[i, j - 1] - T) + A[i - 1, j - 1]


@weft.kernel
def beneath(A: weft.i64["N", "M"]):
    for i in range(1, N - 1):
        for j in range(1, M):
            A[i, j] = max(A[i - 1, j], A[i, j - 1] - 1) + A[i + 1, j]


@weft.kernel
def two_tables(a: weft.i32["N"], A: weft.i32["N", "M"], B: weft.i32["N", "M"]):
    for i in range(1, N):
        for j in range(2, M):
            B[i, j] = max(A[i - 1, j], B[i, j - 2] - a[i])
            A[i, j] = min(B[i, j], A[i - 1, j - 1] + B[i - 1, j - 1])


@weft.kernel
def two_above(A: weft.f32["N", "M"]):
    for i in range(2, N):
        for j in range(1, M - 1):
            A[i, j] = min(A[i - 2, j + 1], A[i, j - 1]) * 2 - A[i - 1, j]


@weft.kernel
def below_a_diagonal(A: weft.i64["N", "N"]):
    for i in range(1, N):
        for j in range(1, i):
            A[i, j] = max(A[i - 1, j], A[i, j - 1]) + A[i - 1, j - 1]


@weft.kernel
def backwards(x: weft.i64["M + 3"], A: weft.i64["N", "M"]):
    for i in range(N - 2, -1, -1):
        for j in range(M - 2, -1, -1):
            A[i, j] = max(A[i + 1, j] - x[j], A[i, j + 1], A[i + 1, j + 1] + x[i % 3])


BY_LANES = (paths, two_tables, two_above, below_a_diagonal, backwards)


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kernel", BY_LANES, ids=lambda k: k.__name__)
def test_rows_in_lanes_compute_what_python_does(kernel: Kernel, threads: int) -> None:
    run = kernel.compile(options=weft.Options(threads=threads, cache=False))
    names = [a.name for a in kernel.lowered.arguments]
    for n in (*SIZES, *LONG):
        for m in (n,) if kernel is below_a_diagonal else (3, 7, 19, 70):
            sizes = {"a": (n,), "x": (m + 3,)}
            given = [
                np.random.default_rng(n * m + k)
                .integers(-9, 9, sizes.get(name, (n, m)))
                .astype(kernel.lowered.arguments[k].dtype.numpy)
                for k, name in enumerate(names)
            ]
            wanted = [a.copy() for a in given]
            kernel.python(*wanted)
            run(*given)
            for one, other in zip(given, wanted, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=f"{n} {m}")


@pytest.mark.parametrize("kernel", BY_LANES, ids=lambda k: k.__name__)
def test_rows_that_rows_before_feed_are_lanes(kernel: Kernel) -> None:
    assert "for i_p" in programs.text(kernel)
    assert "vector" in programs.text(kernel)


def test_a_plan_unrolls_rows() -> None:
    plan = {"S0.skewed_rows": "unrolled"}
    told = weft.compile(paths, plan=plan, options=weft.Options(cache=False)).explain(details=True)
    assert 'unrolled=["i_p"]' in told
    (said,) = re.findall(r"S0.skewed_rows: (.*)", told)
    assert re.fullmatch(r"unrolled \(.* [um]s\), as the plan says; else lanes \(.* [um]s\)", said)


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_rows_side_by_side_compute_what_the_loops_say(threads: int) -> None:
    cases = [(2, [(n, m)]) for n in SIZES for m in (0, 1, 2, 3, 19)]
    programs.check(paths_times, threads, cases)
    programs.check(programs.in_place, threads, [(t, s) for t, s in cases for t in (t, 17)])


def test_strips_of_rows_along_a_slant() -> None:
    lines = programs.text(beneath).splitlines()
    assert [line.split()[1] for line in lines if "for" in line] == ["i_t", "s", "i_p"]
    assert "for s = i + j" in lines[1]
    assert lines[2].endswith("unrolled")


def test_a_read_from_above_and_ahead_slants_more() -> None:
    assert "for s = 2*i + j" in programs.text(paths_times)


def test_rows_that_hand_on_a_sum_run_one_after_the_other() -> None:
    @weft.kernel
    def integral(image: weft.u8["N", "M"], S: weft.i64["N", "M"]):
        for i in range(N):
            row = 0
            for j in range(M):
                row += weft.i64(image[i, j])
                S[i, j] = row + (S[i - 1, j] if i > 0 else 0)

    assert "unrolled" not in programs.text(integral)


def test_rows_that_do_not_wait_stay_vectors() -> None:
    @weft.kernel
    def falls(A: weft.i64["N", "M"]):
        for i in range(1, N):
            for j in range(1, M - 1):
                A[i, j] = A[i - 1, j - 1] + A[i - 1, j + 1]

    assert "unrolled" not in programs.text(falls)
    assert "vector" in programs.text(falls)
