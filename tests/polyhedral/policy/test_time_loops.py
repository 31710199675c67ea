"""Loops and sizes of time-iterated programs."""

# Loop kernels are read as text, and not run by Python as they stand.
# ruff: noqa: B007, F821, UP037

from __future__ import annotations

import pytest

import weft
from tests.polyhedral.policy import time_programs as programs
from weft.codegen.machines.host import host_machine
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Var
from weft.loop_kernel import Kernel
from weft.polyhedral.policy.fuse import fuse
from weft.polyhedral.policy.planner import Group, Planner
from weft.polyhedral.policy.share import share
from weft.polyhedral.policy.stencil import TYPICAL_ELEMENTS, iterated, larger, time_loops
from weft.polyhedral.transform.initial import initial


@weft.kernel
def in_turn(T: weft.i64, A: weft.f64[2, "N"]):
    for t in range(T):
        for i in range(1, N - 1):
            A[(t + 1) % 2, i] = A[t % 2, i - 1] + A[t % 2, i + 1]


@weft.kernel
def histories(T: weft.i64, A: weft.f64["S", "N"]):
    for t in range(1, T):
        for i in range(1, N - 1):
            A[t, i] = A[t - 1, i - 1] + A[t - 1, i + 1]


@weft.kernel
def least(x: weft.f64["T", "N"], y: weft.f64["N"]):
    for t in range(T):
        for i in range(N):
            if x[t, i] < y[i]:
                y[i] = x[t, i]


def planned(kernel: Kernel) -> tuple[Planner, Group]:
    planner = Planner(initial(kernel.scop), host_machine(), (), fuse, share)
    return planner, planner.everything()


def test_rows_lean_both_ways_by_what_a_step_reaches() -> None:
    planner, group = planned(programs.plane)
    loops = time_loops(planner, group)
    assert loops is not None and loops.slope == 2 and loops.columns is None
    search = group.search()
    assert loops.mirror is not None
    for at in (loops.time, loops.rows, loops.mirror):
        assert search.valid(at) is not None  # permutable: no dependence runs backwards along any
    steep = [to_affine(loops.rows["S0"]), to_affine(loops.mirror["S0"])]
    assert [(f.coefficient("t"), f.coefficient("i")) for f in steep if f] == [(2, 1), (2, -1)]


def test_statements_of_one_row_go_with_the_first_of_others() -> None:
    planner, group = planned(programs.fields)
    loops = time_loops(planner, group)
    assert loops is not None and loops.slope == 1
    row = to_affine(loops.rows["S0"])  # F[0, j] = t
    assert row is not None and row.variables() == {"t"}
    assert loops.shared is not None and not loops.shared.coincident


def test_what_is_written_once_is_not_iterated() -> None:
    assert time_loops(*planned(histories)) is None


def test_rows_that_depend_on_none_but_themselves_are_not_skewed() -> None:
    planner, group = planned(least)
    assert group.search().valid({"S0": Var("t")}) is not None  # a fold that keeps its order
    assert time_loops(planner, group) is None


def test_sizes_that_are_not_known_count_as_typical() -> None:
    scop = programs.space.scop
    x = iterated(scop, scop.statements, 2, host_machine(), tiled=2)
    assert x is not None
    side = int(TYPICAL_ELEMENTS ** (1 / 3))
    assert x.extents == (side, side) and x.element == 2 * side * 8
    assert x.vectors and x.statements == 2
    assert x.passes == pytest.approx(3.0)  # each reads one array, and reads and writes the other


def test_rows_are_counted_along_the_dim_that_moves_through_them() -> None:
    scop = in_turn.scop
    x = iterated(scop, scop.statements, 1, host_machine(), tiled=1)
    assert x is not None
    assert x.extents == (TYPICAL_ELEMENTS // 2,) and x.element == 2 * 8 and not x.vectors


@pytest.mark.parametrize("limit", [1 << 14, 1 << 19])
def test_larger_tells_sizes_apart_by_their_bytes(limit: int) -> None:
    """Exactly where all sizes are the same, and never called small where it is not."""
    scop = programs.plane.scop
    where = larger(scop, scop.statements, limit)
    assert where is not None
    form = to_affine(where.expr)
    assert form is not None
    for n in range(1, 400, 3):
        for m in (n, 2 * n, n // 2 + 1):
            large = form.value({"N": n, "M": m}) >= 0
            if not large:
                assert 2 * 8 * n * m <= limit
            if n == m:
                assert large == (2 * 8 * n * n > limit) or abs(2 * 8 * n * n - limit) <= 64 * n


def test_known_sizes_leave_nothing_to_ask() -> None:
    @weft.kernel
    def fixed(T: weft.i64, A: weft.f64[100]):
        for t in range(T):
            for i in range(1, 99):
                A[i] = A[i - 1] + A[i + 1]

    assert larger(fixed.scop, fixed.scop.statements, 1000) is None
