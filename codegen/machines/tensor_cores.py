"""Tensor cores: products of blocks by the threads of a warp together, from ``sm_80`` on.

    mma.m16n8k16.f16, .bf16    acc[row, lane] += sum of 16, in float32
    mma.m16n8k8.tf32           acc[row, lane] += sum of 8 float32, of which 10 bits of the fraction
    mma.m16n8k32.s8, …         acc[row, lane] += sum of 32 s8 or u8, modulo 2**32

Operands and sums are *fragments*: element (row, q) is in the registers of one thread of the warp,
under a number. With g = thread / 4, c = thread % 4, and w elements in a register of 4 bytes:

    a      number v: row g + 8 (v / w % 2), q = w c + v % w + 4 w (v / 2 w)
    b      number v: lane g,                q = w c + v % w + 4 w (v / w)
    acc    number v: row g + 8 (v / 2),     lane = 2 c + v % 2

PTX ISA 9.0, "Matrix Fragments for mma.m16n8k16" and its neighbours. A product of the first two is
exact; sums are kept in at least float32, in an order of their own, and cut off rather than rounded
(Fasi, Higham, Mikaitis, Pranesh 2021): n products are off by at most 2 n u of the sum of their
absolute values, u = 2**-23.

Cycles are a multiprocessor's: 1024 multiply-adds of 16 bits in each (A100 white paper).
"""

from __future__ import annotations

from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.dtypes import DType
from weft.ir.instruction import ACCUMULATOR, ROW, Instruction, Operand, Warp
from weft.ir.scalar_expr import Load, Var, cast
from weft.ir.scop import Access, Body, Statement, Update

ROWS, LANES, DEPTH_BYTES, WORD = 16, 8, 32, 4
THREADS, LINE, REGISTERS = 32, 16, 255
BYTES_PER_CYCLE = 2048  # multiply-adds in a cycle, times bytes of an element
_ROUNDS = "sums are cut off rather than rounded, in an order of their own"
_CUT = f"of each factor 10 bits of the fraction count; {_ROUNDS}"
_SIGNS = {"s8": dtypes.int8, "u8": dtypes.uint8}


def tensor_cores() -> tuple[Instruction, ...]:
    """The instructions that every GPU from ``sm_80`` on has."""
    small = [("f16", dtypes.float16), ("bf16", dtypes.bfloat16)]
    found = [warp_product(name, (dtype, dtype), _ROUNDS) for name, dtype in small]
    found.append(warp_product("tf32", (dtypes.float32, dtypes.float32), _CUT))
    for a, left in _SIGNS.items():
        for b, right in _SIGNS.items():
            found.append(warp_product(a if a == b else f"{a}.{b}", (left, right)))
    return tuple(found)


def warp_product(name: str, types: tuple[DType, DType], rounds: str = "") -> Instruction:
    """``acc[row, lane] += sum over q of a[row, q] * b[lane, q]``, in ``float32`` or ``int32``."""
    row, lane, q = Var(ROW), Var("lane"), Var("q")
    result = dtypes.float32 if types[0].is_float else dtypes.int32
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
    size = types[0].itemsize
    depth, points = DEPTH_BYTES // size, ROWS * LANES * DEPTH_BYTES // size
    full = f"mma.m{ROWS}n{LANES}k{depth}.{name}"
    return Instruction(
        full,
        step,
        {ROW: ROWS, "lane": LANES, "q": depth},
        fragments(WORD // size),
        REGISTERS,
        points * size / BYTES_PER_CYCLE,
        emission=Warp(full.replace(".", "_"), THREADS, LINE),
        rounds=rounds,
    )


def fragments(w: int) -> dict[str, Operand]:
    """Where the elements are, ``w`` of those of ``a`` and ``b`` in a register."""
    row, lane, q = Var(ROW), Var("lane"), Var("q")
    thread, number = Var("thread"), Var("number")
    g, c = thread // 4, thread % 4
    word, half = q // w % 4, q // (4 * w)
    step = c * w + number % w
    sums = Operand(
        (row % 8 * 4 + lane // 2, lane % 2 + row // 8 * 2),
        "fragment",
        {ROW: g + number // 2 * 8, "lane": c * 2 + number % 2},
    )
    left = Operand(
        (row % 8 * 4 + word, q % w + row // 8 * w + half * (2 * w)),
        "fragment",
        {ROW: g + number // w % 2 * 8, "q": step + number // (2 * w) * (4 * w)},
    )
    right = Operand(
        (lane * 4 + word, q % w + half * w),
        "fragment",
        {"lane": g, "q": step + number // w * (4 * w)},
    )
    return {ACCUMULATOR: sums, "a": left, "b": right}
