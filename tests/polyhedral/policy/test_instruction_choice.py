"""Instructions are chosen by what they cost, whoever describes them; ``explain`` says why not."""

# ruff: noqa: F821  (sizes of a signature are names in the function's body)

import numpy as np
import pytest

import weft
from tests.weft.own_instructions import fused, multiply
from weft.codegen.machines.host import host
from weft.driver.compiler import lower_loops
from weft.driver.options import Options
from weft.ir.loop_ir import For
from weft.ir.loop_ir import walk as walk_loops
from weft.loop_kernel import Kernel


def dot(lanes: int, cycles: float = 0.5, name: str = "mine") -> weft.Instruction:
    """``vpdpbusd`` of so many lanes."""
    a, b = weft.placeholder((4,), "uint8", name="a"), weft.placeholder((lanes, 4), "int8", name="b")
    q = weft.reduce_axis((0, 4), name="q")
    whole = weft.compute(
        (lanes,), lambda i: weft.sum(weft.i32(a[q]) * weft.i32(b[i, q]), q), name=name
    )
    emit = weft.Intrinsic(f"llvm.x86.avx512.vpdpbusd.{lanes * 32}", (name, "a", "b"))
    made: weft.Instruction = weft.instruction(whole, emit=emit, cycles=cycles)
    return made


@weft.kernel
def open_sizes(A: weft.u8["M", "K"], B: weft.i8["K", "N"], C: weft.i32["M", "N"]):
    for i in range(M):
        for j in range(N):
            for k in range(K):
                C[i, j] += weft.i32(A[i, k]) * weft.i32(B[k, j])


@weft.kernel
def known_sizes(A: weft.u8[96, 128], B: weft.i8[128, 64], C: weft.i32[96, 64]):
    for i in range(96):
        for j in range(64):
            for k in range(128):
                C[i, j] += weft.i32(A[i, k]) * weft.i32(B[k, j])


@weft.kernel
def one_size(A: weft.u8["M", 130], B: weft.i8[130, "N"], C: weft.i32["M", "N"]):
    for i in range(M):
        for j in range(N):
            for k in range(130):
                C[i, j] += weft.i32(A[i, k]) * weft.i32(B[k, j])


@weft.kernel
def one_row(x: weft.f32["K"], B: weft.f32["K", "N"], y: weft.f32["N"]):
    for j in range(N):
        for k in range(K):
            y[j] += x[k] * B[k, j]


def issued(kernel: Kernel, *instructions: weft.Instruction, target: str = "znver5") -> set[object]:
    """(name, lanes) of the instructions that the kernel issues."""
    options = Options(instructions=instructions, target=target, threads=1, cache=False)
    lowered = lower_loops(kernel.lowered, options)
    loops = (s for k in lowered.program.kernels for s in walk_loops(k.body) if isinstance(s, For))
    return {(x.instruction.name, x.instruction.lanes) for x in loops if x.instruction}


KERNELS = [open_sizes, known_sizes, one_size]


@pytest.mark.long
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("name", ["mine", "vpdpbusd"])
def test_a_narrower_one_is_not_used(kernel: Kernel, name: str) -> None:
    assert issued(kernel, dot(8, name=name)) == issued(kernel) == {("vpdpbusd", 16)}


@pytest.mark.long
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_one_that_takes_less_is(kernel: Kernel) -> None:
    assert issued(kernel, dot(16, 0.25)) == {("mine", 16)}
    assert issued(kernel, dot(16)) == {("mine", 16)}, "of equal ones the user's own"
    if kernel is not known_sizes:  # where it is known how many tiles there are, their loads count
        assert issued(kernel, dot(8, 0.125)) == {("mine", 8)}


@pytest.mark.long
@pytest.mark.parametrize("kernel", [multiply, one_row], ids=lambda k: k.__name__)
def test_multiply_adds_are_not_done_by_slower_ones(kernel: Kernel) -> None:
    assert issued(kernel, fused(cycles=0.5), target="x86-64-v3") == {("fused", 8)}
    assert issued(kernel, fused(cycles=0.5), target="x86-64-v4") == set()
    assert issued(kernel, fused(cycles=0.25), target="x86-64-v4") == {("fused", 8)}
    assert issued(kernel, fused(cycles=100.0), target="x86-64-v3") == set()


@pytest.mark.long
@pytest.mark.parametrize("target", ["znver5", "sapphirerapids"])
@pytest.mark.parametrize("kernel", [open_sizes, known_sizes], ids=lambda k: k.__name__)
def test_explain_says_of_each_why_not(kernel: Kernel, target: str) -> None:
    options = Options(
        instructions=(dot(8), dot(8, name="vpdpbusd")), target=target, threads=1, cache=False
    )
    text = kernel.compile(options=options).explain()
    unit = target == "sapphirerapids"
    used, rate = ("tdpbusd", 1024) if unit else ("vpdpbusd", 128)
    narrow = f"64 steps in a cycle, {used} {rate}"
    heading, *lines = text.partition("  instructions that are not used\n")[2].splitlines()
    found = dict(
        line.removeprefix("    S0 not by ").split(": ", 1)
        for line in (heading, *lines[: lines.index("  costs, estimated for one thread")])
    )
    assert found["mine"] == found["vpdpbusd of 8 lanes"] == narrow
    assert not {"vdpbf16ps", used} & found.keys()  # that one is for sums of float32


def test_explain_is_silent_about_instructions_for_other_dtypes() -> None:
    @weft.kernel
    def doubles(A: weft.f64["N", "K"], B: weft.f64["K", "M"], C: weft.f64["N", "M"]):
        for i in range(C.shape[0]):
            for j in range(C.shape[1]):
                for k in range(A.shape[1]):
                    C[i, j] += A[i, k] * B[k, j]

    options = Options(instructions=(dot(8),), target="znver5", threads=1, cache=False)
    run = doubles.compile(doubles.schedule(), options=options)
    assert "instructions that are not used" not in run.explain()


def test_explain_of_a_schedule_without_tiles() -> None:
    options = Options(instructions=(dot(8),), target="znver5", threads=1, cache=False)
    text = open_sizes.compile(open_sizes.schedule(), options=options).explain()
    assert "    S0 not by mine: the schedule has no register tile of S0\n" in text


@pytest.mark.long
@pytest.mark.skipif("avx512vnni" not in host().llvm.enabled, reason="runs AVX-512 VNNI")
@pytest.mark.parametrize("cycles", [0.5, 0.125])
def test_either_computes_what_numpy_does(cycles: float) -> None:
    r = np.random.default_rng(0)
    options = Options(instructions=(dot(8, cycles),), threads=1, cache=False)
    for m, n, k in ((96, 64, 128), (7, 33, 13)):
        a = r.integers(0, 256, (m, k)).astype(np.uint8)
        b = r.integers(-128, 128, (k, n)).astype(np.int8)
        c = np.zeros((m, n), np.int32)
        open_sizes.compile(options=options)(a, b, c)
        np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32))
        if m == 96:
            c[:] = 0
            known_sizes.compile(options=options)(a, b, c)
            np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32))
