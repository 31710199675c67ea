"""Strategy for updates with reuse in two directions: register tiles of an outer product.

    C[i, j] += A[i, k] * B[k, j]      rows i, lanes j, stream k

An operand that does not move along the lanes is loaded once for a whole row of them, one that does
not move along the rows once for a whole column; with ``rows`` times ``lanes`` elements of C in
registers, the arithmetic outweighs the loads.

Where a group updates in place (LU, Cholesky, triangular products), rows and lanes are tiled first,
and the part of the stream that keeps clear of the tile's own elements is isolated: that part is a
register tile, what is left in the tile goes on to the other strategies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from weft.frontend.scalar_expr import Expr, Var, literal
from weft.polyhedral.analysis.hyperplanes import Hyperplane
from weft.polyhedral.analysis.linear import linear, mentions
from weft.polyhedral.machine import Machine, register_tile
from weft.polyhedral.map_instruction import map_instruction
from weft.polyhedral.policy.planner import At, Group, Packing, Planner
from weft.polyhedral.policy.wavefront import tile_loops
from weft.polyhedral.schedule_tree import Band, Kind, Leaf, Loop, Mark, RegisterTile, Tree
from weft.polyhedral.schedule_tree import Sequence as TreeSequence
from weft.polyhedral.scop import Constraint, Scop, Statement
from weft.polyhedral.transform.isolate import isolate
from weft.polyhedral.transform.panels import panels
from weft.polyhedral.transform.precompute import precompute

TILE = 192  # of in-place updates, in both directions
PANEL = 32  # steps of an update by its own rows and columns that go together
STREAM, WIDTH = 384, 96  # steps of the stream and lanes of a cache tile
BLOCK, LONE_BLOCK = 240, 960  # its rows, for several threads to share out and for one


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


def find_product(
    scop: Scop, statement: Statement, free: Sequence[str], machine: Machine
) -> Product | None:
    """How ``statement``, whose dims ``free`` are open, is an outer product over a stream that may
    be reordered, its target contiguous along the lanes."""
    update = statement.update
    if update is None or len(statement.writes) != 1:
        return None
    dtype = scop.tensor(statement.writes[0].tensor).dtype
    for instruction in machine.instructions(dtype):
        for found in map_instruction(scop, statement, instruction, free).assignments:
            numbers = [misfit.number for misfit in found.packs]
            jumping = tuple(n for n in numbers if n is not None)
            if len(jumping) == len(numbers) and set(found.streams) <= set(update.dims):
                rows, lanes = found.dims["row"], found.dims["lane"]
                return Product(statement.name, rows, lanes, found.streams, found.outer, jumping)
    return None


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


# ---- the strategy -------------------------------------------------------------------------------


def products_of(planner: Planner, group: Group) -> list[Product]:
    """The outer products among the statements of ``group``."""
    found = [_product(planner, group, name) for name in group.names]
    return [p for p in found if p is not None]


def _product(planner: Planner, group: Group, name: str) -> Product | None:
    statement = planner.scop.statement(name)
    return find_product(planner.scop, statement, planner.free(group, name), planner.machine)


def matrix(planner: Planner, group: Group) -> Tree | None:
    """Register tiles for the outer products of ``group``; None if it has none."""
    if group.in_tile and not all(n in planner.tiled for n in group.names):
        return None
    products = products_of(planner, group)
    if not products:
        return None
    if len(group.names) == 1 and not group.active and not group.in_tile:
        return _prepared(planner, group, products[0])
    return _in_place(planner, group, products)


def _prepared(planner: Planner, group: Group, p: Product) -> Tree:
    """Register tiles of ``p``, whose operands are worked out before where they take arithmetic."""
    made: tuple[str, ...] = ()
    if not group.above:
        scop, rows = precompute(planner.scop, p.statement, (p.rows, *p.stream), p.stream)
        scop, lanes = precompute(scop, p.statement, (*p.stream, p.lanes), p.stream)
        planner.scop, made = scop, (*rows, *lanes)
    if not made:
        return blocked(planner, p, tiled=False)
    p = next(iter(products_of(planner, group)), p)
    return TreeSequence((planner.nest(planner.group(made)), blocked(planner, p, tiled=False)))


def _in_place(planner: Planner, group: Group, products: Sequence[Product]) -> Tree | None:
    main = products[0]
    level = max(planner.tiled.get(n, 0) for n in group.names)
    sizes = (TILE, _shape(planner, main)[1])
    if level == len(sizes):
        return None
    size = sizes[level]
    rows = _plane(planner, group, {p.statement: Var(p.rows) for p in products})
    lanes = _plane(planner, group, {p.statement: Var(p.lanes) for p in products})
    if rows is None or lanes is None:
        return _panels(planner, group)
    names = list(group.names)
    tiles = [{n: e // size for n, e in plane.at.items()} for plane in (rows, lanes)]
    for p in products:
        s = planner.scop.statement(p.statement)
        where = beyond_tile(s, p, [(plane.at[s.name], size) for plane in (rows, lanes)])
        if not where:
            return None
        scop, edges = isolate(planner.scop, s.name, where)
        planner.split(scop, s.name, edges, replace(group, above=(*group.above, *tiles)))
        planner.planned[s.name] = partial(_within_tile, p)
        names += edges
    planner.tiled |= dict.fromkeys(names, level + 1)
    order = [s.name for s in planner.scop.statements if s.name in names]
    loops = tile_loops(
        planner,
        planner.group(order, group.above),
        {f"{main.rows}_t": tiles[0], f"{main.lanes}_t": tiles[1]},
    )
    return Band(loops, planner.nest(planner.group(order, (*group.above, *tiles))))


def _panels(planner: Planner, group: Group) -> Tree | None:
    """The one statement of ``group`` in blocks of steps, if its rows and columns feed it."""
    if len(group.names) != 1:
        return None
    found = panels(planner.scop, group.names[0], PANEL)
    if found is None:
        return None
    scop, names = found
    planner.split(scop, group.names[0], [n for n in names if n != group.names[0]], group)
    steps = planner.scop.statement(names[0]).dims[0]
    block: At = {n: Var(steps) // PANEL for n in names}
    loop = planner.loop(f"{steps}_t", block)
    inside = planner.group(names, (*group.above, block))
    for n in names:
        product = _product(planner, inside, n)
        if product is not None and not any(
            planner.scop.statement(n).writes[0].tensor == r.tensor
            for r in planner.scop.statement(n).reads
        ):
            planner.planned[n] = partial(_blocked, product)
    return Band((loop,), planner.nest(inside))


def _blocked(p: Product, planner: Planner, group: Group) -> Tree:
    return blocked(planner, p, tiled=False)


def _within_tile(p: Product, planner: Planner, group: Group) -> Tree:
    return blocked(planner, p, tiled=True)


def _plane(planner: Planner, group: Group, fixed: dict[str, Expr]) -> Hyperplane | None:
    own = {n: tuple(map(Var, planner.free(group, n))) for n in group.names}
    return group.search().complete(fixed, own)


def _shape(planner: Planner, p: Product) -> tuple[int, int]:
    """Rows and lanes of a register tile for ``p``."""
    dtype = planner.scop.tensor(planner.scop.statement(p.statement).writes[0].tensor).dtype
    rows, vectors = register_tile(planner.machine, dtype)
    return rows, vectors * planner.machine.lanes(dtype)


def blocked(planner: Planner, p: Product, *, tiled: bool) -> Tree:
    """Register tiles of ``p``, over tiles for the caches where it is not ``tiled`` already."""

    def loop(hint: str, value: Expr, kind: Kind = "serial") -> Loop:
        return planner.loop(hint, {p.statement: value}, kind)

    rows, lanes = _shape(planner, p)
    i, j, k = Var(p.rows), Var(p.lanes), p.stream[-1]
    outer = [loop(d, Var(d), "parallel") for d in p.outer]
    if not tiled:
        block = LONE_BLOCK if planner.threads == 1 else BLOCK
        outer += [loop(f"{p.rows}_t", i // block, "parallel"), loop(f"{p.lanes}_t", j // WIDTH)]
    outer.append(loop(f"{k}_t", Var(k) // STREAM))
    if not tiled:
        planner.packings += _packings(planner, p, outer[-1].name, lanes)
    registers = (loop(f"{p.lanes}_r", j // lanes), loop(f"{p.rows}_r", i // rows))
    points = (
        *(loop(d, Var(d)) for d in p.stream),
        loop(f"{p.rows}_p", i % rows),
        loop(f"{p.lanes}_p", j % lanes),
    )
    mark = Mark(RegisterTile((rows,), lanes), Band(points, Leaf(p.statement)))
    return Band((*outer, *registers), mark)


def _packings(planner: Planner, p: Product, loop: str, lanes: int) -> Iterator[Packing]:
    """Operands that jump along the lanes come from panels, made once for each tile."""
    s = planner.scop.statement(p.statement)
    for number in p.jumping:
        along = [d for d, i in enumerate(s.reads[number].indices) if mentions(i, (p.lanes,))]
        if len(along) == 1:
            yield Packing(p.statement, number, loop, along[0], lanes)
