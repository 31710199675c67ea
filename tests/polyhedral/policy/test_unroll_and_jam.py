"""Slanted rows: recurrences in every direction run a few rows side by side."""

# Loop kernels are read as text, and not run by Python as they stand.
# ruff: noqa: F821, UP037

from __future__ import annotations

import pytest

import weft
from tests.polyhedral.policy import time_programs as programs

SIZES = (0, 1, 2, 3, 7, 8, 9, 10, 11, 17)  # strips have 8 rows


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


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_rows_side_by_side_compute_what_the_loops_say(threads: int) -> None:
    cases = [(2, [(n, m)]) for n in SIZES for m in (0, 1, 2, 3, 19)]
    programs.check(paths_times, threads, cases)
    programs.check(programs.in_place, threads, [(t, s) for t, s in cases for t in (t, 17)])


def test_strips_of_rows_along_a_slant() -> None:
    lines = programs.text(paths).splitlines()
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
