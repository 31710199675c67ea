"""``WEFT_VERIFY=full`` finds the pass after which a loop kernel goes wrong."""

# ruff: noqa: F821

from dataclasses import replace

import numpy as np
import pytest

import weft
from tests.frontend.loops.kernels import PROGRAMS
from weft.codegen.optimise_kernel import PASSES
from weft.driver import cluster_code
from weft.driver.assemble import Assembly
from weft.driver.compiler import machine_code
from weft.driver.options import Options
from weft.ir.errors import InternalError
from weft.ir.loop_ir import Kernel
from weft.ir.scalar_expr import literal
from weft.polyhedral.schedule_loops import schedule_loops
from weft.verify import verify_program, verify_scop

FULL = Options(verify="full", threads=1)


@pytest.mark.long
@pytest.mark.parametrize("name", ["trisolv", "jacobi", "data", "calls", "floyd_warshall"])
def test_sound_kernels_pass(name: str) -> None:
    kernel, make = PROGRAMS[name]
    executable = kernel.compile(options=FULL)
    given, wanted = make(5), make(5)
    executable(*given)
    with np.errstate(all="ignore"):
        kernel.python(*wanted)
    for result, value in zip(given, wanted, strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-6, atol=1e-9)


@weft.kernel
def twice(x: weft.f64["N"], n: int):
    assert n >= 1
    for i in range(N):
        x[i] = x[i] * 2 + n


def _wrong_result(scheduled):
    (statement,) = scheduled.scop.statements
    body = replace(statement.body, results=(statement.body.results[0] * 3.0,))
    scop = replace(scheduled.scop, statements=(replace(statement, body=body),))
    return replace(scheduled, scop=scop)


def _broken_schedule(*args: object, **options: object):
    return _wrong_result(schedule_loops(*args, **options))


def _broken_tail(kernel: Kernel) -> Kernel:
    """A kernel that computes one element too few."""
    return replace(kernel, body=replace(kernel.body, upper=kernel.body.upper - literal(1)))


def test_a_schedule_that_changes_results_is_named(monkeypatch) -> None:
    monkeypatch.setattr(verify_scop, "schedule", _broken_schedule)
    with pytest.raises(InternalError, match=r"E0920.*after pass schedule"):
        weft.compile(twice, options=FULL)


def test_a_schedule_that_is_given_is_interpreted_as_well(monkeypatch) -> None:
    monkeypatch.setattr(cluster_code.proof, "validate", lambda *_: None)
    given = twice.schedule()
    given = replace(given, scheduled=_wrong_result(given.scheduled))
    with pytest.raises(InternalError, match=r"E0920.*after pass schedule"):
        twice.compile(given, options=FULL)


def test_a_pass_over_loops_that_changes_results_is_named(monkeypatch) -> None:
    passes = [(n, _broken_tail if n == PASSES[-1][0] else p) for n, p in PASSES]
    monkeypatch.setattr(verify_scop, "passes", lambda machine: passes)
    with pytest.raises(InternalError, match=rf"E0920.*after pass {PASSES[-1][0]}"):
        weft.compile(twice, options=FULL)


def test_a_host_program_that_changes_results_is_named(monkeypatch) -> None:
    optimised = cluster_code.optimise_kernel
    monkeypatch.setattr(cluster_code, "optimise_kernel", lambda *a: _broken_tail(optimised(*a)))
    with pytest.raises(InternalError, match=r"E0920.*after pass assemble"):
        weft.compile(twice, options=FULL)


def test_code_that_changes_results_is_named(monkeypatch) -> None:
    def broken(lowered, target):
        kernels = tuple(map(_broken_tail, lowered.program.kernels))
        return machine_code(
            replace(lowered, assembly=Assembly(replace(lowered.program, kernels=kernels))), target
        )

    monkeypatch.setattr(verify_program, "machine_code", broken)
    with pytest.raises(InternalError, match=r"E0920.*after pass llvm"):
        weft.compile(twice, options=FULL)


def test_only_small_instances_are_interpreted() -> None:
    @weft.kernel
    def fixed(x: weft.f64[3000, 3000]):
        for i in range(3000):
            for j in range(3000):
                x[i, j] = 0.0

    with pytest.warns(weft.WeftWarning, match="fixed: not verified"):
        fixed.compile(options=FULL)


def test_what_has_no_small_instance_is_said() -> None:
    @weft.kernel
    def large(x: weft.f64["N"]):
        assert N >= 100
        for i in range(N):
            x[i] = 0.0

    with pytest.warns(weft.WeftWarning, match="large: not verified"):
        large.compile(options=FULL)
