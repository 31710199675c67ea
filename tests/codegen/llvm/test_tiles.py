"""Products by a matrix unit (AMX): its loops mean what the product means, everywhere; where this
processor has tiles, code on them does too, and touches nothing outside of its arrays."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import weft
from tests.codegen.kernel_runner import Compiled
from tests.codegen.small_products import integers, of_any_size
from weft import bf16, f32, i8, i32, u8
from weft.codegen.amx_permission import request_amx
from weft.codegen.llvm.kernel import emit_kernel
from weft.codegen.llvm.target import host_target, lacking, to_object
from weft.codegen.machines.host import host_processor
from weft.codegen.machines.matrix_units import matrix_units
from weft.codegen.machines.named import target_named
from weft.codegen.tile_issue import issue_of, issues_in
from weft.driver.compiler import lower_loops
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import For as Loop
from weft.ir.loop_ir import Kernel, walk
from weft.ir.scalar_expr import literal
from weft.loop_kernel import Kernel as LoopKernel
from weft.polyhedral.policy import product_costs
from weft.polyhedral.policy.product_costs import Choice

TILES = target_named("sapphirerapids")
HERE = not lacking(TILES.llvm)
OPTIONS = weft.Options(threads=1, cache=False, workers=0, target="sapphirerapids")
KINDS = [(bf16, bf16), (u8, i8), (i8, u8), (i8, i8), (u8, u8)]
# Rows, lanes and steps: whole blocks, one more, one less, a few; several parts of a long stream.
SIZES = [(32, 32, 64), (33, 33, 65), (31, 47, 129), (16, 96, 64), (1, 16, 100), (70, 10, 66),
         (5, 100, 400), (100, 20, 1000), (66, 49, 67), (49, 66, 70), (0, 4, 70),
         (4, 0, 70)]  # fmt: skip
random = np.random.default_rng(11)


Size = Any  # a number, or "m", "n" or "k" for any


def product(
    left: weft.DType, right: weft.DType, m: Size, n: Size, k: Size, *, turned: bool = False
) -> LoopKernel:
    result = f32 if left == bf16 else i32

    @weft.kernel
    def multiply(A: left[m, k], B: right[k, n], C: result[m, n]):
        for i in range(m):
            for j in range(n):
                for q in range(k):
                    C[i, j] += result(A[i, q]) * result(B[q, j])

    @weft.kernel
    def with_rows_turned(A: left[k, m], B: right[n, k], C: result[m, n]):
        for i in range(m):
            for j in range(n):
                for q in range(k):
                    C[i, j] += result(A[q, i]) * result(B[j, q])

    return with_rows_turned if turned else multiply


def numbers(dtype: weft.DType, shape: tuple[int, ...]) -> np.ndarray:
    """Small ones of floating point, whose sums are exact in any order."""
    if dtype == bf16:
        return random.integers(-9, 9, shape).astype(dtype.numpy)
    return integers(random, dtype, shape)


def expected(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    wide = np.float64 if a.dtype == bf16.numpy else np.int32  # which wraps, as the program does
    return (c + a.astype(wide) @ b.astype(wide)).astype(c.dtype)


def kernels(multiply: LoopKernel, options: weft.Options = OPTIONS) -> tuple[Kernel, ...]:
    return lower_loops(multiply.lowered, options).program.kernels


def issued(found: tuple[Kernel, ...]) -> set[str]:
    loops = (s for k in found for s in walk(k.body) if isinstance(s, Loop))
    return {loop.instruction.name for loop in loops if loop.instruction}


# ---- everywhere ----------------------------------------------------------------------------------


@pytest.mark.parametrize("left, right", KINDS)
def test_one_unit_for_each_kind_of_operands(left: weft.DType, right: weft.DType) -> None:
    (name,) = issued(kernels(product(left, right, 40, 40, 100)))
    signs = {bf16: "", i8: "s", u8: "u"}
    assert name == ("tdpbf16ps" if left == bf16 else f"tdpb{signs[left]}{signs[right]}d")


@pytest.mark.long
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("m, n, k", [(18, 17, 70), (33, 5, 65)])
def test_the_loops_mean_the_product(m: int, n: int, k: int, *, turned: bool) -> None:
    """In the interpreter, which knows nothing of tiles."""
    found = kernels(product(u8, i8, m, n, k, turned=turned))
    assert issued(found) in ({"tdpbusd"}, {"tdpbsud"})  # rows may be either side
    a, b, c = numbers(u8, (m, k)), numbers(i8, (k, n)), numbers(i32, (m, n))
    given = (a.T, b.T) if turned else (a, b)
    arrays = {"A": given[0].ravel(), "B": given[1].ravel(), "C": c.ravel().copy()}
    memory = {b.name: b for kernel in found for b in kernel.buffers}
    for name, buffer in memory.items():
        size = int(np.prod([int(s.value) for s in buffer.shape]))  # type: ignore[attr-defined]
        arrays.setdefault(name, np.zeros(size, buffer.dtype.numpy))
    for kernel in found:
        interpret(kernel, {}, arrays)
    np.testing.assert_array_equal(arrays["C"].reshape(m, n), expected(a, b, c))


def test_whole_blocks_are_loaded_where_they_lie() -> None:
    """And all registers are laid out once, at the beginning, and given back at the end."""
    *_, kernel = kernels(product(bf16, bf16, 64, 64, 128))
    emitted = emit_kernel(kernel, TILES.llvm)
    body = emitted.text.split("define internal void")[-1].split("\n}")[0]
    assert body.count("@llvm.x86.ldtilecfg") == body.count("@llvm.x86.tilerelease") == 1
    assert body.count("@llvm.x86.tdpbf16ps") == 4
    assert body.count("vaddss") == 1  # the floating-point unit stays awake
    assert "alloca [1024 x i8]" not in body
    assert to_object(emitted.text, TILES.llvm)  # LLVM knows what it is


@pytest.mark.parametrize("dtype", [bf16, i8])
def test_panels_of_turned_operands_lie_as_registers_take_them(dtype: weft.DType) -> None:
    *_, kernel = kernels(product(dtype, dtype, 64, 64, 128, turned=True))
    assert "alloca [1024 x i8]" not in emit_kernel(kernel, TILES.llvm).text


@pytest.mark.parametrize(("m", "k"), [("m", 64), (64, "k"), ("m", "k")])
def test_panels_of_turned_operands_of_any_size_are_no_store_for_each_element(
    m: Size, k: Size
) -> None:
    found = kernels(product(i8, i8, m, 64, k, turned=True))
    assert sum(len(emit_kernel(kernel, TILES.llvm).text.splitlines()) for kernel in found) < 15000


def test_rows_and_steps_that_are_no_whole_tiles_are_copied() -> None:
    *_, kernel = kernels(product(bf16, bf16, 33, 64, 70))
    assert "alloca [1024 x i8]" in emit_kernel(kernel, TILES.llvm).text


def test_issues_are_read_off_their_loops() -> None:
    *_, kernel = kernels(product(i8, i8, 32, 32, 128))
    once = next(issues_in(kernel.body))
    assert once.instruction is not None
    loop = next(issues_in(once.body))
    issue = issue_of(loop, once.instruction)
    assert issue is not None
    assert (issue.rows, issue.lanes, issue.a.buffer) == (32, 32, "A")
    assert issue.strided_rows(0, 16, 64)
    assert issue.strided_rows(16, 16, 64)
    lanes = issue.strided_words(0, 16, 64, 4)
    assert lanes is not None
    assert lanes[1] != lanes[0]
    assert not issue.strided_words(0, 16, 64, 2)  # words are of four
    row, step = weft.Var(issue.row), weft.Var(issue.step)
    of_images = replace(issue.a.load, indices=(row // 20, row % 20, step))
    rows = replace(issue, a=replace(issue.a, load=of_images))
    assert rows.strided_rows(0, 16, 64)
    assert not rows.strided_rows(16, 16, 64)  # after 4 of them, those of the next image
    assert issue_of(once, once.instruction) is None  # around an issue, none itself


@pytest.mark.parametrize("m, n, k", SIZES)
def test_what_is_left_at_edges_are_issues_too(m: int, n: int, k: int) -> None:
    """A single row or lane, whose variable passes have replaced by 0, as well."""
    for kernel in kernels(product(i8, i8, m, n, k)):
        for once in issues_in(kernel.body):
            assert once.instruction is not None
            assert all(issue_of(each, once.instruction) for each in issues_in(once.body))


def test_sums_from_zero_begin_in_registers() -> None:
    @weft.kernel
    def multiply(A: bf16[64, 128], B: bf16[128, 64], C: bf16[64, 64]):
        for i in range(64):
            for j in range(64):
                total = f32(0)
                for k in range(128):
                    total += f32(A[i, k]) * f32(B[k, j])
                C[i, j] = bf16(total)

    *_, kernel = kernels(multiply)
    text = emit_kernel(kernel, TILES.llvm).text
    assert text.count("@llvm.x86.tilezero(i8 ") == 4
    issues = [each for once in issues_in(kernel.body) for each in issues_in(once.body)]
    found = issue_of(issues[0], next(matrix_unit for matrix_unit in matrix_units(TILES.llvm)))
    assert found is not None
    fills = [s for s in walk(kernel.body) if isinstance(s, Loop) and found.zeroed_by(s)]
    assert fills
    rows = fills[0]
    assert not found.zeroed_by(replace(rows, upper=literal(found.rows - 1)))  # not all of them


def test_triangles_do_without() -> None:
    @weft.kernel
    def lower(A: i8[64, 128], B: i8[128, 64], C: i32[64, 64]):
        for i in range(64):
            for j in range(i + 1):
                for k in range(128):
                    C[i, j] += i32(A[i, k]) * i32(B[k, j])

    assert not issued(kernels(lower)) & {unit.name for unit in matrix_units(TILES.llvm)}


def test_sums_of_a_length_that_a_call_brings_are_explained() -> None:
    """Their parts of the stream are statements of their own, which count as one."""
    size = weft.var("k")
    a = weft.placeholder((size, 40), dtype="uint8", name="a")
    b = weft.placeholder((size, 33), dtype="uint8", name="b")
    k = weft.reduce_axis((0, size), name="q")

    def sums(i: weft.Expr, j: weft.Expr) -> weft.Expr:
        return weft.sum(a[k, i].astype(i32) * b[k, j].astype(i32), k)

    c = weft.compute((40, 33), sums, name="c")
    found = weft.compile([c], options=OPTIONS)
    assert "tdpbuud" in found.explain() and "\n    estimate " in found.explain()


def test_strict_programs_keep_their_order() -> None:
    assert not issued(kernels(product(bf16, bf16, 32, 32, 64), replace(OPTIONS, strict=True)))


def test_processors_without_tiles_have_no_units() -> None:
    for name in ("x86-64-v4", "icelake-server", "znver5", "neoverse-v2"):
        assert not matrix_units(target_named(name).llvm)


def test_who_asks_for_tiles_gets_one_answer() -> None:
    assert request_amx() == request_amx() == bool(request_amx())
    named = {"amx-tile", "amx-int8", "amx-bf16"} & host_target().enabled
    assert request_amx() or not named


_REFUSED = """
import ctypes
class Stack(ctypes.Structure):
    _fields_ = [("sp", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
memory = ctypes.create_string_buffer(8192)
stack = Stack(ctypes.addressof(memory), 0, 8192)
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None) == 0
import numpy as np, weft
from weft.codegen.llvm.target import host_target
from weft.codegen.machines.host import host_processor
from weft.ir.scalar_expr import literal
from weft.codegen.amx_permission import request_amx
assert not request_amx()
assert "amx-tile" not in host_target().enabled
a, b = (weft.placeholder((40, 70), dtype="int8", name=name) for name in "ab")
k = weft.reduce_axis((0, 70), name="k")
c = weft.compute((40, 40), lambda i, j: weft.sum(
    a[i, k].astype("int32") * b[j, k].astype("int32"), axis=k), name="c")
run = weft.compile([c], options=weft.Options(cache=False, workers=0))
x = np.arange(2800).astype(np.int8).reshape(40, 70)
assert (run(x, x) == x.astype(int) @ x.T.astype(int)).all()
print(host_processor())
"""


def test_who_is_refused_tiles_does_without() -> None:
    """As where a thread's stack for signals is too small to save them. What was compiled with tiles
    is then another processor's."""
    if host_target().triple.split("-")[0] != "x86_64":
        pytest.skip("only x86-64 has tiles")
    command = [sys.executable, "-c", _REFUSED]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    if HERE:
        assert done.stdout.strip() != host_processor()


# ---- where there are tiles -----------------------------------------------------------------------

needs_tiles = pytest.mark.skipif(not HERE, reason="this processor has no matrix unit (AMX)")


@needs_tiles
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("left, right", KINDS)
def test_blocks_and_what_is_left_of_them(
    left: weft.DType, right: weft.DType, *, turned: bool
) -> None:
    # Copies that turn bytes are the same whatever their signs: a few sizes tell.
    sizes = SIZES if (left, right) in KINDS[:2] or not turned else SIZES[1::4]
    for m, n, k in sizes:
        a, b = numbers(left, (m, k)), numbers(right, (k, n))
        c = np.zeros((m, n), np.float32) if left == bf16 else numbers(i32, (m, n))
        want = expected(a, b, c)
        given = (a.T.copy(), b.T.copy()) if turned else (a, b)
        product(left, right, m, n, k, turned=turned).compile(options=OPTIONS)(*given, c)
        np.testing.assert_array_equal(c, want, err_msg=f"{m} {n} {k}")


@needs_tiles
@pytest.mark.parametrize("left, right", [(bf16, bf16), (u8, i8)])
def test_sizes_that_a_call_brings(left: weft.DType, right: weft.DType) -> None:
    multiply = of_any_size(left, right, f32 if left == bf16 else i32)
    assert issued(kernels(multiply))
    run = multiply.compile(options=OPTIONS)
    for m, n, k in [*SIZES, (1, 1, 1), (3, 40, 31), (40, 3, 2), (8, 8, 0)]:
        a, b = numbers(left, (m, k)), numbers(right, (k, n))
        c = np.zeros((m, n), np.float32) if left == bf16 else numbers(i32, (m, n))
        want = expected(a, b, c)
        run(a, b, c)
        np.testing.assert_array_equal(c, want, err_msg=f"{m} {n} {k}")


@needs_tiles
@pytest.mark.parametrize("m, n, k", [(33, 40, 70), (17, 16, 64), (64, 33, 97)])
def test_nothing_outside_is_touched(m: int, n: int, k: int) -> None:
    """Arrays end, or begin, at pages that nobody may touch."""
    a, b, c = numbers(i8, (m, k)), numbers(i8, (k, n)), numbers(i32, (m, n))
    arrays = {"A": a.ravel(), "B": b.ravel(), "C": c.ravel()}
    found = kernels(product(i8, i8, m, n, k))
    for at_end in (True, False):
        memory = dict(arrays)
        for kernel in found:
            for buffer in kernel.buffers:
                size = int(np.prod([int(s.value) for s in buffer.shape]))  # type: ignore[attr-defined]
                memory.setdefault(buffer.name, np.zeros(size, buffer.dtype.numpy))
            memory |= Compiled(kernel, TILES.llvm)({}, memory, at_end)[0]
        np.testing.assert_array_equal(memory["C"].reshape(m, n), expected(a, b, c))


@needs_tiles
def test_what_follows_an_array_is_not_multiplied() -> None:
    """Infinity and NaN behind the last step and the last row, which zeros would not cancel."""
    m, n, k = 19, 21, 45
    a, b = (np.full(1 << 14, np.nan, bf16.numpy) for _ in range(2))
    left, right = a[: m * k].reshape(m, k), b[: k * n].reshape(k, n)
    left[...], right[...] = numbers(bf16, (m, k)), numbers(bf16, (k, n))
    c = np.zeros((m, n), np.float32)
    product(bf16, bf16, m, n, k).compile(options=OPTIONS)(left, right, c)
    np.testing.assert_array_equal(c, expected(left, right, np.zeros((m, n), np.float32)))


@needs_tiles
def test_not_a_number_and_infinity_go_through() -> None:
    a, b = np.full((40, 64), np.inf, bf16.numpy), np.ones((64, 33), bf16.numpy)
    b[3, 4], a[2, 1] = np.nan, -np.inf
    c = np.zeros((40, 33), np.float32)
    product(bf16, bf16, 40, 33, 64).compile(options=OPTIONS)(a, b, c)
    assert np.isnan(c[:, 4]).all() and np.isnan(c[2]).all()
    assert np.isposinf(np.delete(np.delete(c, 2, 0), 4, 1)).all()


@needs_tiles
def test_sums_are_within_the_bound() -> None:
    m, n, k = 50, 60, 700
    a, b = (random.standard_normal(s).astype(bf16.numpy) for s in ((m, k), (k, n)))
    c = np.zeros((m, n), np.float32)
    product(bf16, bf16, m, n, k).compile(options=OPTIONS)(a, b, c)
    exact = a.astype(float) @ b.astype(float)
    scale = np.abs(a.astype(float)) @ np.abs(b.astype(float))
    u = 2.0**-24 * (k + 1)
    assert (np.abs(c - exact) <= 2 * u / (1 - u) * scale + k * 2.0**-126).all()


@needs_tiles
@pytest.mark.parametrize("rows, lanes, fits", [(16, 16, True), (16, 96, True), (64, 64, False)])
def test_tiles_of_other_shapes(
    monkeypatch: pytest.MonkeyPatch, rows: int, lanes: int, *, fits: bool
) -> None:
    """Also more than the registers hold, which then are ordinary loops."""

    def only(_: object, __: object, row: str, lane: str) -> list[Choice]:
        return [Choice({row: rows}, (lane, lanes), 0.0)]

    monkeypatch.setattr(product_costs, "_blocks", only)
    multiply = product(i8, i8, 64, 128, 130)
    *_, kernel = kernels(multiply)
    assert ("@llvm.x86.tdpbssd" in emit_kernel(kernel, TILES.llvm).text) == fits
    a, b, c = numbers(i8, (64, 130)), numbers(i8, (130, 128)), numbers(i32, (64, 128))
    want = expected(a, b, c)
    multiply.compile(options=OPTIONS)(a, b, c)
    np.testing.assert_array_equal(c, want)


@pytest.mark.skipif(not HERE, reason="this processor has no tiles")
def test_sums_of_fewer_lanes_than_a_block_stay_in_their_buffer() -> None:
    """Where rows and steps are not known, blocks have 32 lanes; what follows the sums has 16."""
    m, k = weft.var("m"), weft.var("k")
    a, b = (weft.placeholder((n, k), dtype="int8", name=name) for n, name in ((m, "A"), (16, "B")))
    q = weft.reduce_axis((0, k), name="q")
    c = weft.compute(
        (m, 16), lambda i, j: weft.sum(a[i, q].astype(i32) * b[j, q].astype(i32), q), name="C"
    )
    found = weft.compile(
        [weft.compute((m, 16), lambda i, j: c[i, j] + 1, name="D")], options=OPTIONS
    )
    left, right = numbers(i8, (100, 129)), numbers(i8, (16, 129))
    result = found(left, right)
    np.testing.assert_array_equal(result, left.astype(np.int32) @ right.astype(np.int32).T + 1)
