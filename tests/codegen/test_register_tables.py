"""Tables in registers: the entry that the low bits say, in any number of lanes."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from weft.codegen.llvm.builder import Builder, Value
from weft.codegen.llvm.target import host_target, llvm_target, to_object
from weft.codegen.math_exponential import entries, pick
from weft.codegen.math_values import INTEGER, Number
from weft.codegen.objects.native_library import link

WIDE = "avx512f" in host_target().enabled


@pytest.mark.skipif(not WIDE, reason="a processor with AVX-512")
@pytest.mark.parametrize("registers", [1, 2])
@pytest.mark.parametrize("lanes", [0, 1, 3, 8, 16, 32])
@pytest.mark.parametrize("type_", ["float", "double"])
def test_the_entry_of_each_lane(type_: str, lanes: int, registers: int) -> None:
    size = {"float": 4, "double": 8}[type_]
    if lanes * size > 64 and lanes % (64 // size):
        return
    table = [float(k * k) for k in range(registers * 64 // size)]
    b = Builder(host_target().enabled)
    index = b.load(Value("%from", "ptr"), INTEGER[type_], lanes, align=size)
    b.store(pick(table, Number(b, index), type_).value, Value("%to", "ptr"), align=size)
    b.line("ret void")
    text = b.finish("void @picked(ptr %from, ptr %to)")
    code = to_object("\n".join([*b.declarations, text]), host_target())
    library = link([code], ("picked",), {})
    numbers = np.random.default_rng(lanes).integers(-100, 100, max(lanes, 1))
    given = numbers.astype(f"i{size}")
    found = np.zeros(given.size, f"f{size}")
    called = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library["picked"])
    called(given.ctypes.data, found.ctypes.data)
    np.testing.assert_array_equal(found, np.array(table)[numbers % len(table)])


@pytest.mark.parametrize(
    "features, type_, lanes, expected",
    [
        ({"avx512f"}, "float", 16, 16), ({"avx512f"}, "float", 0, 16),
        ({"avx512f"}, "double", 8, 8), ({"avx512f"}, "float", 17, 0),
        ({"avx512f"}, "double", 16, 8), ({"avx2", "fma"}, "float", 8, 0),
        (set(), "float", 0, 0),
    ],
)  # fmt: skip
def test_who_can_pick(features: set[str], type_: str, lanes: int, expected: int) -> None:
    enabled = llvm_target("x86_64-unknown-linux-gnu", "", features).enabled
    number = Number(Builder(enabled), Value("%x", type_, lanes))
    assert entries(number) == expected
