"""Which nests of a Scop run under common loops, found from the accesses alone.

A *fold* is the statements that write one tensor together (a reduction's initial value and its
update). Folds join the group of their latest producer when their dims align with its loops at
distance 0 through every tensor that connects them, no parallelism that matters is lost, and no
register-tiled contraction loses one of its loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from weft.frontend.scalar_expr import Expr
from weft.polyhedral.analysis.linear import box, extent, linear
from weft.polyhedral.scop import Access, Scop, Statement

ENOUGH_PARALLELISM = 16  # outer iterations below which a group rather stays apart
PRIVATE_BYTES = 64 * 1024  # of temporaries, per outer iteration, worth keeping in a near cache


@dataclass(frozen=True, slots=True)
class SharedDim:
    """One loop of a group: the dim of each statement that runs along it."""

    dims: Mapping[str, str]
    extent: int
    bounds: tuple[Expr, Expr]


@dataclass(frozen=True, slots=True)
class Group:
    """Statements, in order, and the loops that they share.

    ``bound``: the statements share loops in the program itself (a scan) and stay as they are.
    """

    statements: tuple[Statement, ...]
    shared: tuple[SharedDim, ...]
    bound: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(s.name for s in self.statements)

    @property
    def parallelism(self) -> int:
        return prod(d.extent for d in self.shared)


def groups_of(scop: Scop) -> tuple[Group, ...]:
    """The fused nests of ``scop`` in an order that respects its dependences."""
    groups: list[Group] = []
    home: dict[str, int] = {}  # statement -> its group
    for fold in folds(scop.statements):
        needs = {home[s.name] for s in scop.statements if s.name in home and _depends(fold, s)}
        joined = _join(scop, groups[max(needs)], fold) if needs else None
        if joined is None:
            groups.append(_alone(fold))
            target = len(groups) - 1
        else:
            target = max(needs)
            groups[target] = joined
        home.update({s.name: target for s in fold})
    return tuple(groups)


def folds(statements: tuple[Statement, ...]) -> list[tuple[Statement, ...]]:
    """Statements of one nest, and neighbours that fold into the same tensors."""
    found: list[tuple[Statement, ...]] = []
    for s in statements:
        if found and (s.position[0] == found[-1][-1].position[0] or _continues(found[-1][-1], s)):
            found[-1] = (*found[-1], s)
        else:
            found.append((s,))
    return found


def _continues(first: Statement, update: Statement) -> bool:
    written = {w.tensor for w in first.writes}
    return update.update is not None and written == {w.tensor for w in update.writes}


def recurrent_dims(statement: Statement) -> frozenset[str]:
    """Dims along which an instance may depend on other instances of its own statement."""
    found: set[str] = set()
    for write in statement.writes:
        for other in (*statement.writes, *statement.reads):
            if other.tensor == write.tensor and (other is not write or write.may):
                step = aligned(write, statement, other, statement)
                found |= {d for d in statement.dims if step.get(d) != d}
    return frozenset(found)


def is_contraction(statement: Statement) -> bool:
    """A reduction over two or more different tensors: worth a register tile."""
    return statement.update is not None and len({a.tensor for a in statement.reads}) > 1


def spatial_dims(statement: Statement) -> tuple[str, ...]:
    reduced = statement.update.dims if statement.update else ()
    return tuple(d for d in statement.dims if d not in reduced)


def _depends(fold: tuple[Statement, ...], earlier: Statement) -> bool:
    written = {w.tensor for w in earlier.writes}
    touched = written | {r.tensor for r in earlier.reads}
    return any(
        {r.tensor for r in s.reads} & written or {w.tensor for w in s.writes} & touched
        for s in fold
    )


def _alone(fold: tuple[Statement, ...]) -> Group:
    """The group of one fold: shared are the dims along which all its writes agree."""
    first = fold[0]
    if len({s.position[0] for s in fold}) < len(fold):
        return Group(fold, (), bound=True)
    recurrent = frozenset().union(*map(recurrent_dims, fold))
    bounds = box(first)
    shared = []
    for dim in spatial_dims(first):
        dims = {first.name: dim}
        for other in fold[1:]:
            partner = aligned(first.writes[0], first, other.writes[0], other).get(dim)
            if partner is not None and box(other).get(partner) == bounds.get(dim):
                dims[other.name] = partner
        independent = not recurrent & set(dims.values())
        if len(dims) == len(fold) and dim in bounds and independent:
            shared.append(SharedDim(dims, extent(bounds[dim]), bounds[dim]))
    return Group(fold, tuple(shared))


def _join(scop: Scop, group: Group, fold: tuple[Statement, ...]) -> Group | None:
    """``group`` with ``fold`` in it, or None where that is impossible or does not pay."""
    own = _alone(fold)
    if group.bound or own.bound:
        return None
    kept: list[SharedDim] = []
    partners = [_partner(group, d, fold, own) for d in group.shared]
    for d, partner in zip(group.shared, partners, strict=True):
        if partner is not None:
            kept.append(SharedDim({**d.dims, **partner.dims}, d.extent, d.bounds))
    if not kept and (group.shared or own.shared):
        return None
    merged = Group((*group.statements, *fold), tuple(kept))
    lost = len(kept) < len(group.shared)
    if any(is_contraction(s) for s in group.statements) and lost:
        return None
    if any(is_contraction(s) for s in fold) and len(kept) < len(own.shared):
        return None
    if lost and merged.parallelism < ENOUGH_PARALLELISM:
        return None
    if lost and _private_bytes(scop, merged) > PRIVATE_BYTES:
        return None
    return merged


def _partner(
    group: Group, dim: SharedDim, fold: tuple[Statement, ...], own: Group
) -> SharedDim | None:
    """The shared dim of ``fold`` that runs in step with ``dim`` through every common tensor."""
    choice: SharedDim | None = None
    for a in group.statements:
        for b in fold:
            for x, y in _conflicts(a, b):
                partner = aligned(x, a, y, b).get(dim.dims[a.name])
                match = next((d for d in own.shared if d.dims[b.name] == partner), None)
                if match is None or match.bounds != dim.bounds or choice not in (None, match):
                    return None
                choice = match
    return choice


def _conflicts(a: Statement, b: Statement) -> list[tuple[Access, Access]]:
    """Pairs of accesses of one tensor of which at least one writes."""
    pairs = []
    for x, x_writes in [(w, True) for w in a.writes] + [(r, False) for r in a.reads]:
        for y, y_writes in [(w, True) for w in b.writes] + [(r, False) for r in b.reads]:
            if x.tensor == y.tensor and (x_writes or y_writes):
                pairs.append((x, y))
    return pairs


def aligned(x: Access, a: Statement, y: Access, b: Statement) -> dict[str, str]:
    """dim of ``a`` -> dim of ``b`` that has the same value whenever x and y touch one element."""
    if x.may or y.may:
        return {}
    found: dict[str, str] = {}
    for i, j in zip(x.indices, y.indices, strict=True):
        p, q = linear(i, a.dims), linear(j, b.dims)
        if p is None or q is None or len(p.coefficients) != 1 or len(q.coefficients) != 1:
            continue
        ((da, ca),) = p.coefficients.items()
        ((db, cb),) = q.coefficients.items()
        if ca == cb and p.rest == q.rest:
            found.setdefault(da, db)
    return found


def _private_bytes(scop: Scop, group: Group) -> int:
    """Bytes of the temporaries that pass within one iteration of the group's loops."""
    written = {w.tensor for s in group.statements for w in s.writes}
    total = 0
    for tensor in scop.tensors:
        if tensor.name in written and tensor.role == "temp":
            elements = prod(extent((size - size, size)) for size in tensor.shape)
            total += elements * tensor.dtype.itemsize
    return total // max(1, group.parallelism)
