"""Chains of windows, and tilings of them with recomputed halos in local buffers: some wrong."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.polyhedral.scops import Constraint, Var, at, box, index, loop, scop, statement, tensor
from weft.ir.scalar_expr import Expr
from weft.ir.schedule_tree import Band, Leaf, Sequence, Tree
from weft.ir.scop import Origin, Scop, Statement, Tensor

i, k, n, tile = Var("i"), Var("k"), Var("n"), Var("tile")
TILE = 3


def random_chain(random: Random) -> tuple[Scop, tuple[int, ...]]:
    """X → T1 → … → Tm, each over n + margin elements, reading a window of the one before.

    Also the widths of the windows. Some stages are sums over the window.
    """
    widths = tuple(random.choice((1, 2, 3)) for _ in range(random.choice((2, 2, 3))))
    sizes = [n + (sum(widths[stage:]) - len(widths[stage:])) for stage in range(len(widths) + 1)]
    tensors, statements = [tensor("X", sizes[0], role="input")], []
    position = 0
    for stage, width in enumerate(widths, start=1):
        last = stage == len(widths)
        tensors.append(tensor(f"T{stage}", sizes[stage], role="output" if last else "temp"))
        source = "X" if stage == 1 else f"T{stage - 1}"
        domain = box(i=sizes[stage])
        if random.random() < 0.5:
            statements.append(
                statement(f"z{stage}", domain, at(f"T{stage}", i), dims=("i",), position=position)
            )
            statements.append(
                statement(
                    f"u{stage}", (*domain, *box(k=width)), at(f"T{stage}", i), (at(source, i + k),),
                    dims=("i", "k"), position=position + 1, reduce=("k",),
                )
            )  # fmt: skip
        else:
            reads = tuple(at(source, i + w) for w in range(width))
            statements.append(
                statement(f"s{stage}", domain, at(f"T{stage}", i), reads, dims=("i",),
                          position=position)
            )  # fmt: skip
        position += 2
    of = scop(
        tuple(tensors), *statements, parameters=("n",),
        context=(Constraint(n - 1), Constraint(4 - n)),
    )  # fmt: skip
    return of, widths


def random_tiling(random: Random, of: Scop, widths: tuple[int, ...]) -> tuple[Scop, Tree]:
    """All stages in one loop over tiles of the last, recomputing what a tile needs.

    One time in two something is off by a little: a halo, an origin, an order, a copy.
    """
    fault = random.choice(("", "", "", "halo", "origin", "order", "shift", "kept", "init"))
    last = len(widths)
    statements: list[Statement] = []
    for s in of.statements:
        stage = int(s.name[1:])
        halo = sum(widths[stage:]) - len(widths[stage:])
        if fault == "halo" and stage == 1:
            halo -= 1
        statements.append(_clone(random, s, stage, halo, last, fault))
    tensors = tuple(_local(t, widths, fault) for t in of.tensors)
    new = replace(of, tensors=tensors, statements=tuple(statements))
    names = [s.name for s in statements]
    if fault == "order":
        random.shuffle(names)
    parts: list[Tree] = []
    for name in names:
        loops = tuple(
            loop(f"{name} {d}", **{name: Var(d) if random.random() < 0.7 else -Var(d)})
            for d in new.statement(name).dims
            if d != "tile"
        )
        parts.append(Band(loops, Leaf(name)))
    outer = loop("tile", **dict.fromkeys(names, tile))
    return new, Band((outer,), Sequence(tuple(parts)))


def _clone(random: Random, s: Statement, stage: int, halo: int, last: int, fault: str) -> Statement:
    """``s`` over (tile, i in the tile, …); its original instance is TILE · tile + i."""
    whole: Expr = tile * TILE + i
    domain = [tile, i, index(TILE - 1 + halo) - i]
    size = next(c.expr for c in s.domain if c.expr != i and c.expr != k)
    domain += [_at(size, whole)]
    domain += [c.expr for c in s.domain if k in (c.expr, *c.expr.children)]
    at_original: tuple[Expr, ...] = tuple(whole if d == "i" else Var(d) for d in s.dims)
    if fault == "origin" and stage == 1 and s.update is None:
        at_original = (whole - i % 2, *at_original[1:])
    shift = 1 if fault == "shift" and stage == last else 0
    reads = []
    for read in s.reads:
        inner = read.indices[0]
        if read.tensor == "X":
            reads.append(replace(read, indices=(_at(inner, whole) + shift * (i // 2),)))
        else:
            reads.append(replace(read, indices=(tile, inner + shift * (i // 2))))
    [write] = s.writes
    target = (whole,) if stage == last else (tile, i)
    if fault == "init" and s.name[0] == "z":
        domain += [i - 1]
    return replace(
        s,
        name=f"{s.name}_t",
        dims=("tile", *s.dims),
        domain=tuple(Constraint(e) for e in domain),
        position=(*s.position[:1], "tile", 0, *s.position[1:]),
        writes=(replace(write, indices=target),),
        reads=tuple(reads),
        origin=Origin(s.name, at_original),
    )


def _at(expr: Expr, whole: Expr) -> Expr:
    """``expr`` with i replaced."""
    if expr == i:
        return whole
    children = tuple(_at(child, whole) for child in expr.children)
    return expr.rebuild(children) if children else expr


def _local(t: Tensor, widths: tuple[int, ...], fault: str) -> Tensor:
    if t.role != "temp":
        return t
    room = TILE + sum(widths)
    contracted = 0 if fault == "kept" else 1
    return replace(t, shape=(n + 9, index(room)), scope="local", contracted=contracted)
