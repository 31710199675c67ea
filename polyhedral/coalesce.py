"""Coalesce: neighbouring dims that every statement walks together become one.

    for c: for h: for w: Y[c, h, w] = X[c, h, w]   →   for c: for hw: Y[c, hw] = X[c, hw]

A normal form, not a schedule: tensors keep their bytes (row-major), only the number of dimensions
changes, so short innermost dims do not waste vector lanes. Also known as dimension flattening.
The size of two open dims together is a derived parameter.
Tensors that are walked in another shape than their own are reshaped first (``unravel``), and dims
of one value dropped (``unit_dims``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Expr, Literal, Var, literal, substitute
from weft.ir.scalar_polynomial import Monomial, from_polynomial, polynomial
from weft.ir.scalar_simplify import simplify
from weft.ir.scop import Access, Constraint, Origin, Scop, Statement, Tensor
from weft.polyhedral.analysis.linear import box, mentions
from weft.polyhedral.lower_names import derived_name
from weft.polyhedral.unravel import unravel

_Pair = tuple[str, int]  # (tensor, d): its dims d and d + 1
_Box = Mapping[str, tuple[Expr, Expr]]
_Use = tuple[Statement, _Box, Access]


def coalesce(scop: Scop) -> Scop:
    """``scop`` with as many dims merged as its accesses allow; the same bytes in every tensor."""
    merged = without_unit_dims(unravel(scop))
    while True:
        pairs = next(_mergeable(merged), None)
        if pairs is None:
            return scop if merged == scop else merged
        merged = _merge(merged, pairs)


def _mergeable(scop: Scop) -> Iterator[frozenset[_Pair]]:
    """Sets of pairs of tensor dims that can only be merged together."""
    boxes = {s.name: box(s) for s in scop.statements}
    uses: dict[str, list[_Use]] = {}
    for s in scop.statements:
        for access in (*s.writes, *s.reads):
            uses.setdefault(access.tensor, []).append((s, boxes[s.name], access))
    tensors = {t.name: t for t in scop.tensors}
    for t in scop.tensors:
        for d in range(len(t.shape) - 1) if t.name in uses and not t.contracted else ():
            found = _connected(tensors, uses, (t.name, d))
            if found:
                yield found


def _connected(
    tensors: Mapping[str, Tensor], uses: Mapping[str, list[_Use]], start: _Pair
) -> frozenset[_Pair]:
    """The pairs that must be merged along with ``start``; empty where one of them cannot be."""
    pending, found = [start], {start}
    walked: set[tuple[str, str, str]] = set()  # (statement, a, b) whose uses are known
    while pending:
        tensor, d = pending.pop()
        for s, bounds, access in uses[tensor]:
            dims = _dims_at(tensors[tensor], s, bounds, access, d)
            if dims is None:
                return frozenset()
            if (s.name, *dims) in walked:
                continue
            walked.add((s.name, *dims))
            more = _uses(s, *dims)
            if more is None:
                return frozenset()
            pending += [p for p in more if p not in found]
            found |= set(more)
    return frozenset(found)


def _dims_at(
    tensor: Tensor, s: Statement, bounds: _Box, access: Access, d: int
) -> tuple[str, str] | None:
    """The two dims of ``s`` that walk dims d and d + 1 of the tensor fully, or None."""
    if access.may:
        return None
    size, other = tensor.shape[d : d + 2]
    a, b = access.indices[d], access.indices[d + 1]
    if not isinstance(a, Var) or not isinstance(b, Var):
        return None
    if [bounds.get(a.name), bounds.get(b.name)] != [(literal(0), size), (literal(0), other)]:
        return None
    reduced = s.update.dims if s.update else ()
    if (a.name in reduced) != (b.name in reduced) or s.dims.index(b.name) != s.dims.index(
        a.name
    ) + 1:
        return None
    return a.name, b.name


def _uses(s: Statement, a: str, b: str) -> list[_Pair] | None:
    """The tensor pairs that ``s`` walks with (a, b), or None if a dim is used in another way."""
    both = (a, b)
    found: list[_Pair] = []
    for access in (*s.writes, *s.reads):
        if any(mentions(c.expr, both) for c in access.guard):
            return None
        if any(mentions(e, both) for e in access.body_indices):
            return None
        for d, index in enumerate(access.indices):
            following = access.indices[d + 1] if d + 1 < len(access.indices) else None
            previous = access.indices[d - 1] if d else None
            if _is(index, a) and _is(following, b):
                found.append((access.tensor, d))
            elif mentions(index, both) and not (_is(index, b) and _is(previous, a)):
                return None
    if any(mentions(e, both) for e in s.body.expressions):
        return None
    at = [p for p in s.position if isinstance(p, str)]
    return None if a not in at or b not in at else found


def _is(index: Expr | None, name: str) -> bool:
    return isinstance(index, Var) and index.name == name


def _merge(scop: Scop, pairs: frozenset[_Pair]) -> Scop:
    merged = dict(pairs)
    name, d = next((t.name, merged[t.name]) for t in scop.tensors if t.name in merged)
    scop, size = _product(scop, *scop.tensor(name).shape[d : d + 2])
    statements = tuple(_merge_statement(scop, s, merged, size) for s in scop.statements)
    tensors = tuple(
        _merge_shape(t, merged[t.name], size) if t.name in merged else t for t in scop.tensors
    )
    return replace(scop, statements=statements, tensors=tensors)


def _product(scop: Scop, size: Expr, other: Expr) -> tuple[Scop, Expr]:
    """The two sizes of which one dim is made as one, in ``scop`` with parameters for its parts that
    are not quasi-affine."""
    product = size * other
    if to_affine(product) is not None:
        return scop, simplify(product)
    total: Expr = literal(0)
    for monomial, factor in polynomial(substitute(product, dict(scop.derived))).items():
        scop, part = _monomial(scop, monomial)
        total = total + part * factor
    return scop, simplify(total)


def _monomial(scop: Scop, factors: Monomial) -> tuple[Scop, Expr]:
    """The product of ``factors``, in ``scop`` with a parameter for it."""
    value = from_polynomial({factors: 1})
    if to_affine(value) is not None:
        return scop, value
    name = derived_name(value)
    if name not in scop.parameters:
        scop = replace(
            scop,
            parameters=(*scop.parameters, name),
            context=(*scop.context, Constraint(Var(name))),
            derived=(*scop.derived, (name, value)),
        )
    return scop, Var(name)


def _merge_shape(tensor: Tensor, d: int, size: Expr) -> Tensor:
    shape = tensor.shape
    return replace(tensor, shape=(*shape[:d], size, *shape[d + 2 :]))


def _merge_statement(scop: Scop, s: Statement, merged: dict[str, int], size: Expr) -> Statement:
    """``s`` with its dims (a, b) replaced by one of the name a, of ``size``."""
    bounds = box(s)
    pair = next(
        (
            _dims_at(scop.tensor(access.tensor), s, bounds, access, merged[access.tensor])
            for access in (*s.writes, *s.reads)
            if access.tensor in merged
        ),
        None,
    )
    if pair is None:
        return s
    a, b = pair
    rest = tuple(c for c in s.domain if not mentions(c.expr, pair))
    at = s.position.index(b)
    dims = tuple(d for d in s.dims if d != b)
    return replace(
        s.map_accesses(lambda access: _merge_access(access, merged)),
        origin=_as_original(s, dims),
        dims=dims,
        domain=(*rest, Constraint(Var(a)), Constraint(size - 1 - Var(a))),
        position=(*s.position[:at], *s.position[at + 2 :]),
        update=None
        if s.update is None
        else replace(s.update, dims=tuple(d for d in s.update.dims if d != b)),
    )


def _as_original(s: Statement, dims: tuple[str, ...]) -> Origin | None:
    """The merged statement is what later ones come from."""
    return s.origin and Origin(s.name, tuple(Var(d) for d in dims), s.origin.source)


def _merge_access(access: Access, merged: dict[str, int]) -> Access:
    d = merged.get(access.tensor)
    if d is None:
        return access
    return replace(access, indices=(*access.indices[: d + 1], *access.indices[d + 2 :]))


# ---- Unit dims: a loop of one turn is none.
#
#     for n < 1: for c: Y[n, c] = X[n, c] * s[n]   →   for c: Y[0, c] = X[0, c] * s[0]
#
# A normal form, as ``coalesce`` is one: what is chosen by loops (who shares them, which run in
# parallel) and by the last subscript does not depend on batches of one.


def without_unit_dims(scop: Scop) -> Scop:
    """``scop`` without dims of one value: those of statements, but for loops that several of them
    share, and then those of tensors; the same bytes in every tensor."""
    smaller = tuple(_smaller(scop, s) for s in scop.statements)
    scop = replace(scop, statements=smaller)
    kept = {t.name: _kept(scop, t) for t in scop.tensors}

    def access(a: Access) -> Access:
        return replace(a, indices=tuple(a.indices[d] for d in kept[a.tensor])) if a.indices else a

    statements = (s.map_accesses(access) for s in scop.statements)
    tensors = (replace(t, shape=tuple(t.shape[d] for d in kept[t.name])) for t in scop.tensors)
    return replace(scop, tensors=tuple(tensors), statements=tuple(statements))


def _kept(scop: Scop, tensor: Tensor) -> list[int]:
    """The dims of ``tensor`` that are more than one element, or that some access computes."""
    uses = [a for s in scop.statements for a in (*s.writes, *s.reads) if a.tensor == tensor.name]
    every = list(range(len(tensor.shape)))
    if tensor.contracted or any(a.may for a in uses):
        return every
    zero, one = literal(0), literal(1)
    return [d for d in every if tensor.shape[d] != one or any(a.indices[d] != zero for a in uses)]


def _smaller(scop: Scop, s: Statement) -> Statement:
    values: dict[str, Expr] = {
        dim: low
        for dim, (low, high) in box(s).items()
        if isinstance(low, Literal) and high == literal(int(low.value) + 1)
        if _alone(scop, s, dim)
    }
    if not values:
        return s
    folded = s.update.dims if s.update else ()
    if set(folded) and set(folded) <= values.keys():  # a fold of one step is a fold
        values.pop(folded[-1])
    return _fixed(s, values)


def _alone(scop: Scop, s: Statement, dim: str) -> bool:
    """Whether no other statement runs in the loop along ``dim``."""
    if dim not in s.position:
        return False
    before = s.position[: s.position.index(dim) + 1]
    return not any(t.position[: len(before)] == before for t in scop.statements if t is not s)


def _fixed(s: Statement, values: dict[str, Expr]) -> Statement:
    def fixed(expr: Expr) -> Expr:
        return simplify(substitute(expr, values))

    def access(a: Access) -> Access:
        a = a.map(fixed)
        return replace(a, guard=tuple(c for c in a.guard if not _holds(c)))

    domain = (c.map(fixed) for c in s.domain)
    dims = tuple(d for d in s.dims if d not in values)
    return replace(
        s.map_accesses(access),
        dims=dims,
        domain=tuple(c for c in domain if not _holds(c)),
        position=_without(s.position, values),
        body=s.body.map(lambda e: substitute(e, values)),
        update=s.update and replace(s.update, dims=tuple(d for d in s.update.dims if d in dims)),
        origin=s.origin and Origin(s.name, tuple(map(Var, dims)), s.origin.source),
    )


def _without(position: tuple[int | str, ...], values: dict[str, Expr]) -> tuple[int | str, ...]:
    """``position`` without the loops of ``values``, each with the place inside of it."""
    gone = {k for k, entry in enumerate(position) if entry in values}
    return tuple(p for k, p in enumerate(position) if k not in gone and k - 1 not in gone)


def _holds(constraint: Constraint) -> bool:
    if not isinstance(constraint.expr, Literal):
        return False
    return constraint.expr.value == 0 if constraint.equality else constraint.expr.value >= 0
