"""An accelerator of dot products: both operands are in one scratchpad, as matrices of 4 by 4."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from weft.ir.accelerator import Accelerator, Cost, Memory, Operation, Queue
from weft.ir.bit_fields import Encoding, Field
from weft.ir.dtypes import DType, i8, i32

Widths = tuple[str, int]


def _fields(opcode: int, *widths: Widths) -> Encoding:
    named = (Field(name, width) for name, width in widths)
    return Encoding((Field("opcode", 8, value=opcode), *named), 128)


def dot_machine(narrow: DType = i8) -> Accelerator:
    """Operands are ``narrow``, sums int32; one queue, a loop in hardware."""

    def load(spad, dram, row, at, rows):
        for r in range(rows + 1):
            for p in range(4):
                for q in range(4):
                    spad[row + r, p, q] = dram[at + r, p, q]

    def store(acc, dram, row, at, rows):
        for r in range(rows + 1):
            for p in range(4):
                for q in range(4):
                    dram[at + r, p, q] = acc[row + r, p, q]

    def clear(acc, to):
        for m in range(4):
            for n in range(4):
                acc[to, m, n] = 0

    def dots(acc, spad, to, a, b, turns, to_step, a_step, b_step):
        for t in range(turns + 1):
            for m in range(4):
                for n in range(4):
                    for k in range(4):
                        acc[to + t * to_step, m, n] += i32(spad[a + t * a_step, m, k]) * i32(
                            spad[b + t * b_step, n, k]
                        )

    moved: tuple[Widths, ...] = (("row", 8), ("at", 24), ("rows", 8))
    steps = (("to_step", 6), ("a_step", 8), ("b_step", 8))
    places = (("to", 6), ("a", 8), ("b", 8), ("turns", 6), *steps)
    return Accelerator(
        "dots",
        (
            Memory("spad", narrow, (4, 4), 256),
            Memory("acc", i32, (4, 4), 64),
            Memory("dram", narrow, (4, 4), None),
            Memory("dram_wide", i32, (4, 4), None),
        ),
        (Queue("all", 4),),
        (),
        (
            Operation("load", "all", _fields(0, *moved), lambda f: Cost(4 * f.rows + 9), load),
            Operation(
                "store",
                "all",
                _fields(1, *moved),
                lambda f: Cost(16 * f.rows + 24),
                store,
                {"dram": "dram_wide"},
            ),
            Operation("clear", "all", _fields(2, ("to", 6)), lambda f: Cost(1), clear),
            Operation("dots", "all", _fields(3, *places), lambda f: Cost(f.turns + 4), dots),
        ),
    )
