"""Instances of statements: data-dependent accesses are checked where they happen, only there."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen import programs as p
from tests.codegen.kernel_runner import Compiled
from weft.codegen.machines.host import host_machine
from weft.codegen.optimise_kernel import optimise_kernel
from weft.ir import build as w
from weft.ir.loop_interpreter import Status
from weft.ir.loop_interpreter import interpret as interpret_kernel
from weft.ir.scalar_expr import select
from weft.ir.tensor_expr import Program


def run(program: Program, arrays: list[np.ndarray]) -> tuple[list[np.ndarray], Status, list[str]]:
    """Interpreted and compiled, in both orders; all must agree."""
    results = []
    for machine in (None, host_machine()):
        scop, kernel = p.kernel_of(program, machine)
        for version in (kernel, optimise_kernel(kernel)):
            parameters, buffers = p.memory_of(scop, version, arrays)
            compiled, found = Compiled(version)(parameters, buffers)
            status = interpret_kernel(version, parameters, buffers)
            assert (found.code > 0) == (status.code > 0)
            for a, b in zip(p.outputs_of(scop, compiled), p.outputs_of(scop, buffers), strict=True):
                np.testing.assert_array_equal(a, b)
            results.append((p.outputs_of(scop, buffers), status, list(version.messages)))
    return results[0]


def test_an_index_out_of_range_is_reported_and_reads_as_zero() -> None:
    x, at = np.arange(1, 7, dtype=np.float32), np.array([0, 5, 6, -1, 2, 3, 4])
    (y,), status, messages = run(p.gather(6), [x, at])
    np.testing.assert_array_equal(y, [2, 12, 0, 0, 6, 8, 10])
    assert status == Status(1, (6, 6)) and "x" in messages[0] and "dimension 0" in messages[0]


def test_a_write_out_of_range_is_reported_and_left_out() -> None:
    base, at = np.zeros(4, np.float32), np.array([0, 3, 4, 3, -1])
    (y,), status, _ = run(p.histogram(5, 4), [base, at])
    np.testing.assert_array_equal(y, [1, 0, 0, 2])
    assert status.code == 1 and status.detail == (4, 4)


@pytest.mark.parametrize("wide", [5, 40])
def test_what_a_select_leaves_out_is_not_checked(wide: int) -> None:
    x, at = p.tensor("x", 6), p.tensor("at", wide, dtype="int64")

    def body(i: w.Expr) -> w.Expr:
        fits = (at[i] >= 0) & (at[i] < 6)
        return select(fits, select(at[i] > 2, x[at[i]], x[5 - at[i]]), -1.0)

    program = Program("picked", (x, at), (w.compute((wide,), body, name="y"),))
    values = np.random.default_rng(0).integers(-9, 15, wide)
    (y,), status, _ = run(program, [np.arange(6, dtype=np.float32), values])
    expected = [-1 if not 0 <= v < 6 else v if v > 2 else 5 - v for v in values]
    np.testing.assert_array_equal(y, expected)
    assert status.code == 0


def test_an_index_that_was_itself_looked_up() -> None:
    x = p.tensor("x", 5)
    first, second = p.tensor("first", 4, dtype="int64"), p.tensor("second", 9, dtype="int64")
    y = w.compute((9,), lambda i: x[first[second[i]]], name="y")
    program = Program("twice", (x, first, second), (y,))
    good = [np.arange(5, dtype=np.float32), np.array([4, 3, 1, 0]), np.arange(9) % 4]
    (values,), status, _ = run(program, good)
    np.testing.assert_array_equal(values, [4, 3, 1, 0, 4, 3, 1, 0, 4])
    assert status.code == 0
    _, status, messages = run(program, [*good[:2], np.array([0, 1, 7, 1, 1, 1, 1, 1, 1])])
    assert status.detail == (7, 4) and "first" in messages[status.code - 1]
    _, status, messages = run(program, [good[0], np.array([4, 9, 0, 0]), good[2]])
    assert status.detail == (9, 5) and "x" in messages[status.code - 1]


def test_several_results_are_all_read_before_any_is_written() -> None:
    x = p.tensor("x", 11)
    y, z = w.computes((11,), lambda i: (x[i] + 1.0, x[i] * 2.0), name="y")
    values = np.arange(11, dtype=np.float32)
    (a, b), _, _ = run(Program("two", (x,), (y, z)), [values])
    np.testing.assert_array_equal(a, values + 1)
    np.testing.assert_array_equal(b, values * 2)
