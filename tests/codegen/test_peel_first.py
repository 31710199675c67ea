"""First turns that differ run before their loops; the kernel does the same."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.kernel_runner import Compiled, assert_same
from weft.codegen.peel_first import peel_first
from weft.codegen.scalar_replacement import scalar_replacement
from weft.ir import dtypes
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Buffer, For, Kernel, Kind, Stmt, Store
from weft.ir.loop_printer import print_stmt
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, Var, literal, select

i, j, n, m = map(Var, "ijnm")
SIDE = 20


def at(name: str, *indices: Expr) -> Load:
    return Load(name, indices, dtypes.int64)


def kernel(body: Stmt, kind: Kind = "serial", low: Expr = literal(0)) -> Kernel:  # noqa: B008
    shape, strides = (literal(SIDE), literal(SIDE)), (literal(SIDE), literal(1))
    buffers = [Buffer(b, dtypes.int64, shape, strides) for b in "xy"]
    return Kernel("k", ("n", "m"), tuple(buffers), For("j", low, n, kind, body), ())


def peeled(original: Kernel) -> bool:
    """Whether a first turn was peeled; the kernel still does the same."""
    changed = peel_first(original)
    verify_kernel(changed)
    for size, start in ((0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (7, 3), (SIDE, 1)):
        rng = np.random.default_rng(size)
        arrays = {b.name: rng.integers(-9, 9, SIDE * SIDE) for b in original.buffers}
        expected = {name: a.copy() for name, a in arrays.items()}
        actual = {name: a.copy() for name, a in arrays.items()}
        parameters = {"n": size, "m": start}
        interpret(original, parameters, expected)
        interpret(changed, parameters, actual)
        native, _ = Compiled(changed)(parameters, arrays)
        for name, values in expected.items():
            assert_same(actual[name], values, 0.0, name)
            assert_same(native[name], values, 0.0, name)
    return changed is not original


def chain(condition: Expr, row: Expr = literal(3)) -> Store:  # noqa: B008
    value = select(condition, at("y", row, j), at("x", row, j - 1) + at("y", row, j))
    return Store("x", (row, j), value)


@pytest.mark.parametrize(
    "condition", [j.equal(0), j <= 0, ~(j > 0), literal(0).equal(j), j < 1, literal(0) >= j]
)
def test_chains_without_their_first_turn_stay_in_registers(condition: Expr) -> None:
    original = kernel(chain(condition))
    assert peeled(original)
    assert "carried" in print_stmt(scalar_replacement(peel_first(original)).body)


def test_loops_that_begin_anywhere() -> None:
    assert peeled(kernel(chain(j.equal(m)), low=m))
    assert peeled(kernel(chain(~j.not_equal(m)), low=m))


def test_rows_side_by_side() -> None:
    lanes = For("i", literal(0), literal(4), "vector", chain(j.equal(0), i))
    assert peeled(kernel(lanes))


def test_what_stays() -> None:
    assert not peeled(kernel(chain(j.equal(1))))  # not the first
    assert not peeled(kernel(chain(j.equal(0)), "serial", m))  # perhaps not the first
    assert not peeled(kernel(chain(at("y", literal(0), j).equal(0))))
    assert not peeled(kernel(Store("x", (j, j), select(j.equal(0), at("y", j, j), 3))))  # no chain
    nest = For("i", literal(0), n, "serial", chain(j.equal(0), i))
    assert not peeled(kernel(nest))
