"""Multiply-adds of a GPU's threads as an instruction of a warp: a tile of sums for each thread.

    fma.m32n32k2.f32           acc[row, lane] += sum of 2 float32, each rounded as it is written

No unit does this at once: the prelude's function is multiply-adds of the thread's own registers.
As an instruction of fragments it is tiled, staged and proved like those of tensor cores. With
g = thread / 4 and c = thread % 4, of a warp that is 8 threads down and 4 across, a thread has

    acc    number v: row g + 8 (v / 8), lane = 4 c + v % 4 + 16 (v / 4 % 2)
    a      number v: row g + 8 (v / 2), q = v % 2                 so has each thread of one g
    b      number v: lane = 4 c + v % 4 + 16 (v / 4 % 2), q = v / 8        each thread of one c

so that four lanes are neighbours in shared memory, 16 bytes, and what threads read at once lies in
different banks.

Multiply-adds of float32 in a cycle of a multiprocessor: 64 for 8.0, 128 for 9.0 and 10.0 (CUDA C++
Programming Guide 13.0, "Throughput of Native Arithmetic Instructions").
"""

from __future__ import annotations

from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.instruction import ACCUMULATOR, ROW, Instruction, Operand, Warp
from weft.ir.scalar_expr import Load, Var
from weft.ir.scop import Access, Body, Statement, Update

THREADS, LINE, REGISTERS = 32, 16, 255
DOWN, ACROSS = 8, 4  # threads of a warp
ROWS, LANES, DEPTH = 32, 32, 2


def thread_tiles(per_cycle: int) -> tuple[Instruction, ...]:
    """Products of ``float32`` on a GPU of so many multiply-adds ``per_cycle``."""
    row, lane, q = Var(ROW), Var("lane"), Var("q")
    a, b = (Load(k, (), dtypes.float32) for k in range(2))
    step = Statement(
        "step",
        (ROW, "lane", "q"),
        (),
        (0, ROW, 0, "lane", 0, "q", 0),
        writes=(Access(ACCUMULATOR, (row, lane)),),
        reads=(Access("a", (row, q)), Access("b", (lane, q))),
        body=Body((), (a * b,)),
        update=Update(monoid("add", dtypes.float32), ("q",)),
    )
    name = f"fma.m{ROWS}n{LANES}k{DEPTH}.f32"
    return (
        Instruction(
            name,
            step,
            {ROW: ROWS, "lane": LANES, "q": DEPTH},
            _fragments(),
            REGISTERS,
            ROWS * LANES * DEPTH / per_cycle,
            emission=Warp(name.replace(".", "_"), THREADS, LINE),
        ),
    )


def _fragments() -> dict[str, Operand]:
    row, lane, q = Var(ROW), Var("lane"), Var("q")
    thread, number = Var("thread"), Var("number")
    g, c = thread // ACROSS, thread % ACROSS
    own = LANES // ACROSS  # lanes of a thread, in two lots of neighbours
    lanes = c * 4 + number % 4 + number // 4 % 2 * 16
    column = lane % 4 + lane // 16 * 4
    sums = Operand(
        (row % DOWN * ACROSS + lane // 4 % ACROSS, row // DOWN * own + column),
        "fragment",
        {ROW: g + number // own * DOWN, "lane": lanes},
    )
    left = Operand(
        (row % DOWN * ACROSS, row // DOWN * DEPTH + q),
        "fragment",
        {ROW: g + number // DEPTH * DOWN, "q": number % DEPTH},
        copies=ACROSS,
    )
    right = Operand(
        (lane // 4 % ACROSS, q * own + column),
        "fragment",
        {"lane": lanes, "q": number // own},
        copies=DOWN,
    )
    return {ACCUMULATOR: sums, "a": left, "b": right}
