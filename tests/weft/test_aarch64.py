"""Code for AArch64, run by QEMU as the very processor that it is for, beside NumPy.

Debian has what this needs: ``qemu-user`` and ``gcc-aarch64-linux-gnu``.
"""

# ruff: noqa: F821

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.weft.c_program import CROSS, EMULATOR, CProgram, c_program, emulated
from tests.weft.small_models import conv_net
from weft.codegen.llvm.target import inspect
from weft.driver.options import Options

pytestmark = [
    pytest.mark.qemu,
    pytest.mark.skipif(
        EMULATOR is None or CROSS is None,
        reason="AArch64 code is NOT RUN: no qemu-aarch64 or no aarch64-linux-gnu-gcc here",
    ),
]
# The processor that code is for, and QEMU's that has just what it has.
PAIRS = [("cortex-a53", "cortex-a53"), ("neoverse-n1", "neoverse-n1"), ("aarch64", "cortex-a76")]
RANDOM = np.random.default_rng(0)


def built(source: Any, folder: Path, target: str = "aarch64", cpu: str = "cortex-a76") -> CProgram:
    options = Options(target=target, threads=2)
    executable = (
        source.compile(options=options)
        if isinstance(source, weft.Kernel)
        else weft.compile(source, options=options)
    )
    return c_program(executable.compiled, folder, "program", system=emulated(cpu))


def results(program: CProgram, *arrays: np.ndarray, threads: int = 1, **sizes: int) -> list:
    names = [field.name for field in program.interface.inputs]
    done = program.run(dict(zip(names, arrays, strict=True)), sizes, threads)
    assert done.status == 0, done.message
    return list(done.arrays.values())


@pytest.mark.parametrize(("target", "cpu"), PAIRS)
def test_products(target: str, cpu: str, tmp_path: Path) -> None:
    m, k, n = (weft.var(name) for name in "mkn")
    a = weft.placeholder((m, k), weft.float32, name="a")
    b = weft.placeholder((k, n), weft.float32, name="b")
    j = weft.reduce_axis((0, k), name="j")
    y = weft.compute((m, n), lambda i, o: weft.sum(a[i, j] * b[j, o], j), name="y")
    program = built(y, tmp_path, target, cpu)
    for rows in (1, 7, 33, 64):
        x, z = (RANDOM.standard_normal(s).astype(np.float32) for s in ((rows, 31), (31, rows + 2)))
        (found,) = results(program, x, z, m=rows, k=31, n=rows + 2)
        np.testing.assert_allclose(found, x @ z, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("target", "cpu"), PAIRS)
@pytest.mark.parametrize("threads", [1, 2])
def test_models(target: str, cpu: str, threads: int, tmp_path: Path) -> None:
    x = RANDOM.standard_normal((1, 3, 13, 13)).astype(np.float32)
    program = built(conv_net(), tmp_path, target, cpu)
    (found,) = results(program, x, threads=threads)
    np.testing.assert_allclose(found, weft.compile(conv_net())(x), rtol=1e-4, atol=1e-5)


def test_functions_and_small_floats(tmp_path: Path) -> None:
    x = weft.placeholder((67,), weft.float32, name="x")
    half = weft.placeholder((67,), weft.float16, name="half")
    y = weft.compute((67,), lambda i: weft.exp(x[i]) + weft.erf(x[i]) * weft.tanh(x[i]), name="y")
    z = weft.compute((67,), lambda i: half[i].astype(weft.float32) * 2, name="z")
    bits = weft.compute((67,), lambda i: x[i].astype(weft.bfloat16), name="bits")
    values = np.concatenate([RANDOM.standard_normal(64), [np.nan, 0.0, -20.0]]).astype(np.float32)
    halves = values.astype(np.float16)
    found = results(built([y, z, bits], tmp_path), values, halves)
    wanted = weft.compile([y, z, bits])(values, halves)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-6)
    np.testing.assert_array_equal(found[1], halves.astype(np.float32) * 2)
    np.testing.assert_array_equal(
        found[2].astype(np.float32), np.asarray(wanted[2]).astype(np.float32)
    )


def test_integer_division_and_wide_shifts_do_as_they_do_here(tmp_path: Path) -> None:
    a = weft.placeholder((9,), weft.int32, name="a")
    b = weft.placeholder((9,), weft.int32, name="b")
    y = weft.compute((9,), lambda i: a[i] // b[i], name="y")
    z = weft.compute((9,), lambda i: a[i] % b[i], name="z")
    low = np.iinfo(np.int32).min
    x = np.array([7, -7, 7, -7, low, low, 0, 5, -5], np.int32)
    w = np.array([2, 2, -2, -2, -1, 1, 5, 0, 0], np.int32)
    for found, wanted in zip(
        results(built([y, z], tmp_path), x, w), weft.compile([y, z])(x, w), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


def test_an_index_out_of_range_is_a_status(tmp_path: Path) -> None:
    x = weft.placeholder((5,), weft.float32, name="x")
    at = weft.placeholder((3,), weft.int64, name="at")
    y = weft.compute((3,), lambda i: x[at[i]], name="y")
    program = built(y, tmp_path)
    names = [field.name for field in program.interface.inputs]
    data = np.arange(5, dtype=np.float32)
    done = program.run(dict(zip(names, (data, np.array([4, 0, 2])), strict=True)))
    assert done.status == 0 and list(done.arrays["y"]) == [4, 0, 2]
    done = program.run(dict(zip(names, (data, np.array([4, 7, 2])), strict=True)))
    assert done.status > 0 and 7 in done.numbers


def test_a_processor_that_lacks_instructions_is_told_so(tmp_path: Path) -> None:
    x = weft.placeholder((5,), weft.float32, name="x")
    program = built(weft.compute((5,), lambda i: x[i] + 1, name="y"), tmp_path, cpu="cortex-a53")
    done = program.run({"x": np.zeros(5, np.float32)})
    assert done.status < 0 and "lacks instructions" in done.message


@weft.kernel
def diffuse(A: weft.f64[N, N], B: weft.f64[N, N], times: int):
    for t in range(times):  # noqa: B007
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                B[i, j] = (A[i - 1, j] + A[i, j - 1] + A[i, j + 1] + A[i + 1, j]) / 4
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                A[i, j] = B[i, j]


@weft.kernel
def solve(L: weft.f64[N, N], X: weft.f64[N, M]):
    for i in range(N):
        for j in range(i):
            for k in range(M):
                X[i, k] -= L[i, j] * X[j, k]
        for k in range(M):
            X[i, k] /= L[i, i]


@pytest.mark.parametrize("threads", [1, 2])
def test_loop_kernels(threads: int, tmp_path: Path) -> None:
    program = built(solve, tmp_path)
    for size in (1, 5, 67):
        lower = np.tril(RANDOM.uniform(0.1, 1, (size, size))) + size * np.eye(size)
        x = RANDOM.standard_normal((size, 9))
        (found,) = results(program, lower, lower @ x, threads=threads, N=size, M=9)
        np.testing.assert_allclose(found, x, rtol=1e-10, atol=1e-10)


@weft.kernel
def bytes_product(A: weft.i8[M, K], B: weft.i8[K, N], C: weft.i32[M, N]):
    for i in range(M):
        for j in range(N):
            for k in range(K):
                C[i, j] += weft.i32(A[i, k]) * weft.i32(B[k, j])


@pytest.mark.parametrize(("target", "cpu"), PAIRS)
def test_products_of_bytes_are_exact(target: str, cpu: str, tmp_path: Path) -> None:
    """By dot products where the processor has them; one that lacks them does without."""
    code = bytes_product.compile(options=Options(target=target)).source("asm")
    assert ("sdot" in code) == (target != "cortex-a53")
    program = built(bytes_product, tmp_path, target, cpu)
    for m, n, k in ((1, 1, 1), (17, 33, 13), (64, 64, 67)):
        a, b = (RANDOM.integers(-128, 128, s, "int8") for s in ((m, k), (k, n)))
        c = RANDOM.integers(-(2**31), 2**31, (m, n), "int32")
        (found,) = results(program, a, b, c, M=m, N=n, K=k)
        np.testing.assert_array_equal(found, c + a.astype(np.int32) @ b.astype(np.int32))


def test_threads_that_meet_in_a_kernel(tmp_path: Path) -> None:
    program = built(diffuse, tmp_path)
    a, b = RANDOM.standard_normal((2, 70, 70))
    found = results(program, a, b, threads=2, N=70, times=5)
    wanted = [a.copy(), b.copy()]
    diffuse.python(*wanted, 5)
    for array, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-12)


def test_no_vectors_wider_than_registers() -> None:
    """What ``LlvmTarget`` promises is what is emitted: 128-bit registers, fused in vectors."""
    run = weft.compile(conv_net(), target="aarch64")
    code = run.source("asm")
    assert "fmla" in code and "v31." in code  # NEON, and all registers of it
    assert "z0." not in code
    assert inspect(run.compiled.llvm[0], run.compiled.target).assembly in code
