"""Families of random programs: wild ones, and variants of what people write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from random import Random

from tests.properties.program_maker import Maker
from weft.ir.scalar_expr import Expr, Var, literal
from weft.ir.scop import Access, Constraint


def _wild(m: Maker) -> None:
    r = m.random
    for k in range(r.randint(2, 4)):
        m.ranks["ABCD"[k]] = r.choice((0, 1, 1, 2, 2, 3))
    for _ in range(r.choice((1, 1, 2, 2, 3))):
        _item(m)
    if not m.drafts:
        _wild_statement(m)


def _item(m: Maker) -> None:
    r, depth = m.random, len(m.loops)
    if len(m.drafts) >= 5:
        return
    if depth < 3 and r.random() < (0.95, 0.6, 0.35)[depth]:
        _wild_loop(m)
        for _ in range(r.choice((1, 1, 1, 2))):
            _item(m)
        m.end()
    else:
        _wild_statement(m)


def _wild_loop(m: Maker) -> None:
    r = m.random
    low: Expr = literal(r.choice((0, 0, 0, 0, 1, 1, -1, 2)))
    high = m.size()
    if m.loops and r.random() < 0.4:  # triangles and trapezoids
        outer = Var(r.choice(m.dims))
        match r.randrange(6):
            case 0:
                high = outer + r.choice((0, 1, 2))
            case 1:
                low = outer + r.choice((0, 1))
            case 2:
                high = high - outer
            case 3:
                low = -outer
            case 4:
                low = outer // 2
            case 5:
                low, high = outer - 1, outer + 2
    i = m.loop(low, high)
    if r.random() < 0.12:  # strides
        step, first = r.choice((2, 2, 3)), r.randrange(2)
        other: Expr = Var(r.choice(m.dims)) if r.random() < 0.3 else literal(0)
        m.loops[-1] = (
            m.loops[-1][0],
            (*m.loops[-1][1], Constraint((i + other + first) % step, equality=True)),
        )


def _wild_statement(m: Maker) -> None:
    r, dims = m.random, m.dims
    guard: list[Constraint] = []
    if dims and r.random() < 0.15:
        one, two = Var(r.choice(dims)), Var(r.choice(dims))
        guard.append(
            r.choice((
                Constraint(one - two), Constraint(one - two - 1), Constraint(2 - one - two),
                Constraint(one % 3 - 1), Constraint(one // 2 - two + 1),
                Constraint(one - 1, equality=True), Constraint(m.size() - 1 - one - two),
            ))
        )  # fmt: skip
    write = _wild_access(m, write=True)
    reads = [_wild_access(m) for _ in range(r.choice((0, 1, 1, 2, 2, 3)))]
    if r.random() < 0.25:  # in place
        reads.append(replace(write, indices=tuple(_moved(r, i) for i in write.indices), guard=()))
    if dims and r.random() < 0.04:
        reads += _indirect(m)
    fold = r.choice(("add", "add", "max", "min")) if dims and r.random() < 0.3 else ""
    along: list[str] = []
    if fold:
        used = {n for i in write.indices for n in _names(i)}
        along = [d for d in dims if d not in used or r.random() < 0.1]
    m.statement(write, *reads, fold=fold, along=along, guard=guard, laws=r.random() < 0.85)


def _names(expr: Expr) -> set[str]:
    own = {expr.name} if isinstance(expr, Var) else set()
    return own.union(*map(_names, expr.children))


def _moved(r: Random, index: Expr) -> Expr:
    return index + r.choice((0, 0, -1, 1, -1, 1, 2))


def _wild_access(m: Maker, write: bool = False) -> Access:
    r, dims = m.random, m.dims
    name = r.choice(list(m.ranks))
    while name.startswith("at") or (write and name == "D"):
        name = r.choice(list(m.ranks))
    rank = m.ranks[name]
    plain = list(dims)
    r.shuffle(plain)
    if r.random() < (0.6 if write else 0.35) and rank <= len(dims):
        indices = [_moved(r, Var(d)) if r.random() < 0.3 else Var(d) for d in plain[:rank]]
    else:
        indices = [_wild_index(m) for _ in range(rank)]
    guard: list[Constraint] = []
    if dims and r.random() < (0.08 if write else 0.15):
        d = Var(r.choice(dims))
        guard = [r.choice((Constraint(d - 1), Constraint(1 - d), Constraint(m.size() - 2 - d)))]
    return m.access(name, *indices, guard=guard)


def _wild_index(m: Maker) -> Expr:
    r, dims = m.random, m.dims
    if not dims:
        return literal(r.randrange(3)) if r.random() < 0.7 else m.size()
    d, e = Var(r.choice(dims)), Var(r.choice(dims))
    choice = r.randrange(14)
    base: Expr
    if choice < 5:
        base = d
    elif choice == 5:
        base = -d
    elif choice == 6:
        base = d * 2
    elif choice == 7:
        base = d + e
    elif choice == 8:
        base = d - e
    elif choice == 9:
        base = m.size() - 1 - d
    elif choice == 10:
        base = d // 2
    elif choice == 11:
        base = (d + e) % r.choice((2, 3))
    elif choice == 12:
        base = d * 2 - e
    else:
        base = literal(r.randrange(3))
    return base + r.choice((0, 0, 0, 1, -1, 2)) if r.random() < 0.5 else base


def _indirect(m: Maker) -> list[Access]:
    """A read whose element another read decides; ``_fitted`` gives it its body index."""
    name = m.random.choice([t for t in m.ranks if not t.startswith("at")])
    m.ranks.setdefault("at", 1)
    index = Access("at", (Var(m.random.choice(m.dims)),))
    return [index, Access(name, (literal(0),) * m.ranks[name], may=True)]


def _chain(m: Maker) -> None:
    """X → T1 → … → Y through windows, in one or two dimensions; some stages are folds."""
    r = m.random
    rank = r.choice((1, 1, 2))
    stages = r.choice((2, 2, 3)) if rank == 1 else 2
    widths = [r.choice((1, 2, 3) if rank == 1 else (1, 2)) for _ in range(stages)]
    sizes = [m.size() for _ in range(rank)]
    for stage, width in enumerate(widths):
        source, target = ("X" if stage == 0 else f"T{stage}"), f"T{stage + 1}"
        margin = sum(widths[stage + 1 :]) - len(widths[stage + 1 :])
        folded = rank == 1 and r.random() < 0.4
        at = [m.loop(0, size + margin) for size in sizes]
        if folded:
            together = r.random() < 0.5
            m.statement(m.access(target, *at))
            if not together:
                m.end()
                at = [m.loop(0, size + margin) for size in sizes]
            k = m.loop(0, width)
            fold = r.choice(("add", "max"))
            reads = [m.access(source, at[0] + k)]
            m.statement(m.access(target, *at), *reads, fold=fold, along=(m.dims[-1],))
            m.end()
        else:
            offsets = (
                product(range(width), repeat=rank) if r.random() < 0.5 else [(width - 1,) * rank]
            )
            reads = [m.access(source, *(a + o if o else a for a, o in zip(at, off, strict=True)))
                     for off in list(offsets)[:4]]  # fmt: skip
            m.statement(m.access(target, *at), *reads)
        for _ in sizes:
            m.end()


def _product(m: Maker) -> None:
    """C = 0; C += A B; D = f(C): nests of their own, or in common loops as people write them."""
    r = m.random
    sizes = [m.size() for _ in range(3)]
    shared = r.random() < 0.5
    transposed = r.random() < 0.5, r.random() < 0.5
    fold = r.choice(("add", "add", "max", "min"))

    def matrix(name: str, a: Expr, b: Expr, turned: bool) -> Access:
        return m.access(name, b, a) if turned else m.access(name, a, b)

    i, j = m.loop(0, sizes[0]), m.loop(0, sizes[1])
    if r.random() < 0.85:
        m.statement(m.access("C", i, j))
    if not shared:
        m.end(), m.end()
        i, j = m.loop(0, sizes[0]), m.loop(0, sizes[1])
    triangle = r.random() < 0.2
    k = m.loop(0, i + 1 if triangle else sizes[2])
    reads = [matrix("A", i, k, transposed[0]), matrix("B", k, j, transposed[1])]
    m.statement(m.access("C", i, j), *reads, fold=fold, along=(m.dims[-1],))
    m.end()
    if not shared:
        m.end(), m.end()
        i, j = m.loop(0, sizes[0]), m.loop(0, sizes[1])
    if r.random() < 0.7:
        m.statement(m.access("D", i, j), m.access("C", i, j), m.access("v", j))
    m.end(), m.end()
    if r.random() < 0.2:
        i, j = m.loop(0, sizes[0]), m.loop(0, sizes[1])
        m.statement(m.access("E", j, i), m.access("C", i, j))
        m.end(), m.end()


def _time(m: Maker) -> None:
    """Sweeps over one or two arrays, in place or between them."""
    r = m.random
    rank = r.choice((1, 1, 2))
    m.loop(0, r.choice((literal(2), literal(3), m.size())), name="t")
    size = m.size()
    names = r.choice((("A",), ("A",), ("A", "B")))
    for k, name in enumerate(names):
        target = names[(k + 1) % len(names)]
        at = [m.loop(1, size) for _ in range(rank)]
        offsets = r.sample(list(product((-1, 0, 1), repeat=rank)), r.randint(1, 3))
        reads = [m.access(name, *(a + o if o else a for a, o in zip(at, off, strict=True)))
                 for off in offsets]  # fmt: skip
        if r.random() < 0.2:
            reads.append(m.access("c"))
        m.statement(m.access(target, *at), *reads)
        for _ in at:
            m.end()
    if r.random() < 0.2:
        m.statement(m.access("c"), m.access(names[0], *([1] * rank)))
    m.end()


def _triangular(m: Maker) -> None:
    """Solvers, factorisations, closures."""
    r = m.random
    size = m.size()
    a = m.access
    match r.randrange(5):
        case 0:  # lu
            i = m.loop(0, size, name="i")
            j = m.loop(0, i, name="j")
            k = m.loop(0, j, name="k")
            m.statement(a("A", i, j), a("A", i, k), a("A", k, j), fold="add", along=("k",))
            m.end()
            m.statement(a("A", i, j), a("A", i, j), a("A", j, j))
            m.end()
            j = m.loop(i, size, name="j")
            k = m.loop(0, i, name="k")
            m.statement(a("A", i, j), a("A", i, k), a("A", k, j), fold="add", along=("k",))
            m.end(), m.end(), m.end()
        case 1:  # a triangular system
            i = m.loop(0, size, name="i")
            m.statement(a("x", i), a("b", i))
            j = m.loop(0, i, name="j")
            m.statement(a("x", i), a("L", i, j), a("x", j), fold="add", along=("j",))
            m.end()
            m.statement(a("x", i), a("x", i), a("L", i, i))
            m.end()
        case 2:  # all pairs
            k, i, j = (m.loop(0, size, name=d) for d in "kij")
            if r.random() < 0.5:
                m.statement(a("D", i, j), a("D", i, k), a("D", k, j), fold="min", along=("k",))
            else:
                m.statement(a("D", i, j), a("D", i, j), a("D", i, k), a("D", k, j))
            m.end(), m.end(), m.end()
        case 3:  # a table filled from its diagonal
            i = m.loop(0, size, name="i")
            j = m.loop(size - i, size, name="j")
            row = size - 1 - i
            m.statement(a("P", row, j), a("P", row, j - 1), a("P", row + 1, j))
            m.end(), m.end()
        case 4:  # a symmetric product
            i = m.loop(0, size, name="i")
            j = m.loop(0, i + 1, name="j")
            m.statement(a("C", i, j), a("C", i, j))
            m.end()
            k, j = m.loop(0, 3, name="k"), m.loop(0, i + 1, name="j")
            m.statement(a("C", i, j), a("A", i, k), a("A", j, k), fold="add", along=("k",))
            m.end(), m.end(), m.end()


def _moves(m: Maker) -> None:
    """Copies, transposes, reversals, 0-d temporaries, and sums over what they move."""
    r = m.random
    size = [m.size(), m.size()]
    i, j = m.loop(0, size[0]), m.loop(0, size[1])
    m.statement(m.access("T", j, i), m.access("X", i, j))
    m.end(), m.end()
    i = m.loop(0, size[1])
    m.statement(m.access("s"))
    j = m.loop(0, size[0])
    m.statement(
        m.access("s"), m.access("T", i, j), fold=r.choice(("add", "max")), along=(m.dims[1],)
    )
    m.end()
    back = size[1] - 1 - i if r.random() < 0.5 else i
    m.statement(m.access("Y", back), m.access("s"))
    m.end()
    if r.random() < 0.5:
        i = m.loop(0, size[1])
        m.statement(m.access("Z", i), m.access("Y", i), m.access("Y", size[1] - 1 - i))
        m.end()


FAMILIES: tuple[Callable[[Maker], None], ...] = (
    _wild, _chain, _product, _time, _triangular, _moves,
)  # fmt: skip
WEIGHTS = (50, 14, 13, 10, 8, 5)
