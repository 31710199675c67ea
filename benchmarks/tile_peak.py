"""What a matrix unit (Intel's tiles) can multiply and add: a loop of products in registers."""

from __future__ import annotations

from weft.codegen.llvm.target import LlvmTarget
from weft.codegen.llvm.tiles import layout_of_tiles
from weft.codegen.machines.matrix_units import matrix_units
from weft.ir.instruction import Instruction

SUMS = 6  # registers that wait for nothing but themselves; two more have the operands


def unit_for(dtype: str, target: LlvmTarget) -> Instruction | None:
    """The matrix unit that multiplies ``dtype``; None where ``target`` has none."""
    names = {"bfloat16": "tdpbf16ps", "int8": "tdpbssd"}
    found = (unit for unit in matrix_units(target) if unit.name == names.get(dtype))
    return next(found, None)


def operations(unit: Instruction) -> float:
    """Multiplications and additions of one turn of the loop."""
    total = 2.0 * SUMS
    for extent in unit.extents.values():
        total *= extent
    return total


def loop(unit: Instruction, turns: int) -> str:
    """LLVM text of ``fma_peak``, which runs so many turns."""
    assert unit.unit is not None, "it is a matrix unit"
    symbol = unit.unit.symbol
    products = [f"  call void @{symbol}(i8 {k}, i8 {SUMS}, i8 {SUMS + 1})" for k in range(SUMS)]
    zeros = [f"  call void @llvm.x86.tilezero(i8 {k})" for k in range(SUMS + 2)]
    return "\n".join(
        [
            *layout_of_tiles("@layout"),
            "declare void @llvm.x86.ldtilecfg(ptr)",
            "declare void @llvm.x86.tilezero(i8)",
            "declare void @llvm.x86.tilerelease()",
            f"declare void @{symbol}(i8, i8, i8)",
            "define double @fma_peak(double %start) {",
            "entry:",
            "  call void @llvm.x86.ldtilecfg(ptr @layout)",
            *zeros,
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %in, %loop ]",
            *products,
            "  %in = add i64 %i, 1",
            f"  %more = icmp slt i64 %in, {turns}",
            "  br i1 %more, label %loop, label %done",
            "done:",
            "  call void @llvm.x86.tilerelease()",
            "  ret double %start",
            "}",
        ]
    )
