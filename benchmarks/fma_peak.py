"""What a core can multiply and add: a loop of independent instructions in registers.

Vectors have at least a dozen sums, a matrix unit as many as its registers hold (``tile_peak``).
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from weft.benchmarks import tile_peak
from weft.codegen.llvm.target import LlvmTarget, host_target, to_object
from weft.codegen.objects.native_library import link

_TURNS = 200_000


@dataclass(frozen=True, slots=True)
class Unit:
    """A multiply-add instruction on ``dtype``: its intrinsic, the element type of accumulators and
    of operands, how many operands there are for each accumulator, and the feature it needs."""

    dtype: str
    intrinsic: str
    accumulator: str
    operand: str
    depth: int = 1
    feature: str = ""


UNITS = (
    Unit("float32", "llvm.fma", "float", "float"),
    Unit("float64", "llvm.fma", "double", "double"),
    Unit("bfloat16", "llvm.x86.avx512bf16.dpbf16ps.512", "float", "bfloat", 2, "+avx512bf16"),
    Unit("int8", "llvm.x86.avx512.vpdpbusd.512", "i32", "i8", 4, "+avx512vnni"),
)
_BYTES = {"float": 4, "double": 8, "i32": 4}


def unit_of(dtype: str, target: LlvmTarget) -> Unit:
    """The instruction that multiplies ``dtype`` fastest; products of what has none of its own are
    those of float32."""
    fit = [u for u in UNITS if u.dtype == dtype and u.feature in ("", *target.features.split(","))]
    return fit[0] if fit else UNITS[0]


def accumulators(vector_bytes: int) -> int:
    """More than latency times units, fewer than registers: 24, or 12 where there are 16 of them."""
    return 24 if vector_bytes == 64 else 12


class FmaPeak:
    """Calling it runs the loop once; ``operations`` (multiplications and additions) of one run."""

    def __init__(self, dtype: str = "float64") -> None:
        target = host_target()
        tiles = tile_peak.unit_for(dtype, target)
        if tiles is not None:
            turns = _TURNS // 16
            self.operations = turns * tile_peak.operations(tiles)
            text = tile_peak.loop(tiles, turns)
        else:
            unit = unit_of(dtype, target)
            chains = accumulators(target.vector_bytes)
            lanes = target.vector_bytes // _BYTES[unit.accumulator]
            self.operations = 2.0 * lanes * unit.depth * chains * _TURNS
            text = loop(unit, target.vector_bytes, chains)
        self._tracker = link([to_object(text, target)], ("fma_peak",), {})
        self._run = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(self._tracker["fma_peak"])

    def __call__(self) -> None:
        self._run(3.0)


def loop(unit: Unit, vector_bytes: int, chains: int) -> str:
    """LLVM text of ``chains`` multiply-adds of whole vectors that wait for nothing but themselves.

    They start from values that LLVM does not know: it folds what it can tell.
    """
    doubles = f"<{vector_bytes // 8} x double>"
    lanes = vector_bytes // _BYTES[unit.accumulator]
    vector = f"<{lanes} x {unit.accumulator}>"
    operand = f"<{lanes * unit.depth} x {unit.operand}>"
    dot = unit.depth > 1
    name = f"{unit.intrinsic}" if dot else f"llvm.fma.v{lanes}f{8 * _BYTES[unit.accumulator]}"
    signature = f"{vector}, {operand}, {operand}"

    def splat(kind: str, count: int, value: str) -> str:
        return f"<{', '.join([f'{kind} {value}'] * count)}>"

    def arguments(chain: int) -> str:
        if dot:
            return f"{vector} %a{chain}, {operand} %b, {operand} %b"
        half, one = (splat(unit.accumulator, lanes, value) for value in ("5.0e-1", "1.0"))
        return f"{vector} %a{chain}, {vector} {half}, {vector} {one}"

    starts = [
        f"  %one = insertelement {doubles} poison, double %start, i32 0",
        f"  %all = shufflevector {doubles} %one, {doubles} poison,"
        f" <{vector_bytes // 8} x i32> zeroinitializer",
        *([f"  %b = bitcast {doubles} %all to {operand}"] if dot else []),
    ]
    for k in range(chains):
        starts += [
            f"  %u{k} = fadd {doubles} %all, {splat('double', vector_bytes // 8, f'{k}.0')}",
            f"  %v{k} = bitcast {doubles} %u{k} to {vector}",
        ]
    numbers = range(chains)
    add = "add" if unit.accumulator.startswith("i") else "fadd"
    sums = [f"  %t0 = {add} {vector} %a0n, %a1n"]
    sums += [f"  %t{k - 1} = {add} {vector} %t{k - 2}, %a{k}n" for k in range(2, chains)]
    return "\n".join(
        [
            f"declare {vector} @{name}({signature})",
            "define double @fma_peak(double %start) {",
            "entry:",
            *starts,
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %in, %loop ]",
            *(f"  %a{k} = phi {vector} [ %v{k}, %entry ], [ %a{k}n, %loop ]" for k in numbers),
            *(f"  %a{k}n = call {vector} @{name}({arguments(k)})" for k in range(chains)),
            "  %in = add i64 %i, 1",
            f"  %more = icmp slt i64 %in, {_TURNS}",
            "  br i1 %more, label %loop, label %done",
            "done:",
            *sums,
            f"  %w = bitcast {vector} %t{chains - 2} to {doubles}",
            f"  %r = extractelement {doubles} %w, i32 0",
            "  ret double %r",
            "}",
        ]
    )
