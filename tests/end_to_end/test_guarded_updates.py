"""Updates by their own rows and columns under conditions on data keep their register tiles."""

# ruff: noqa: F821, UP037  (sizes are names in kernels)

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.loop_kernel import Kernel


@weft.kernel
def of_its_column(D: weft.f64["N", "N"]):
    for k in range(N):
        for i in range(N):
            if D[i, k] < 1e30:
                for j in range(N):
                    D[i, j] = min(D[i, j], D[i, k] + D[k, j])


@weft.kernel
def of_both(D: weft.f64["N", "N"]):
    for k in range(N):
        for i in range(N):
            if D[i, k] < 1e30:
                for j in range(N):
                    if D[k, j] < 1e30:
                        D[i, j] = min(D[i, j], D[i, k] + D[k, j])


@weft.kernel
def of_something_else(D: weft.f64["N", "N"], m: weft.i64["N"]):
    for k in range(N):
        for i in range(N):
            if D[i, k] < 50 and m[i] > 3:
                for j in range(N):
                    D[i, j] = max(D[i, j], min(D[i, k], D[k, j]))


@weft.kernel
def of_another_element(D: weft.f64["N", "N"]):
    """The diagonal of the row changes while the row does: no panels, and still right."""
    for k in range(N):
        for i in range(N):
            if D[i, i] < 40:
                for j in range(N):
                    D[i, j] = min(D[i, j], D[i, k] + D[k, j])


@weft.kernel
def by_comparison(D: weft.f64["N", "N"]):
    for k in range(N):
        for i in range(N):
            for j in range(N):
                if D[i, k] + D[k, j] < D[i, j]:
                    D[i, j] = D[i, k] + D[k, j]


@weft.kernel
def by_comparison_within(D: weft.f64["N", "N"]):
    for k in range(N):
        for i in range(N):
            if D[i, k] < 1e30:
                for j in range(N):
                    if D[i, j] >= D[i, k] + D[k, j]:
                        D[i, j] = D[i, k] + D[k, j]


@weft.kernel
def the_larger(D: weft.f32["N", "N"]):
    for k in range(N):
        for i in range(N):
            for j in range(N):
                t = D[i, k] if D[i, k] < D[k, j] else D[k, j]
                D[i, j] = t if t > D[i, j] else D[i, j]


@weft.kernel
def of_whole_numbers(D: weft.i32["N", "N"]):
    for k in range(N):
        for i in range(N):
            for j in range(N):
                t = D[i, k] + D[k, j]
                if D[i, k] < 50 and t <= D[i, j] and D[k, j] < 50:
                    D[i, j] = t


@weft.kernel
def of_a_name_within(D: weft.f32["N", "N"]):
    for k in range(N):
        for i in range(N):
            if D[i, k] < 1e30:
                for j in range(N):
                    through = D[i, k] + D[k, j]
                    if D[i, j] >= through:
                        D[i, j] = through


@weft.kernel
def no_fold(D: weft.f64["N", "N"]):
    for k in range(N):
        for i in range(N):
            for j in range(N):
                if D[i, k] + D[k, j] < D[i, j] - 1:
                    D[i, j] = D[i, k] + D[k, j]


COMPARED = (
    by_comparison, by_comparison_within, the_larger, of_whole_numbers, of_a_name_within
)  # fmt: skip
TILED = (of_its_column, of_both, of_something_else)


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kernel", (*TILED, of_another_element), ids=lambda k: k.__name__)
def test_they_compute_what_python_does(kernel: Kernel, threads: int) -> None:
    run = kernel.compile(options=weft.Options(threads=threads, cache=False))
    assert ("  matrix: " in run.explain()) == (kernel in TILED)
    for size in (0, 1, 2, 31, 32, 33, 67):
        random = np.random.default_rng(size)
        for low in (0, -8):  # with cycles of negative length, conditions change on the way
            distances = random.integers(low, 100, (size, size)).astype(np.float64)
            distances[distances > 60] = 1e31
            given = [distances, random.integers(0, 9, size)][: len(run.inputs)]
            wanted = [x.copy() for x in given]
            kernel.python(*wanted)
            run(*given)
            np.testing.assert_array_equal(given[0], wanted[0], err_msg=f"{size} {low}")


@pytest.mark.long
@pytest.mark.filterwarnings("error::weft.WeftWarning")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kernel", (*COMPARED, no_fold), ids=lambda k: k.__name__)
def test_comparisons_choose_as_in_python_bit_by_bit(kernel: Kernel, threads: int) -> None:
    """Which of two zeros stays, and where NaN does, a comparison says otherwise than ``min``."""
    run = kernel.compile(options=weft.Options(threads=threads, cache=False))
    assert ("  matrix: " in run.explain()) == (kernel in COMPARED)
    for size in (0, 1, 2, 31, 33, 67):
        random = np.random.default_rng(size)
        D = random.integers(-6, 30, (size, size)).astype(run.inputs[0].dtype.numpy)
        if D.dtype.kind == "f":
            kind = random.integers(0, 9, (size, size))
            for number, value in enumerate((0.0, -0.0, np.inf)):
                D[kind == number] = value
            D[random.random((size, size)) < 0.02] = np.nan
        wanted = D.copy()
        with np.errstate(invalid="ignore", over="ignore"):
            kernel.python(wanted)
        run(D)
        np.testing.assert_array_equal(D, wanted, err_msg=f"{size}")
        known = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(D)[known], np.signbit(wanted)[known])


@weft.kernel
def by_minimum(D: weft.f64["N", "N"]):
    for k in range(N):
        for i in range(N):
            for j in range(N):
                D[i, j] = min(D[i, j], D[i, k] + D[k, j])


@pytest.mark.long
def test_comparisons_are_folded_in_order() -> None:
    """The steps of a register tile may run backwards where they take a minimum, not here."""
    compared, least = (weft.schedule(k).automatic() for k in (by_comparison, by_minimum))
    *_, steps = (name for name in least.loops if name.startswith("k_") and name[2].isdigit())
    assert least.reverse(steps) and steps in compared.loops
    with pytest.raises(weft.IllegalScheduleError, match="WEFT-E0420"):
        compared.reverse(steps)


def test_what_a_condition_costs_is_told() -> None:
    told = no_fold.compile(options=weft.Options(cache=False)).explain()
    assert (
        "  no register tile\n"
        "    S0: its condition on data is no minimum, maximum or other fold into D[i, j] along k\n"
    ) in told
    assert "no register tile" not in by_comparison.compile().explain()


@weft.kernel
def until_full(A: weft.f64["N", "K"], B: weft.f64["K", "M"], C: weft.f64["N", "M"]):
    for i in range(N):
        for j in range(M):
            for k in range(K):
                if C[i, j] < 100.0:
                    C[i, j] += A[i, k] * B[k, j]


@weft.kernel
def nearest(
    P: weft.f64["N", "K"], Q: weft.f64["M", "K"], D: weft.f64["N", "M"], at: weft.i64["N", "M"]
):
    for i in range(N):
        for j in range(M):
            for k in range(K):
                if P[i, k] * Q[j, k] < D[i, j]:
                    D[i, j] = P[i, k] * Q[j, k]
                    at[i, j] = k


@weft.kernel
def relax(A: weft.f64["N", "N"], steps: int):
    for _t in range(steps):
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                if A[i, j] > 0.0:
                    A[i, j] = 0.5 * (A[i, j - 1] + A[i + 1, j])


@weft.kernel
def decay(A: weft.f64["N", "M"], steps: int):
    for _t in range(steps):
        for i in range(N):
            for j in range(M):
                if A[i, j] > 1.0:
                    A[i, j] = A[i, j] * 0.5


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (until_full, "S0: its condition reads C[i, j], which the fold along k changes"),
        (nearest, "S1: one condition on data decides about S1 and S2, which is no fold"),
        (relax, ""),  # nor were there one without the condition
        (decay, ""),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_a_condition_is_blamed_for_what_it_costs_alone(kernel: Kernel, why: str) -> None:
    told = kernel.compile(options=weft.Options(threads=1, cache=False)).explain()
    assert "  matrix: " not in told
    blamed = told.partition("  no register tile\n")[2].partition("  dependences\n")[0]
    assert blamed == (f"    {why}\n" if why else "")


@weft.kernel
def of_a_lane(
    C: weft.f64["N", "M"], A: weft.f64["N", "K"], B: weft.f64["K", "M"], x: weft.f64["M"]
):
    for i in range(N):
        for k in range(K):
            for j in range(M):
                if x[j] > 0:
                    C[i, j] += A[i, k] * B[k, j]


@pytest.mark.parametrize("n, k, m", [(0, 3, 5), (1, 1, 1), (13, 7, 31), (300, 17, 50)])
def test_a_condition_of_each_lane_masks_the_sums(n: int, k: int, m: int) -> None:
    """What it rules out stays as it is, whatever would have been added."""
    random = np.random.default_rng(n)
    c, a, b = (random.standard_normal(s) for s in ((n, m), (n, k), (k, m)))
    x = random.standard_normal(m)
    a[:, :1] = np.inf
    b[:, x <= 0] = np.nan
    with np.errstate(invalid="ignore"):
        expected = np.where(x > 0, c + a @ b, c)
    of_a_lane(c, a, b, x)
    np.testing.assert_allclose(c, expected, rtol=1e-12, atol=1e-12)


def test_a_condition_of_each_lane_takes_no_branch() -> None:
    """Operands of a register tile are loaded before its conditions are known: no phi of a load."""
    text = weft.compile(of_a_lane, options=weft.Options(threads=1, cache=False)).source("llvm")
    assert not [line for line in text.splitlines() if line.startswith("loaded")]
