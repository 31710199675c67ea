"""Kernels whose schedules the tests change, and where their lines are."""

# ruff: noqa: B007, F821, UP037  (sizes are names in kernels)

from __future__ import annotations

import weft
from tests.polyhedral.transform.integer_programs import PROGRAMS
from weft.driver.schedule_value import Schedule, Subject
from weft.polyhedral.transform.initial import initial


@weft.kernel
def lu(A: weft.f64["N", "N"]):
    for i in range(N):
        for j in range(i):
            for k in range(j):
                A[i, j] -= A[i, k] * A[k, j]
            A[i, j] /= A[j, j]
        for j in range(i, N):
            for k in range(i):
                A[i, j] -= A[i, k] * A[k, j]


@weft.kernel
def matmul(A: weft.i64["M", "K"], B: weft.i64["K", "N"], C: weft.i64["M", "N"]):
    for i in range(M):
        for j in range(N):
            C[i, j] = 0
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]


@weft.kernel
def sweep(A: weft.i64["N"], T: weft.i64):
    for t in range(T):
        for i in range(1, N - 1):
            A[i] = A[i - 1] + A[i] - A[i + 1]


@weft.kernel
def blur(A: weft.i64["N"], B: weft.i64["N"], C: weft.i64["N"]):
    for i in range(1, N - 1):
        B[i] = A[i - 1] + A[i] + A[i + 1]
    for i in range(1, N - 1):
        C[i] = B[i - 1] + B[i] + B[i + 1]


@weft.kernel
def smooth(A: weft.i64["N"], C: weft.i64["N"]):
    B = weft.empty(N, dtype=weft.i64)
    for i in range(1, N - 1):
        B[i] = A[i - 1] + A[i] + A[i + 1]
    for i in range(2, N - 2):
        C[i] = B[i - 1] + B[i] + B[i + 1]


@weft.kernel
def often(A: weft.i64["N"], B: weft.i64["N"], T: weft.i64):
    for t in range(T):
        for i in range(N):
            B[i] += t * A[i]


def line(text: str) -> int:
    """The number of the first line of this file that is ``text``."""
    return line_in(__file__, text)


def line_in(path: str, text: str) -> int:
    """The same, of another file."""
    with open(path, encoding="utf-8") as file:
        return next(n for n, found in enumerate(file, 1) if found.strip() == text)


def of(program: str) -> Schedule:
    """The schedule of a program that nobody compiles."""
    return Schedule(initial(PROGRAMS[program]()), Subject(program, None, None))  # type: ignore


def tiled() -> Schedule:
    s = matmul.schedule().distribute("i")
    s = s.tile({"i_S1": 4, "j_S1": 8, "k": 3}).reorder(["k_p", "i_S1_p", "j_S1_p"])
    return s.vectorize("j_S1_p").parallel("i_S1_t")


@weft.kernel
def triangle(C: weft.f64["n", "n"], A: weft.f64["n", "m"]):
    for i in range(n):
        for j in range(i + 1):
            for k in range(m):
                C[i, j] += A[i, k] * A[j, k]
