"""The order of tile loops: parallel where one carries no dependence, else in wavefronts.

    for i_t: for j_t: T(i_t, j_t)   →   for s: parallel i_t: T(i_t, s - i_t)        s = i_t + j_t

In a permutable band of tiles, tiles with the same sum of coordinates are independent. One thread
keeps the plain order, in which neighbouring tiles share more of the cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.ir.scalar_expr import Expr, literal
from weft.ir.schedule_tree import Loop
from weft.ir.scop import Constraint, Statement
from weft.polyhedral.analysis.delta_box import Distances
from weft.polyhedral.analysis.hyperplanes import Hyperplanes
from weft.polyhedral.analysis.linear import linear, mentions
from weft.polyhedral.policy.planner import At, Group, Planner
from weft.polyhedral.proof.dependences import dependences


def tile_loops(planner: Planner, group: Group, tiles: dict[str, At]) -> tuple[Loop, ...]:
    """Loops over two permutable ``tiles``, by name, outermost first."""
    search = group.search()
    planes = {name: search.valid(at) for name, at in tiles.items()}
    meets = {name: planner.folds(group, at) for name, at in tiles.items()}
    free = [
        name
        for name, plane in planes.items()
        if plane is not None and plane.coincident and not meets[name]
    ]
    if free and not group.above:
        order = [free[0], *(name for name in tiles if name != free[0])]
        return tuple(
            planner.loop(n, tiles[n], "parallel" if n == free[0] else "serial") for n in order
        )
    plain = planner.threads == 1 or bool(group.above)
    if plain or (any(meets.values()) and not _in_order(planner, group, tiles)):
        return tuple(planner.loop(name, at) for name, at in tiles.items())
    (first, one), (second, two) = tiles.items()
    front = {s: one[s] + two[s] for s in one}
    return (planner.loop(f"{first}_{second}", front), planner.loop(second, two, "parallel"))


def _in_order(planner: Planner, group: Group, tiles: dict[str, At]) -> bool:
    """Whether reductions into one element go forwards along both tile loops."""
    inside = set(group.names)
    reductions = [
        Distances(d, quota=planner.quota)
        for d in dependences(planner.scop, implied=False)
        if d.reduction and {d.source.name, d.sink.name} <= inside
    ]
    search = Hyperplanes(reductions)
    return all(search.valid(at) is not None for at in tiles.values())


# ---- The steps of a reduction that read no element of the tile in which it ends.
#
# for k < i: S(i, k), i in tiles of 8 → k < 8·(i//8): every row of the tile has these steps


def beyond_tile(
    statement: Statement, stream: Sequence[str], tiled: Sequence[tuple[Expr, int]]
) -> tuple[Constraint, ...]:
    """Where ``stream`` stays clear of the tile: every constraint that ties it to a tiled value
    holds for the whole tile. ``tiled``: values and tile sizes."""
    found = []
    for constraint in statement.domain:
        if not any(mentions(constraint.expr, (d,)) for d in stream):
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
        if changed:  # k <= j: a step k that is a value j of the tile is not clear of it
            meets = form.rest == literal(0)
            found.append(Constraint(worst - 1 if meets else worst))
    return tuple(found)
