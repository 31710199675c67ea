"""What processors are asked agrees with what LLVM finds out about them."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import llvmlite.binding as llvm
import pytest

from weft.codegen.llvm.processor import plain, processor_check
from weft.codegen.llvm.target import LlvmTarget, host_target, to_object
from weft.codegen.objects.merge_objects import merge_objects
from weft.codegen.objects.native_library import link_by_llvm as link

HOST = host_target()
TABLES = {
    "x86_64": (
        "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "movbe", "avx", "f16c", "avx2", "fma",
        "bmi", "bmi2", "lzcnt", "adx", "gfni", "avx512f", "avx512cd", "avx512bw", "avx512dq",
        "avx512vl", "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512bitalg", "avx512vpopcntdq",
        "avx512vnni", "avx512bf16", "avx512fp16", "avxvnni", "avxvnniint8", "avxvnniint16",
        "avxifma", "avxneconvert", "amx-tile", "amx-int8", "amx-bf16", "xop", "fma4", "tbm",
    ),
    "aarch64": (
        "fp-armv8", "neon", "crc", "lse", "fullfp16", "dotprod", "i8mm", "bf16", "sve", "sve2",
    ),
}  # fmt: skip
FEATURES = TABLES.get(HOST.triple.split("-")[0], ())


def _module(target: LlvmTarget) -> str:
    lines = [f'target triple = "{target.triple}"', *processor_check(target, "fits")]
    lines += ["define i1 @ask() {", "  %good = call i1 @fits()", "  ret i1 %good", "}"]
    return "\n".join(lines)


def _fits(features: str) -> bool:
    target = replace(HOST, features=features)
    tracker = link([to_object(_module(target), plain(target))], ["ask"], {})
    ask = ctypes.CFUNCTYPE(ctypes.c_bool)(tracker["ask"])
    answers = {ask() for _ in range(3)}
    assert len(answers) == 1  # what it remembers is what it found
    return answers.pop()


@pytest.mark.parametrize("feature", FEATURES)
def test_each_feature(feature) -> None:
    known = llvm.get_host_cpu_features()
    assert _fits(f"+{feature}") == bool(known.get(feature))
    assert _fits(f"-{feature}")


def test_this_processor_runs_what_is_compiled_for_it() -> None:
    assert _fits(HOST.features)


def test_one_missing_feature_is_enough() -> None:
    missing = [f for f in FEATURES if not llvm.get_host_cpu_features().get(f)]
    if not missing:
        pytest.skip("this processor has everything")
    for feature in missing:
        assert not _fits(f"{HOST.features},+{feature}")


def test_nobody_is_asked_about_what_is_not_known() -> None:
    assert _fits("")
    assert _fits("+no-such-feature")


@pytest.mark.parametrize("family", ["x86_64", "aarch64", "riscv64"])
def test_code_for_each_family(family) -> None:
    features = ",".join(f"+{feature}" for feature in TABLES.get(family, ()))
    target = replace(HOST, triple=f"{family}-unknown-linux-gnu", features=features)
    assert list(merge_objects([to_object(_module(target), plain(target))], {"ask": "ask"}))
