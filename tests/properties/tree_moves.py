"""Random edits of schedule trees, right or wrong, without any code of ``polyhedral/transform``.

A move takes a tree to another one, or gives None where it does not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

from weft.ir.scalar_expr import Expr, Var, literal
from weft.ir.schedule_tree import (
    Band,
    Kind,
    Leaf,
    Loop,
    Mark,
    Sequence,
    Tree,
    children,
    statements_below,
    walk,
    with_children,
)
from weft.ir.scop import Scop

Move = Callable[[Random, Scop, Tree], Tree | None]


# ---- helpers ------------------------------------------------------------------------------------


def bands(tree: Tree) -> list[Band]:
    return [node for node in walk(tree) if isinstance(node, Band)]


def loops(tree: Tree) -> list[Loop]:
    return [loop for band in bands(tree) for loop in band.loops]


def put(tree: Tree, old: Tree, new: Tree) -> Tree:
    """``tree`` with the node ``old`` (that very one) replaced by ``new``."""
    if tree is old:
        return new
    parts = children(tree)
    changed = tuple(put(part, old, new) for part in parts)
    if all(a is b for a, b in zip(parts, changed, strict=True)):
        return tree
    return with_children(tree, changed)


def clean(tree: Tree) -> Tree:
    """Bands in bands as one, no empty bands, no sequences in sequences."""
    parts = tuple(clean(part) for part in children(tree))
    tree = with_children(tree, parts) if parts else tree
    match tree:
        case Band((), child):
            return child
        case Band(outer, Band(inner, child)):
            return Band(outer + inner, child)
        case Sequence((only,)):
            return only
        case Sequence(below) if any(isinstance(p, Sequence) for p in below):
            flat: list[Tree] = []
            for part in below:
                flat += part.children if isinstance(part, Sequence) else (part,)
            return Sequence(tuple(flat))
    return tree


def fresh_names(tree: Tree, stem: str = "l") -> Iterator[str]:
    taken = {loop.name for loop in loops(tree)}
    number = 0
    while True:
        number += 1
        if f"{stem}{number}" not in taken:
            yield f"{stem}{number}"


def identical(one: Tree, other: Tree) -> bool:
    """Whether two trees are the same but for the names of loops."""
    match clean(one), clean(other):
        case Leaf(a), Leaf(b):
            return a == b
        case Band(a, x), Band(b, y):
            same = len(a) == len(b) and all(
                dict(p.at) == dict(q.at) and p.kind == q.kind for p, q in zip(a, b, strict=True)
            )
            return same and identical(x, y)
        case Sequence(a), Sequence(b):
            return len(a) == len(b) and all(map(identical, a, b))
        case Mark(_, x), y:
            return identical(x, y)
        case x, Mark(_, y):
            return identical(x, y)
    return False


def _some_loop(r: Random, tree: Tree) -> tuple[Band, int] | None:
    found = [(band, k) for band in bands(tree) for k in range(len(band.loops))]
    return r.choice(found) if found else None


def _with(band: Band, place: int, *new: Loop) -> Band:
    return replace(band, loops=(*band.loops[:place], *new, *band.loops[place + 1 :]))


def _wide_bands(tree: Tree) -> list[Band]:
    return [band for band in bands(tree) if len(band.loops) > 1]


# ---- moves --------------------------------------------------------------------------------------


def turn(r: Random, _: Scop, tree: Tree) -> Tree | None:
    """A loop descends."""
    if (found := _some_loop(r, tree)) is None:
        return None
    band, k = found
    old = band.loops[k]
    new = replace(old, at={s: literal(0) - v for s, v in old.at.items()})
    return put(tree, band, _with(band, k, new))


def slide(r: Random, scop: Scop, tree: Tree) -> Tree | None:
    """One statement of a loop runs earlier or later."""
    if (found := _some_loop(r, tree)) is None:
        return None
    band, k = found
    old = band.loops[k]
    chosen = r.choice(list(old.at))
    by: Expr = literal(r.choice((-2, -1, -1, 1, 1, 2)))
    if scop.parameters and r.random() < 0.15:
        by = Var(r.choice(scop.parameters)) * r.choice((1, -1))
    new = replace(old, at={s: v + by if s == chosen else v for s, v in old.at.items()})
    return put(tree, band, _with(band, k, new))


def lean(r: Random, _: Scop, tree: Tree) -> Tree | None:
    """A loop is skewed by another one of its band."""
    if not (wide := _wide_bands(tree)):
        return None
    band = r.choice(wide)
    a, b = r.sample(range(len(band.loops)), 2)
    factor = r.choice((1, 1, 1, -1, 2, -2))
    old, by = band.loops[a], band.loops[b]
    new = replace(old, at={s: v + by.at[s] * factor for s, v in old.at.items()})
    return put(tree, band, _with(band, a, new))


def exchange(r: Random, _: Scop, tree: Tree) -> Tree | None:
    """Loops of a band change places."""
    if not (wide := _wide_bands(tree)):
        return None
    band = r.choice(wide)
    order = list(band.loops)
    if len(order) > 2 and r.random() < 0.3:
        r.shuffle(order)
    else:
        a, b = r.sample(range(len(order)), 2)
        order[a], order[b] = order[b], order[a]
    return put(tree, band, replace(band, loops=tuple(order)))


def cut(r: Random, _: Scop, tree: Tree) -> Tree | None:
    """Neighbouring loops are tiled, the point loops below the tile loops or in their places."""
    if not (found := bands(tree)):
        return None
    band = r.choice(found)
    begin = r.randrange(len(band.loops))
    end = r.randint(begin + 1, min(len(band.loops), begin + 3))
    names = fresh_names(tree)
    outer, inner = [], []
    for loop in band.loops[begin:end]:
        size, off = r.choice((2, 2, 3, 4)), r.choice((0, 0, 0, 1))
        at = {s: v + off if off else v for s, v in loop.at.items()}
        outer.append(Loop(next(names), {s: v // size for s, v in at.items()}))
        inner.append(Loop(next(names), {s: v % size for s, v in at.items()}))
    middle = [*outer, *inner]
    if r.random() < 0.25:
        middle = [x for pair in zip(outer, inner, strict=True) for x in pair]
    if r.random() < 0.1:
        r.shuffle(middle)
    return put(tree, band, replace(band, loops=(*band.loops[:begin], *middle, *band.loops[end:])))


def combine(r: Random, _: Scop, tree: Tree) -> Tree | None:
    """Two loops of a band replaced by combinations of them: determinant 1 or -1."""
    if not (wide := _wide_bands(tree)):
        return None
    band = r.choice(wide)
    k = r.randrange(len(band.loops) - 1)
    a, b = band.loops[k : k + 2]
    p, q, s, t = r.choice(
        ((1, 1, 0, 1), (1, 1, 1, 0), (1, 0, -1, 1), (2, 1, 1, 1), (1, 2, 0, 1), (0, 1, -1, 0),
         (1, 1, 1, 2), (1, -1, 0, 1), (3, 1, 1, 0))
    )  # fmt: skip

    def mixed(x: int, y: int) -> dict[str, Expr]:
        return {n: a.at[n] * x + b.at[n] * y for n in a.at}

    new = (Loop(a.name, mixed(p, q)), Loop(b.name, mixed(s, t)))
    return put(tree, band, replace(band, loops=(*band.loops[:k], *new, *band.loops[k + 2 :])))


def scale(r: Random, _: Scop, tree: Tree) -> Tree | None:
    """A loop counts in twos; now and then it forgets the last bit, so that instances coincide."""
    if (found := _some_loop(r, tree)) is None:
        return None
    band, k = found
    old = band.loops[k]
    halved = r.random() < 0.2
    new = replace(old, at={s: v // 2 if halved else v * 2 for s, v in old.at.items()})
    return put(tree, band, _with(band, k, new))


def permute(r: Random, _: Scop, tree: Tree) -> Tree | None:
    """Parts of a sequence change places."""
    found = [node for node in walk(tree) if isinstance(node, Sequence)]
    if not found:
        return None
    node = r.choice(found)
    parts = list(node.children)
    k = r.randrange(len(parts) - 1)
    parts[k], parts[k + 1] = parts[k + 1], parts[k]
    return put(tree, node, Sequence(tuple(parts)))


def part(r: Random, _: Scop, tree: Tree) -> Tree | None:
    """The loops around a sequence, around each of its two halves instead."""
    found = [b for b in bands(tree) if isinstance(b.child, Sequence)]
    if not found:
        return None
    band = r.choice(found)
    assert isinstance(band.child, Sequence)
    begin, at = r.randrange(len(band.loops)), r.randrange(1, len(band.child.children))
    names = fresh_names(tree)
    copies: list[Tree] = []
    for piece in (band.child.children[:at], band.child.children[at:]):
        below = Sequence(piece)
        inside = statements_below(below)
        own = tuple(
            Loop(next(names), {s: x.at[s] for s in inside}, x.kind) for x in band.loops[begin:]
        )
        copies.append(Band(own, below))
    return clean(put(tree, band, Band(band.loops[:begin], Sequence(tuple(copies)))))


def join(r: Random, _: Scop, tree: Tree) -> Tree | None:
    """Two neighbouring nests under common loops, whatever their loops run over."""
    found = [
        (node, k)
        for node in walk(tree)
        if isinstance(node, Sequence)
        for k in range(len(node.children) - 1)
        if isinstance(node.children[k], Band) and isinstance(node.children[k + 1], Band)
    ]
    if not found:
        return None
    node, k = r.choice(found)
    one, two = node.children[k : k + 2]
    assert isinstance(one, Band) and isinstance(two, Band)
    count = r.randint(1, min(len(one.loops), len(two.loops)))
    chosen = list(range(len(two.loops)))
    if r.random() < 0.3:
        r.shuffle(chosen)
    rest = [x for n, x in enumerate(two.loops) if n not in chosen[:count]]
    names = fresh_names(tree)
    shared = tuple(
        Loop(next(names), {**a.at, **two.loops[b].at})
        for a, b in zip(one.loops[:count], chosen[:count], strict=True)
    )
    below = Sequence((Band(one.loops[count:], one.child), Band(tuple(rest), two.child)))
    parts = (*node.children[:k], Band(shared, below), *node.children[k + 2 :])
    return clean(put(tree, node, Sequence(parts)))


def embed(r: Random, scop: Scop, tree: Tree) -> Tree | None:
    """A part of a sequence moves into one iteration of its neighbour's loop."""
    found = [
        (node, k, k + d)
        for node in walk(tree)
        if isinstance(node, Sequence)
        for k in range(len(node.children))
        for d in (-1, 1)
        if 0 <= k + d < len(node.children) and isinstance(node.children[k + d], Band)
    ]
    if not found:
        return None
    node, at, into = r.choice(found)
    piece, band = node.children[at], node.children[into]
    assert isinstance(band, Band)
    value: Expr = literal(r.choice((0, 0, 0, 1, 2, -1)))
    if scop.parameters and r.random() < 0.3:
        value = Var(r.choice(scop.parameters)) - 1
    inside = statements_below(piece)
    outer = replace(band.loops[0], at={**band.loops[0].at, **dict.fromkeys(inside, value)})
    rest = Band(band.loops[1:], band.child)
    below = Sequence((piece, rest) if at < into else (rest, piece))
    parts = [c for k, c in enumerate(node.children) if k not in (at, into)]
    parts.insert(min(at, into), Band((outer,), below))
    return clean(put(tree, node, Sequence(tuple(parts))))


def kind(r: Random, _: Scop, tree: Tree) -> Tree | None:
    """A loop becomes parallel or vector."""
    if (found := _some_loop(r, tree)) is None:
        return None
    band, k = found
    kinds: tuple[Kind, ...] = ("parallel", "vector")
    new = replace(band.loops[k], kind=r.choice(kinds))
    return put(tree, band, _with(band, k, new))


def refit(r: Random, scop: Scop, _: Tree) -> Tree | None:
    """Common loops over permuted dims of all statements, then a sequence: from scratch."""
    rows: dict[str, list[Expr]] = {}
    for s in scop.statements:
        dims = list(s.dims)
        if r.random() < 0.5:
            r.shuffle(dims)
        rows[s.name] = [Var(d) + r.choice((0, 0, 0, 1, -1)) for d in dims]
        if len(dims) > 1 and r.random() < 0.3:
            rows[s.name][-1] = rows[s.name][-1] + rows[s.name][0]
    depth = r.choice((1, 1, 2))
    for row in rows.values():
        row += [literal(0)] * (depth - len(row))
    shared = tuple(Loop(f"g{k}", {s: row[k] for s, row in rows.items()}) for k in range(depth))
    count = 0
    parts: list[Tree] = []
    for s, row in rows.items():
        own = []
        for value in row[depth:]:
            count += 1
            own.append(Loop(f"h{count}", {s: value}))
        parts.append(Band(tuple(own), Leaf(s)))
    return clean(Band(shared, Sequence(tuple(parts))))


MOVES: dict[Move, int] = {
    turn: 4, slide: 4, lean: 5, exchange: 6, cut: 6, combine: 3, scale: 2, permute: 4, part: 4,
    join: 5, embed: 2, kind: 6, refit: 1,
}  # fmt: skip
"""What may be done to a tree, and how often."""

BREAKS: dict[Move, int] = {
    turn: 4, slide: 5, exchange: 3, combine: 1, permute: 6, part: 3, join: 3, embed: 3, kind: 8,
    lean: 2,
}  # fmt: skip
"""What a single dependence often stands against."""


def choose(r: Random, table: dict[Move, int]) -> Move:
    return r.choices(list(table), list(table.values()))[0]
