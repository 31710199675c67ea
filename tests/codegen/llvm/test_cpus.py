from __future__ import annotations

from dataclasses import replace

import llvmlite.binding as llvm
import pytest

from weft.codegen.architectures import AARCH64, X86_64
from weft.codegen.llvm.cpus import cpu_features, cpu_names
from weft.codegen.llvm.target import host_target, inspect, llvm_target

# The x86-64 psABI's table of levels, those parts of it that code generators use.
V2 = {"cmov", "cx8", "sse", "sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"}
V3 = V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


@pytest.mark.parametrize(("cpu", "features"), [("x86-64-v2", V2), ("x86-64-v3", V3)])
def test_levels_are_those_of_the_abi(cpu: str, features: set[str]) -> None:
    assert cpu_features(X86_64, cpu) == features


def test_wide_vectors_and_dot_products() -> None:
    assert cpu_features(X86_64, "x86-64-v4") == V4
    assert cpu_features(X86_64, "skylake-avx512") & {"avx512vnni", "avx512vl"} == {"avx512vl"}
    for cpu in ("znver5", "sapphirerapids"):
        assert cpu_features(X86_64, cpu) >= V4 | {"avx512vnni", "avx512bf16"}


@pytest.mark.parametrize(
    ("cpu", "has", "lacks"),
    [
        ("cortex-a53", {"neon"}, {"dotprod", "lse", "sve"}),
        ("neoverse-n1", {"neon", "dotprod", "fullfp16", "lse"}, {"sve", "i8mm", "bf16"}),
        ("neoverse-v2", {"neon", "dotprod", "sve", "sve2", "i8mm", "bf16"}, set()),
        ("apple-m1", {"neon", "dotprod", "fullfp16"}, {"sve", "bf16"}),
        ("generic", {"neon"}, {"dotprod", "lse"}),
    ],
)
def test_arm_processors(cpu: str, has: set[str], lacks: set[str]) -> None:
    found = cpu_features(AARCH64, cpu)
    assert found >= has and not found & lacks


def test_features_given_besides_count() -> None:
    assert "dotprod" in cpu_features(AARCH64, "generic", "+dotprod")


def test_old_processors_have_nothing_and_end_no_process() -> None:
    assert cpu_features(X86_64, "i486") == cpu_features(X86_64, "lakemont") == frozenset()


def test_names() -> None:
    assert {"znver5", "skylake-avx512", "x86-64-v3"} <= set(cpu_names(X86_64))
    assert {"neoverse-n1", "cortex-a53"} <= set(cpu_names(AARCH64))
    for architecture in (X86_64, AARCH64):
        assert "generic" not in cpu_names(architecture)
        assert all(" " not in name for name in cpu_names(architecture))


def test_llvm_knows_the_listed_features() -> None:
    if not host_target().triple.startswith("x86_64"):
        pytest.skip("LLVM lists the features of the family that it runs on")
    assert set(X86_64.features) <= set(llvm.get_host_cpu_features())


_UNASKED = """
define void @f(ptr %a, ptr %b, ptr %c, float %y) {
  %x = load <8 x i8>, ptr %a, align 1
  %z = load <8 x i8>, ptr %b, align 1
  %s = shufflevector <8 x i8> %x, <8 x i8> %z,
    <8 x i32> <i32 0, i32 1, i32 2, i32 8, i32 9, i32 10, i32 11, i32 12>
  store <8 x i8> %s, ptr %c, align 1
  %d = getelementptr i8, ptr %c, i64 8
  store float %y, ptr %d, align 4, !nontemporal !0
  ret void
}
!0 = !{i32 1}
"""


@pytest.mark.parametrize("cpu", ["znver5", "znver1", "bdver4", "btver2", "amdfam10"])
def test_code_uses_nothing_that_nobody_looks_for(cpu: str) -> None:
    """What a name implies beside the features that are compared before code runs: SSE4A."""
    target = llvm_target(X86_64.triple, cpu, cpu_features(X86_64, cpu))
    words = inspect(_UNASKED, target).assembly.split()
    assert "f:" in words and not {"insertq", "extrq", "movntss"} & set(words)
    plain = replace(target, features="+64bit")
    assert {"insertq", "extrq", "movntss"} & set(inspect(_UNASKED, plain).assembly.split())


_EXCLUSIVE = """
define <16 x i8> @f(<16 x i8> %x, <16 x i8> %y, <16 x i8> %z) {
  %a = xor <16 x i8> %x, %y
  %b = xor <16 x i8> %a, %z
  ret <16 x i8> %b
}
"""


@pytest.mark.parametrize("cpu", ["apple-m1", "oryon-1"])
def test_arm_code_uses_nothing_that_nobody_looks_for(cpu: str) -> None:
    """SHA3 has an instruction for two exclusive ors (as SVE2 has, which is looked for)."""
    target = llvm_target(AARCH64.triple, cpu, cpu_features(AARCH64, cpu))
    assert "eor3" not in inspect(_EXCLUSIVE, target).assembly
    plain = replace(target, features="")
    assert "eor3" in inspect(_EXCLUSIVE, plain).assembly
