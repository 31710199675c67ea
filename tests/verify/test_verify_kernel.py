"""``WEFT_VERIFY=full`` finds the pass after which a loop kernel goes wrong."""

# ruff: noqa: F821

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import weft
from tests.frontend.loops.kernels import PROGRAMS
from weft.driver import cluster_code, kernel_code
from weft.driver.options import Options
from weft.ir.errors import InternalError
from weft.ir.scalar_expr import literal
from weft.verify import verify_kernel

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
    return _wrong_result(SOUND["schedule"](*args, **options))


def _broken_kernels(*args: object):
    """Kernels that compute one element too few."""
    kernels = SOUND["kernels"](*args)
    smaller = replace(kernels[0].kernel, parameters=kernels[0].kernel.parameters)
    body = replace(smaller.body, upper=smaller.body.upper - literal(1))
    return (replace(kernels[0], kernel=replace(smaller, body=body)), *kernels[1:])


SOUND: dict[str, Callable] = {
    "schedule": cluster_code.schedule_loops,
    "kernels": cluster_code.kernels_of,
}


def test_a_schedule_that_changes_results_is_named(monkeypatch) -> None:
    monkeypatch.setattr(cluster_code, "schedule_loops", _broken_schedule)
    with pytest.raises(InternalError, match=r"E0920.*after pass schedule"):
        weft.compile(twice, options=FULL)


def test_loops_that_change_results_are_named(monkeypatch) -> None:
    monkeypatch.setattr(cluster_code, "kernels_of", _broken_kernels)
    with pytest.raises(InternalError, match=r"E0920.*after pass program"):
        weft.compile(twice, options=FULL)


def test_code_that_changes_results_is_named(monkeypatch) -> None:
    sound = verify_kernel.kernel_machine_code

    def broken(lowered, target):
        with monkeypatch.context() as changed:
            changed.setattr(cluster_code, "kernels_of", _broken_kernels)
            options = replace(lowered.passes.options, cache=False)
            return sound(kernel_code.lower_loops(lowered.kernel, options), target)

    monkeypatch.setattr(verify_kernel, "kernel_machine_code", broken)
    with pytest.raises(InternalError, match=r"E0920.*after pass llvm"):
        weft.compile(twice, options=FULL)


def test_what_has_no_small_instance_is_said() -> None:
    @weft.kernel
    def large(x: weft.f64["N"]):
        assert N >= 100
        for i in range(N):
            x[i] = 0.0

    with pytest.warns(weft.WeftWarning, match="large: not verified"):
        large.compile(options=FULL)
