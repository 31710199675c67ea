"""Matrix units: products of blocks, with operands and sums in registers of their own.

    x86-64    tdpbf16ps     acc[row, lane] += sum of 32 bfloat16         amx-bf16
              tdpb??d       acc[row, lane] += sum of 64 s8 or u8         amx-int8

Intel's tiles (AMX) are 16 rows of 64 bytes. The first operand has a row per row of results; the
second has words of 2 bfloat16 or 4 bytes, as the vectors of dot products: a row per word of the
reduction, a column per result.

Sums of integers wrap modulo 2**32. ``tdpbf16ps`` flushes subnormals and rounds like ``vdpbf16ps``:
the bound of ``dot_products.py`` holds.
"""

from __future__ import annotations

from weft.codegen.llvm.target import LlvmTarget
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.dtypes import DType
from weft.ir.instruction import ACCUMULATOR, ROW, Instruction, Operand, Tiles
from weft.ir.scalar_expr import Load, Var, cast, literal
from weft.ir.scop import Access, Body, Statement, Update

REGISTERS, ROWS, ROW_BYTES = 8, 16, 64
CYCLES = 16.0
_ROUNDS = "subnormals count as 0, and a sum of two products is rounded in an order of its own"
_SIGNS = {"s": dtypes.int8, "u": dtypes.uint8}


def matrix_units(target: LlvmTarget) -> tuple[Instruction, ...]:
    """The instructions that ``target`` has."""
    has = target.enabled
    if not target.triple.startswith("x86_64") or "amx-tile" not in has:
        return ()
    found = []
    if "amx-bf16" in has:
        found.append(block_product("tdpbf16ps", (dtypes.bfloat16, dtypes.bfloat16)))
    if "amx-int8" in has:
        kinds = (("u", "s"), ("s", "u"), ("s", "s"), ("u", "u"))
        found += [block_product(f"tdpb{a}{b}d", (_SIGNS[a], _SIGNS[b])) for a, b in kinds]
    return tuple(found)


def block_product(name: str, types: tuple[DType, DType]) -> Instruction:
    """``acc[row, lane] += sum over q of a[row, q] * b[lane, q]``, in ``int32`` or ``float32``."""
    row, lane, q = Var(ROW), Var("lane"), Var("q")
    result = dtypes.float32 if types[0].is_float else dtypes.int32
    depth, word = ROW_BYTES // types[0].itemsize, result.itemsize // types[0].itemsize
    a, b = (cast(Load(k, (), dtype), result) for k, dtype in enumerate(types))
    step = Statement(
        "step",
        (ROW, "lane", "q"),
        (),
        (0, ROW, 0, "lane", 0, "q", 0),
        writes=(Access(ACCUMULATOR, (row, lane)),),
        reads=(Access("a", (row, q)), Access("b", (lane, q))),
        body=Body((), (a * b,)),
        update=Update(monoid("add", result), ("q",)),
    )
    return Instruction(
        name,
        step,
        {ROW: ROWS, "lane": ROW_BYTES // result.itemsize, "q": depth},
        {
            ACCUMULATOR: Operand((row, lane), "tile"),
            "a": Operand((row, q), "tile"),
            "b": Operand((q // word, lane * literal(word) + q % word), "tile"),
        },
        REGISTERS,
        CYCLES,
        emission=Tiles(f"llvm.x86.{name}", REGISTERS, word),
        rounds=_ROUNDS if result.is_float else "",
    )
