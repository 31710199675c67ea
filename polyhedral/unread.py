"""Unread: what nobody reads of temporaries is not computed, and has no memory.

    for i < 9000: t[i] = i < 7 ? x[i] : 0             for i < 7: t[i] = x[i]
    for i < 7: y[i] = t[i] * t[i]               →     for i < 7: y[i] = t[i] * t[i]

    for i: for j: s[i, j] = …                         for i: for j <= i: s[i, j] = …
    for i: for j <= i: y[i] += f(s[i, j])       →     for i: for j <= i: y[i] += f(s[i, j])

Writers run where one conjunction of affine conditions holds, around all elements that are read:
boxes, triangles, bands; holes between these are filled. From the last statement to the first, so
that what only a cut statement reads is cut as well. Memory ends after the last element that is
read, where at most half of it lies in the box that is read: what goes over all of a tensor is as
fast as what goes over most of it, or faster.

Indices that are data are checked wherever they are computed, so such statements run as they are.
Also known as: dead code elimination by instances.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

import islpy as isl

from weft.ir.errors import BudgetError
from weft.ir.isl_context import bounded
from weft.ir.named_isl import access_map, constraints_of, domain_set, tensor_box
from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import Affine, Range, affine_bounds
from weft.ir.scalar_condition import conjunction
from weft.ir.scalar_expr import Expr, Literal, Select, literal, rewrite
from weft.ir.scop import Constraint, Scop, Statement, Tensor
from weft.polyhedral.analysis.intervals import certain, facts, ranges_of, restricted
from weft.polyhedral.analysis.linear import mentions
from weft.polyhedral.transform.edit import loads, with_reads

OPERATIONS = 100_000  # of isl, on each tensor: what takes more stays as it is


def unread(scop: Scop) -> Scop:
    """``scop`` without reads that no instance performs, nor instances and memory for elements of
    temporaries that nobody reads."""
    statements = {s.name: _performed(scop, s) for s in scop.statements}
    tensors = {t.name: t for t in scop.tensors}
    users: dict[str, dict[str, None]] = {}
    for s in statements.values():
        for access in s.accesses:
            users.setdefault(access.tensor, {})[s.name] = None
    for name in dict.fromkeys(w.tensor for s in reversed(scop.statements) for w in s.writes):
        if tensors[name].role == "temp" and not tensors[name].contracted:
            around = [statements[user] for user in users[name]]
            statements |= {s.name: s for s in _cut(scop, name, around)}
            around = [statements[user] for user in users[name]]
            tensors[name] = _fitting(scop, tensors[name], around)
    found = tuple(tensors.values()), tuple(statements.values())
    if found == (scop.tensors, scop.statements):
        return scop
    return replace(scop, tensors=found[0], statements=found[1])


# ---- Reads whose guards hold nowhere: the step before the first of a scan of one.


def _performed(scop: Scop, s: Statement) -> Statement:
    ranges = ranges_of(scop, s)
    never = {
        k
        for k, read in enumerate(s.reads)
        if any(certain(f.scaled(-1) - Affine((), 1), ranges) for f in facts(read.guard))
    }
    if not never:
        return s
    decided = _decided(scop, s)
    loaded = loads(decided)
    return with_reads(decided, [k for k in range(len(s.reads)) if k not in never or k in loaded])


# ---- Instances whose results nobody reads.


def _cut(scop: Scop, tensor: str, users: Sequence[Statement]) -> Sequence[Statement]:
    """``users`` of ``tensor``, those that write it for elements that are read alone."""
    try:
        with bounded(OPERATIONS):
            needed = _needed(scop, tensor, users)
            return users if needed is None else [_for(scop, s, tensor, needed) for s in users]
    except BudgetError:
        return users


def _needed(scop: Scop, tensor: str, users: Sequence[Statement]) -> isl.Set | None:
    """The elements of ``tensor`` that are read, and what lies between them; None where statements
    read what they write there themselves, or nothing reads it."""
    found = isl.Set.empty(tensor_box(scop, tensor).get_space())
    for s in users:
        for read in s.reads:
            if read.tensor == tensor:
                if any(write.tensor == tensor for write in s.writes):
                    return None
                found = found.union(access_map(scop, s, read).range())
    return None if found.is_empty() else found.remove_divs().coalesce().simple_hull().to_set()


def _for(scop: Scop, s: Statement, tensor: str, needed: isl.Set) -> Statement:
    """``s`` where it writes a ``needed`` element of ``tensor``, if it writes nothing else."""
    if [w.tensor for w in s.writes] != [tensor] or any(a.may for a in s.accesses) or not s.dims:
        return s
    domain = domain_set(scop, s)
    wanted = access_map(scop, s, s.writes[0]).intersect_range(needed).domain()
    if domain.is_subset(wanted) or wanted.is_empty():
        return s
    rest = wanted.gist(domain).coalesce()
    if rest.n_basic_set() != 1:
        return s
    try:
        found = constraints_of(rest.get_basic_sets()[0], s.dims)
    except ValueError:
        return s
    more = [c for c in found if mentions(c.expr, s.dims)]  # by sizes alone, all or nothing runs
    if not more:
        return s
    before, less = ranges_of(scop, s), replace(s, domain=(*s.domain, *more))
    after = ranges_of(scop, less)
    less = restricted(less, {d: r for d, r in after.items() if r != before.get(d)})
    decided = _decided(scop, less)
    used, still = loads(s), loads(decided)
    return with_reads(decided, [k for k in range(len(s.reads)) if k in still or k not in used])


def _decided(scop: Scop, s: Statement) -> Statement:
    """``s`` without conditions that hold, or do not, in all of its domain."""
    ranges = ranges_of(scop, s)

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Select):
            for holds, value in ((True, node.if_true), (False, node.if_false)):
                form = conjunction(node.condition, holds)
                if form.exact and all(certain(f, ranges) for f in form.facts()):
                    return value
        return None

    def holds(c: Constraint) -> bool:
        return all(certain(f, ranges) for f in facts((c,)))

    reads = (replace(a, guard=tuple(c for c in a.guard if not holds(c))) for a in s.reads)
    return replace(s, reads=tuple(reads), body=s.body.map(lambda e: rewrite(e, change)))


# ---- Memory behind the last element that is used.


def _fitting(scop: Scop, tensor: Tensor, users: Sequence[Statement]) -> Tensor:
    """``tensor`` up to the last index of each dimension, where at most half of it lies in the box
    that is used."""
    shape, share = list(tensor.shape), Fraction(1)
    uses = [
        (a, ranges_of(scop, s, facts(a.guard)))
        for s in users
        for a in s.accesses
        if a.tensor == tensor.name
    ]
    if any(a.may for a, _ in uses):
        return tensor
    for d, size in enumerate(tensor.shape):
        within = _hull(affine_bounds(affine(a.indices[d]), ranges) for a, ranges in uses)
        if within is not None and isinstance(size, Literal):
            low, high = max(within[0], 0), min(within[1], int(size.value) - 1)
            if 0 < high - low + 1 < size.value:
                shape[d] = literal(high + 1)
                share *= Fraction(high - low + 1, int(size.value))
    return replace(tensor, shape=tuple(shape)) if share <= Fraction(1, 2) else tensor


def _hull(ranges: Iterable[Range]) -> tuple[int, int] | None:
    """The interval around ``ranges``; None where there is none, or one has no bound."""
    found = [(low, high) for low, high in ranges if low is None or high is None or low <= high]
    lows = [low for low, _ in found if low is not None]
    highs = [high for _, high in found if high is not None]
    if not found or len(lows) < len(found) or len(highs) < len(found):
        return None
    return min(lows), max(highs)
