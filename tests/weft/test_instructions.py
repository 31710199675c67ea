"""Instructions that users describe: what is taken, and what they map onto."""

# ruff: noqa: F821  (sizes of a signature are names in the function's body)

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from tests.weft.own_instructions import fused, multiply
from weft.ir.errors import CompileError


def two_statements(acc: weft.f32[8], b: weft.f32[8]):
    for lane in range(8):
        acc[lane] += b[lane]
    for lane in range(8):
        acc[lane] += b[lane]


def no_update(acc: weft.f32[8], b: weft.f32[8]):
    for lane in range(8):
        acc[lane] = b[lane]


def of_any_size(acc: weft.f32["N"], b: weft.f32["N"]):
    for lane in range(N):
        acc[lane] += b[lane]


def twice_the_same(acc: weft.f32[8], b: weft.f32[8, 8]):
    for lane in range(8):
        acc[lane] += b[lane, 0] * b[lane, 1]


def needs_packing(acc: weft.f32[8], b: weft.f32[16]):
    for lane in range(8):
        acc[lane] += b[2 * lane]


def plain(acc: weft.f32[8], b: weft.f32[8]):
    for lane in range(8):
        acc[lane] += b[lane]


@pytest.mark.parametrize(
    "function, why",
    [
        (two_statements, "2 statements"),
        (no_update, "0 statements"),
        (of_any_size, "constant"),
        (twice_the_same, "twice"),
        (needs_packing, "dims alone"),
    ],
)
def test_what_describes_none(function: Callable[..., Any], why: str) -> None:
    with pytest.raises(CompileError, match="E0020") as error:
        weft.instruction(function)
    assert why in error.value.why


def test_arguments_that_are_none() -> None:
    with pytest.raises(CompileError, match="E0020"):
        weft.instruction(7)  # type: ignore[arg-type]
    with pytest.raises(CompileError, match="no operand 'c'"):
        fused(weft.Intrinsic("llvm.fma.v8f32", ("c", "b", "acc")))
    with pytest.raises(CompileError, match="E0020: int is no program"):
        weft.map_instruction(7, fused())
    with pytest.raises(CompileError, match="E0020"):
        weft.map_instruction(multiply, 7)  # type: ignore[arg-type]
    with pytest.raises(CompileError, match="instructions"):
        weft.Options(instructions=[fused()])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"emit": "fma"},
        {"emit": weft.Intrinsic},
        *({"cycles": c} for c in ("x", None, True, math.nan, math.inf, -1, 0, 10**400)),
        *({"registers": r} for r in ("x", None, True, 1.5, -3, 0)),
    ],
    ids=lambda wrong: "-".join(f"{k}-{v!s:.8}" for k, v in wrong.items()),
)
def test_arguments_of_another_kind_are_named(wrong: dict[str, Any]) -> None:
    """At the decorator, too, before there is a function."""
    (name,) = wrong
    for semantics in (plain, None):
        with pytest.raises(CompileError, match="E0020") as error:
            weft.instruction(semantics, **wrong)
        assert name in error.value.what and name in error.value.why


def test_numbers_of_numpy_are_numbers() -> None:
    made = weft.instruction(plain, cycles=np.float32(2), registers=np.int64(16))
    assert repr((made.cycles, made.registers)) == "(2.0, 16)"


def matrix_unit() -> weft.Instruction:
    a = weft.placeholder((16, 16), name="a")
    b = weft.placeholder((16, 16), name="b")
    k = weft.reduce_axis((0, 16), name="k")
    return weft.instruction(
        weft.compute((16, 16), lambda i, j: weft.sum(a[i, k] * b[k, j], axis=k), name="unit")
    )


def test_a_separable_convolution_has_its_matrix_product() -> None:
    """The pointwise half, over pixels and channels; the depthwise half says why it has none."""
    x = weft.placeholder((8, 14, 14), name="x")
    w = weft.placeholder((8, 3, 3), name="w")
    p = weft.placeholder((24, 8), name="p")
    r, s = (weft.reduce_axis((0, 3), name=n) for n in "rs")
    c = weft.reduce_axis((0, 8), name="c")
    deep = weft.compute(
        (8, 12, 12),
        lambda d, h, v: weft.sum(x[d, h + r, v + s] * w[d, r, s], axis=(r, s)),
        name="deep",
    )
    point = weft.compute(
        (24, 12, 12), lambda m, h, v: weft.sum(p[m, c] * deep[c, h, v], axis=c), name="point"
    )
    found = weft.map_instruction(point, matrix_unit())
    (depthwise,) = (m for n, m in found.statements.items() if "deep" in n)
    (pointwise,) = (m for n, m in found.statements.items() if "point" in n)
    assert not depthwise.assignments
    assert all(any(t in r for t in ("x", "w", "deep")) for r in depthwise.refusals)
    rows = {tuple(a.dims.values()) for a in pointwise.assignments}
    assert len(rows) == 6  # h, v, or both, as rows or as columns
    assert any(("h", "v") in dims for dims in rows)
    assert "mappings" in str(found)


def test_mappings_say_which_operand_is_which_tensor() -> None:
    @weft.kernel
    def turned(A: weft.f32["M", "K"], B: weft.f32["K", "N"], C: weft.f32["N", "M"]):
        for i in range(M):
            for j in range(N):
                for k in range(K):
                    C[j, i] = C[j, i] + B[k, j] * A[i, k]

    assert (
        str(weft.map_instruction(turned, fused()))
        == """\
fused: 2 mappings
  S0
    lane = j, a = A, b = B; loops i; packs C
    lane = i, a = B, b = A; loops j; packs A
    not lane = j, a = B, b = A: B changes along j, a of fused stays along lane
    not lane = k, a = B, b = A: C stays along k, acc of fused changes along lane
    not lane = i, a = A, b = B: A changes along i, a of fused stays along lane
    not lane = k, a = A, b = B: C stays along k, acc of fused changes along lane"""
    )


def test_operands_of_one_tensor_are_told_apart_by_their_indices() -> None:
    @weft.kernel
    def square(A: weft.f32["M", "K"], C: weft.f32["M", "M"]):
        for i in range(M):
            for j in range(M):
                for k in range(K):
                    C[i, j] += A[i, k] * A[j, k]

    lines = str(weft.map_instruction(square, fused())).splitlines()
    assert lines[2] == "    lane = j, a = A[i, k], b = A[j, k]; loops i; packs A"


def test_issues_that_read_what_they_update_are_refused() -> None:
    """Issue by issue, in the loops' order: what is listed computes what the loops do."""

    @weft.kernel
    def own(X: weft.f32["N", "N"], Y: weft.f32["N", "N"]):
        for i in range(N):
            for j in range(N):
                for k in range(N):
                    Y[i, j] += Y[i, k] * X[k, j]

    n = 5  # of integers, so that nothing is rounded; all are lanes of one issue
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-2, 3, (n, n)).astype(float) for _ in range(2))
    right, columns, rows = y.copy(), y.copy(), y.copy()
    for i in range(n):
        for j in range(n):
            for k in range(n):
                right[i, j] += right[i, k] * x[k, j]
    for i in range(n):
        for k in range(n):
            columns[i, :] += columns[i, k] * x[k, :]  # lane = j
    for j in range(n):
        for k in range(n):
            rows[:, j] += rows[:, k] * x[k, j]  # lane = i
    assert (rows == right).all() and not (columns == right).all()
    found = weft.map_instruction(own, fused())
    assert [a.dims for a in found] == [{"lane": ("i",)}]
    (refusal,) = (r for r in found.refusals if r.startswith("lane = j, a = Y, b = X: "))
    assert "one issue may update an element of Y" in refusal and "and read it" in refusal


def test_a_program_without_sums() -> None:
    x = weft.placeholder((8,), name="x")
    found = weft.map_instruction(weft.compute((8,), lambda i: x[i] + 1.0, name="y"), fused())
    assert not len(found) and "no update" in found.refusals[0]
