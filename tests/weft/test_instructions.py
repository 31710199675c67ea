"""Instructions that users describe: what is taken, what they map onto, and that they are tried."""

# ruff: noqa: F821  (sizes of a signature are names in the function's body)

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.codegen.llvm_target import host_target
from weft.codegen.loop_ir import For, walk
from weft.codegen.machines.host import host, host_machine
from weft.errors import CompileError
from weft.kernel_code import lower_loops
from weft.targets import target_for
from weft.try_instruction import tried

FMA = weft.Intrinsic("llvm.fma.v8f32", ("a", "b", "acc"))
X86 = pytest.mark.skipif(not host_target().triple.startswith("x86_64"), reason="x86-64 text")


def fused(emit: object = FMA, name: str = "fused") -> weft.Instruction:
    @weft.instruction(emit=emit, name=name)  # type: ignore[arg-type]
    def step(acc: weft.f32[8], a: weft.f32[1], b: weft.f32[8]):
        for lane in range(8):
            acc[lane] += a[0] * b[lane]

    return step


@weft.kernel
def multiply(A: weft.f32["M", "K"], B: weft.f32["K", "N"], C: weft.f32["M", "N"]):
    for i in range(M):
        for j in range(N):
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]


def test_used_in_place_of_the_machines_own() -> None:
    options = weft.Options(instructions=(fused(),), threads=1, cache=False, workers=0)
    lowered = lower_loops(multiply.lowered, options)
    loops = (s for k in lowered.program.kernels for s in walk(k.body) if isinstance(s, For))
    assert {x.instruction.name for x in loops if x.instruction} == {"fused"}
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((19, 7), np.float32), rng.standard_normal((7, 35), np.float32)
    c = np.zeros((19, 35), np.float32)
    multiply.compile(options=options)(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


def test_the_machines_own_are_what_they_say() -> None:
    for one in host_machine().extensions:
        tried(one, host())


def test_a_wrong_order_of_arguments_is_found() -> None:
    wrong = fused(weft.Intrinsic("llvm.fma.v8f32", ("acc", "b", "a")))
    with pytest.raises(CompileError, match="E0021") as error:
        multiply.compile(options=weft.Options(instructions=(wrong,), cache=False))
    assert "not" in error.value.why


@X86
def test_text_that_is_no_instruction_ends_no_process() -> None:
    text = weft.Assembly("vbogus $1, $0", "=x,x,0", ("b", "acc"))
    with pytest.raises(CompileError, match="E0021") as error:
        tried(fused(text), host())
    assert "does not run" in error.value.what and "vbogus" in error.value.why


def test_signatures_that_llvm_refuses() -> None:
    with pytest.raises(CompileError, match="E0021"):
        tried(fused(weft.Intrinsic("llvm.fma.v8f32", ("a", "acc"))), host())


WIDE = weft.Assembly("vfmadd231ps $2, $1, $0", "=v,v,v,0", ("a", "b", "acc"))
SCRIPT = """
import weft
from tests.weft.test_instructions import WIDE, fused, multiply

for target in ("x86-64", "aarch64"):
    for workers in (0, None):
        options = weft.Options(
            instructions=(fused(WIDE),), target=target, workers=workers, cache=False
        )
        try:
            multiply.compile(options=options)
        except weft.CompileError as error:
            print(error.code, error.what, error.where, error.why, sep="; ")
"""


def test_text_that_a_target_cannot_hold_ends_no_process() -> None:
    """Eight floats at once need AVX. In a process of its own, which must come to its end."""
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4, done.stdout
    for line, target in zip(lines, ["x86-64"] * 2 + ["aarch64"] * 2, strict=True):
        assert line.startswith("WEFT-E0021; instruction fused ")
        assert repr(target) in line and "constraint 'v'" in line


@X86
def test_a_target_that_has_the_instruction_takes_it() -> None:
    options = weft.Options(instructions=(fused(WIDE),), target="x86-64-v3", cache=False)
    assert "vfmadd231ps" in multiply.compile(options=options).source("asm")


def test_intrinsics_of_the_host_that_a_target_lacks() -> None:
    """LLVM ends the process where it cannot select them."""

    @weft.instruction(emit=weft.Intrinsic("llvm.x86.avx512.vpdpbusd.128", ("acc", "a", "b")))
    def dot(acc: weft.i32[4], a: weft.u8[4], b: weft.i8[4, 4]):
        for lane in range(4):
            for q in range(4):
                acc[lane] += weft.i32(a[q]) * weft.i32(b[lane, q])

    with pytest.raises(CompileError, match="E0021") as error:
        target_for(weft.Options(instructions=(dot,), target="x86-64"))
    assert "vpdpbusd" in error.value.why.lower() and "x86-64" in error.value.where


def test_code_that_ends_its_process_by_a_signal() -> None:
    emit = weft.Intrinsic("abort", ("a", "b", "acc"))
    with pytest.raises(CompileError, match="E0021") as error:
        target_for(weft.Options(instructions=(fused(emit),)))
    assert "SIGABRT" in error.value.why


@pytest.mark.parametrize("symbol", ["no_such_function_xyz", "llvm.nonsense.v8f32"])
def test_functions_that_do_not_exist_are_named_in_one_line(symbol: str) -> None:
    emit = weft.Intrinsic(symbol, ("a", "b", "acc"))
    with pytest.raises(CompileError, match="E0021") as error:
        target_for(weft.Options(instructions=(fused(emit),)))
    assert symbol in error.value.why
    assert "Traceback" not in error.value.why and len(error.value.why.splitlines()) == 1


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


def jumping(acc: weft.f32[8], b: weft.f32[16]):
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
        (jumping, "dims alone"),
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
