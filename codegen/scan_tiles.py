"""Register tiles of a schedule tree, as isl sees them: single instances of the loops outside.

Below the mark of a register tile isl scans nothing. A stand-in with the outer loops for dims, over
the projection of the statement's domain, takes the statement's place; where isl puts an instance of
it, ``register_tile`` writes the tile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.codegen.loop_ir import Stmt
from weft.codegen.register_tile import emit_register_tile
from weft.codegen.statement_instance import Instances
from weft.errors import CompileError
from weft.frontend.scalar_affine import to_expr
from weft.frontend.scalar_expr import Expr, Var, substitute
from weft.polyhedral.analysis.tile_domain import (
    MarkedTile,
    TileDomain,
    marked_tiles,
    tile_domain,
)
from weft.polyhedral.schedule_tree import (
    Band,
    Leaf,
    Loop,
    Mark,
    RegisterTile,
    Tree,
    children,
    with_children,
)
from weft.polyhedral.scop import Body, Scop, Statement


@dataclass(frozen=True, slots=True)
class ScannedTiles:
    """The register tiles of one tree, by statement, their loops named for loop IR."""

    instances: Instances
    marked: Mapping[str, MarkedTile]
    domains: Mapping[str, TileDomain]

    def stand_ins(self, scop: Scop, tree: Tree) -> tuple[Scop, Tree]:
        """``scop`` and ``tree`` with a stand-in for each tile's statement."""
        if not self.marked:
            return scop, tree
        statements = tuple(self._stand_in(s) for s in scop.statements)
        return replace(scop, statements=statements), self._above(tree)

    def _stand_in(self, s: Statement) -> Statement:
        domain = self.domains.get(s.name)
        if domain is None:
            return s
        return Statement(s.name, domain.outer, domain.above, (), (), (), Body((), ()))

    def _above(self, tree: Tree) -> Tree:
        match tree:
            case Mark(RegisterTile(), Band(_, Leaf(name))):
                return Leaf(name)
            case Band(loops, child):
                return Band(tuple(map(self._renamed, loops)), self._above(child))
        return with_children(tree, tuple(map(self._above, children(tree))))

    def _renamed(self, loop: Loop) -> Loop:
        at = dict(loop.at)
        for statement, tile in self.marked.items():
            for outer, name in zip(tile.outer, self.domains[statement].outer, strict=True):
                if outer.name == loop.name:
                    at[statement] = Var(name)
        return replace(loop, at=at)

    def dims(self, statement: Statement, values: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The statement's dims at the ``values`` that isl gives: those of the stand-in."""
        domain = self.domains.get(statement.name)
        if domain is None:
            return values
        names = dict(zip(domain.outer, values, strict=True))
        return tuple(substitute(to_expr(domain.inverse.dims[d]), names) for d in statement.dims)

    def emit(self, statement: str, values: tuple[Expr, ...]) -> Stmt:
        """The tile at the ``values`` of the loops outside."""
        tile, domain = self.marked[statement], self.domains[statement]
        return emit_register_tile(self.instances, tile, domain, values)


def scanned_tiles(scop: Scop, tree: Tree, instances: Instances) -> ScannedTiles:
    """The register tiles of ``tree``.

    Raises ``CompileError`` (WEFT-E0503) where one has no closed form.
    """
    marked = marked_tiles(tree)
    domains: dict[str, TileDomain] = {}
    for statement, tile in marked.items():
        names = [instances.fresh(loop.name) for loop in (*tile.outer, *tile.loops)]
        found = tile_domain(scop, tile, names)
        if found is None:
            raise CompileError(
                "WEFT-E0503",
                f"the register tile of {statement} has no closed form",
                why="its instances do not follow linearly from the loops around it, or leave holes",
                hint="leave the tile unmarked; its loops are ordinary loops then",
            )
        domains[statement] = found
    return ScannedTiles(instances, marked, domains)
