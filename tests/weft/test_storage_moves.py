"""Moves that change storage and statements: what they compute, and what they refuse."""

# ruff: noqa: F821, UP037  (sizes are names in kernels)

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import weft
from weft.driver.schedule_value import Schedule
from weft.ir.errors import CompileError, IllegalScheduleError


@weft.kernel
def twice(A: weft.f64["N"], B: weft.f64["N"], C: weft.f64["N"]):
    x = weft.empty(N)
    for i in range(N):
        x[i] = 2.0 * A[i]
        B[i] = x[i]
    for i in range(N):
        x[i] = 3.0 * A[i]
        C[i] = x[i]


@weft.kernel
def through(p: weft.f64["N"], A: weft.f64["N"], B: weft.f64["N"]):
    for i in range(N):
        p[i] = 2.0 * A[i]
        B[i] = p[i]
    for i in range(N):
        p[i] = 3.0 * A[i]


@weft.kernel
def scratch(A: weft.f64["M", "N"], B: weft.f64["M", "N"], x: weft.f64["N"]):
    for i in range(M):
        for j in range(N):
            x[j] = 2.0 * A[i, j]
        for j in range(N):
            B[i, j] = x[j] + x[N - 1 - j]


@weft.kernel
def scaled(A: weft.f64["M", "K"], B: weft.f64["K", "N"], C: weft.f64["M", "N"], alpha: weft.f64):
    for i in range(M):
        for k in range(K):
            for j in range(N):
                C[i, j] += alpha * A[i, k] * B[k, j]


@weft.kernel
def sums(A: weft.f64["M", "K"], B: weft.f64["K", "N"], C: weft.f64["M", "N"]):
    for i in range(M):
        for j in range(N):
            C[i, j] = 0.0
    for i in range(M):
        for j in range(N):
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]


@weft.kernel
def shares(A: weft.f64["M", "N"], B: weft.f64["N", "M"]):
    e = weft.empty((M, N), weft.f64)
    for j in range(N):
        total = 0.0
        for i in range(M):
            e[i, j] = 2.0 * A[i, j]
            total += e[i, j]
        for i in range(M):
            B[j, i] = e[i, j] / total


@weft.kernel
def paths(P: weft.f64["N", "N"]):
    for k in range(N):
        for i in range(N):
            for j in range(N):
                P[i, j] = min(P[i, j], P[i, k] + P[k, j])


@weft.kernel
def fractions(A: weft.f64["M", "N"], B: weft.f64["M", "N"]):
    x = weft.empty((M, N))
    total = weft.empty(M)
    for i in range(M):
        for j in range(N):
            x[i, j] = 2.0 * A[i, j]
    for i in range(M):
        total[i] = 0.0
    for i in range(M):
        for j in range(N):
            total[i] += x[i, j]
    for i in range(M):
        for j in range(N):
            B[i, j] = x[i, j] / total[i]


def both(s: Schedule) -> Schedule:
    return s.copy_operand("S0", 2, ["j", "k"]).precompute("S0", ["k", "i"], ["k"])


MOVED: dict[str, tuple[Any, Callable[[Schedule], Schedule]]] = {
    "separate": (twice, lambda s: s.separate("x")),
    "detach": (through, lambda s: s.detach("p")),
    "private_result": (scratch, lambda s: s.private_result("x")),
    "private_result and on": (scratch, lambda s: s.private_result("x").privatize()),
    "precompute": (scaled, lambda s: s.precompute("S0", ["i", "k"], ["k"])),
    "copy_operand": (scaled, lambda s: s.copy_operand("S0", 2, ["j", "k"])),
    "both": (scaled, both),
    "tiled first": (scaled, lambda s: s.tile({"i": 4, "k": 4}).copy_operand("S0", 2, ["j", "k"])),
    "transpose_sums": (sums, lambda s: s.transpose_sums("S1", [1, 0])),
    "alias": (shares, lambda s: s.alias("e", "B")),
    "panels": (paths, lambda s: s.panels("S0", 4)),
    "partials": (fractions, lambda s: s.partials("S2", "j_2 // 2 % 4", 4)),
    "partials in front": (fractions, lambda s: s.partials("S2", "j_2 % 5", 5, front=True)),
    "recompute": (fractions, lambda s: s.recompute("x", ["S3"])),
    "both again": (fractions, lambda s: s.recompute("x", ["S2"]).partials("S2", "j_2 % 3", 3)),
}  # fmt: skip
SIZES = (0, 1, 4, 7, 13)


def arguments(kernel: Any, size: int) -> dict[str, Any]:
    random, sizes = np.random.default_rng(size), {"M": size, "N": size, "K": max(0, size - 1)}
    found: dict[str, Any] = {}
    for each in kernel.lowered.arguments:
        shape = tuple(sizes[n.name] for n in each.shape)
        found[each.name] = random.uniform(1, 2, shape) if shape else 1.5
    return found


@pytest.mark.parametrize("name", MOVED)
def test_they_compute_what_the_source_does(name: str) -> None:
    kernel, move = MOVED[name]
    made = move(kernel.schedule())
    assert made.steps and Schedule.from_script(str(made), kernel) == made
    run = kernel.compile(made, options=weft.Options(threads=1, cache=False))
    for size in SIZES:
        given = arguments(kernel, size)
        wanted = {k: np.copy(v) if isinstance(v, np.ndarray) else v for k, v in given.items()}
        kernel.python(*wanted.values())
        run(*given.values())
        for k, value in wanted.items():
            np.testing.assert_allclose(given[k], value, rtol=1e-12, err_msg=f"{k}, {size}")


REFUSED: Mapping[str, tuple[Any, str, Callable[[Schedule], Schedule]]] = {
    "no tensor": (twice, "E0452", lambda s: s.separate("z")),
    "no argument": (through, "E0452", lambda s: s.detach("z")),
    "no scratch": (scratch, "E0452", lambda s: s.private_result("z")),
    "none to keep": (twice, "E0452", lambda s: s.privatize(["z"])),
    "no statement": (scaled, "E0451", lambda s: s.precompute("S9", [], [])),
    "nothing to hoist from": (scaled, "E0451", lambda s: s.hoist("S9")),
    "no dim": (scaled, "E0460", lambda s: s.precompute("S0", ["z"], ["k"])),
    "no read": (scaled, "E0465", lambda s: s.copy_operand("S0", 9, ["k"])),
    "other dims": (scaled, "E0465", lambda s: s.copy_operand("S0", 1, ["k"])),
    "written": (paths, "E0465", lambda s: s.copy_operand("S0", 0, ["i", "k"])),
    "no order": (sums, "E0464", lambda s: s.transpose_sums("S1", [0, 0])),
    "not set first": (scaled, "E0464", lambda s: s.transpose_sums("S0", [1, 0])),
    "nothing to keep": (shares, "E0464", lambda s: s.alias("A", "B")),
    "no panels": (scaled, "E0463", lambda s: s.panels("S0", 4)),
    "no size": (paths, "E0460", lambda s: s.panels("S0", 0)),
    "another order": (paths, "E0463", lambda s: s.split("i", 4).panels("S0", 4)),
    "an input again": (fractions, "E0465", lambda s: s.recompute("A", ["S0"])),
    "no reader": (fractions, "E0465", lambda s: s.recompute("x", ["S1"])),
    "its maker": (fractions, "E0465", lambda s: s.recompute("total", ["S2"])),
    "no tensor again": (fractions, "E0452", lambda s: s.recompute("z", ["S3"])),
    "again in another order": (
        fractions,
        "E0463",
        lambda s: s.split("j", 4).recompute("x", ["S3"]),
    ),
    "parts of no update": (fractions, "E0469", lambda s: s.partials("S3", "j % 4", 4)),
    "parts by others": (fractions, "E0469", lambda s: s.partials("S2", "k % 4", 4)),
    "parts by nothing": (fractions, "E0460", lambda s: s.partials("S2", "j %", 4)),
    "parts of what it reads itself": (paths, "E0440", lambda s: s.partials("S0", "k % 2", 2)),
    "late parts": (fractions, "E0463", lambda s: s.split("j", 4).partials("S2", "j_2 % 4", 4)),
    "loops changed": (scratch, "E0463", lambda s: s.split("j", 4).private_result("x")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_they_refuse(name: str) -> None:
    kernel, code, move = REFUSED[name]
    with pytest.raises(IllegalScheduleError, match=code):
        move(kernel.schedule())


def test_parts_that_are_not_there_are_refused() -> None:
    with pytest.raises(CompileError, match="WEFT-E0430"):
        fractions.schedule().partials("S2", "j_2 % 4", 3)


@pytest.mark.parametrize(
    "move", [lambda s: s.detach("A"), lambda s: s.private_result("A"), lambda s: s.hoist("S0")]
)
def test_where_there_is_nothing_to_do_nothing_happens(move: Callable[[Schedule], Schedule]) -> None:
    start = scaled.schedule()
    assert move(start) == start and not move(start).steps
