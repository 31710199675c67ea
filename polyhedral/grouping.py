"""Which nests of a Scop run under common loops, found from the accesses alone.

A *fold* is the statements that write one tensor together (a reduction's initial value and its
update). Folds join the group of their latest producer when their dims align with its loops at
distance 0 through every tensor that connects them, no parallelism that matters is lost, and no
register-tiled contraction loses one of its loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from weft.frontend.scalar_expr import Expr, Literal
from weft.polyhedral.analysis.dependences import reassociable
from weft.polyhedral.analysis.linear import box, extent, linear
from weft.polyhedral.scop import Access, Scop, Statement
from weft.polyhedral.transform.edit import outer_dims

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

    ``level``: how many loops around the group are the program's own (those of a scan). They stay
    as they are, and what one of their turns leaves for the next does not count inside.
    """

    statements: tuple[Statement, ...]
    shared: tuple[SharedDim, ...]
    level: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(s.name for s in self.statements)

    @property
    def parallelism(self) -> int:
        return prod(d.extent for d in self.shared)


def groups_of(scop: Scop) -> tuple[Group, ...]:
    """The fused nests of ``scop`` in an order that respects its dependences."""
    return tuple(_groups(scop, scop.statements, 0))


def _groups(scop: Scop, statements: Sequence[Statement], level: int) -> list[Group]:
    """The groups of ``statements``, which share ``level`` loops."""
    groups: list[Group | None] = []  # None: merged into a later one
    home: dict[str, int] = {}  # statement -> its group
    for fold in folds(statements, level):
        if len({s.position[2 * level] for s in fold}) < len(fold):
            groups += _groups(scop, fold, level + 1)
            home.update({s.name: len(groups) - 1 for s in fold})
            continue
        needs = {home[s.name] for s in statements if s.name in home and _depends(fold, s)}
        latest = groups[max(needs)] if needs else None
        joined = _join(scop, latest, fold, level) if latest else None
        if joined is None:
            groups.append(_alone(fold, level))
            home.update({s.name: len(groups) - 1 for s in fold})
            continue
        target = max(needs)
        for other in sorted(needs - {target}, reverse=True):
            merged = _absorb(groups, other, target, joined, fold)
            if merged is not None:
                joined, groups[other] = merged, None
        groups[target] = joined
        home.update(dict.fromkeys(joined.names, target))
    return [group for group in groups if group is not None]


def _absorb(
    groups: Sequence[Group | None],
    number: int,
    target: int,
    joined: Group,
    fold: tuple[Statement, ...],
) -> Group | None:
    """``joined`` with the earlier group ``number``, which feeds ``fold`` too; None if it cannot.

    Both must share all their loops with the fold, and nothing in between may need the earlier one.
    """
    group = groups[number]
    if group is None or group.level != joined.level or len(group.shared) != len(joined.shared):
        return None
    between = [g for g in groups[number + 1 : target + 1] if g is not None]
    if any(_depends(g.statements, s) for g in between for s in group.statements):
        return None
    own, first = _alone(fold, joined.level), fold[0].name
    dims_of: dict[str, Mapping[str, str]] = {}
    for dim in group.shared:
        partner = _partner(group, dim, fold, own)
        if partner is None:
            return None
        dims_of[partner.dims[first]] = dim.dims
    if set(dims_of) != {d.dims[first] for d in joined.shared}:
        return None
    shared = tuple(replace(d, dims={**dims_of[d.dims[first]], **d.dims}) for d in joined.shared)
    return replace(joined, statements=(*group.statements, *joined.statements), shared=shared)


def folds(statements: Sequence[Statement], level: int = 0) -> list[tuple[Statement, ...]]:
    """Statements that share the loop below ``level``, and neighbours that fold into one tensor."""
    found: list[tuple[Statement, ...]] = []
    for s in statements:
        last = found[-1][-1] if found else None
        if last and (s.position[2 * level] == last.position[2 * level] or _continues(last, s)):
            found[-1] = (*found[-1], s)
        else:
            found.append((s,))
    return found


def _continues(first: Statement, update: Statement) -> bool:
    written = {w.tensor for w in first.writes}
    return update.update is not None and written == {w.tensor for w in update.writes}


def recurrent_dims(statement: Statement) -> frozenset[str]:
    """Dims along which an instance may depend on other instances of its own statement.

    Those of a reduction are among them where its order counts.
    """
    found: set[str] = set()
    if statement.update is not None and not reassociable(statement):
        found |= set(statement.update.dims)
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


def _alone(fold: tuple[Statement, ...], level: int) -> Group:
    """The group of one fold: shared are the dims along which all its writes agree."""
    first = fold[0]
    recurrent = frozenset[str]().union(*map(recurrent_dims, fold))
    outer = outer_dims(first, level)
    bounds = box(first)
    shared = []
    for dim in spatial_dims(first):
        if dim in outer:
            continue
        dims = {first.name: dim}
        for other in fold[1:]:
            partner = aligned(first.writes[0], first, other.writes[0], other).get(dim)
            if partner is not None and box(other).get(partner) == bounds.get(dim):
                dims[other.name] = partner
        independent = not recurrent & set(dims.values())
        if len(dims) == len(fold) and dim in bounds and independent:
            shared.append(SharedDim(dims, extent(bounds[dim]), bounds[dim]))
    return Group(fold, tuple(shared), level)


def _join(scop: Scop, group: Group, fold: tuple[Statement, ...], level: int) -> Group | None:
    """``group`` with ``fold`` in it, or None where that is impossible or does not pay."""
    own = _alone(fold, level)
    if group.level != level:
        return None
    kept: list[SharedDim] = []
    partners = [_partner(group, d, fold, own) for d in group.shared]
    for d, partner in zip(group.shared, partners, strict=True):
        if partner is not None:
            kept.append(SharedDim({**d.dims, **partner.dims}, d.extent, d.bounds))
    if not kept and (group.shared or own.shared):
        return None
    merged = replace(group, statements=(*group.statements, *fold), shared=tuple(kept))
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
            for x, y in _conflicts(a, b, group.level):
                partner = aligned(x, a, y, b).get(dim.dims[a.name])
                match = next((d for d in own.shared if d.dims[b.name] == partner), None)
                if match is None or match.bounds != dim.bounds or choice not in (None, match):
                    return None
                choice = match
    return choice


def _conflicts(a: Statement, b: Statement, level: int) -> list[tuple[Access, Access]]:
    """Pairs of accesses of one tensor of which at least one writes, in one turn of outer loops."""
    pairs = []
    for x, x_writes in [(w, True) for w in a.writes] + [(r, False) for r in a.reads]:
        for y, y_writes in [(w, True) for w in b.writes] + [(r, False) for r in b.reads]:
            if x.tensor == y.tensor and (x_writes or y_writes) and not _carried(x, a, y, b, level):
                pairs.append((x, y))
    return pairs


def _carried(x: Access, a: Statement, y: Access, b: Statement, level: int) -> bool:
    """Whether x and y touch one element only in different turns of the outer loops."""
    if x.may or y.may:
        return False
    for da, db in zip(outer_dims(a, level), outer_dims(b, level), strict=True):
        for i, j in zip(x.indices, y.indices, strict=True):
            p, q = linear(i, a.dims), linear(j, b.dims)
            if p and q and p.coefficients == {da: 1} and q.coefficients == {db: 1}:
                step = p.rest - q.rest
                if isinstance(step, Literal) and step.value != 0:
                    return True
    return False


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
