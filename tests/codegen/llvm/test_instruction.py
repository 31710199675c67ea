"""Products of small integers and of bfloat16 by dot-product instructions: exact, or within the
bound that ``machines/dot_products`` states, at sizes that cut lanes, rows and steps off."""

import re
from dataclasses import replace
from functools import cache

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.codegen.small_products import integers, of_any_size
from weft import bf16, f32, i8, i32, u8
from weft.codegen.llvm.kernel import emit_kernel
from weft.codegen.llvm.target import LlvmTarget, host_target, inspect
from weft.codegen.machines.dot_products import dot_products
from weft.codegen.machines.host import host_machine
from weft.codegen.machines.named import target_named
from weft.codegen.target import machine_of
from weft.driver.compiler import lower_loops
from weft.ir.loop_ir import Allocate, For, walk
from weft.loop_kernel import Kernel
from weft.runtime.executable import Executable

HOST = {x.name for x in host_machine().extensions}
# Where there is a matrix unit as well, the processor that has dot products and none.
TARGET = "znver4" if "tdpbf16ps" in HOST else "host"
OPTIONS = weft.Options(threads=1, cache=False, workers=0, target=TARGET)
SIZES = [(1, 1, 1), (3, 5, 7), (8, 48, 4), (9, 49, 5), (17, 16, 13), (300, 50, 70), (260, 49, 3),
         (1, 100, 401), (100, 1, 30), (0, 4, 4), (4, 0, 4), (4, 4, 0)]  # fmt: skip
random = np.random.default_rng(5)


def numbers(dtype: weft.DType, shape: tuple[int, ...]) -> np.ndarray:
    return integers(random, dtype, shape)


@cache
def compiled(left: weft.DType, right: weft.DType, result: weft.DType = i32) -> Executable:
    return of_any_size(left, right, result).compile(options=OPTIONS)


@pytest.mark.long
@pytest.mark.parametrize("left, right", [(u8, i8), (i8, i8)])
def test_integers_are_exact(left: weft.DType, right: weft.DType) -> None:
    run = compiled(left, right)
    for m, n, k in SIZES:
        a, b, c = numbers(left, (m, k)), numbers(right, (k, n)), numbers(i32, (m, n))
        expected = c + a.astype(np.int32) @ b.astype(np.int32)  # wraps, as the program does
        run(a, b, c)
        np.testing.assert_array_equal(c, expected, err_msg=f"{m} {n} {k}")


@pytest.mark.parametrize("left, right", [(i8, u8), (u8, u8), (i8, i8)])
def test_other_signs_and_layouts(left: weft.DType, right: weft.DType) -> None:
    @weft.kernel
    def multiply(A: left[40, 37], B: right[51, 40], C: i32[37, 51], D: i32[37, 51]):
        for i in range(37):
            for j in range(51):
                for k in range(40):
                    C[i, j] += i32(A[k, i]) * i32(B[j, k])
        for i in range(37):
            for j in range(51):
                for k in range(40):
                    D[i, j] += i32(B[j, k]) * i32(A[k, i])

    a, b = numbers(left, (40, 37)), numbers(right, (51, 40))
    c, d = numbers(i32, (37, 51)), numbers(i32, (37, 51))
    product = a.astype(np.int32).T @ b.astype(np.int32).T
    expected = c + product, d + product
    multiply.compile(options=OPTIONS)(a, b, c, d)
    np.testing.assert_array_equal(c, expected[0])
    np.testing.assert_array_equal(d, expected[1], err_msg="factors in the other order")


@pytest.mark.long
def test_pairs_of_bfloat16_are_within_the_bound() -> None:
    run = compiled(bf16, bf16, f32)
    for m, n, k in SIZES:
        a = random.standard_normal((m, k)).astype(ml_dtypes.bfloat16)
        b = random.standard_normal((k, n)).astype(ml_dtypes.bfloat16)
        c = np.zeros((m, n), np.float32)
        exact = a.astype(float) @ b.astype(float)
        scale = np.abs(a.astype(float)) @ np.abs(b.astype(float))
        run(a, b, c)
        u = 2.0**-24 * (k + 1)
        assert (np.abs(c - exact) <= 2 * u / (1 - u) * scale + k * 2.0**-126).all()


@pytest.mark.parametrize("depth", [5, 7, 8, 390])
@pytest.mark.parametrize("left, right", [(u8, i8), (i8, i8), (bf16, bf16)])
def test_last_steps_are_issues_filled_up_with_zeros(
    left: weft.DType, right: weft.DType, depth: int
) -> None:
    """Also those of a stream in several parts; arrays are followed by what is not a number."""
    result = f32 if left == bf16 else i32

    @weft.kernel
    def multiply(A: left[9, depth], B: right[depth, 33], C: result[9, 33]):
        for i in range(9):
            for j in range(33):
                for k in range(depth):
                    C[i, j] += result(A[i, k]) * result(B[k, j])

    pieces = []
    for rows, columns in ((9, depth), (depth, 33)):
        whole = np.full(rows * columns + 8, np.nan, ml_dtypes.bfloat16)
        dtype = left if columns == depth else right
        if left != bf16:
            whole = numbers(dtype, (rows * columns + 8,))
        else:
            whole[: rows * columns] = random.integers(-9, 9, rows * columns)
        pieces.append(whole[: rows * columns].reshape(rows, columns))
    a, b = pieces
    c = np.zeros((9, 33), result.numpy)
    compiled = multiply.compile(options=OPTIONS)
    compiled(a, b, c)
    wide = float if left == bf16 else np.int32
    np.testing.assert_array_equal(c, a.astype(wide) @ b.astype(wide))
    if f"{left} {right}" in ("uint8 int8", "int8 int8") and "vpdpbusd" in HOST:
        lowered = lower_loops(multiply.lowered, OPTIONS)
        loops = [s for k in lowered.program.kernels for s in walk(k.body) if isinstance(s, For)]
        steps = {int(s.upper.value) for s in loops if s.instruction}  # type: ignore[attr-defined]
        assert steps == {4, *([depth % 4] if depth % 4 else [])}


@pytest.mark.parametrize("rows, columns, depth", [(1, 70, 37), (1, 16, 24), (3, 49, 19)])
@pytest.mark.parametrize("left, right", [(u8, i8), (i8, i8), (bf16, bf16)])
def test_rows_of_memory_are_interleaved_in_registers(
    left: weft.DType, right: weft.DType, rows: int, columns: int, depth: int
) -> None:
    """Nothing behind the last row is touched."""
    result = f32 if left == bf16 else i32

    @weft.kernel
    def multiply(A: left[rows, depth], B: right[depth, columns], C: result[rows, columns]):
        for i in range(rows):
            for k in range(depth):
                for j in range(columns):
                    C[i, j] += result(A[i, k]) * result(B[k, j])

    if left == bf16:
        a, b = (
            random.integers(-9, 9, s).astype(left.numpy) for s in ((rows, depth), (depth, columns))
        )
    else:
        a, b = numbers(left, (rows, depth)), numbers(right, (depth, columns))
    c = np.zeros((rows, columns), result.numpy)
    multiply.compile(options=OPTIONS)(a, b, c)
    wide = float if left == bf16 else np.int32
    np.testing.assert_array_equal(c, a.astype(wide) @ b.astype(wide))
    if {"vpdpbusd", "vdpbf16ps"} <= HOST:
        assert issues(multiply, OPTIONS)
        kernels = lower_loops(multiply.lowered, OPTIONS).program.kernels
        made = [s.buffer.name for k in kernels for s in walk(k.body) if isinstance(s, Allocate)]
        assert not any("packed" in name for name in made)


def test_not_a_number_and_infinity_go_through() -> None:
    a = np.full((9, 6), np.inf, ml_dtypes.bfloat16)
    b = np.ones((6, 33), ml_dtypes.bfloat16)
    b[3, 4], a[2, 1] = np.nan, -np.inf
    c = np.zeros((9, 33), np.float32)
    compiled(bf16, bf16, f32)(a, b, c)
    assert np.isnan(c[:, 4]).all() and np.isnan(c[2]).all()
    assert np.isposinf(np.delete(np.delete(c, 2, 0), 4, 1)).all()


def issues(kernel: Kernel, options: weft.Options) -> set[str]:
    """The instructions that the loops of ``kernel`` ask for."""
    lowered = lower_loops(kernel.lowered, options)
    loops = (s for k in lowered.program.kernels for s in walk(k.body) if isinstance(s, For))
    return {loop.instruction.name for loop in loops if loop.instruction is not None}


@pytest.mark.skipif("vdpbf16ps" not in HOST, reason="this processor has no bfloat16")
def test_strict_programs_keep_their_order() -> None:
    assert issues(of_any_size(bf16, bf16, f32), OPTIONS) == {"vdpbf16ps"}
    assert not issues(of_any_size(bf16, bf16, f32), replace(OPTIONS, strict=True))


@pytest.mark.parametrize(
    "features, expected",
    [
        ("+avx512vnni,+avx512f,+avx512vl", ["vpdpbusd"] * 4),
        ("+avx512f", []),
        ("+avx512bf16,+avx512f", ["vdpbf16ps"]),
    ],
)
def test_records_follow_features(features: str, expected: list[str]) -> None:
    target = replace(host_target(), triple="x86_64-linux-gnu", features=features, vector_bytes=64)
    assert [x.name for x in dot_products(target, 32)] == expected


@pytest.mark.parametrize("left, result, more", [(i8, i32, "vnni"), (bf16, f32, "bf16")])
def test_words_of_packed_operands_are_no_rows_of_memory(
    left: weft.DType, result: weft.DType, more: str
) -> None:
    """Vectors of a register tile are written out in its step, so that its sums stay in registers:
    more than half of the 32 are sums."""

    @weft.kernel
    def multiply(A: left[64, 64], B: left[64, 256], C: result[64, 256]):
        for i in range(64):
            for j in range(256):
                for k in range(64):
                    C[i, j] += result(A[i, k]) * result(B[k, j])

    target = target_of(f"x86-64-v4+{more}")
    lowered = lower_loops(multiply.lowered, OPTIONS, machine=machine_of(target))
    text = "\n".join(emit_kernel(k, target).text for k in lowered.program.kernels)
    blocks = re.split(r"^\S+:$", text, flags=re.MULTILINE)
    issued = [len(re.findall(r"call .*(?:vpdpbusd|dpbf16ps)", block)) for block in blocks]
    assert max(issued) > 16, issued


@pytest.mark.long
def test_assembly() -> None:
    """What the back ends make of a product of s8 by s8, where the processors have one."""
    for name, word in (("aarch64", "sdot"), ("x86-64-v4+vnni", "vpdpbusd")):
        target = target_of(name)
        lowered = lower_loops(of_any_size(i8, i8).lowered, OPTIONS, machine=machine_of(target))
        texts = [emit_kernel(k, target).text for k in lowered.program.kernels]
        assert any(word in inspect(text, target).assembly for text in texts)


def target_of(name: str) -> LlvmTarget:
    base, _, more = name.partition("+")
    target = target_named(base).llvm
    return replace(target, features=target.features + (f",+avx512{more}" if more else ""))
