"""An accelerator that adds up rows of eight: memories, a queue, and what each instruction does."""

from weft import hardware as hw
from weft import i32


def move(to, source, at, begin, count):
    for x in range(count):
        for p in range(8):
            to[at + x, p] = source[begin + x, p]


def clear(acc, at):
    for p in range(8):
        acc[at, p] = 0


def add(acc, spad, at, begin):
    for p in range(8):
        acc[at, p] += spad[begin, p]


def op(name, number, does, memories=None, **bits):
    fields = (hw.Field("opcode", 8, value=number), *(hw.Field(n, b) for n, b in bits.items()))
    encoding = hw.Encoding(fields, 128)
    return hw.Operation(name, "all", encoding, lambda f: hw.Cost(8), does, memories or {})


machine = hw.Accelerator(
    "example-adder",
    (hw.Memory("spad", i32, (8,), 1024), hw.Memory("acc", i32, (8,), 64),
     hw.Memory("dram", i32, (8,), None)),
    (hw.Queue("all", 16),), wires=(), operations=(
        op("load", 0, move, {"to": "spad", "source": "dram"}, at=11, begin=32, count=11),
        op("store", 1, move, {"to": "dram", "source": "acc"}, at=32, begin=11, count=11),
        op("clear", 2, clear, at=6), op("add", 3, add, at=6, begin=11)),
)  # fmt: skip
