"""Accelerators unlike each other, written as strangers would: one function each, which is the
whole machine. ``MACHINES`` lists them."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from dataclasses import replace

from weft.ir.accelerator import Accelerator, Channel, Cost, Memory, Operation, Queue, Wire
from weft.ir.bit_fields import Encoding, Field
from weft.ir.dtypes import f32, i8, i16, i32


def _fields(*widths, op, code=8):
    """Opcode and fields in 128 bits."""
    named = (Field(name, width) for name, width in widths)
    return Encoding((Field("opcode", code, value=op), *named), 128)


def outer_product(wide=8):
    """8 x 8, or as wide as said; three queues with tokens, two hardware loops, a reset, int32
    results."""
    tokens = ("pop_in", 1), ("pop_out", 1), ("push_in", 1), ("push_out", 1)

    def load(sram, dram, sram_base, dram_base, rows, columns, stride):
        for y in range(rows):
            for x in range(columns):
                for p in range(wide):
                    sram[sram_base + y * columns + x, p] = dram[dram_base + y * stride + x, p]

    def store(acc, dram, sram_base, dram_base, columns):
        for x in range(columns):
            for p in range(wide):
                for q in range(wide):
                    dram[dram_base + x, p, q] = acc[sram_base + x, p, q]

    def clear(acc, at, count):
        for x in range(count):
            for p in range(wide):
                for q in range(wide):
                    acc[at + x, p, q] = 0

    def outer(acc, a, b, at, a_at, b_at, outer, inner, acc_o, acc_i, a_o, a_i, b_o, b_i):
        for y in range(outer):
            for x in range(inner):
                for p in range(wide):
                    for q in range(wide):
                        acc[at + y * acc_o + x * acc_i, p, q] += i32(
                            a[a_at + y * a_o + x * a_i, p]
                        ) * i32(b[b_at + y * b_o + x * b_i, q])

    moved = (*tokens, ("sram_base", 10), ("dram_base", 24), ("rows", 10), ("columns", 10))

    def takes(f):
        return Cost(0, "bus", 10, f.rows * f.columns)

    return Accelerator(
        "outer product",
        (
            Memory("a", i8, (wide,), 512),
            Memory("b", i8, (wide,), 512),
            Memory("acc", i32, (wide, wide), 32),
            Memory("dram", i8, (wide,), None),
            Memory("dram_out", i32, (wide, wide), None),
        ),
        (Queue("load", 16), Queue("compute", 16), Queue("store", 16)),
        (
            Wire("load", "compute", "push_out", "pop_in", 255),
            Wire("compute", "load", "push_in", "pop_out", 255),
            Wire("compute", "store", "push_out", "pop_in", 255),
            Wire("store", "compute", "push_in", "pop_out", 255),
        ),
        (
            Operation(
                "load_a", "load", _fields(*moved, ("stride", 16), op=0), takes, load, {"sram": "a"}
            ),
            Operation(
                "load_b", "load", _fields(*moved, ("stride", 16), op=1), takes, load, {"sram": "b"}
            ),
            Operation(
                "store",
                "store",
                _fields(*moved, op=2),
                lambda f: Cost(4 * f.columns),
                store,
                {"dram": "dram_out"},
            ),
            Operation(
                "clear",
                "compute",
                _fields(*tokens, ("at", 5), ("count", 6), op=3),
                lambda f: Cost(f.count),
                clear,
            ),
            Operation(
                "outer",
                "compute",
                _fields(
                    *tokens,
                    ("at", 5),
                    ("a_at", 9),
                    ("b_at", 9),
                    ("outer", 10),
                    ("inner", 10),
                    *((f"{n}_{loop}", 9) for n in ("acc", "a", "b") for loop in "oi"),
                    op=4,
                ),
                lambda f: Cost(f.outer * f.inner + 4),
                outer,
            ),
        ),
        (Channel("bus", ("load",)),),
    )


def rows_of_a_scratchpad():
    """One scratchpad of rows, of which eight are an operand; one queue; no loops in hardware, a
    flag to overwrite; results are shifted and clipped into the scratchpad."""

    def load(spad, dram, row, at, rows, stride):
        for r in range(rows + 1):
            for p in range(8):
                spad[row + r, p] = dram[at + r * stride, p]

    def store(spad, dram, row, at, rows, stride):
        for r in range(rows + 1):
            for p in range(8):
                dram[at + r * stride, p] = spad[row + r, p]

    def store_wide(acc, dram, row, at, rows, stride):
        for r in range(rows + 1):
            for p in range(8):
                dram[at + r * stride, p] = acc[row + r, p]

    def multiply(acc, spad, to, a, b):
        for m in range(8):
            for n in range(8):
                acc[to + m, n] = 0
                for k in range(8):
                    acc[to + m, n] += i32(spad[a + m, k]) * i32(spad[b + k, n])

    def accumulate(acc, spad, to, a, b):
        for m in range(8):
            for n in range(8):
                for k in range(8):
                    acc[to + m, n] += i32(spad[a + m, k]) * i32(spad[b + k, n])

    def requantise(spad, acc, row, source, rows, shift):
        for r in range(rows + 1):
            for p in range(8):
                spad[row + r, p] = i8(min(max(acc[source + r, p] >> shift, -128), 127))

    def product(keep):
        parts = (Field("to", 8), Field("a", 10), Field("b", 10))
        return Encoding((Field("opcode", 8, value=3), Field("keep", 1, value=keep), *parts), 128)

    move = (("row", 12), ("at", 24), ("rows", 6), ("stride", 16))
    return Accelerator(
        "rows",
        (
            Memory("spad", i8, (8,), 1024),
            Memory("acc", i32, (8,), 256),
            Memory("dram", i8, (8,), None),
            Memory("dram_wide", i32, (8,), None),
        ),
        (Queue("all", 4),),
        (),
        (
            Operation("load", "all", _fields(*move, op=0), lambda f: Cost(f.rows + 9), load),
            Operation("store", "all", _fields(*move, op=1), lambda f: Cost(f.rows + 9), store),
            Operation(
                "store_wide",
                "all",
                _fields(*move, op=2),
                lambda f: Cost(4 * f.rows + 12),
                store_wide,
                {"dram": "dram_wide"},
            ),
            Operation("multiply", "all", product(0), lambda f: Cost(8), multiply),
            Operation("accumulate", "all", product(1), lambda f: Cost(8), accumulate),
            Operation(
                "requantise",
                "all",
                _fields(("row", 10), ("source", 8), ("rows", 6), ("shift", 5), op=4),
                lambda f: Cost(f.rows + 2),
                requantise,
            ),
        ),
    )


def banks():
    """Operands in four banks of a scratchpad, by bank and row; a turn sums up along both; zeros
    come from main memory, float32."""

    def load(spad, dram, bank, row, at, count):
        for x in range(count):
            for p in range(4):
                spad[bank * 64 + row + x, p] = dram[at + x, p]

    def load_sums(acc, dram, row, at, count):
        for x in range(count):
            for p in range(4):
                for q in range(4):
                    acc[row + x, p, q] = dram[at + x, p, q]

    def store(acc, dram, row, at, count):
        for x in range(count):
            for p in range(4):
                for q in range(4):
                    dram[at + x, p, q] = acc[row + x, p, q]

    def madd(acc, spad, to, a_bank, a_row, b_bank, b_row, count):
        for k in range(count):
            for p in range(4):
                for q in range(4):
                    acc[to, p, q] += (
                        spad[a_bank * 64 + a_row + k, p] * spad[b_bank * 64 + b_row + k, q]
                    )

    tokens = (("wait", 1), ("signal", 1))
    return Accelerator(
        "banks",
        (
            Memory("spad", f32, (4,), 256),
            Memory("acc", f32, (4, 4), 16),
            Memory("dram", f32, (4,), None),
            Memory("dram_acc", f32, (4, 4), None),
        ),
        (Queue("dma", 8), Queue("mac", 8)),
        (Wire("dma", "mac", "signal", "wait", 16), Wire("mac", "dma", "signal", "wait", 16)),
        (
            Operation(
                "load",
                "dma",
                _fields(*tokens, ("bank", 2), ("row", 6), ("at", 32), ("count", 7), op=0),
                lambda f: Cost(8 + f.count),
                load,
            ),
            Operation(
                "load_sums",
                "dma",
                _fields(*tokens, ("row", 4), ("at", 32), ("count", 5), op=1),
                lambda f: Cost(8 + 4 * f.count),
                load_sums,
                {"dram": "dram_acc"},
            ),
            Operation(
                "store",
                "dma",
                _fields(*tokens, ("row", 4), ("at", 32), ("count", 5), op=2),
                lambda f: Cost(8 + 4 * f.count),
                store,
                {"dram": "dram_acc"},
            ),
            Operation(
                "madd",
                "mac",
                _fields(
                    *tokens,
                    ("to", 4),
                    ("a_bank", 2),
                    ("a_row", 6),
                    ("b_bank", 2),
                    ("b_row", 6),
                    ("count", 7),
                    op=3,
                ),
                lambda f: Cost(f.count + 3),
                madd,
            ),
        ),
    )


def matrix_vector():
    """Sixteen dot products of sixteen int16 numbers; weights lie transposed; one element a load."""

    def load_x(x, dram, to, at):
        for i in range(16):
            x[to, i] = dram[at, i]

    def load_w(w, dram, to, at, more):
        for n in range(more + 1):
            for i in range(16):
                for o in range(16):
                    w[to + n, i, o] = dram[at + n, i, o]

    def zero(y, to):
        for o in range(16):
            y[to, o] = 0

    def dot(y, w, x, to, w_at, x_at, times, w_step):
        for t in range(times + 1):
            for o in range(16):
                for i in range(16):
                    y[to, o] += i32(w[w_at + t * w_step, i, o]) * i32(x[x_at + t, i])

    def store(y, dram, to, at):
        for o in range(16):
            dram[at, o] = y[to, o]

    cost = lambda f: Cost(20)  # noqa: E731
    return Accelerator(
        "matrix vector",
        (
            Memory("x", i16, (16,), 64),
            Memory("w", i16, (16, 16), 32),
            Memory("y", i32, (16,), 8),
            Memory("main_x", i16, (16,), None),
            Memory("main_w", i16, (16, 16), None),
            Memory("main_y", i32, (16,), None),
        ),
        (Queue("only", 1),),
        (),
        (
            Operation(
                "load_x",
                "only",
                _fields(("to", 6), ("at", 32), op=0),
                cost,
                load_x,
                {"dram": "main_x"},
            ),
            Operation(
                "load_w",
                "only",
                _fields(("to", 5), ("at", 32), ("more", 4), op=1),
                lambda f: Cost(32 * f.more + 40),
                load_w,
                {"dram": "main_w"},
            ),
            Operation("zero", "only", _fields(("to", 3), op=2), lambda f: Cost(1), zero),
            Operation(
                "dot",
                "only",
                _fields(("to", 3), ("w_at", 5), ("x_at", 6), ("times", 5), ("w_step", 4), op=3),
                lambda f: Cost(f.times + 1),
                dot,
            ),
            Operation(
                "store",
                "only",
                _fields(("to", 3), ("at", 32), op=4),
                cost,
                store,
                {"dram": "main_y"},
            ),
        ),
    )


def bank_and_row():
    """The first one, with operands in four banks of 64 rows, by two indices."""

    def load(sram, dram, bank, row, dram_base, columns):
        for x in range(columns):
            for p in range(8):
                sram[bank, row + x, p] = dram[dram_base + x, p]

    def outer(acc, a, b, at, a_bank, a_at, b_bank, b_at, inner, acc_i, b_i):
        for x in range(inner):
            for p in range(8):
                for q in range(8):
                    left, right = i32(a[a_bank, a_at + x, p]), i32(b[b_bank, b_at + x * b_i, q])
                    acc[at + x * acc_i, p, q] += left * right

    machine = outer_product()
    tokens = ("pop_in", 1), ("pop_out", 1), ("push_in", 1), ("push_out", 1)
    moved = (*tokens, ("bank", 2), ("row", 6), ("dram_base", 24), ("columns", 7))
    banked = (("a_bank", 2), ("a_at", 6), ("b_bank", 2), ("b_at", 6))
    product = (*tokens, ("at", 5), *banked, ("inner", 7), ("acc_i", 5), ("b_i", 5))
    changed = {
        "load_a": (load, _fields(*moved, op=0), lambda f: Cost(8 + f.columns)),
        "load_b": (load, _fields(*moved, op=1), lambda f: Cost(8 + f.columns)),
        "outer": (outer, _fields(*product, op=4), lambda f: Cost(f.inner + 2)),
    }
    operations = []
    for each in machine.operations:
        if each.name in changed:
            semantics, encoding, cost = changed[each.name]
            each = replace(each, semantics=semantics, encoding=encoding, cost=cost)
        operations.append(each)
    memories = [
        replace(m, shape=(64, 8), depth=4) if m.name in ("a", "b") else m for m in machine.memories
    ]
    return replace(
        machine, name="bank and row", memories=tuple(memories), operations=tuple(operations)
    )


_ALL = (outer_product, rows_of_a_scratchpad, banks, matrix_vector, bank_and_row)
MACHINES = {each.__name__: each for each in _ALL}
