"""Reductions whose loops are merged to one that fills an instruction better.

    y[k, i] = Σ_c Σ_s w[k, c, s] · x[c, i + s]   →   y[k, i] = Σ_t W[k, t] · X[t, i]

``t`` runs through all pairs (c, s): an instruction that adds up 16 terms gets taps of the kernel
beside channels where there are few of these. X and W are prepared in main memory; X has an element
of x as often as windows do. Known as im2col.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from math import prod

from weft.accel.rearranged import affine, form_dims, rearranged, sizes_of, unused
from weft.accel.work import Columns, Read, Work
from weft.ir.scalar_affine import Affine


def im2col(work: Work, block: int, most: int) -> Iterator[Work]:
    """``work`` with several of its reduction loops merged: each choice with which instructions that
    add up ``block`` terms are iterated less than ``most`` times along them all, the fewest
    first."""
    update = work.statement.update
    assert update is not None, "it folds"
    folds = [d for d in work.extents if d in update.dims and work.extents[d] > 1]
    every = [dims for n in range(2, len(folds) + 1) for dims in combinations(folds, n)]
    for dims in sorted(every, key=lambda dims: _iterations(work, folds, dims, block)):
        if _iterations(work, folds, dims, block) < most:
            yield _merged(work, dims)


def _iterations(work: Work, folds: list[str], dims: tuple[str, ...], block: int) -> int:
    """Of ``folds``, with ``dims`` merged."""
    inside = prod(work.extents[d] for d in dims)
    return -(-inside // block) * prod(work.extents[d] for d in folds if d not in dims)


def _merged(work: Work, dims: tuple[str, ...]) -> Work:
    extents: dict[str, int] = {}
    merged = unused("merged", work.extents)
    for dim, size in work.extents.items():
        if dim == dims[0]:
            extents[merged] = prod(work.extents[d] for d in dims)
        elif dim not in dims:
            extents[dim] = size
    operands = [_columns(work, read, dims, merged) for read in work.operands]
    shape = sizes_of(work.scop.tensor(work.write.tensor))
    return rearranged(work, extents, operands, work.reads, work.write, shape, work.gather)


def _columns(work: Work, read: Read, dims: tuple[str, ...], merged: str) -> Read:
    """``read`` of an array with one axis for ``dims``, ``merged``, if it moves along any of them.
    Axes that do not are as they were; of others, each further loop becomes an axis."""
    moving = [n for n, form in enumerate(read.indices) if form_dims(form) & set(dims)]
    if not moving:
        return read
    sizes: dict[str, int] = {}
    own: list[Affine] = []  # the tensor's, by those of the array
    reads: list[Affine] = []  # the array's, by loops
    first = 0
    for n, size in enumerate(sizes_of(work.scop.tensor(read.tensor))):
        form = read.indices[n]
        own.append(form)
        if n == moving[0]:
            first = len(sizes)
            sizes |= {d: work.extents[d] for d in dims}
            reads.append(affine({merged: 1}, 0))
        if n not in moving:
            axis = unused(f"axis_{n}", work.extents)
            own[n] = affine({axis: 1}, 0)
            sizes[axis] = size
            reads.append(form)
            continue
        for dim in sorted(form_dims(form) - sizes.keys()):
            sizes[dim] = work.extents[dim]
            reads.append(affine({dim: 1}, 0))
    made = Columns(sizes, first, len(dims), tuple(own), read.outside)
    return replace(read, indices=tuple(reads), made=made)
