"""Random small Scops and random schedules for them, some legal, some not."""

from __future__ import annotations

from random import Random

from tests.polyhedral.scops import SUM, Constraint, Var, box, index, scop, statement, tensor
from weft.ir.scalar_expr import Expr
from weft.ir.schedule_tree import Band, Leaf, Loop, Sequence, Tree
from weft.ir.scop import Access, Scop, Statement
from weft.ir.tensor_expr import Monoid

_RANKS = {"A": 1, "B": 2, "C": 0}
_ORDERED = Monoid(SUM.name, SUM.left, SUM.right, SUM.combined, SUM.identity, frozenset())


def random_scop(random: Random) -> Scop:
    """One to four statements over three tensors, with one parameter n in 1 … 4."""
    tensors = tuple(tensor(name, *[5] * rank) for name, rank in _RANKS.items())
    statements: list[Statement] = []
    for number in range(random.choice((1, 2, 2, 3, 4))):
        statements.append(_statement(random, number, statements))
    context = (Constraint(Var("n") - 1), Constraint(4 - Var("n")))
    return scop(tensors, *statements, parameters=("n",), context=context)


def _statement(random: Random, number: int, before: list[Statement]) -> Statement:
    name = f"S{number}"
    dims = tuple("ijk"[: random.choice((1, 2, 2, 3))])
    domain: tuple[Constraint, ...] = ()
    for place, dim in enumerate(dims):
        size: Expr = random.choice([index(2), index(3), index(4), Var("n")])
        if place and random.random() < 0.25:
            size = Var(dims[place - 1]) + random.choice((0, 1))
        domain += box(**{dim: (random.choice((0, 0, 0, 1)), size)})
    if random.random() < 0.15:
        domain += (Constraint((Var(dims[-1]) + random.choice((0, 1))) % 2, equality=True),)
    reduce = tuple(d for d in dims if random.random() < 0.5) if random.random() < 0.3 else ()
    reads = tuple(_access(random, dims) for _ in range(random.choice((0, 1, 1, 2))))
    return statement(
        name,
        domain,
        _access(random, dims, write=True),
        reads,
        dims=dims,
        position=_position(random, dims, before),
        reduce=reduce,
        monoid=_ORDERED if random.random() < 0.2 else SUM,
    )


def _position(
    random: Random, dims: tuple[str, ...], before: list[Statement]
) -> tuple[int | str, ...]:
    """Somewhere behind the last statement: after it, or in some of its loops."""
    last = before[-1].position if before else (-1,)
    depth = random.choice((0, 0, 1, 2))
    depth = min(depth, len(dims), (len(last) - 1) // 2)
    row: list[int | str] = []
    for level in range(len(dims)):
        row += [last[2 * level] if level < depth else 0, dims[level]]
    row.append(0)
    row[2 * depth] = int(last[2 * depth]) + 1
    return tuple(row)


def _access(random: Random, dims: tuple[str, ...], write: bool = False) -> Access:
    name = random.choice("AABBC")
    if random.random() < 0.04:
        return Access(name, (), may=True)
    indices = []
    for _ in range(_RANKS[name]):
        value = Var(random.choice(dims)) * random.choice((1, 1, 1, 1, -1, 2))
        if random.random() < 0.2:
            value = value + Var(random.choice(dims))
        if random.random() < 0.1:
            value = value // 2
        indices.append(value + random.choice((0, 0, 0, 0, 1, -1, 3)))
    guard: tuple[Constraint, ...] = ()
    if random.random() < (0.15 if write else 0.3):
        dim = Var(random.choice(dims))
        guard = (random.choice((Constraint(dim - 1), Constraint(1 - dim))),)
    return Access(name, tuple(indices), guard)


def random_tree(random: Random, of: Scop) -> Tree:
    """A schedule near the initial order, or one that fuses all statements."""
    if random.random() < 0.6:
        items = [(s, s.position) for s in of.statements]
        return _nested(random, items, _Names())
    return _fused(random, of)


class _Names:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        return f"l{self.count}"


def _kind(random: Random) -> str:
    return random.choice(("serial",) * 8 + ("parallel", "vector"))


def _nested(
    random: Random, items: list[tuple[Statement, tuple[int | str, ...]]], names: _Names
) -> Tree:
    """The tree of the initial order; sometimes a loop is tiled, shifted or turned around, and
    sometimes two parts of a sequence change places."""
    groups: dict[int, list[tuple[Statement, tuple[int | str, ...]]]] = {}
    for s, position in items:
        groups.setdefault(int(position[0]), []).append((s, position[1:]))
    parts: list[Tree] = []
    for key in sorted(groups):
        group = groups[key]
        if not group[0][1]:
            parts.append(Leaf(group[0][0].name))
            continue
        below = _nested(random, [(s, p[1:]) for s, p in group], names)
        at: dict[str, Expr] = {s.name: Var(str(p[0])) for s, p in group}
        parts.append(_band(random, at, below, names))
    if len(parts) > 1 and random.random() < 0.15:
        random.shuffle(parts)
    return parts[0] if len(parts) == 1 else Sequence(tuple(parts))


def _band(random: Random, at: dict[str, Expr], below: Tree, names: _Names) -> Tree:
    at = {s: _moved(random, value) for s, value in at.items()}
    if random.random() < 0.25:
        size = random.choice((2, 3))
        tiles = Loop(names(), {s: v // size for s, v in at.items()}, _kind(random))  # type: ignore[arg-type]
        points = Loop(names(), {s: v % size for s, v in at.items()}, _kind(random))  # type: ignore[arg-type]
        return _swapped(random, Band((tiles,), below), Band((points,), below), tiles, points, below)
    loop = Loop(names(), at, _kind(random))  # type: ignore[arg-type]
    if isinstance(below, Band) and random.random() < 0.3:
        return Band((*below.loops, loop), below.child)
    return Band((loop,), below)


def _swapped(random: Random, *parts: object) -> Tree:
    *_, tiles, points, below = parts
    assert isinstance(tiles, Loop) and isinstance(points, Loop)
    order = (points, tiles) if random.random() < 0.2 else (tiles, points)
    if isinstance(below, Band) and random.random() < 0.5:
        return Band((order[0], *below.loops, order[1]), below.child)
    return Band(order, below)  # type: ignore[arg-type]


def _moved(random: Random, value: Expr) -> Expr:
    if random.random() < 0.1:
        value = -value
    if random.random() < 0.15:
        value = value + random.choice((-2, -1, 1, 2))
    return value


def _fused(random: Random, of: Scop) -> Tree:
    """Common loops over permuted, skewed or tiled dims of all statements, then a sequence."""
    rows: dict[str, list[Expr]] = {}
    for s in of.statements:
        dims = list(s.dims)
        if random.random() < 0.5:
            random.shuffle(dims)
        rows[s.name] = [_moved(random, Var(d)) for d in dims]
        if len(dims) > 1 and random.random() < 0.3:
            rows[s.name][-1] = rows[s.name][-1] + rows[s.name][0]
        if random.random() < 0.1:
            rows[s.name][-1] = rows[s.name][-1] // 2  # now and then, instances run at one time
    depth = random.choice((1, 2))
    names = _Names()
    for row in rows.values():
        row += [index(0)] * (depth - len(row))
    shared = tuple(
        Loop(names(), {s: row[k] for s, row in rows.items()}, _kind(random))  # type: ignore[arg-type]
        for k in range(depth)
    )
    parts: list[Tree] = []
    for s, row in rows.items():
        loops = tuple(Loop(names(), {s: v}, _kind(random)) for v in row[depth:])  # type: ignore[arg-type]
        parts.append(Band(loops, Leaf(s)) if loops else Leaf(s))
    if random.random() < 0.3:
        random.shuffle(parts)
    return Band(shared, parts[0] if len(parts) == 1 else Sequence(tuple(parts)))
