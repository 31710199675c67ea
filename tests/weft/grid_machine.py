"""A machine without micro-operations, as a user would write it: a weight-stationary grid of 4 x 4,
a scratchpad of four banks, accumulators, a bias memory, a vector unit; one queue.

``add``: which instruction the vector unit adds with; ``drain``: which one takes results back.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from dataclasses import replace

from weft import hardware as hw
from weft import i8, i32

BANK = 64


def encoding(opcode, **widths):
    fields = (hw.Field(name, width) for name, width in widths.items())
    return hw.Encoding((hw.Field("opcode", 5, value=opcode), *fields), 128)


# ---- what additions there may be -----------------------------------------------------------------


def onto(acc, spad, to, source, count):
    for t in range(count):
        for p in range(4):
            acc[to + t, p] += i32(spad[source + t, p])


def widen(acc, spad, to, source, count):
    for t in range(count):
        for p in range(4):
            acc[to + t, p] = i32(spad[source + t, p])


def acc_onto(acc, to, source, count):
    for t in range(count):
        for p in range(4):
            acc[to + t, p] += acc[source + t, p]


def three_accs(acc, to, a, b, count):
    for t in range(count):
        for p in range(4):
            acc[to + t, p] = acc[a + t, p] + acc[b + t, p]


def wide_sum(acc, spad, to, a, b, count):
    for t in range(count):
        for p in range(4):
            acc[to + t, p] = i32(spad[a + t, p]) + i32(spad[b + t, p])


def mixed(acc, spad, to, a, b, count):
    for t in range(count):
        for p in range(4):
            acc[to + t, p] = acc[a + t, p] + i32(spad[b + t, p])


def saturated(spad, to, a, b, count):
    for t in range(count):
        for p in range(4):
            both = i32(spad[a + t, p]) + i32(spad[b + t, p])
            spad[to + t, p] = i8(min(max(both, -128), 127))


def saturated_onto(spad, to, source, count):
    for t in range(count):
        for p in range(4):
            both = i32(spad[to + t, p]) + i32(spad[source + t, p])
            spad[to + t, p] = i8(min(max(both, -128), 127))


ADDITIONS = {
    "onto": (onto,), "widened, onto": (widen, onto), "accumulators": (widen, acc_onto),
    "three accumulators": (widen, three_accs), "wide sum": (wide_sum,), "mixed": (widen, mixed),
    "saturated": (saturated,), "saturated, onto": (saturated_onto,), "none": (),
}  # fmt: skip


# ---- what takes results back ---------------------------------------------------------------------


def shifted(spad, acc, row, source, count, shift):
    for t in range(count):
        for p in range(4):
            spad[row + t, p] = i8(min(max(acc[source + t, p] >> shift, -128), 127))


def rounded(spad, acc, row, source, count, shift):
    for t in range(count):
        for p in range(4):
            value = (acc[source + t, p] + ((1 << shift) >> 1)) >> shift
            spad[row + t, p] = i8(min(max(value, -128), 127))


def shifted_more(spad, acc, row, source, count, shift):
    for t in range(count):
        for p in range(4):
            spad[row + t, p] = i8(min(max(acc[source + t, p] >> (shift + 1), -128), 127))


DRAINS = {"shifted": shifted, "rounded": rounded, "shifted more": shifted_more}


# ---- the machine ---------------------------------------------------------------------------------


def load(spad, dram, bank, row, at, count):
    for x in range(count):
        for p in range(4):
            spad[bank * BANK + row + x, p] = dram[at + x, p]


def store(dram, spad, bank, row, at, count):
    for x in range(count):
        for p in range(4):
            dram[at + x, p] = spad[bank * BANK + row + x, p]


def load_weights(grid, dram, slot, at):
    for k in range(4):
        for n in range(4):
            grid[slot, k, n] = dram[at, k, n]


def stage(grid, spad, slot, bank, row):
    for k in range(4):
        for n in range(4):
            grid[slot, k, n] = spad[bank * BANK + row + k, n]


def load_bias(bias, dram, to, at, count):
    for x in range(count):
        for p in range(4):
            bias[to + x, p] = dram[at + x, p]


def clear(acc, to, count):
    for t in range(count):
        for p in range(4):
            acc[to + t, p] = 0


def multiply(acc, spad, grid, to, bank, row, slot, count):
    for t in range(count):
        for k in range(4):
            for n in range(4):
                acc[to + t, n] += i32(spad[bank * BANK + row + t, k]) * i32(grid[slot, k, n])


def add_bias(acc, bias, to, source, count):
    for t in range(count):
        for p in range(4):
            acc[to + t, p] += bias[source, p]


WIDTHS = {"to": 6, "source": 8, "a": 8, "b": 8, "count": 7, "bank": 2, "row": 6, "slot": 1,
          "at": 24, "shift": 5}  # fmt: skip


def grid_machine(add="onto", drain="shifted", staged=False):
    weights = stage if staged else load_weights
    functions = [load, store, weights, load_bias, clear, multiply, add_bias, DRAINS[drain]]
    operations = []
    for number, function in enumerate([*functions, *ADDITIONS[add]]):
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        widths = {name: WIDTHS[name] for name in names if name in WIDTHS}
        if "acc" in names and "bank" not in names:
            own = {"row": 8, "source": 4 if function is add_bias else 8}
            widths |= {name: own[name] for name in widths if name in own}
        if function is load_bias:
            widths["to"] = 4
        elif function in (saturated, saturated_onto):
            widths["to"] = 8
        main = {load_weights: "dram_grid", load_bias: "dram_bias"}.get(function, "dram")
        operations.append(
            hw.Operation(
                function.__name__, "all", encoding(number, **widths), cost, function,
                memories={"dram": main} if "dram" in names else {},
            )
        )  # fmt: skip
    memories = [
        hw.Memory("spad", i8, (4,), 4 * BANK), hw.Memory("grid", i8, (4, 4), 2),
        hw.Memory("acc", i32, (4,), 64), hw.Memory("bias", i32, (4,), 16),
        hw.Memory("dram", i8, (4,), None), hw.Memory("dram_bias", i32, (4,), None),
        hw.Memory("dram_grid", i8, (4, 4), None),
    ]  # fmt: skip
    return hw.Accelerator("grid", tuple(memories), (hw.Queue("all", 8),), (), tuple(operations))


def cost(f):
    return hw.Cost(4 + getattr(f, "count", 4))


def without(machine, *names):
    operations = tuple(each for each in machine.operations if each.name not in names)
    return replace(machine, operations=operations)
