"""The automatic scheduler of loop programs: in place, triangular, iterated in time.

    for each group of statements that depend on each other in a cycle, sources first:
      matrix      an update with reuse in two directions     register tiles over cache tiles
      stencil     a time loop around uniform accesses        skewed tiles in time and rows
      serial      otherwise a loop that carries dependences  then the groups inside it
      vector      a single statement                         its best loop innermost

Nothing here is trusted: ``legality`` and ``validation`` judge the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weft.frontend.scalar_expr import Expr, Var
from weft.polyhedral.analysis.delta_box import Distances
from weft.polyhedral.analysis.dependences import Dependence, dependences
from weft.polyhedral.analysis.hyperplanes import Hyperplane, Hyperplanes, components
from weft.polyhedral.machine import Machine
from weft.polyhedral.policy.nest_vector import choose_lanes, free_dims, strides_last
from weft.polyhedral.policy.stencil import TimeTile, time_tile
from weft.polyhedral.policy.matrix import Product, beyond_tile, find_product
from weft.polyhedral.schedule_tree import Band, Kind, Leaf, Loop, Mark, RegisterTile, Tree
from weft.polyhedral.schedule_tree import Sequence as TreeSequence
from weft.polyhedral.scop import Scop, Statement
from weft.polyhedral.transform.expand_all import expand_all
from weft.polyhedral.transform.isolate import isolate
from weft.polyhedral.transform.scheduled import Scheduled, fresh, tidy

ROWS, LANES = 8, 16
TILE, STREAM, BLOCK = 64, 256, 96

_Above = tuple[Mapping[str, Expr], ...]  # the values of the loops around, outermost first


def schedule_loops(scop: Scop, machine: Machine) -> Scheduled:
    """``scop`` with a schedule for ``machine``."""
    planner = _Planner(expand_all(scop), machine)
    tree = planner.nest([s.name for s in scop.statements], planner._hard(), ())
    return Scheduled(scop, planner.scop, tidy(tree))


@dataclass(slots=True)
class _Planner:
    scop: Scop
    machine: Machine
    _taken: set[str] = field(default_factory=set)
    _isolated: dict[str, Product] = field(default_factory=dict)

    # ---- groups -------------------------------------------------------------------------------

    def nest(self, names: Sequence[str], active: Sequence[Distances], above: _Above) -> Tree:
        """The loops of ``names`` inside the loops ``above``, which leave ``active`` to order."""
        parts = components(names, [a.dependence for a in active])
        return TreeSequence(
            tuple(self._group(part, _among(part, active), above) for part in parts)
        )

    def _group(self, names: Sequence[str], active: Sequence[Distances], above: _Above) -> Tree:
        statements = [self.scop.statement(n) for n in names]
        if len(names) == 1 and names[0] in self._isolated:
            return self._blocked(self._isolated[names[0]], tiled=True)
        tiled_above = any(len(v) and not isinstance(e, Var) for v in above for e in v.values())
        products = [] if tiled_above else self._products(statements, above)
        if products:
            planned = self._matrix(names, products, active, above)
            if planned is not None:
                return planned
        if not above and active:
            tiled = time_tile(self.scop, statements, active, self.machine)
            if tiled is not None:
                return self._time_tiled(tiled, names, active)
        if len(names) == 1:
            return self._single(statements[0], active, above)
        found = self._carrier(names, active, above)
        if found is None:
            raise AssertionError(f"no loop orders {names}")
        loop = Loop(self._name(found, names), found.at)
        inside = Hyperplanes(active).inside(found.at)
        return Band((loop,), self.nest(names, inside, (*above, found.at)))

    # ---- register tiles -----------------------------------------------------------------------

    def _products(self, statements: Sequence[Statement], above: _Above) -> list[Product]:
        found = [find_product(s, free_dims(s, above)) for s in statements]
        return [p for p in found if p is not None]

    def _matrix(
        self,
        names: Sequence[str],
        products: Sequence[Product],
        active: Sequence[Distances],
        above: _Above,
    ) -> Tree | None:
        if len(names) == 1 and not active:
            return self._blocked(products[0], tiled=False)
        search = Hyperplanes(active)
        planes = []
        own = {n: tuple(map(Var, free_dims(self.scop.statement(n), above))) for n in names}
        main = products[0]
        for dim in (main.rows, main.lanes):
            fixed = {p.statement: Var(getattr(p, kind)) for p in products for kind in ("rows", "lanes") if (kind == "rows") == (dim == main.rows)}
            plane = search.complete(fixed, own)
            if plane is None:
                return None
            planes.append(plane)
        tiles = [{n: e // TILE for n, e in plane.at.items()} for plane in planes]
        group = list(names)
        for p in products:
            s = self.scop.statement(p.statement)
            where = beyond_tile(s, p, [(plane.at[s.name], TILE) for plane in planes])
            if not where:
                return None
            self.scop, edges = isolate(self.scop, s.name, where)
            self._isolated[p.statement] = p
            group += edges
            for at in tiles:
                at |= dict.fromkeys(edges, at[s.name])
        loops = tuple(
            Loop(fresh(f"{dim}_t", self._taken), at)
            for dim, at in zip((main.rows, main.lanes), tiles, strict=True)
        )
        active = _among(group, self._hard())
        for at in tiles:
            active = Hyperplanes(active).inside(at)
        order = [s.name for s in self.scop.statements if s.name in group]
        return Band(loops, self.nest(order, active, (*above, *tiles)))

    def _hard(self) -> list[Distances]:
        return [Distances(d) for d in dependences(self.scop) if not d.reduction]

    def _blocked(self, p: Product, *, tiled: bool) -> Tree:
        """Register tiles of ``p``, over tiles for the caches where it is not ``tiled`` already."""

        def loop(hint: str, value: Expr, kind: Kind = "serial") -> Loop:
            return Loop(fresh(hint, self._taken), {p.statement: value}, kind)

        i, j = Var(p.rows), Var(p.lanes)
        outer = [loop(d, Var(d), "parallel") for d in p.outer]
        *before, k = p.stream
        blocks = [loop(f"{k}_t", Var(k) // STREAM)]
        if not tiled:
            blocks = [loop(f"{p.rows}_t", i // BLOCK, "parallel"), *blocks]
        registers = [loop(f"{p.lanes}_r", j // LANES), loop(f"{p.rows}_r", i // ROWS)]
        points = (
            *(loop(d, Var(d)) for d in p.stream),
            loop(f"{p.rows}_p", i % ROWS),
            loop(f"{p.lanes}_p", j % LANES),
        )
        mark = Mark(RegisterTile((ROWS,), LANES), Band(points, Leaf(p.statement)))
        return Band((*outer, *blocks, *registers), mark)

    # ---- time ---------------------------------------------------------------------------------

    def _time_tiled(
        self, tile: TimeTile, names: Sequence[str], active: Sequence[Distances]
    ) -> Tree:
        tiles = (
            Loop(fresh("t_t", self._taken), {n: e // tile.steps for n, e in tile.time.items()}),
            Loop(fresh("w_t", self._taken), {n: e // tile.width for n, e in tile.rows.items()}),
        )
        points = (
            Loop(fresh("t", self._taken), tile.time), Loop(fresh("w", self._taken), tile.rows)
        )
        active = Hyperplanes(active).inside(tile.time)
        active = Hyperplanes(active).inside(tile.rows)
        return Band(tiles, Band(points, self.nest(names, active, (tile.time, tile.rows))))

    def _carrier(
        self, names: Sequence[str], active: Sequence[Distances], above: _Above
    ) -> Hyperplane | None:
        """The loop that leaves the fewest dependences in cycles."""
        search = Hyperplanes(active)
        statements = [self.scop.statement(n) for n in names]
        own = {s.name: tuple(map(Var, free_dims(s, above))) or (Var(s.dims[0]),) if s.dims else () for s in statements}
        best: tuple[int, Hyperplane] | None = None
        anchor = max(statements, key=lambda s: len(own[s.name]))
        for value in own[anchor.name]:
            found = search.complete({anchor.name: value}, own)
            if found is None:
                continue
            inside = search.inside(found.at)
            parts = len(components(names, [a.dependence for a in inside]))
            if best is None or parts > best[0]:
                best = parts, found
        return None if best is None else best[1]

    def _name(self, plane: Hyperplane, names: Sequence[str]) -> str:
        value = plane.at[names[0]]
        return fresh(value.name if isinstance(value, Var) else "t", self._taken)

    # ---- one statement ------------------------------------------------------------------------

    def _single(self, s: Statement, active: Sequence[Distances], above: _Above) -> Tree:
        dims = free_dims(s, above)
        search = Hyperplanes(active)
        planes = {d: search.valid({s.name: Var(d)}) for d in dims}
        if any(p is None for p in planes.values()):
            order, kinds = list(dims), {}
        else:
            order, kinds = self._order(s, dims, {d: p for d, p in planes.items() if p is not None})
        loops = tuple(
            Loop(fresh(d, self._taken), {s.name: Var(d)}, kinds.get(d, "serial")) for d in order
        )
        return Band(loops, Leaf(s.name))

    def _order(
        self, s: Statement, dims: Sequence[str], planes: Mapping[str, Hyperplane]
    ) -> tuple[list[str], dict[str, Kind]]:
        """All dims are permutable: the vector innermost, coincident loops outermost."""
        free = [d for d in dims if planes[d].coincident]
        vector = choose_lanes(self.scop, s, free, self.machine)
        rest = [d for d in dims if vector is None or d != vector.dim]
        outer = strides_last(s, rest)
        kinds: dict[str, Kind] = {}
        if vector is not None:
            kinds[vector.dim] = "vector"
        reduced = s.update.dims if s.update else ()
        for d in outer:
            if not planes[d].coincident or d in reduced:
                break
            kinds[d] = "parallel"
        return [*outer, *([vector.dim] if vector else [])], kinds


def _among(names: Sequence[str], active: Sequence[Distances]) -> list[Distances]:
    return [
        a
        for a in active
        if a.dependence.source.name in names and a.dependence.sink.name in names
    ]
