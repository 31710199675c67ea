"""Partial register tiles, at the edges of the domain.

    if every row and lane exists: the tile
    else if the remainder is known:         a smaller tile
         if it is a number of rows alone:   the tile of that many, one for each number
         otherwise:                         the tile on a clamped box: rows outside repeat the
                                            nearest row, lanes outside load 0 and are not stored

The stream of a clamped box runs over the smallest of a few tiles that hold it (``smaller_sizes``):
half the rows, or fewer cache lines of lanes; that is tested at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from weft.codegen.rebuild import block, let
from weft.codegen.tile_bounds import TRUE, ZERO, all_of, at_worst, mentions_any, span
from weft.codegen.tile_version import Lets, TileVersion, named
from weft.ir.loop_ir import If, Stmt
from weft.ir.scalar_affine import Affine
from weft.ir.scalar_expr import Expr, literal
from weft.polyhedral.analysis.linear import hull_extent

PARTS = 4  # sizes along the lanes that are tried at an edge

Emit = Callable[[TileVersion], Stmt]


def with_edges(tile: TileVersion, boundary: Sequence[Affine], emit: Emit) -> Stmt:
    """``emit`` of ``tile`` where it is whole, and of the partial tiles that ``boundary`` leaves
    elsewhere."""
    edges = _known_remainders(tile, boundary)
    if edges is not None:
        return _with_remainders(tile, edges, emit)
    return _whole_or_clamped(tile, boundary, emit)


def _known_remainders(
    tile: TileVersion, boundary: Sequence[Affine]
) -> dict[str, tuple[Expr, int]] | None:
    """Row or lane → (when a tile has its full size, its size otherwise); None if that is not known.

    A constraint ``size * t + c - row >= 0``, where t is integral, allows the rows 0 … ``c + size *
    t``: of tile t all, none, or (c + 1) mod size of them.
    """
    found: dict[str, tuple[Expr, int]] = {}
    for form in boundary:
        fits = at_worst(form, tile.box) >= 0
        if fits == TRUE:
            continue
        cut = [name for name in tile.sizes if form.coefficient(name)]
        (name, *others), size = cut, tile.sizes[cut[0]]
        rest = form + Affine(((name, 1),))
        if others or name in found or form.coefficient(name) != -1:
            return None
        if any(step % size for _, step in rest.terms):
            return None
        found[name] = fits, (rest.constant + 1) % size
    return found


def _with_remainders(tile: TileVersion, edges: Mapping[str, tuple[Expr, int]], emit: Emit) -> Stmt:
    """``emit`` of ``tile`` and, for each of ``edges``, of the tile of the remainder's size."""
    if not edges:
        return emit(tile)
    (name, (fits, left)), *others = edges.items()
    whole = _with_remainders(tile, dict(others), emit)
    if not left:
        return whole
    sizes = {**tile.sizes, name: left}
    box = {**tile.box, name: (ZERO, literal(left))}
    smaller = replace(tile, sizes=sizes, box=box, edge=True)
    return If(fits, whole, _with_remainders(smaller, dict(others), emit))


def _whole_or_clamped(whole: TileVersion, boundary: Sequence[Affine], emit: Emit) -> Stmt:
    """``emit`` of the ``whole`` tile if all of its rows and lanes exist, else of a clamped one; if
    all rows exist, only the lanes are clamped, and if all lanes do, of which the number is known,
    there is a tile for each number of rows, unless in less code (``quick``)."""
    across = [c for c in boundary if c.coefficient(whole.domain.lane)]
    along = [c for c in boundary if c not in across]
    rows_fit, lanes_fit = (_fits(whole, forms) for forms in (along, across))
    if whole.quick or not is_box(whole, boundary):
        return If(_fits(whole, boundary), emit(whole), _clamped(whole, boundary, emit))
    lower = _of_any_rows(whole, along, emit) if _lanes_are_known(whole) else None
    if not (across and along):
        edge = lower or _clamped(whole, boundary, emit)
        return If(_fits(whole, boundary), emit(whole), edge)
    narrower, corner = _clamped(whole, across, emit), _clamped(whole, boundary, emit)
    shorter = corner if lower is None else If(lanes_fit, lower, corner)
    return If(rows_fit, If(lanes_fit, emit(whole), narrower), shorter)


def _lanes_are_known(tile: TileVersion) -> bool:
    """Whether the number of lanes of the whole statement is."""
    forms = tile.domain.inverse.dims.items()
    dims = [dim for dim, form in forms if form.coefficient(tile.domain.lane)]
    return all(hull_extent(tile.statement, dim) is not None for dim in dims)


def _of_any_rows(whole: TileVersion, boundary: Sequence[Affine], emit: Emit) -> Stmt | None:
    """The rows that satisfy ``boundary``, fewer than ``whole`` has, as a tile of so many; None
    unless one row dim alone is bounded, from above."""
    limits = [form for form in boundary if (at_worst(form, whole.box) >= 0) != TRUE]
    cut = [row for row in whole.domain.rows if any(form.coefficient(row) for form in limits)]
    unit = whole.instruction is not None and whole.instruction.unit is not None
    if unit or len(cut) != 1 or not all(form.coefficient(cut[0]) < 0 for form in limits):
        return None
    (row,), lets, found = cut, list[tuple[str, Expr]](), block([])
    bounds = span(limits, row, whole.sizes[row])
    _, rows = named(whole.instances, bounds, row, lets)
    for size in range(1, whole.sizes[row]):
        sizes = {**whole.sizes, row: size}
        box = {**whole.box, row: (ZERO, literal(size))}
        smaller = emit(replace(whole, sizes=sizes, box=box, edge=True))
        found = If(rows.equal(size), smaller, found)
    return let(lets, found)


def _fits(tile: TileVersion, forms: Sequence[Affine]) -> Expr:
    return all_of(at_worst(form, tile.box) >= 0 for form in forms)


def _clamped(whole: TileVersion, boundary: Sequence[Affine], emit: Emit) -> Stmt:
    """The tile on the box of the rows and lanes that satisfy ``boundary``."""
    instances, domain, sizes = whole.instances, whole.domain, whole.sizes
    hulls = {**dict(zip(domain.rows, domain.rows_hull, strict=True)), domain.lane: domain.lane_hull}
    lets: Lets = []
    box = dict(whole.box)
    apart = _separable(boundary, sizes)
    for name, size in sizes.items():
        if not apart or any(c.coefficient(name) for c in boundary):
            box[name] = named(instances, span(hulls[name] or (), name, size), name, lets)
    # Whether every row of the box has a lane in the domain, and every lane a row: with one row
    # loop by the hulls, with several if no constraint has two variables.
    closed = None not in hulls.values() and (apart or len(domain.rows) == 1)
    version = replace(whole, box=box, boundary=tuple(boundary), closed=closed)
    return let(lets, emit(version))


def is_box(tile: TileVersion, boundary: Sequence[Affine]) -> bool:
    """Whether ``boundary`` leaves a box of the tile, the same at all points of the stream."""
    local, streams = tuple(tile.sizes), tile.domain.streams
    mixed = (mentions_any(c, streams) and mentions_any(c, local) for c in tile.domain.whole)
    return _separable(boundary, local) and not any(mixed)


def _separable(boundary: Sequence[Affine], names: Collection[str]) -> bool:
    """Whether each constraint is on a single one of ``names``."""
    return all(sum(bool(c.coefficient(name)) for name in names) == 1 for c in boundary)


def smaller_sizes(tile: TileVersion, name: str) -> list[int]:
    """Sizes that are tried along ``name`` at an edge, descending."""
    size = tile.sizes[name]
    if name != tile.domain.lane:
        return [size // 2] if size > 1 else []
    dtypes = (tile.instances.tensor(w.tensor).dtype for w in tile.statement.writes)
    line = min(map(tile.line, dtypes))
    step = -(-size // (PARTS * line)) * line
    return list(range((size - 1) // step * step, 0, -step))
