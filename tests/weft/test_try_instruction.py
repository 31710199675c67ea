"""Instructions that users describe are assembled and tried out before the first use."""

import re
import subprocess
import sys

import numpy as np
import pytest

import weft
from tests.weft.own_instructions import WIDE, both_signs, fused, multiply, pairs_of
from weft.codegen.llvm.target import host_target
from weft.codegen.machines.host import host, host_machine
from weft.driver.compiler import lower_loops
from weft.driver.targets import target_for, tried
from weft.ir.errors import CompileError
from weft.ir.loop_ir import For, walk

X86 = pytest.mark.skipif(not host_target().triple.startswith("x86_64"), reason="x86-64 text")


@pytest.mark.long
def test_used_in_place_of_the_machines_own() -> None:
    faster = fused(cycles=1 / 64)  # than those of any processor
    options = weft.Options(instructions=(faster,), threads=1, cache=False, workers=0)
    lowered = lower_loops(multiply.lowered, options)
    loops = (s for k in lowered.program.kernels for s in walk(k.body) if isinstance(s, For))
    assert {x.instruction.name for x in loops if x.instruction} == {"fused"}
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((19, 7), np.float32), rng.standard_normal((7, 35), np.float32)
    c = np.zeros((19, 35), np.float32)
    multiply.compile(options=options)(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.long
def test_the_machines_own_are_what_they_say() -> None:
    for one in host_machine().extensions:
        tried(one, host())


def test_a_wrong_order_of_arguments_is_found() -> None:
    wrong = fused(weft.Intrinsic("llvm.fma.v8f32", ("acc", "b", "a")))
    with pytest.raises(CompileError, match="E0021") as error:
        multiply.compile(options=weft.Options(instructions=(wrong,), cache=False))
    assert "not" in error.value.why


@pytest.mark.long
@X86
def test_text_that_is_no_instruction_ends_no_process() -> None:
    text = weft.Assembly("vbogus $1, $0", "=x,x,0", ("b", "acc"))
    with pytest.raises(CompileError, match="E0021") as error:
        tried(fused(text), host())
    assert "does not run" in error.value.what and "vbogus" in error.value.why


def test_signatures_that_llvm_refuses() -> None:
    with pytest.raises(CompileError, match="E0021"):
        tried(fused(weft.Intrinsic("llvm.fma.v8f32", ("a", "acc"))), host())


SCRIPT = """
import weft
from tests.weft.own_instructions import WIDE, both_signs, fused, multiply, pairs_of

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


@pytest.mark.long
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


@pytest.mark.long
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


def test_two_of_one_name() -> None:
    """Each is what it says, in one kernel, too."""
    first, second = pairs_of("i8", "sext"), pairs_of("u8", "zext")
    assert first.name == second.name
    options = weft.Options(instructions=(first, second), threads=1, cache=False)
    run = both_signs.compile(options=options)
    assert len(set(re.findall(r"call <8 x i32> (@weft_pairs\w*)", run.source("llvm")))) == 2
    rng = np.random.default_rng(1)
    a = rng.integers(-128, 128, (12, 16)).astype(np.int8)
    u = rng.integers(0, 256, (12, 16)).astype(np.uint8)
    b = rng.integers(-128, 128, (16, 24)).astype(np.int8)
    c, d = np.zeros((2, 12, 24), np.int32)
    run(a, u, b, c, d)
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32))
    np.testing.assert_array_equal(d, u.astype(np.int32) @ b.astype(np.int32))
