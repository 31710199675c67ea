"""Unread: elements of temporaries that nobody reads are not computed, and have no memory.

    for i < 9000: t[i] = i < 7 ? x[i] : 0             for i < 7: t[i] = x[i]
    for i < 7: y[i] = t[i] * t[i]               →     for i < 7: y[i] = t[i] * t[i]

Where less than half of a temporary is read: what goes over all of a tensor is as fast as what goes
over most of it, or faster. Also known as: dead code elimination by instances.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import Affine, Range, affine_bounds
from weft.ir.scalar_condition import conjunction
from weft.ir.scalar_expr import Expr, Literal, Load, Select, Var, literal, rewrite, walk
from weft.ir.scop import Body, Constraint, Scop, Statement, Tensor
from weft.polyhedral.analysis.intervals import Ranges, certain, facts, ranges_of, restricted
from weft.polyhedral.analysis.linear import operand_number
from weft.polyhedral.transform.edit import accesses_of

Box = Mapping[int, tuple[int, int]]  # dimension -> the least and the greatest index


def unread(scop: Scop) -> Scop:
    """``scop`` without reads that no instance performs, and with each temporary cut to a box around
    the elements that are read."""
    scop = replace(scop, statements=tuple(_performed(scop, s) for s in scop.statements))
    for tensor in reversed(scop.tensors):  # readers come after what they read
        if tensor.role == "temp" and not tensor.contracted:
            read = _read(scop, tensor)
            if read:
                scop = _cut(scop, tensor, read)
    return scop


def _performed(scop: Scop, s: Statement) -> Statement:
    """``s`` without reads whose guards hold nowhere: the step before the first of a scan of one."""
    ranges = ranges_of(scop, s)
    never = {
        k
        for k, read in enumerate(s.reads)
        if any(certain(f.scaled(-1) - Affine((), 1), ranges) for f in facts(read.guard))
    }
    if not never:
        return s
    decided = _decided(scop, s)
    bodies = (*(e for _, e in decided.body.lets), *decided.body.results)
    loaded = {operand_number(n) for body in bodies for n in walk(body) if isinstance(n, Load)}
    kept = [k for k in range(len(s.reads)) if k not in never or k in loaded]

    def renumbered(node: Expr) -> Expr | None:
        if isinstance(node, Load):
            return replace(node, source=kept.index(operand_number(node)))
        return None

    lets = tuple((name, rewrite(expr, renumbered)) for name, expr in decided.body.lets)
    results = tuple(rewrite(result, renumbered) for result in decided.body.results)
    reads = tuple(decided.reads[k] for k in kept)
    return replace(decided, reads=reads, body=Body(lets, results))


def _read(scop: Scop, tensor: Tensor) -> Box:
    """A box around the elements that are read, where at most half of ``tensor`` is in it, and its
    writers write at their own dims: by those dimensions that it does not fill."""
    uses = accesses_of(scop, tensor.name)
    writers = [s for s, _, is_write in uses if is_write]
    data = any(a.may for s in writers for a in s.reads)  # an index that is data is always checked
    if data or any(a.may or (is_write and a.guard) for _, a, is_write in uses):
        return {}
    if any(len(s.writes) > 1 for s in writers):  # what else they write is needed as well
        return {}
    reads = [(a, ranges_of(scop, s, facts(a.guard))) for s, a, is_write in uses if not is_write]
    found: dict[int, tuple[int, int]] = {}
    share = Fraction(1)
    for d, size in enumerate(tensor.shape):
        within = _hull(affine_bounds(affine(a.indices[d]), ranges) for a, ranges in reads)
        plain = all(isinstance(a.indices[d], Var) for _, a, is_write in uses if is_write)
        if plain and within is not None and isinstance(size, Literal):
            low, high = max(within[0], 0), min(within[1], int(size.value) - 1)
            if 0 < high - low + 1 < size.value:
                found[d] = low, high
                share *= Fraction(high - low + 1, int(size.value))
    return found if share <= Fraction(1, 2) else {}


def _hull(ranges: Iterable[Range]) -> tuple[int, int] | None:
    """The interval around ``ranges``; None where there is none, or one has no bound."""
    found = [(low, high) for low, high in ranges if low is None or high is None or low <= high]
    lows = [low for low, _ in found if low is not None]
    highs = [high for _, high in found if high is not None]
    if not found or len(lows) < len(found) or len(highs) < len(found):
        return None
    return min(lows), max(highs)


def _cut(scop: Scop, tensor: Tensor, read: Box) -> Scop:
    """``scop`` with ``tensor`` up to the last index that is read, and written where it is."""

    def cut(s: Statement) -> Statement:
        for write in s.writes:
            if write.tensor == tensor.name:
                at = ((write.indices[d], ends) for d, ends in read.items())
                dims = {i.name: ends for i, ends in at if isinstance(i, Var)}
                s = _decided(scop, restricted(s, dims))
        return s

    shape = list(tensor.shape)
    for d, (_, high) in read.items():
        shape[d] = literal(high + 1)
    tensors = (replace(t, shape=tuple(shape)) if t is tensor else t for t in scop.tensors)
    return replace(scop, tensors=tuple(tensors), statements=tuple(map(cut, scop.statements)))


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

    reads = tuple(replace(a, guard=_open(a.guard, ranges)) for a in s.reads)
    lets = tuple((name, rewrite(expr, change)) for name, expr in s.body.lets)
    results = tuple(rewrite(result, change) for result in s.body.results)
    return replace(s, reads=reads, body=Body(lets, results))


def _open(guard: tuple[Constraint, ...], ranges: Ranges) -> tuple[Constraint, ...]:
    return tuple(c for c in guard if not all(certain(f, ranges) for f in facts((c,))))
