"""Strategy for updates with reuse in two directions: register tiles of an outer product.

    C[i, j] += A[i, k] * B[k, j]      rows i, lanes j, reduction k

An element of A is loaded once for all lanes of a register tile, a vector of B once for all of its
rows. With rows times lanes elements of C in registers, the arithmetic outweighs the loads.

A sum over a window, y[i] += x[i + k] * w[k], has lanes only (``policy/product``). Statements before
and after the sums share their tiles (``policy/blocked``).

Where a group updates in place (LU, Cholesky, triangular products), rows and lanes are tiled first,
and the part of the reduction that reads no element of the tile itself is isolated: that part is a
register tile, the rest goes to the other strategies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod

from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Var
from weft.ir.schedule_tree import Band, Tree
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.ir.scop import Constraint, Scop
from weft.polyhedral.analysis.bounds import bounds
from weft.polyhedral.analysis.linear import hull_extent
from weft.polyhedral.analysis.work import operations
from weft.polyhedral.policy.blocked import blocked, shared_tiles, within_tile
from weft.polyhedral.policy.cache_tiles import cache_tiles, kc_of, nearest
from weft.polyhedral.policy.loop_orders import find_matrix_vector
from weft.polyhedral.policy.operand_panels import pack_once, strided_packing
from weft.polyhedral.policy.planner import At, Group, Planner
from weft.polyhedral.policy.product import Product, shape, sum_of, sums_of
from weft.polyhedral.policy.tile_ends import fusable_epilogue
from weft.polyhedral.policy.wavefront import beyond_tile, tile_loops
from weft.polyhedral.transform.isolate import negated
from weft.polyhedral.transform.panels import panels, row_conditions
from weft.polyhedral.transform.precompute import precompute
from weft.polyhedral.transform.scheduled import added

MANY = 256  # rows from which on packing all operands pays, wherever they lie
FEW = 2  # register tiles that convert the same lanes in place, rather than read converted panels
PANEL = 32  # steps in a block of an update by its own rows and columns


# ---- the strategy -------------------------------------------------------------------------------


def matrix(planner: Planner, group: Group) -> Tree | None:
    """Register tiles for the outer products of ``group``; None if it has none."""
    if group.in_tile and not all(n in planner.tiled for n in group.names):
        return None
    sums = sums_of(planner, group)
    if sums and not group.in_tile:
        alone = len(group.names) == 1 and not group.active
        if alone or (len(group.names) > 1 and fusable_epilogue(planner, group) is not None):
            return _sized(planner, group, sums[0])
    products = [p for p in sums if not p.window]
    if products and all(p.rows for p in products):
        return _in_place(planner, group, products)
    alone = len(group.names) == 1 and not group.active and not group.in_tile
    streamed = find_matrix_vector(planner, group) if alone and not sums else None
    if streamed:
        return blocked(planner, streamed)
    planner.declines(_no_tile(planner, group))
    return None


def _no_tile(planner: Planner, group: Group) -> str:
    """Why no statement of ``group`` is worth a register tile."""
    folds = [s.name for s in planner.statements(group) if s.update is not None]
    if not folds:
        return f"{' and '.join(group.names)}: nothing is folded into an element"
    return (
        f"{' and '.join(folds)}: no sum of products, nor over a window, whose rows share operands"
    )


def _sized(planner: Planner, group: Group, p: Product) -> Tree:
    """Register tiles of ``p``: operands are packed where its rows are many, and sums begin in
    registers where its reduction is short. Where sizes are unknown, each is a version, chosen at
    run time, unless it were empty; without versions (``Planner.sized``) they count as large."""
    long = _where_long(planner, group, p)
    if long is not None and planner.never(group, negated(long)):
        planner.short_streams |= dict.fromkeys(group.names, False)
    elif long is not None:
        note = f"up to {kc_of(planner.machine)} steps, the reduction is not blocked"
        few = planner.versions(group, long, "few_steps", note)
        planner.short_streams |= dict.fromkeys(group.names, False) | dict.fromkeys(few, True)
        (again,) = (name for name in few if planner.copies[name] == p.statement)
        one_part = _prepared(planner, planner.group(few), replace(p, statement=again))
        return TreeSequence((one_part, _sized(planner, planner.group(group.names), p)))
    kept_apart = p.window or group.above or p.outer or len(p.rows) != 1
    if kept_apart or not planner.in_place.isdisjoint(group.names):
        return _prepared(planner, group, p)
    size = hull_extent(planner.scop.statement(p.statement), p.rows[0])
    if planner.threads > 1:  # each has its share of the rows, and panels come from others' caches
        many = size is not None and size >= MANY * planner.threads
        return _prepared(planner, group, p, many=many or None)
    if size is not None:
        return _prepared(planner, group, p, many=size >= MANY)
    if not planner.sized:
        return _prepared(planner, group, p, many=True)
    return _by_rows(planner, group, p)


def _by_rows(planner: Planner, group: Group, p: Product) -> Tree:
    """Versions for many and for few rows, of which the number is unknown; one, where that for
    few would be empty, or the same."""
    found = bounds(planner.scop, [(planner.scop.statement(p.statement), Var(p.rows[0]))])
    same = next(pack_once(planner, p, many=True), None) is None
    if same or found is None or to_affine(found.size) is None:
        return _prepared(planner, group, p)
    where = Constraint(found.size - MANY)
    if planner.never(group, negated(where)):
        return _prepared(planner, group, p, many=True)
    few = planner.versions(
        group, where, "few_rows", f"fewer than {MANY} rows, operands are not packed"
    )
    planner.in_place |= set(few)
    planner.short_streams |= dict.fromkeys(few, planner.short_streams.get(p.statement, False))
    tree = _prepared(planner, planner.group(group.names), p, many=True)
    return TreeSequence((tree, planner.nest(planner.group(few))))


def _where_long(planner: Planner, group: Group, p: Product) -> Constraint | None:
    """Where the reduction of ``p`` needs blocking, if something precedes its sums and its length
    is unknown; else None."""
    alone = len(group.names) == 1
    if not planner.sized or p.window or group.above or len(p.stream) != 1 or alone:
        return None
    s = planner.scop.statement(p.statement)
    if p.statement in planner.short_streams or hull_extent(s, p.stream[0]) is not None:
        return None
    found = bounds(planner.scop, [(s, Var(p.stream[0]))])
    if found is None or to_affine(found.size) is None:
        return None
    return Constraint(found.size - (kc_of(planner.machine) + 1))


def _prepared(planner: Planner, group: Group, p: Product, *, many: bool | None = None) -> Tree:
    """Register tiles of ``p``. Operands that take arithmetic are computed before, once; operands
    are packed as ``many`` says, or only where they must be if it is None."""
    made: tuple[str, ...] = ()
    if not group.above and not p.window and p.instruction is None:
        whole = planner.now
        planner.now = precompute(whole, p.statement, (*p.rows, *p.stream), p.stream)
        both = precompute(planner.now, p.statement, (*p.stream, p.lanes), p.stream)
        lanes = added(planner.now, both)
        plain = all(operations(both.scop.statement(name)) == 0 for name in lanes)
        if not plain or not _few(planner, p):
            planner.now = both
        makers = added(whole, planner.now)
        scop = planner.scop
        planner.operands |= {scop.statement(name).writes[0].tensor: name for name in makers}
        planner.now = strided_packing(planner, p)
        made = added(whole, planner.now)
        _not_packed(planner, whole.scop, p)
    if many is not None:
        planner.packings += pack_once(planner, p, many=many)
    if not made:
        return _tiled(planner, group)
    before = planner.nest(planner.group(made))
    return TreeSequence((before, _tiled(planner, planner.group(group.names))))


def _not_packed(planner: Planner, before: Scop, p: Product) -> None:
    """There is nothing to decide about the packing of what ``p`` reads no more."""
    read = {read.tensor for read in planner.scop.statement(p.statement).reads}
    for tensor in (r.tensor for r in before.statement(p.statement).reads if r.tensor not in read):
        why = f"{p.statement} reads what is computed from {tensor} before"
        planner.decisions.drop(f"{p.statement}.pack_once_{tensor}", why)


def _few(planner: Planner, p: Product) -> bool:
    """Whether so few register tiles use each lane that converting operands in place takes less."""
    statement = planner.scop.statement(p.statement)
    sizes = [hull_extent(statement, row) for row in p.rows]
    tiles = [-(-n // size) for n, size in zip(sizes, shape(planner, p)[0], strict=True) if n]
    return len(tiles) == len(sizes) and prod(tiles) <= FEW


def _tiled(planner: Planner, group: Group) -> Tree:
    planes = fusable_epilogue(planner, group) if len(group.names) > 1 else None
    if planes is not None:
        return shared_tiles(planner, group, planes)
    (p,) = sums_of(planner, group)
    return blocked(planner, p)


def _in_place(planner: Planner, group: Group, products: Sequence[Product]) -> Tree | None:
    main = products[0]
    level = max(planner.tiled.get(n, 0) for n in group.names)
    width = shape(planner, main, whole=True)[1]
    (target,) = planner.scop.statement(main.statement).writes
    best = cache_tiles(planner.machine, planner.scop.tensor(target.tensor).dtype.itemsize)
    sizes = (nearest(best.square, width), width)
    if level == len(sizes):
        return None
    size = sizes[level]
    rows = planner.common(group, {p.statement: Var(p.rows[0]) for p in products})
    lanes = planner.common(group, {p.statement: Var(p.lanes) for p in products})
    if rows is None or lanes is None:
        planner.declines("its own results feed it, in no order of rows and lanes that tiles allow")
        return _panels(planner, group)
    names = list(group.names)
    tiles = [{n: e // size for n, e in plane.at.items()} for plane in (rows, lanes)]
    for p in products:
        s = planner.scop.statement(p.statement)
        where = beyond_tile(s, p.stream, [(plane.at[s.name], size) for plane in (rows, lanes)])
        if not where:
            return None
        edges = planner.isolate(s.name, where, replace(group, above=(*group.above, *tiles)))
        planner.planned[s.name] = partial(_within_tile, p, size)
        names += edges
    planner.tiled |= dict.fromkeys(names, level + 1)
    order = [s.name for s in planner.scop.statements if s.name in names]
    loops = tile_loops(
        planner,
        planner.group(order, group.above),
        {f"{main.rows[0]}_t": tiles[0], f"{main.lanes}_t": tiles[1]},
    )
    return Band(loops, planner.nest(planner.group(order, (*group.above, *tiles))))


def _panels(planner: Planner, group: Group) -> Tree | None:
    """The update of ``group``, which its own rows and columns feed, in blocks of steps; all others
    are conditions of its rows."""
    updates = [s.name for s in planner.statements(group) if s.update is not None]
    if len(updates) != 1:
        return None
    (whole,) = updates
    if {*group.names} != {whole, *row_conditions(planner.scop, whole)}:
        return None
    try:
        made = panels(planner.now, whole, PANEL)
    except IllegalScheduleError as error:
        planner.declines(error.reason)
        return None
    parts = planner.split(made, whole, group)
    names = [s.name for s in planner.scop.statements if s.name in (*group.names, *parts)]
    steps = planner.scop.statement(names[0]).dims[0]
    block: At = {n: Var(steps) // PANEL for n in names}
    planner.blocks.append(block)
    loop = planner.loop(f"{steps}_t", block)
    inside = planner.group(names, (*group.above, block))
    for n in names:
        product = sum_of(planner, inside, n)
        if product is not None and not any(
            planner.scop.statement(n).writes[0].tensor == r.tensor
            for r in planner.scop.statement(n).reads
        ):
            planner.planned[n] = partial(_blocked, product)
    return Band((loop,), planner.nest(inside))


def _blocked(p: Product, planner: Planner, group: Group) -> Tree:
    return blocked(planner, p)


def _within_tile(p: Product, size: int, planner: Planner, group: Group) -> Tree | None:
    if not set(p.stream) <= set(planner.free(group, p.statement)):
        return None  # one step of the stream at a time: sums in registers would serve once
    return within_tile(planner, p, size)
