"""Which sizes a loop program takes for granted, and which mistakes are not sizes."""

# ruff: noqa: F821

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.ir.scop_printer import constraints_text
from weft.polyhedral.assume_sizes import assume_sizes
from weft.polyhedral.proof.legality import check_bounds


def corner(A: weft.f64["N"]):
    A[0] = 1.0


def diagonal(A: weft.f64["N", "M"]):
    for i in range(N):
        A[i, i] = 1.0


def interior(A: weft.f64["N"], B: weft.f64["M"]):
    for i in range(1, N - 1):
        A[i] = B[i + 1]


def steps(A: weft.f64["N", "M"], f: weft.f64["T"], tmax: int):
    for t in range(tmax):
        for i in range(N):
            for j in range(M):
                A[i, j] = f[t]


def of_three(x: weft.f64[3], n: int):
    x[n] = 1.0


def guarded(A: weft.f64["N"], where: weft.i64["M"]):
    for i in range(M):
        if i < N:
            A[i] = 2.0
        A[where[i]] = 0.0


def window(x: weft.f64["N", "S"], w: weft.f64["F"], y: weft.f64["N", "S - 4"]):
    for n in range(8):
        for i in range(S - 4):
            for p in range(F):
                y[n, i] += x[n, i + p] * w[p]


def square_window(x: weft.f64["S", "T"], w: weft.f64["F", "F"]):
    for i in range(S - 4):
        for j in range(T - 3):
            for p in range(F):
                for q in range(F):
                    x[i + p, j + q] = w[p, q]


def into_three(x: weft.f64[3], y: weft.f64["N"]):
    for i in range(N):
        x[i] = y[i]


def window_of(x: weft.f64["S"], w: weft.f64["F"], y: weft.f64["M"]):
    for i in range(S - 4):
        for p in range(F):
            x[i + p] = 0.0
    for m in range(M):
        w[m] = y[m]


ASSUMED: dict[Callable[..., Any], str] = {
    corner: "N - 1 >= 0",
    diagonal: "M - N >= 0",
    interior: "M - N >= 0",
    steps: "T - tmax >= 0",
    of_three: "2 - n >= 0 and n >= 0",
    guarded: "",
    window: "N - 8 >= 0 and 5 - F >= 0",
    square_window: "4 - F >= 0",
    into_three: "3 - N >= 0",
    window_of: "5 - F >= 0 and F - M >= 0",
}


@pytest.mark.parametrize("function", ASSUMED, ids=lambda f: f.__name__)
def test_assumed(function: Callable[..., Any]) -> None:
    scop = weft.kernel(function).lowered.scop
    made = assume_sizes(scop)
    check_bounds(made)
    assert constraints_text(made.context[len(scop.context) :]) == ASSUMED[function]


def beyond(A: weft.f64["N"]):
    for i in range(N):
        A[i + 1] = 1.0


def doubled(A: weft.f64["N"]):
    for i in range(N):
        A[2 * i] = 1.0


def before(A: weft.f64["N"]):
    for i in range(N):
        A[i - 1] = 1.0


def each_other(A: weft.f64["N"], B: weft.f64["M"]):
    for i in range(M):
        A[2 * i] = 1.0
    for i in range(N):
        B[i] = 1.0


def never(x: weft.f64[3], y: weft.f64["N"]):
    for i in range(N):
        x[i + 3] = y[i]


def window_on_itself(x: weft.f64["S"]):
    for i in range(S - 4):
        for p in range(S):
            x[i + p] = 1.0


MISTAKES = [beyond, doubled, before, each_other, never, window_on_itself]


@pytest.mark.parametrize("function", MISTAKES)
def test_mistakes_are_not_assumed_away(function: Callable[..., Any]) -> None:
    scop = weft.kernel(function).lowered.scop
    assert assume_sizes(scop) is scop
    with pytest.raises(weft.CompileError, match="E0430"):
        check_bounds(scop)
