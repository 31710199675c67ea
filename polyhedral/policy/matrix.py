"""Updates with reuse in two directions: what a register tile of an outer product can compute.

    C[i, j] += A[i, k] * B[k, j]      rows i, lanes j, stream k

An operand that does not move along the lanes is loaded once for a whole row of them, one that does
not move along the rows once for a whole column; with ``rows`` times ``lanes`` elements of C in
registers, the arithmetic outweighs the loads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.frontend.scalar_expr import Expr, literal
from weft.polyhedral.analysis.linear import linear, mentions
from weft.polyhedral.scop import Access, Constraint, Scop, Statement


@dataclass(frozen=True, slots=True)
class Product:
    """``rows``, ``lanes``: the dims of the register tile; ``outer``: further dims of the target;
    ``jumping``: the numbers of the reads that are not contiguous along the lanes."""

    statement: str
    rows: str
    lanes: str
    stream: tuple[str, ...]
    outer: tuple[str, ...]
    jumping: tuple[int, ...]


def find_product(statement: Statement, free: Sequence[str]) -> Product | None:
    """How ``statement``, whose dims ``free`` are open, is an outer product over a stream."""
    update = statement.update
    if update is None or len(statement.writes) != 1 or statement.writes[0].may:
        return None
    (write,) = statement.writes
    target = [d for d in free if any(mentions(i, (d,)) for i in write.indices)]
    stream = tuple(d for d in free if d not in target)
    if not stream or not set(stream) <= set(update.dims):
        return None
    found = [
        Product(
            statement.name,
            rows,
            lanes,
            stream,
            tuple(d for d in target if d not in (rows, lanes)),
            tuple(k for k, read in enumerate(statement.reads) if _jumps(read, lanes)),
        )
        for lanes in target
        if not _jumps(write, lanes)
        for rows in reversed(target)
        if rows != lanes and _reused(statement.reads, rows, lanes, stream)
    ]
    return min(found, key=lambda p: len(p.jumping), default=None)


def _jumps(access: Access, dim: str) -> bool:
    """Whether ``access`` moves along ``dim`` other than by one element."""
    if not any(mentions(i, (dim,)) for i in access.indices):
        return False
    *outer, last = access.indices
    form = linear(last, (dim,))
    one = form is not None and form.coefficients.get(dim) == 1
    return not one or any(mentions(i, (dim,)) for i in outer)


def _reused(reads: Sequence[Access], rows: str, lanes: str, stream: Sequence[str]) -> bool:
    along_rows = [_moves(r, rows) for r in reads]
    along_lanes = [_moves(r, lanes) for r in reads]
    return (
        any(along_rows)
        and any(along_lanes)
        and not any(a and b for a, b in zip(along_rows, along_lanes, strict=True))
        and not any(r.may for r in reads)
    )


def _moves(access: Access, dim: str) -> bool:
    return any(mentions(i, (dim,)) for i in access.indices)


def in_place(statement: Statement) -> bool:
    """Whether the statement reads, elsewhere, the tensor that it updates."""
    return any(r.tensor == statement.writes[0].tensor for r in statement.reads)


def beyond_tile(
    statement: Statement, product: Product, tiled: Sequence[tuple[Expr, int]]
) -> tuple[Constraint, ...]:
    """Where the stream keeps clear of the tile: every constraint that ties the stream to a tiled
    value holds for the whole tile. ``tiled``: (dim, tile size)."""
    found = []
    for constraint in statement.domain:
        if not any(mentions(constraint.expr, (d,)) for d in product.stream):
            continue
        worst = constraint.expr
        form = linear(worst, statement.dims)
        if form is None or constraint.equality:
            continue
        changed = False
        for value, size in tiled:
            factor = form.coefficients.get(getattr(value, "name", ""), 0)
            if factor == 0:
                continue
            # The value is its tile's first, plus something between 0 and size - 1.
            least = value // size * size
            worst = worst - value * factor + least * factor
            worst = worst + (literal(factor * (size - 1)) if factor < 0 else literal(0))
            changed = True
        if changed:
            found.append(Constraint(worst))
    return tuple(found)


def target_tensor(scop: Scop, statement: Statement) -> str:
    return scop.tensor(statement.writes[0].tensor).name
