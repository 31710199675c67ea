"""Which sizes a loop program takes for granted, and which mistakes are not sizes."""

# ruff: noqa: F821

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.ir.scop_printer import constraints_text
from weft.polyhedral.assume_sizes import assume_sizes
from weft.polyhedral.legality import check_bounds


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


ASSUMED: dict[Callable[..., Any], str] = {
    corner: "N - 1 >= 0",
    diagonal: "M - N >= 0",
    interior: "M - N >= 0",
    steps: "T - tmax >= 0",
    of_three: "n >= 0 and 2 - n >= 0",
    guarded: "",
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


@pytest.mark.parametrize("function", [beyond, doubled, before])
def test_mistakes_are_not_assumed_away(function: Callable[..., Any]) -> None:
    scop = weft.kernel(function).lowered.scop
    assert assume_sizes(scop) is scop
    with pytest.raises(weft.CompileError, match="E0430"):
        check_bounds(scop)
