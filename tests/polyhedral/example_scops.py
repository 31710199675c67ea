"""The programs that the analyses are measured and tested on, with schedules for them."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Items

from tests.polyhedral.scops import (
    Band,
    Constraint,
    Leaf,
    Scop,
    Sequence,
    Statement,
    at,
    box,
    scop,
    statement,
    tensor,
)
from weft.ir.scalar_expr import Expr, Var
from weft.ir.schedule_tree import Loop, Tree

i, j, k, n, t = (Var(name) for name in "ijknt")


def band(
    names: Items[str], of: Mapping[str, Items[Expr]], child: Tree, kind: str = "serial"
) -> Band:
    """Loops ``names``; ``of`` gives each statement's values for them, in order."""
    return Band(
        tuple(
            Loop(name, {s: values[p] for s, values in of.items()}, kind)  # type: ignore[arg-type]
            for p, name in enumerate(names)
        ),
        child,
    )


def gemm(size: int = 512) -> Scop:
    """C = A B: one initialisation, one update."""
    return scop(
        (
            tensor("A", size, size, role="input"),
            tensor("B", size, size, role="input"),
            tensor("C", size, size, role="output"),
        ),
        statement("init", box(i=size, j=size), at("C", i, j), position=0),
        statement(
            "mac", box(i=size, j=size, k=size), at("C", i, j), (at("A", i, k), at("B", k, j)),
            position=1, reduce=("k",),
        ),
    )  # fmt: skip


def gemm_tree(outer: int = 128, inner: int = 32, register: int = 8) -> Tree:
    """Three levels of tiles around both statements' (i, j), and around k."""

    def levels(x: Expr) -> list[Expr]:
        first, second = x - outer * (x // outer), x - inner * (x // inner)
        return [x // outer, first // inner, second // register, x - register * (x // register)]

    a, b, c = levels(i), levels(j), levels(k)
    top = {"init": (a[0], b[0]), "mac": (a[0], b[0])}
    init = band(
        ["i1", "j1", "i2", "j2", "i3", "j3"],
        {"init": [x for pair in zip(a[1:], b[1:], strict=True) for x in pair]},
        Leaf("init"),
    )
    mac = band(
        ["k0", "x1", "y1", "k1", "x2", "y2", "k2", "k3", "x3", "y3"],
        {"mac": (c[0], a[1], b[1], c[1], a[2], b[2], c[2], c[3], a[3], b[3])},
        Leaf("mac"),
    )
    return band(["i0", "j0"], top, Sequence((init, mac)))


def conv_cluster(channels: int = 64, size: int = 56) -> Scop:
    """pad, conv 3×3, batch norm, + shortcut, relu: a residual block's tail."""
    c, o, y, x, r, s = (Var(name) for name in "coyxrs")
    image, shape = {"y": size, "x": size}, (channels, size, size)
    inside = (Constraint(y - 1), Constraint(size - y), Constraint(x - 1), Constraint(size - x))
    padded = size + 2
    return scop(
        (
            tensor("I", *shape, role="input"),
            tensor("R", *shape, role="input"),
            tensor("W", channels, channels, 3, 3, role="constant"),
            tensor("scale", channels, role="constant"),
            tensor("shift", channels, role="constant"),
            tensor("P", channels, padded, padded),
            *(tensor(name, *shape) for name in ("Z", "N", "M")),
            tensor("O", *shape, role="output"),
        ),
        statement("pad", box(c=channels, y=padded, x=padded), at("P", c, y, x),
                  (at("I", c, y - 1, x - 1, guard=inside),), position=0),
        statement("zero", box(o=channels, **image), at("Z", o, y, x), position=1),
        statement("conv", box(o=channels, **image, c=channels, r=3, s=3), at("Z", o, y, x),
                  (at("P", c, y + r, x + s), at("W", o, c, r, s)),
                  position=2, reduce=("c", "r", "s")),
        statement("norm", box(o=channels, **image), at("N", o, y, x),
                  (at("Z", o, y, x), at("scale", o), at("shift", o)), position=3),
        statement("plus", box(o=channels, **image), at("M", o, y, x),
                  (at("N", o, y, x), at("R", o, y, x)), position=4),
        statement("relu", box(o=channels, **image), at("O", o, y, x), (at("M", o, y, x),),
                  position=5),
    )  # fmt: skip


def conv_tree(tile: int = 16) -> Tree:
    """pad alone; the rest fused over tiles of (o, y, x), the reduction inside."""
    c, o, y, x, r, s = (Var(name) for name in "coyxrs")
    outer, inner = (o // tile, y // 4, x // tile), (o % tile, y % 4, x % tile)
    fused = ("zero", "conv", "norm", "plus", "relu")
    parts = [
        band([f"{name} {d}" for d in "oyx"], {name: inner}, Leaf(name))
        for name in fused
        if name != "conv"
    ]
    parts.insert(
        1,
        band(["c", "r", "s", "po", "py", "px"], {"conv": (c, r, s, *inner)}, Leaf("conv")),
    )
    body = band(["to", "ty", "tx"], dict.fromkeys(fused, outer), Sequence(tuple(parts)))
    return Sequence((band(["pc", "pad y", "pad x"], {"pad": (c, y, x)}, Leaf("pad")), body))


def softmax(rows: int = 128, columns: int = 512) -> Scop:
    """max, exp(x - max), sum, divide, along rows."""
    whole, row = box(i=rows, j=columns), box(i=rows)
    return scop(
        (
            tensor("X", rows, columns, role="input"),
            tensor("m", rows),
            tensor("E", rows, columns),
            tensor("d", rows),
            tensor("Y", rows, columns, role="output"),
        ),
        statement("m0", row, at("m", i), position=0),
        statement("m1", whole, at("m", i), (at("X", i, j),), position=1, reduce=("j",)),
        statement("exp", whole, at("E", i, j), (at("X", i, j), at("m", i)), position=2),
        statement("d0", row, at("d", i), position=3),
        statement("d1", whole, at("d", i), (at("E", i, j),), position=4, reduce=("j",)),
        statement("div", whole, at("Y", i, j), (at("E", i, j), at("d", i)), position=5),
    )


def softmax_tree() -> Tree:
    """All of it under one loop over rows."""
    names = ("m0", "m1", "exp", "d0", "d1", "div")
    inner: list[Tree] = [
        Leaf(name) if name in ("m0", "d0") else band([f"j {name}"], {name: (j,)}, Leaf(name))
        for name in names
    ]
    return band(["row"], dict.fromkeys(names, (i,)), Sequence(tuple(inner)))


def lstm(steps: int = 32, hidden: int = 64) -> Scop:
    """A scan over t: gates from h[t], then c[t + 1] and h[t + 1]."""
    gates = 4 * hidden

    def inside(number: int, *dims: str) -> tuple[int | str, ...]:
        return (1, "t", number, *(entry for dim in dims for entry in (dim, 0)))

    cell = tuple(at("G", t, i + g * hidden) for g in range(4))
    return scop(
        (
            tensor("X", steps, gates, role="input"),
            tensor("W", gates, hidden, role="constant"),
            tensor("G", steps, gates),
            tensor("c", steps + 1, hidden),
            tensor("h", steps + 1, hidden, role="output"),
        ),
        statement("start", box(i=hidden), (at("c", 0, i), at("h", 0, i)), position=0),
        statement("g0", box(t=steps, j=gates), at("G", t, j), (at("X", t, j),),
                  position=inside(0, "j")),
        statement("g1", box(t=steps, j=gates, k=hidden), at("G", t, j),
                  (at("W", j, k), at("h", t, k)), position=inside(1, "j", "k"), reduce=("k",)),
        statement("c1", box(t=steps, i=hidden), at("c", t + 1, i), (*cell, at("c", t, i)),
                  position=inside(2, "i")),
        statement("h1", box(t=steps, i=hidden), at("h", t + 1, i), (cell[3], at("c", t + 1, i)),
                  position=inside(3, "i")),
    )  # fmt: skip


def lstm_tree() -> Tree:
    steps = {"g0": (j,), "g1": (j, k), "c1": (i,), "h1": (i,)}
    parts = tuple(
        band([f"{name} {p}" for p in range(len(of))], {name: of}, Leaf(name))
        for name, of in steps.items()
    )
    scan = band(["t"], dict.fromkeys(steps, (t,)), Sequence(parts))
    return Sequence((band(["first"], {"start": (i,)}, Leaf("start")), scan))


def chain(length: int = 24, size: int = 4096) -> Scop:
    """T0 → T1 → … elementwise."""
    tensors = [tensor(f"T{p}", size, size) for p in range(1, length)]
    statements = [
        statement(f"s{p}", box(i=size, j=size), at(f"T{p + 1}", i, j), (at(f"T{p}", i, j),),
                  position=p)
        for p in range(length)
    ]  # fmt: skip
    ends = tensor("T0", size, size, role="input"), tensor(f"T{length}", size, size, role="output")
    return scop((*ends, *tensors), *statements)


def chain_tree(length: int = 24, tile: int = 64) -> Tree:
    """All fused into tiles."""
    names = [f"s{p}" for p in range(length)]
    of = (i // tile, j // tile, i % tile, j % tile)
    return band(
        ["ti", "tj", "pi", "pj"], dict.fromkeys(names, of), Sequence(tuple(map(Leaf, names)))
    )


EXAMPLES = {
    "gemm": (gemm, gemm_tree),
    "conv": (conv_cluster, conv_tree),
    "softmax": (softmax, softmax_tree),
    "lstm": (lstm, lstm_tree),
    "chain": (chain, chain_tree),
}


__all__ = ["EXAMPLES", "Statement", "band", "chain", "conv_cluster", "gemm", "lstm", "softmax"]
