"""Random affine programs that can be run: in-place updates, triangles, strides, parameters, folds.

Six families: wild ones, where anything goes, and random variants of what people write (stencil
chains, matrix products, time loops, triangular solvers, copies and transposes), so that every
transformation finds programs that it applies to. Shapes are fitted to the accesses afterwards, and
tensors are temporaries or outputs only where nothing reads them first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random

import numpy as np

from tests.properties.enumeration import (
    Array,
    Column,
    TooLarge,
    _textual_rank,
    elements,
    points,
)
from weft import dtypes
from weft.dtypes import DType
from weft.frontend import build as w
from weft.frontend.scalar_expr import Expr, Load, Var, apply, cast, literal, select
from weft.polyhedral.scop import (
    Access,
    Body,
    Constraint,
    Role,
    Scop,
    Statement,
    Tensor,
    Update,
)

MOST_INSTANCES = 130  # at the largest sizes
Sizes = dict[str, int]


@dataclass(frozen=True, slots=True)
class Affine:
    """A program, the sizes to enumerate it at, and whether its context allows no others."""

    family: str
    scop: Scop
    sizes: tuple[Sizes, ...]
    closed: bool

    def close(self) -> Affine:
        """The same program for the enumerated sizes only."""
        limits = []
        for name in self.scop.parameters:
            values = [s[name] for s in self.sizes]
            limits += [Constraint(Var(name) - min(values)), Constraint(max(values) - Var(name))]
        every = [range(min(s[p] for s in self.sizes), max(s[p] for s in self.sizes) + 1)
                 for p in self.scop.parameters]  # fmt: skip
        sizes = tuple(dict(zip(self.scop.parameters, v, strict=True)) for v in product(*every))
        return Affine(self.family, replace(self.scop, context=tuple(limits)), sizes, True)


def random_affine(seed: int, attempt: int = 0) -> Affine:
    """Program number ``seed``: the same one each time."""
    random = Random(f"affine {seed} {attempt}")
    while True:
        try:
            return Maker(random).make()
        except TooLarge:
            continue


def affine_program(
    build: Callable[[Maker], None],
    parameters: tuple[str, ...],
    sizes: Sequence[Sizes],
    roles: dict[str, Role],
) -> Affine:
    """The program that ``build`` makes, for these ``sizes`` only: all values between the least and
    the largest of each parameter must be among them."""
    m = Maker(Random(0), parameters, roles=roles)
    build(m)
    scop = _fitted(m, Scop("program", parameters, (), (), ()), sizes)
    return Affine(build.__name__, scop, tuple(sizes), False).close()


# ---- the generator ------------------------------------------------------------------------------


@dataclass(slots=True)
class _Draft:
    """A statement before its tensors have shapes."""

    name: str
    dims: tuple[str, ...]
    domain: tuple[Constraint, ...]
    position: tuple[int | str, ...]
    write: Access
    reads: list[Access]
    fold: str = ""
    along: tuple[str, ...] = ()
    laws: bool = True


@dataclass(slots=True)
class Maker:
    random: Random
    parameters: tuple[str, ...] = ()
    drafts: list[_Draft] = field(default_factory=list)
    ranks: dict[str, int] = field(default_factory=dict)
    loops: list[tuple[str, tuple[Constraint, ...]]] = field(default_factory=list)
    counters: list[int] = field(default_factory=lambda: [0])
    dtype: DType = dtypes.int64
    count: int = 0
    roles: dict[str, Role] = field(default_factory=dict)  # decided already

    def make(self) -> Affine:
        r = self.random
        self.dtype = dtypes.int64 if r.random() < 0.75 else dtypes.int32
        self.parameters = r.choice(((), ("n",), ("n",), ("n",), ("n",), ("n", "m")))
        family = r.choices([f.__name__[1:] for f in FAMILIES], WEIGHTS)[0]
        next(f for f in FAMILIES if f.__name__ == f"_{family}")(self)
        closed = not self.parameters or r.random() < 0.5
        context, sizes = self._context(closed)
        scop = Scop("random", self.parameters, context, (), ())
        scop = _fitted(self, scop, sizes)
        return Affine(family, scop, sizes, closed)

    def _context(self, closed: bool) -> tuple[tuple[Constraint, ...], tuple[Sizes, ...]]:
        r = self.random
        lows = [r.choice((0, 0, 1, 2)) for _ in self.parameters]
        span = 3 if len(self.parameters) == 1 else 2
        highs = [low + r.choice((span - 1, span)) for low in lows]
        context = []
        for name, low, high in zip(self.parameters, lows, highs, strict=True):
            context.append(Constraint(Var(name) - low))
            if closed:
                context.append(Constraint(high - Var(name)))
        if closed:
            every = product(*(range(a, b + 1) for a, b in zip(lows, highs, strict=True)))
            return tuple(context), tuple(dict(zip(self.parameters, v, strict=True)) for v in every)
        if len(self.parameters) == 1:
            chosen = [(lows[0] + k,) for k in (0, 1, 2, 3, 4)]
        else:
            a, b = lows
            chosen = [(a, b), (a + 3, b), (a, b + 3), (a + 1, b + 2), (a + 3, b + 2)]
        return tuple(context), tuple(dict(zip(self.parameters, v, strict=True)) for v in chosen)

    # ---- nests --------------------------------------------------------------------------------

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.loops)

    def size(self) -> Expr:
        """How far a loop goes: a parameter, or a small number."""
        r = self.random
        if self.parameters and r.random() < 0.7:
            return Var(r.choice(self.parameters)) + r.choice((0, 0, 0, 1, -1))
        return literal(r.choice((1, 2, 3, 3, 4)))

    def loop(self, low: Expr | int, high: Expr | int, *more: Constraint, name: str = "") -> Expr:
        """Open a loop ``low <= i < high``; ``more`` may mention its dim as ``Var('')``."""
        if not name:
            name = "ijkl"[len(self.loops)] + ("" if self.random.random() < 0.7 else str(self.count))
        while name in self.dims:
            name += "x"
        self.count += 1
        i = Var(name)
        high = high if isinstance(high, Expr) else literal(high)
        constraints = [Constraint(i - low), Constraint(high - 1 - i)]
        self.loops.append((name, (*constraints, *more)))
        self.counters.append(0)
        return i

    def end(self) -> None:
        self.loops.pop()
        self.counters.pop()
        self.counters[-1] += 1

    def access(self, tensor: str, *indices: Expr | int, guard: Sequence[Constraint] = ()) -> Access:
        self.ranks.setdefault(tensor, len(indices))
        return Access(
            tensor,
            tuple(i if isinstance(i, Expr) else literal(i) for i in indices),
            tuple(guard),
        )

    def statement(
        self,
        write: Access,
        *reads: Access,
        fold: str = "",
        along: Sequence[str] = (),
        guard: Sequence[Constraint] = (),
        laws: bool = True,
    ) -> None:
        entries: list[int | str] = []
        for counter, (dim, _) in zip(self.counters, self.loops, strict=False):
            entries += [counter, dim]
        entries.append(self.counters[-1])
        self.counters[-1] += 1
        domain = tuple(c for _, constraints in self.loops for c in constraints)
        self.drafts.append(
            _Draft(f"S{len(self.drafts)}", self.dims, (*domain, *guard), tuple(entries), write,
                   list(reads), fold, tuple(along), laws)
        )  # fmt: skip


# ---- families -----------------------------------------------------------------------------------


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


# ---- shapes, roles and bodies -------------------------------------------------------------------


def _fitted(m: Maker, scop: Scop, sizes: Sequence[Sizes]) -> Scop:
    """``scop`` with the drafts as statements, on tensors that hold all that they touch."""
    statements = tuple(_statement(m, d, _no_bodies(d)) for d in m.drafts)
    scop = replace(scop, statements=statements)
    found = [[points(s, values) for s in statements] for values in sizes]
    total = [sum(p[""].size for p in per) for per in found]
    if max(total) > MOST_INSTANCES or max(total) < 2:
        raise TooLarge
    used = dict.fromkeys(a.tensor for d in m.drafts for a in (d.write, *d.reads))
    shapes: dict[str, tuple[Expr, ...]] = {}
    shifts: dict[str, tuple[Expr | None, ...]] = {}
    for name in used:
        shapes[name], shifts[name] = _shape(m, name, statements, sizes, found)
    roles = _roles(m, statements, sizes, found)
    tensors = tuple(
        Tensor(name, shapes[name], dtypes.int64 if name == "at" else m.dtype, roles[name])
        for name in used
    )
    done = []
    for draft in m.drafts:
        moved = replace(
            draft,
            write=_shifted(draft.write, shifts),
            reads=[_shifted(a, shifts) for a in draft.reads],
        )
        done.append(_statement(m, moved, _body(m, moved)))
    return replace(scop, tensors=tensors, statements=tuple(done))


def _statement(m: Maker, draft: _Draft, body: Body) -> Statement:
    update = None
    if draft.fold:
        monoid = w.monoid(draft.fold, m.dtype)
        update = Update(monoid if draft.laws else replace(monoid, laws=frozenset()), draft.along)
    return Statement(
        draft.name, draft.dims, draft.domain, draft.position, (draft.write,), tuple(draft.reads),
        body, update,
    )  # fmt: skip


def _no_bodies(_: _Draft) -> Body:
    return Body((), ())


def _shape(
    m: Maker,
    name: str,
    statements: Sequence[Statement],
    sizes: Sequence[Sizes],
    found: Sequence[Sequence[dict[str, Array]]],
) -> tuple[tuple[Expr, ...], tuple[Expr | None, ...]]:
    """(the shape of tensor ``name``, what to add to its indices so that they start from zero)."""
    accesses = [
        (k, a) for k, s in enumerate(statements) for a in (*s.reads, *s.writes) if a.tensor == name
    ]
    indirect = any(a.may for _, a in accesses)
    shape: list[Expr] = []
    shifts: list[Expr | None] = []
    for d in range(m.ranks[name]):
        lows, highs = [], []
        for values, per in zip(sizes, found, strict=True):
            low, high = 0, 1 if indirect else -1
            for k, a in accesses:
                if not a.may:
                    env: dict[str, Column] = {**values, **per[k]}
                    _, rows = elements(a, env, per[k][""].size)
                    if rows.size:
                        low, high = min(low, rows[:, d].min()), max(high, rows[:, d].max())
            lows.append(int(low))
            highs.append(int(high))
        shift = _above(m, sizes, [-low for low in lows])
        shifts.append(shift)
        added = [_at(shift, values) for values in sizes]
        need = [h + s + 1 for h, s in zip(highs, added, strict=True)]
        extent = _above(m, sizes, need)
        shape.append(literal(0) if extent is None else extent)
    return tuple(shape), tuple(shifts)


def _at(expr: Expr | None, values: Sizes) -> int:
    if expr is None:
        return 0
    from tests.properties.enumeration import column

    return int(column(expr, values))


def _above(m: Maker, sizes: Sequence[Sizes], need: Sequence[int]) -> Expr | None:
    """The least ``a n + b m + c`` that is ``need`` or more at all ``sizes``; None for 0."""
    best: tuple[int, tuple[int, ...], int] | None = None
    for factors in product((0, 1, 2, 3), repeat=len(m.parameters)):
        base = [sum(f * v[p] for f, p in zip(factors, m.parameters, strict=True)) for v in sizes]
        constant = max(n - b for n, b in zip(need, base, strict=True))
        slack = sum(b + constant - n for n, b in zip(need, base, strict=True))
        candidate = slack, factors, constant
        if best is None or candidate < best:
            best = candidate
    assert best is not None
    _, factors, constant = best
    result: Expr | None = None
    for factor, p in zip(factors, m.parameters, strict=True):
        if factor:
            part = Var(p) * factor if factor > 1 else Var(p)
            result = part if result is None else result + part
    if constant:
        result = literal(constant) if result is None else result + constant
    return result


def _shifted(access: Access, shifts: dict[str, tuple[Expr | None, ...]]) -> Access:
    if access.may:
        return access
    indices = tuple(
        index if shift is None else index + shift
        for index, shift in zip(access.indices, shifts[access.tensor], strict=True)
    )
    return replace(access, indices=indices)


def _roles(
    m: Maker,
    statements: Sequence[Statement],
    sizes: Sequence[Sizes],
    found: Sequence[Sequence[dict[str, Array]]],
) -> dict[str, Role]:
    """Tensors that are only read are inputs; those read before they are written are in-out."""
    r = m.random
    names = list(dict.fromkeys(a.tensor for s in statements for a in (*s.writes, *s.reads)))
    written = {a.tensor for s in statements for a in s.writes}
    read = {a.tensor for s in statements for a in s.reads}
    roles: dict[str, Role] = {}
    for name in names:
        if name in m.roles:
            roles[name] = m.roles[name]
        elif name not in written:
            roles[name] = "input"
        elif _read_first(name, statements, sizes, found):
            roles[name] = "inout"
        elif name in read:
            roles[name] = r.choice(("temp", "temp", "temp", "output", "inout"))
        else:
            roles[name] = r.choice(("output", "output", "inout"))
    visible = [n for n in names if roles[n] in ("output", "inout")]
    if not visible:
        last = next(iter(a.tensor for a in statements[-1].writes))
        roles[last] = "output"
    return roles


def _read_first(
    name: str,
    statements: Sequence[Statement],
    sizes: Sequence[Sizes],
    found: Sequence[Sequence[dict[str, Array]]],
) -> bool:
    """Whether some element of ``name`` is read before anything is written to it."""
    empty = Scop("", (), (), (), tuple(statements))
    for values, per in zip(sizes, found, strict=True):
        rank = _textual_rank(empty, values, per)
        first = np.cumsum([0, *(p[""].size for p in per)])
        reads: dict[tuple[int, ...], int] = {}
        writes: dict[tuple[int, ...], int] = {}
        for k, s in enumerate(statements):
            env: dict[str, Column] = {**values, **per[k]}
            for access, table in (
                *((a, reads) for a in s.reads),
                *((a, writes) for a in s.writes),
                *((a, reads) for a in s.writes if s.update is not None),
            ):
                if access.tensor != name:
                    continue
                if access.may:
                    return True
                at, rows = elements(access, env, per[k][""].size)
                for where, row in zip(rank[first[k] + at].tolist(), rows.tolist(), strict=True):
                    key = tuple(row)
                    table[key] = min(where, table.get(key, where))
        if any(writes.get(key, at) >= at for key, at in reads.items()):
            return True
    return False


def _body(m: Maker, draft: _Draft) -> Body:
    """A value that tells its operands and its dims apart, so that no two orders agree by chance."""
    r, dtype = m.random, m.dtype
    value: Expr = literal(r.randint(-3, 7), dtype)
    pending: Expr | None = None
    for k, access in enumerate(draft.reads):
        if access.tensor == "at":
            pending = Load(k, (), dtypes.int64)
            continue
        if access.may:
            assert pending is not None
            chosen = pending % 2
            draft.reads[k] = replace(access, body_indices=(chosen,) * len(access.indices))
        operand: Expr = Load(k, (), dtype)
        for c in reversed(access.guard):
            holds = c.expr.equal(0) if c.equality else c.expr >= 0
            operand = select(holds, operand, literal(5, dtype))
        op = r.choice(("add", "add", "add", "sub", "mul", "max")) if k else "add"
        value = apply(op, value, operand * literal(r.choice((1, 2, 3, 5, -1)), dtype))
    for dim in draft.dims:
        if r.random() < 0.5:
            value = value + cast(Var(dim), dtype) * literal(r.choice((1, 2, 7, -3)), dtype)
    if r.random() < 0.2:
        return Body((("part", value),), (Var("part", dtype) + literal(1, dtype),))
    return Body((), (value,))


def inputs_of(scop: Scop, sizes: Sizes, seed: int = 0) -> dict[str, Array]:
    """Arrays for all tensors that hold something before: the same for the same name and shape."""
    found = {}
    for number, t in enumerate(scop.tensors):
        if t.role in ("input", "inout", "constant"):
            extent = tuple(_at(size, sizes) for size in t.shape)
            rng = np.random.default_rng((seed, number))
            limit = 4 if t.name == "at" else 100
            low = 0 if t.name == "at" else -100
            found[t.name] = rng.integers(low, limit, extent).astype(t.dtype.numpy)
    return found
