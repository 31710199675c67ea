"""Shapes, roles and bodies for the statements of a random program, from what they access.

Shapes are fitted to the accesses by enumeration, so that none lies outside; a tensor is a temporary
or an output only where nothing reads it first; bodies tell their operands apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random

import numpy as np

from tests.properties.enumeration import (
    Array,
    Column,
    TooLarge,
    column,
    elements,
    points,
    textual_rank,
)
from weft.ir import build as w
from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Expr, Load, Var, apply, cast, literal, select
from weft.ir.scop import (
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


@dataclass(slots=True)
class Draft:
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
class Sketch:
    """A program without shapes."""

    random: Random
    parameters: tuple[str, ...] = ()
    drafts: list[Draft] = field(default_factory=list)
    ranks: dict[str, int] = field(default_factory=dict)
    dtype: DType = dtypes.int64
    roles: dict[str, Role] = field(default_factory=dict)  # decided already


def fitted(m: Sketch, scop: Scop, sizes: Sequence[Sizes]) -> Scop:
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


def _statement(m: Sketch, draft: Draft, body: Body) -> Statement:
    update = None
    if draft.fold:
        monoid = w.monoid(draft.fold, m.dtype)
        update = Update(monoid if draft.laws else replace(monoid, laws=frozenset()), draft.along)
    return Statement(
        draft.name, draft.dims, draft.domain, draft.position, (draft.write,), tuple(draft.reads),
        body, update,
    )  # fmt: skip


def _no_bodies(_: Draft) -> Body:
    return Body((), ())


def _shape(
    m: Sketch,
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
    return int(column(expr, values))


def _above(m: Sketch, sizes: Sequence[Sizes], need: Sequence[int]) -> Expr | None:
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
    m: Sketch,
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
        rank = textual_rank(empty, values, per)
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


def _body(m: Sketch, draft: Draft) -> Body:
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
            chosen = [
                Var(r.choice(draft.dims)) % 2 if draft.dims and r.random() < 0.4 else pending % 2
                for _ in access.indices
            ]
            draft.reads[k] = replace(access, body_indices=tuple(chosen))
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
