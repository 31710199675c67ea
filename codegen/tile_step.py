"""One step of the stream of a register tile, for one row: an update of the accumulators.

A *full* step updates all lanes. A *guarded* step selects between old and new value, for lanes in
the domain. Both load from inside the domain only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from weft.codegen.rebuild import block, let, under
from weft.codegen.tile_bounds import TRUE, ZERO, mentions_any
from weft.codegen.tile_version import Lets, TileVersion
from weft.ir.loop_ir import Let, Stmt, Store, Update
from weft.ir.scalar_affine import to_expr
from weft.ir.scalar_expr import (
    Apply,
    Expr,
    Load,
    Var,
    apply,
    literal,
    rewrite,
    select,
    substitute,
    variable_names,
)

_TERMS = 4  # terms of a sum that is accumulated term by term

Mask = Callable[[Load], Expr]  # the condition under which a load may be performed


def full_step(
    tile: TileVersion,
    values: Mapping[str, Expr] = MappingProxyType({}),
    emitted: Callable[[Update], Stmt] | None = None,
) -> Stmt:
    """The update of all lanes; rows and lanes outside the box take part, with operands from inside.
    ``values``: of streams and rows; ``emitted``: what the update is replaced with."""
    domain = tile.domain
    lets: Lets = []
    rows: dict[str, Expr] = dict(values)
    for row in domain.rows:
        if row in values:
            continue
        low, high = tile.box[row]
        value: Expr = Var(row)
        if high != literal(tile.sizes[row]):
            value = apply("min", value, high - 1)
        if low != ZERO:
            value = apply("max", value, low)
        if value != Var(row):
            name = tile.instances.fresh(row)
            lets.append((name, value))
            rows[row] = Var(name)
    own, _, both = tile.inside([c for c in tile.boundary if c.coefficient(domain.lane)])
    lets += [(n, substitute(e, rows)) for n, e in own]
    hull = tile.mask(tile.box[domain.lane])
    known = set(domain.rows) | {
        v.name for n, v in rows.items() if n in domain.rows and isinstance(v, Var)
    }
    inner, update = _instance(
        tile, rows, lambda load: both if variable_names(load) & known else hull
    )
    targets = tuple((tile.register(k), tile.place()) for k in range(len(update.targets)))
    if emitted is not None:
        step = emitted(Update(targets, update.monoid, update.values))
    else:
        step = block([Update(targets, update.monoid, v) for v in _steps(update)])
    return let(lets, tile.lanes(let(inner, step)))


def guarded_step(tile: TileVersion) -> Stmt:
    """The update of the lanes that are in the domain at this row and point of the stream."""
    local = tuple(tile.sizes)
    free = () if tile.boundary else tile.domain.streams
    forms = [
        c
        for c in tile.domain.whole
        if mentions_any(c, local) and (not free or mentions_any(c, free))
    ]
    lets, where, mask = tile.inside(forms)
    inner, update = _instance(tile, {}, lambda _: mask)
    targets = tuple((tile.register(k), tile.place()) for k in range(len(update.targets)))
    if mask == TRUE:
        step: Stmt = Update(targets, update.monoid, update.values)
    else:
        step = _blended(tile, update, mask)
    return let(lets, under(where, tile.lanes(let(inner, step))))


def _blended(tile: TileVersion, update: Update, mask: Expr) -> Stmt:
    """The update where ``mask`` holds, by selecting between old and new: no branches on lanes."""
    monoid = update.monoid
    old = [Load(tile.register(k), tile.place(), v.dtype) for k, v in enumerate(update.values)]
    lets: Lets = []
    names: dict[str, Expr] = {v.name: x for v, x in zip(monoid.left, old, strict=True)}
    for variable, value in zip(monoid.right, update.values, strict=True):
        name = tile.instances.fresh("value")
        lets.append((name, value))
        names[variable.name] = Var(name, value.dtype)
    stores: list[Stmt] = []
    for k, combined in enumerate(monoid.combined):
        name = tile.instances.fresh("result")
        lets.append((name, select(mask, substitute(combined, names), old[k])))
        stores.append(Store(tile.register(k), tile.place(), Var(name, combined.dtype)))
    return let(lets, block(stores))


def _instance(
    tile: TileVersion, rows: Mapping[str, Expr], mask: Mask = lambda _: TRUE
) -> tuple[Lets, Update]:
    """(lets, update): the statement at the current point, loads along the lanes masked."""
    values = [
        substitute(to_expr(tile.domain.inverse.dims[dim]), dict(rows))
        for dim in tile.statement.dims
    ]
    stmt = tile.instances.make(tile.statement, values, ahead=True)
    lane = tile.domain.lane

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Load) and lane in variable_names(node):
            return select(mask(node), node, literal(0, node.dtype))
        return None

    lets: Lets = []
    while isinstance(stmt, Let):
        lets.append((stmt.name, rewrite(stmt.value, change)))
        stmt = stmt.body
    assert isinstance(stmt, Update), "a register tile is of an unconditional update"
    values_ = tuple(rewrite(value, change) for value in stmt.values)
    return lets, Update(stmt.targets, stmt.monoid, values_)


def _steps(update: Update) -> list[tuple[Expr, ...]]:
    """The values that ``update`` accumulates, a sum as its terms, so that each product is a
    multiply-add."""
    if update.monoid.name != "add" or not update.monoid.laws >= {"associative", "commutative"}:
        return [update.values]
    terms: list[Expr] = []
    stack = list(update.values)
    while stack:
        match stack.pop():
            case Apply("add", (left, right)):
                stack += [right, left]
            case Apply("sub", (left, right)):
                stack += [-right, left]
            case term:
                terms.append(term)
    return [(term,) for term in terms] if len(terms) <= _TERMS else [update.values]
