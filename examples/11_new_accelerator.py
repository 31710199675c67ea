"""A new accelerator in one file: an 8 x 8 outer-product unit with a scratchpad, and programs on it.

What its instructions do is said once, as loops over its memories; Weft derives the rest from that.
"""

import numpy as np

import weft
from weft import hardware as hw

# ---- memories: so many elements, and what one of them is -----------------------------------------

spad = hw.Memory("spad", weft.i8, (8,), 2048)  # rows of eight numbers: operands and results
acc = hw.Memory("acc", weft.i32, (8, 8), 64)  # the sums
dram = hw.Memory("dram", weft.i8, (8,), None)  # main memory, as rows

# ---- instructions: what each does, to memories and by its fields ---------------------------------


def move(to, source, to_row, from_row, count):
    for x in range(count):
        for p in range(8):
            to[to_row + x, p] = source[from_row + x, p]


def outer(acc, spad, to, a, b, tiles, depth, to_tile, a_tile, b_tile, a_deep, b_deep):
    for t in range(tiles):
        for k in range(depth):
            for p in range(8):
                for q in range(8):
                    left = weft.i32(spad[a + t * a_tile + k * a_deep, p])
                    right = weft.i32(spad[b + t * b_tile + k * b_deep, q])
                    acc[to + t * to_tile, p, q] += left * right


def clear(acc, to, tiles):
    for t in range(tiles):
        for p in range(8):
            for q in range(8):
                acc[to + t, p, q] = 0


def requantise(spad, acc, row, source, tiles, shift):
    for t in range(tiles):
        for p in range(8):
            for q in range(8):
                small = min(max(acc[source + t, p, q] >> shift, -128), 127)
                spad[row + 8 * t + p, q] = weft.i8(small)


# ---- encodings: 128 bits of fields, the first ones the same in all -------------------------------


def encoding(opcode, **widths):
    widths = {"pop_prev": 1, "pop_next": 1, "push_prev": 1, "push_next": 1, **widths}
    fields = [hw.Field(name, width) for name, width in widths.items()]
    return hw.Encoding((hw.Field("opcode", 3, value=opcode), *fields), 128)


products = {"to": 6, "a": 11, "b": 11, "tiles": 6, "depth": 10, "to_tile": 6, "a_tile": 11,
            "b_tile": 11, "a_deep": 11, "b_deep": 11}  # fmt: skip
results = {"row": 11, "source": 6, "tiles": 6, "shift": 5}

# ---- the machine: three queues that wait for each other by tokens --------------------------------


def moving(f):  # a row a cycle
    return hw.Cost(latency=8, channel="bus", beats=f.count)


def passing(f):  # a row of a tile a cycle
    return hw.Cost(cycles=8 * f.tiles)


def computing(f):  # an outer product a cycle
    return hw.Cost(cycles=f.tiles * f.depth + 4)


machine = hw.Accelerator(
    "outer8",
    memories=(spad, acc, dram),
    queues=(hw.Queue("load", 64), hw.Queue("compute", 64), hw.Queue("store", 64)),
    wires=(
        hw.Wire("load", "compute", push="push_next", pop="pop_prev", most=63),
        hw.Wire("compute", "load", push="push_prev", pop="pop_next", most=63),
        hw.Wire("compute", "store", push="push_next", pop="pop_prev", most=63),
        hw.Wire("store", "compute", push="push_prev", pop="pop_next", most=63),
    ),
    operations=(
        hw.Operation("load", "load", encoding(0, to_row=11, from_row=32, count=11), moving, move,
                     memories={"to": "spad", "source": "dram"}),
        hw.Operation("store", "store", encoding(1, to_row=32, from_row=11, count=11), moving, move,
                     memories={"to": "dram", "source": "spad"}),
        hw.Operation("outer", "compute", encoding(2, **products), computing, outer),
        hw.Operation("clear", "compute", encoding(3, to=6, tiles=6), passing, clear),
        hw.Operation("requantise", "compute", encoding(4, **results), passing, requantise),
    ),
    channels=(hw.Channel("bus", ("load", "store")),),
)  # fmt: skip

# ---- programs for it, and what NumPy says --------------------------------------------------------


def run(sums, x, w, expected):
    small = weft.compute(
        sums.shape,
        lambda *i: weft.i8(weft.minimum(weft.maximum(sums[i] >> 7, -128), 127)),
        name="y",
    )
    compiled = hw.compile(small, machine, constants={"W": w})
    compiled.check()  # every access, every token
    assert (compiled(x) == np.clip(expected >> 7, -128, 127)).all()
    print("\n".join(str(compiled).splitlines()[:9]), "\n     …")
    print(f"{compiled.cycles:,} cycles, {compiled.utilisation:.0%} of the multipliers used\n")


def inputs(*shapes):
    arrays = [np.random.default_rng(0).integers(-128, 128, s).astype(np.int8) for s in shapes]
    return *arrays, *(
        weft.placeholder(s, weft.i8, name=n) for s, n in zip(shapes, "XW", strict=True)
    )


x, w, X, W = inputs((100, 200), (200, 70))
k = weft.reduce_axis((0, 200), name="k")
sums = weft.compute(
    (100, 70), lambda i, j: weft.sum(weft.i32(X[i, k]) * weft.i32(W[k, j]), (k,)), name="sums"
)
run(sums, x, w, x.astype(int) @ w)

# A convolution of eight images: 3 x 3 windows, every second place, zeros around.
x, w, X, W = inputs((8, 16, 14, 14), (24, 16, 3, 3))
c, r, s = (weft.reduce_axis((0, n), name=name) for n, name in ((16, "c"), (3, "r"), (3, "s")))
around = weft.compute(
    (8, 16, 16, 16),
    lambda n, c, h, v: weft.select(
        (h >= 1) & (h < 15) & (v >= 1) & (v < 15), X[n, c, h - 1, v - 1], 0
    ),
    name="around",
)
sums = weft.compute(
    (8, 24, 7, 7),
    lambda n, m, h, v: weft.sum(
        weft.i32(around[n, c, 2 * h + r, 2 * v + s]) * weft.i32(W[m, c, r, s]), (c, r, s)
    ),
    name="sums",
)
around = np.pad(x.astype(int), ((0, 0), (0, 0), (1, 1), (1, 1)))
windows = np.lib.stride_tricks.sliding_window_view(around, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
run(sums, x, w, np.einsum("nchwrs,mcrs->nmhw", windows, w))
