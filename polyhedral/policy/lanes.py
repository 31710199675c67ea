"""Which loop runs as a vector.

A loop is worth a vector if most accesses have stride 1 along it, or 0. Costs in vector accesses: 1
for a contiguous access, 0 for an invariant one, a vector and its shuffle for each step of a short
stride that is read, and for a write between whose elements others write; one scalar access per lane
for other strides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from weft.ir.isl_context import derived
from weft.ir.machine import Machine
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Expr, Literal, Load, Var, literal, rewrite, walk
from weft.ir.scop import Access, Scop, Statement, Tensor
from weft.polyhedral.analysis.linear import box, extent, hull, linear, mentions, moves

FEW = 4  # elements of the shortest vector
JUMP = 1.0  # cost of one lane of a strided access, in contiguous vectors
SHUFFLED = 4  # the longest stride of reads that are vectors and shuffles
WHOLE = 8  # the longest stride of writes that are one vector together


@dataclass(frozen=True, slots=True)
class Lanes:
    """A vector loop along ``dim``; ``cost`` of the accesses of one vector of ``lanes`` elements."""

    dim: str
    lanes: int
    cost: float


def choose_lanes(
    scop: Scop,
    statement: Statement,
    dims: Sequence[str],
    machine: Machine,
    *,
    latency: float = 0.0,
) -> Lanes | None:
    """The best of ``dims`` to run as a vector; None if scalars are no slower.

    ``latency``: what scalars wait for each other in a recurrence, in vector accesses.
    """
    lanes = min(machine.lanes(scop.tensor(w.tensor).dtype) for w in statement.writes)
    found = []
    for dim in dims:
        used = _used(statement, dim, lanes)
        accesses = [_in_rows(scop, _along(statement, a, dim)) for a in statement.accesses]
        scattered = any(access.may for access in accesses[len(statement.reads) :])
        if used and not scattered:  # which are lane by lane
            reads = len(statement.reads)
            costs = [_cost(a, dim, lanes, read=k < reads) for k, a in enumerate(accesses)]
            if len(statement.writes) == 1 and (
                fillers(scop, statement, dim) or _fills_gaps(scop, statement, dim)
            ):
                costs[-1] = min(2.0, costs[-1])
            cost = (sum(costs) + _across(statement, dim, lanes)) * lanes / used
            found.append(Lanes(dim, lanes, cost))
    best = min(reversed(found), key=lambda x: x.cost, default=None)
    if best is None or lanes == 1:
        return None
    accesses = [_along(statement, a, best.dim) for a in statement.accesses]
    moving = sum(_moves(access, best.dim) for access in accesses)
    return best if best.cost < lanes * (max(moving, 1) + latency) else None


def _along(statement: Statement, access: Access, dim: str) -> Access:
    """``access`` as it moves along ``dim``: subscripts of data that stay the same count as
    constants."""
    if not access.may or _data_move(statement, access, dim):
        return access
    indices = tuple(
        rewrite(i, lambda n: literal(0, n.dtype) if isinstance(n, Load) else None)
        for i in access.body_indices
    )
    known = [mentions(i, (dim,)) for i in indices]
    if any(moves and linear(i, (dim,)) is None for moves, i in zip(known, indices, strict=True)):
        return access
    plain = tuple(i if moves else literal(0) for moves, i in zip(known, indices, strict=True))
    return Access(access.tensor, plain)


def _data_move(statement: Statement, access: Access, dim: str) -> bool:
    """Whether data in the subscripts of ``access`` are others along ``dim``."""
    reads = [
        statement.reads[n.source]
        for index in access.body_indices
        for n in walk(index)
        if isinstance(n, Load) and isinstance(n.source, int)
    ]
    return any(
        any(mentions(i, (dim,)) for i in (*r.indices, *r.body_indices))
        or _data_move(statement, r, dim)
        for r in reads
    )


def _used(statement: Statement, dim: str, lanes: int) -> int:
    """How many lanes of a vector along ``dim`` are used, no more than ``dim`` has values; 0 if too
    few, or if an equation fixes ``dim``."""
    equations = (linear(c.expr, statement.dims) for c in statement.domain if c.equality)
    if any(form is not None and form.coefficients.get(dim) in (1, -1) for form in equations):
        return 0
    limits = box(statement).get(dim)
    size = lanes if limits is None else min(lanes, extent(limits, default=lanes))
    return size if size >= min(FEW, lanes) else 0


def _across(statement: Statement, dim: str, lanes: int) -> float:
    """The shuffles that fold one vector into one element, where the loop is a reduction."""
    return math.log2(lanes) if folds(statement, dim) else 0.0


def _moves(access: Access, dim: str) -> bool:
    return access.may or moves(access, dim)


def _cost(access: Access, dim: str, lanes: int, *, read: bool) -> float:
    if access.may:
        return lanes * JUMP
    if not _moves(access, dim):
        return 0.0
    if not strided(access, dim, backwards=True):
        return 1.0
    step = _step(access, dim)
    return min(2.0 * step, lanes * JUMP) if read and 1 < step <= SHUFFLED else lanes * JUMP


def _fills_gaps(scop: Scop, statement: Statement, dim: str) -> bool:
    """Whether ``statement`` and its neighbours in the innermost loop, ``dim``, write all elements
    of a row of memory between them: ``x[3*i] = …; x[3*i + 1] = …; x[3*i + 2] = …``."""
    (write,) = (_in_rows(scop, w) for w in statement.writes)
    around, step = statement.position[:-1], _step(write, dim)
    if not 1 < step <= WHOLE or around[-1:] != (dim,):
        return False
    places = set[int]()
    for each in (w for s in scop.statements if s.position[:-1] == around for w in s.writes):
        other = _in_rows(scop, each)
        if other.tensor != write.tensor or other.may or other.indices[:-1] != write.indices[:-1]:
            continue
        apart = to_affine(other.indices[-1] - write.indices[-1])
        if apart is not None and apart.is_constant:
            places.add(apart.constant % step)
    return len(places) == step


def fillers(scop: Scop, statement: Statement, dim: str) -> tuple[str, ...]:
    """The short dims of ``statement`` along which it writes all that lies between its writes along
    ``dim``: b of ``x[3*i + b] = …`` for b in 0 … 2; () if there are none."""
    write = _in_rows(scop, statement.writes[0])
    form, step = linear(write.indices[-1], statement.dims), _step(write, dim)
    if form is None or not 1 < step <= WHOLE or write.may:
        return ()
    short = {d: c for d, c in form.coefficients.items() if d != dim and c % step}
    sizes = [(c, extent(box(statement)[d])) for d, c in short.items() if d in box(statement)]
    if len(sizes) < len(short) or math.prod(size for _, size in sizes) != step:
        return ()
    places = {sum(at) % step for at in product(*([c * k for k in range(n)] for c, n in sizes))}
    moved = any(mentions(i, short) for i in write.indices[:-1])
    return tuple(short) if len(places) == step and not moved else ()


def _in_rows(scop: Scop, access: Access) -> Access:
    """``access`` with the innermost dims of known sizes as one: ``x[i, 2]`` of n × 3 elements as
    ``x[3*i + 2]``."""
    tensor = scop.tensor(access.tensor)
    return derived(lambda: _rows(tensor, access), "rows", (), tensor, access)


def _rows(tensor: Tensor, access: Access) -> Access:
    *outer, last = access.indices or (literal(0),)
    apart = 1
    for size in reversed(tensor.shape[1:]):
        if not isinstance(size, Literal):
            break
        apart *= int(size.value)
        last = outer.pop() * apart + last
    return replace(access, indices=(*outer, last))


def _step(access: Access, dim: str) -> int:
    """The stride along ``dim`` in elements; 0 if the access moves through rows as well."""
    *outer, last = access.indices
    form = linear(last, (dim,))
    return (
        0
        if form is None or any(mentions(i, (dim,)) for i in outer)
        else form.coefficients.get(dim, 0)
    )


def strided(access: Access, dim: str, *, backwards: bool = False) -> bool:
    """Whether ``access`` moves along ``dim`` with a stride other than 1 (with ``backwards``: or
    -1)."""
    if not moves(access, dim):
        return False
    *outer, last = access.indices
    form = linear(last, (dim,))
    step = form.coefficients.get(dim) if form is not None else None
    return step not in ((1, -1) if backwards else (1,)) or any(mentions(i, (dim,)) for i in outer)


def folds(statement: Statement, dim: str) -> bool:
    """Whether iterations along ``dim`` reduce into one element."""
    return statement.update is not None and dim in statement.update.dims


def sum_dims(
    statement: Statement, free: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Those of the dims ``free`` that move what ``statement`` sums into, and those of its
    reduction; None where it is no sum, or data decide where or whether it accesses."""
    if statement.update is None or len(statement.writes) != 1:
        return None
    (target,) = statement.writes
    if target.guard or any(a.may for a in (target, *statement.reads)):
        return None
    moving = tuple(d for d in free if moves(target, d))
    stream = tuple(d for d in free if d not in moving)
    return (moving, stream) if stream and all(folds(statement, d) for d in stream) else None


def by_locality(statement: Statement, dims: Sequence[str]) -> tuple[str, ...]:
    """``dims`` in the order of the indices that they move, outermost first; ties are decided by the
    reads, which are waited for."""

    def depth(dim: str, accesses: Sequence[Access]) -> float:
        places = [
            k / len(access.indices)
            for access in accesses
            for k, index in enumerate(access.indices)
            if mentions(index, (dim,))
        ]
        return sum(places) / len(places) if places else 1.0

    reads, writes = statement.reads, statement.writes
    return tuple(sorted(dims, key=lambda d: (depth(d, (*writes, *reads)), depth(d, reads))))


# ---- Loops along a dim of a statement, where their bounds are constants.


def known_range(statement: Statement, value: Expr) -> tuple[int, int] | None:
    """First value and number of values of a loop along a dim, if both are constants."""
    form = linear(value, statement.dims)
    if form is None or not isinstance(form.rest, Literal) or len(form.coefficients) != 1:
        return None
    ((dim, step),) = form.coefficients.items()
    match hull(statement).get(dim):
        case Literal() as begin, Literal() as end if step == 1:
            low = int(begin.value)
            return low + int(form.rest.value), max(1, int(end.value) - low)
    return None


def from_lower_bound(statement: Statement, dim: str) -> Expr:
    """``dim`` counted from its lower bound, where that is a constant: tiles begin there."""
    match hull(statement).get(dim):
        case Literal() as begin, _:
            return Var(dim) - begin
    return Var(dim)
