"""Register tiles at the edges of what they cover, where not all of their rows and lanes exist.

    if every row and lane exists: the tile
    else where it is known how many do:     a smaller tile
         otherwise:                         the tile on a clamped box: what does not exist repeats
                                            a neighbour, or loads 0, and is not stored

The streams of a clamped box run over the smallest of a few tiles that hold it (``smaller_sizes``):
half the rows, or some cache lines of lanes. That is asked when the program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from weft.codegen.tile_bounds import TRUE, ZERO, all_of, at_worst, mentions_any, span
from weft.codegen.tile_prefetch import CACHE_LINE
from weft.codegen.tile_version import Lets, TileVersion, let, named
from weft.ir.loop_ir import If, Stmt
from weft.ir.scalar_affine import Affine
from weft.ir.scalar_expr import Expr, literal

PARTS = 4  # that the lanes of a tile at an edge may be fewer of

Emit = Callable[[TileVersion], Stmt]


def with_edges(tile: TileVersion, boundary: Sequence[Affine], emit: Emit) -> Stmt:
    """What ``emit`` makes of the ``tile``, and of what is left of it where ``boundary`` cuts it."""
    edges = _known_remainders(tile, boundary)
    if edges is not None:
        return _with_remainders(tile, edges, emit)
    return _whole_or_clamped(tile, boundary, emit)


def _known_remainders(
    tile: TileVersion, boundary: Sequence[Affine]
) -> dict[str, tuple[Expr, int]] | None:
    """By row or lane that tiles at the edge have fewer of: when a tile has all of them, and how
    many it has otherwise. None where tiles may be cut in other ways.

    Up to where ``size * t + c - row >= 0`` there are rows 0 … ``c + size * t``: all of them, or
    none, or as many as c + 1 is more than a multiple of the size.
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
    """The ``tile``, and what it is at ``edges``, one of which is left out after the other."""
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
    """The ``whole`` tile where all of its rows and lanes exist, else what is clamped to those that
    do: by lanes alone, if there are all rows."""
    across = [c for c in boundary if c.coefficient(whole.domain.lane)]
    along = [c for c in boundary if c not in across]
    rows_fit, lanes_fit = (_fits(whole, forms) for forms in (along, across))
    if not (across and along and is_box(whole, boundary)):
        return If(_fits(whole, boundary), emit(whole), _clamped(whole, boundary, emit))
    narrower = _clamped(whole, across, emit)
    return If(rows_fit, If(lanes_fit, emit(whole), narrower), _clamped(whole, boundary, emit))


def _fits(tile: TileVersion, forms: Sequence[Affine]) -> Expr:
    return all_of(at_worst(form, tile.box) >= 0 for form in forms)


def _clamped(whole: TileVersion, boundary: Sequence[Affine], emit: Emit) -> Stmt:
    """The tile on the box of the rows and lanes that exist, which ``boundary`` cuts."""
    instances, domain, sizes = whole.instances, whole.domain, whole.sizes
    hulls = {**dict(zip(domain.rows, domain.rows_hull, strict=True)), domain.lane: domain.lane_hull}
    lets: Lets = []
    box = dict(whole.box)
    apart = _separable(boundary, sizes)
    for name, size in sizes.items():
        if not apart or any(c.coefficient(name) for c in boundary):
            box[name] = named(instances, span(hulls[name] or (), name, size), name, lets)
    # Every row of the box has a lane in the domain, and every lane a row? With one row loop, that
    # is what the hulls say; with several it holds where no constraint ties two variables.
    closed = None not in hulls.values() and (apart or len(domain.rows) == 1)
    version = replace(whole, box=box, boundary=tuple(boundary), closed=closed)
    return let(lets, emit(version))


def is_box(tile: TileVersion, boundary: Sequence[Affine]) -> bool:
    """Whether what ``boundary`` leaves of the tile is a box, the same in all steps of streams."""
    local, streams = tuple(tile.sizes), tile.domain.streams
    mixed = (mentions_any(c, streams) and mentions_any(c, local) for c in tile.domain.whole)
    return _separable(boundary, local) and not any(mixed)


def _separable(boundary: Sequence[Affine], names: Collection[str]) -> bool:
    """Whether each constraint is on one of ``names`` alone."""
    return all(sum(bool(c.coefficient(name)) for name in names) == 1 for c in boundary)


def smaller_sizes(tile: TileVersion, name: str) -> list[int]:
    """Sizes that a tile may have along ``name`` at an edge, falling."""
    size = tile.sizes[name]
    if name != tile.domain.lane:
        return [size // 2] if size > 1 else []
    dtypes = (tile.instances.tensor(w.tensor).dtype for w in tile.statement.writes)
    line = max(1, CACHE_LINE // max(dtype.itemsize for dtype in dtypes))
    step = -(-size // (PARTS * line)) * line
    return list(range((size - 1) // step * step, 0, -step))
