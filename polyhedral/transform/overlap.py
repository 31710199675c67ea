"""Overlap: a producer is recomputed, halo included, for each tile of its consumer.

    for x: T[x] = f(X[x])                for t: for l in 0…V+1: L[t, l] = f(X[V·t + l])
    for y: Y[y] = T[y] + T[y+2]     →           for p in 0…V-1: Y[V·t + p] = L[t, p] + L[t, p + 2]

The clones carry their tile index and a local coordinate as ordinary dims, so that isl scans and
validates them like any statement; L has storage for one tile (``contracted``).
Also known as: overlapped tiling, Halide ``compute_at``, TVM ``compute_at`` with a halo.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

from weft.errors import IllegalScheduleError
from weft.frontend.scalar_expr import Expr, Literal, Var, literal, substitute
from weft.polyhedral.analysis.linear import box, linear
from weft.polyhedral.scop import Access, Constraint, Origin, Scop, Statement
from weft.polyhedral.transform.edit import (
    accesses_of,
    nest_position,
    origin_of,
    substitute_access,
    substitute_constraint,
)
from weft.polyhedral.transform.scheduled import fresh


@dataclass(frozen=True, slots=True)
class Window:
    """What one tile needs along one dim of the tensor: ``size`` elements from ``base``."""

    base: Mapping[str, int]  # consumer dim -> elements by which a tile step moves the window
    offset: Expr
    size: int


def overlap(scop: Scop, tensor: str, consumer: str, tiles: Mapping[str, int]) -> Scop:
    """``tensor``'s producers cloned for tiles (dim -> size) of ``consumer``, their only reader.

    The clones' first dims are the tile indices, in the order of ``tiles``; the consumer reads the
    local tensor at ``index - window base``. Raises ``IllegalScheduleError`` where the reads are not
    affine with constant windows, or somebody else sees the tensor.
    """
    reader = scop.statement(consumer)
    producers = _producers(scop, tensor, consumer)
    windows = window_of(tensor, reader, tiles)
    if windows is None:
        raise IllegalScheduleError(
            "WEFT-E0457", f"{consumer} does not read constant windows of {tensor}"
        )
    counts = [_tile_count(reader, dim, size) for dim, size in tiles.items()]
    old = scop.tensor(tensor)
    local = replace(
        old,
        shape=(*counts, *(literal(w.size) for w in windows)),
        scope="local",
        contracted=len(counts),
    )
    taken = frozenset(scop.parameters)
    clones = {p.name: _clone(p, windows, tiles, counts, taken) for p in producers}
    changed = _read_local(reader, tensor, windows, tiles)
    statements = tuple(
        clones.get(s.name, changed if s.name == consumer else s) for s in scop.statements
    )
    tensors = tuple(local if t.name == tensor else t for t in scop.tensors)
    return replace(scop, tensors=tensors, statements=statements)


def _producers(scop: Scop, tensor: str, consumer: str) -> list[Statement]:
    uses = accesses_of(scop, tensor)
    readers = {s.name for s, _, is_write in uses if not is_write}
    producers = [s for s, _, is_write in uses if is_write]
    old = scop.tensor(tensor)
    visible = old.role != "temp"
    plain = all(
        len(p.writes) == 1
        and not p.writes[0].may
        and len({i.name for i in p.writes[0].indices if isinstance(i, Var)}) == len(old.shape)
        for p in producers
    )
    if visible or readers != {consumer} or not producers or not plain:
        raise IllegalScheduleError(
            "WEFT-E0457", f"{tensor} cannot be recomputed in the tiles of {consumer} alone"
        )
    return producers


def window_of(
    tensor: str, reader: Statement, tiles: Mapping[str, int]
) -> tuple[Window, ...] | None:
    """The elements of ``tensor`` that one tile of ``reader`` needs, or None if they are no box."""
    windows: list[Window] | None = None
    for access in reader.reads:
        if access.tensor != tensor:
            continue
        found = [_window(reader, index, tiles) for index in access.indices]
        if access.may or any(w is None for w in found):
            return None
        new = [w for w in found if w is not None]
        windows = (
            new if windows is None else [_hull(a, b) for a, b in zip(windows, new, strict=True)]
        )
    return tuple(windows) if windows and all(w.size > 0 for w in windows) else None


def _window(reader: Statement, index: Expr, tiles: Mapping[str, int]) -> Window | None:
    split, bounds = linear(index, reader.dims), box(reader)
    if split is None or not isinstance(split.rest, Literal):
        return None
    low = high = int(split.rest.value)
    base: dict[str, int] = {}
    for dim, c in split.coefficients.items():
        if dim in tiles:
            base[dim] = c * tiles[dim]
            span = (0, tiles[dim] - 1)
        else:
            lower, upper = bounds.get(dim, (None, None))
            if not isinstance(lower, Literal) or not isinstance(upper, Literal):
                return None
            span = (int(lower.value), int(upper.value) - 1)
        low += min(c * span[0], c * span[1])
        high += max(c * span[0], c * span[1])
    return Window(base, literal(low), high - low + 1)


def _hull(a: Window, b: Window) -> Window:
    """The window that covers both; size 0 (refused) where they move apart."""
    if a.base != b.base or not isinstance(a.offset, Literal) or not isinstance(b.offset, Literal):
        return Window({}, literal(0), 0)
    low = min(int(a.offset.value), int(b.offset.value))
    high = max(int(a.offset.value) + a.size, int(b.offset.value) + b.size)
    return Window(a.base, literal(low), high - low)


def _tile_count(reader: Statement, dim: str, size: int) -> Expr:
    bounds = box(reader)
    if dim not in bounds or bounds[dim][0] != literal(0):
        raise IllegalScheduleError("WEFT-E0457", f"{reader.name} cannot be tiled along {dim}")
    return (bounds[dim][1] + (size - 1)) // size


def _start(window: Window, tile_index: Mapping[str, Expr]) -> Expr:
    """The first element of the window of a tile."""
    start: Expr = window.offset
    for dim, step in window.base.items():
        start = tile_index[dim] * step + start
    return start


def _clone(
    producer: Statement,
    windows: Seq[Window],
    tiles: Mapping[str, int],
    counts: Seq[Expr],
    parameters: frozenset[str],
) -> Statement:
    taken = {*producer.dims, *parameters}
    index = {dim: Var(fresh(f"{dim}_tile", taken)) for dim in tiles}
    dim_of = {i.name: d for d, i in enumerate(producer.writes[0].indices) if isinstance(i, Var)}
    local = {d: Var(fresh(f"{d}_local", taken)) for d in producer.dims if d in dim_of}
    values: dict[str, Expr] = {d: local[d] + _start(windows[k], index) for d, k in dim_of.items()}
    domain = [substitute_constraint(c, values) for c in producer.domain]
    domain += _within((index[dim], count) for dim, count in zip(index, counts, strict=True))
    domain += _within((local[d], literal(windows[k].size)) for d, k in dim_of.items())
    dims = (
        *(v.name for v in index.values()),
        *(local[d].name if d in local else d for d in producer.dims),
    )
    write = producer.writes[0]
    origin = origin_of(producer)
    return replace(
        producer,
        dims=dims,
        domain=tuple(domain),
        position=(producer.position[0], *nest_position(dims)[1:]),
        writes=(
            Access(
                write.tensor,
                (*index.values(), *(local[i.name] for i in write.indices if isinstance(i, Var))),
            ),
        ),
        reads=tuple(substitute_access(r, values) for r in producer.reads),
        body=replace(
            producer.body,
            lets=tuple((n, substitute(e, values)) for n, e in producer.body.lets),
            results=tuple(substitute(e, values) for e in producer.body.results),
        ),
        origin=Origin(
            origin.statement,
            tuple(substitute(e, values) for e in origin.instance),
            origin.source,
        ),
    )


def _within(sizes: Iterable[tuple[Expr, Expr]]) -> list[Constraint]:
    """0 <= value < size for each pair."""
    return [Constraint(e) for value, size in sizes for e in (value, size - 1 - value)]


def _read_local(
    reader: Statement, tensor: str, windows: Seq[Window], tiles: Mapping[str, int]
) -> Statement:
    index: dict[str, Expr] = {dim: Var(dim) // size for dim, size in tiles.items()}

    def change(access: Access) -> Access:
        if access.tensor != tensor:
            return access
        inner = tuple(i - _start(w, index) for i, w in zip(access.indices, windows, strict=True))
        return replace(access, indices=(*index.values(), *inner))

    return replace(reader, reads=tuple(map(change, reader.reads)))
