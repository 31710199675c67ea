"""Dot products of small integers and of bfloat16, as instructions of processors.

    x86-64    vpdpbusd      acc[lane] += sum of 4 u8 * s8     avx512vnni, avxvnni
              vdpbf16ps     acc[lane] += sum of 2 bfloat16    avx512bf16
    AArch64   sdot, udot    acc[lane] += sum of 4 s8 * s8, u8 * u8      dotprod
              usdot         acc[lane] += sum of 4 u8 * s8               i8mm
              bfdot         acc[lane] += sum of 2 bfloat16              bf16

Sums of integers wrap modulo 2**32, as in the program (saturating variants are not used).
``vpdpbusd`` takes a signed and an unsigned operand: for operands of equal signedness the sign bits
of the first are flipped, and the effect is subtracted.

``vdpbf16ps`` flushes subnormals and rounds to nearest even in an order of its own. With u = 2**-24,
the error of a sum of n products is at most n * u / (1 - n * u) of the sum of their absolute values
(twice that for ``bfdot``, which may round each product) plus n * 2**-126 for flushing: the bound of
a plain float32 sum, except for flushing.
"""

from __future__ import annotations

from collections.abc import Set

from weft.codegen.llvm.target import LlvmTarget
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.dtypes import DType
from weft.ir.instruction import (
    ACCUMULATOR,
    Instruction,
    Intrinsic,
    Offset,
    Operand,
)
from weft.ir.scalar_expr import Load, Var, cast, literal
from weft.ir.scop import Access, Body, Statement, Update

_ROUNDS = "subnormals count as 0, and a sum of two products is rounded in an order of its own"
s8, u8, bf16 = dtypes.int8, dtypes.uint8, dtypes.bfloat16
CYCLES = 0.5  # of one, where two units do them, as multiply-adds: Agner Fog, "Instruction tables"


def dot_products(target: LlvmTarget, registers: int) -> tuple[Instruction, ...]:
    """The instructions that ``target`` has, the best of each kind first."""
    has = target.enabled
    if target.triple.startswith("aarch64"):
        return tuple(_arm(has, registers))
    if target.triple.startswith("x86_64"):
        return tuple(_intel(has, target.vector_bytes, registers))
    return ()


def _intel(has: Set[str], vector_bytes: int, registers: int) -> list[Instruction]:
    bits, lanes = vector_bytes * 8, vector_bytes // 4
    found = []
    if "avx512vnni" in has or ("avxvnni" in has and bits <= 256):
        symbol = f"llvm.x86.avx512.vpdpbusd.{bits}"
        first, second = Intrinsic(symbol, _ABC), Intrinsic(symbol, (ACCUMULATOR, "b", "a"))
        found += [
            dot_product("vpdpbusd", (u8, s8), 4, lanes, registers, first),
            dot_product("vpdpbusd", (s8, u8), 4, lanes, registers, second),
            dot_product("vpdpbusd", (s8, s8), 4, lanes, registers, first, Offset("a", 128)),
            dot_product("vpdpbusd", (u8, u8), 4, lanes, registers, second, Offset("a", -128)),
        ]
    if "avx512bf16" in has:
        emission = Intrinsic(f"llvm.x86.avx512bf16.dpbf16ps.{bits}", _ABC)
        found.append(dot_product("vdpbf16ps", (bf16, bf16), 2, lanes, registers, emission))
    return found


def _arm(has: Set[str], registers: int) -> list[Instruction]:
    found = []

    def add(name: str, types: tuple[DType, DType], depth: int, arguments: tuple[str, ...]) -> None:
        kinds = "v4f32.v8bf16" if depth == 2 else "v4i32.v16i8"
        emission = Intrinsic(f"llvm.aarch64.neon.{name}.{kinds}", arguments)
        found.append(dot_product(name, types, depth, 4, registers, emission))

    if "dotprod" in has:
        add("sdot", (s8, s8), 4, _ABC)
        add("udot", (u8, u8), 4, _ABC)
    if "i8mm" in has:
        add("usdot", (u8, s8), 4, _ABC)
        add("usdot", (s8, u8), 4, (ACCUMULATOR, "b", "a"))
    if "bf16" in has:
        add("bfdot", (bf16, bf16), 2, _ABC)
    return found


_ABC = (ACCUMULATOR, "a", "b")


def dot_product(
    name: str,
    types: tuple[DType, DType],
    depth: int,
    lanes: int,
    registers: int,
    emission: Intrinsic,
    offset: Offset | None = None,
) -> Instruction:
    """``acc[lane] += sum over q < depth of a[q] * b[lane, q]``, in ``int32`` or ``float32``; ``a``
    is one word for all lanes."""
    lane, q = Var("lane"), Var("q")
    result = dtypes.float32 if types[0].is_float else dtypes.int32
    a, b = (cast(Load(k, (), dtype), result) for k, dtype in enumerate(types))
    step = Statement(
        "step",
        ("lane", "q"),
        (),
        (0, "lane", 0, "q", 0),
        writes=(Access(ACCUMULATOR, (lane,)),),
        reads=(Access("a", (q,)), Access("b", (lane, q))),
        body=Body((), (a * b,)),
        update=Update(monoid("add", result), ("q",)),
    )
    return Instruction(
        name,
        step,
        {"lane": lanes, "q": depth},
        {
            ACCUMULATOR: Operand((lane,)),
            "a": Operand((q,)),
            "b": Operand((lane * literal(depth) + q,)),
        },
        registers,
        CYCLES,
        emission=emission,
        offset=offset,
        rounds=_ROUNDS if result.is_float else "",
    )
