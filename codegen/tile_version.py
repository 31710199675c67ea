"""A register tile on one box of rows and lanes: names, loops, masks.

What ``register_tile.py`` (the tile) and ``tile_step.py`` (one step of a stream) have in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.codegen.rebuild import map_children
from weft.codegen.statement_instance import Instances
from weft.codegen.tile_bounds import ZERO, Box, Span, all_of, span
from weft.ir.dtypes import DType
from weft.ir.instruction import Instruction
from weft.ir.loop_ir import For, Kind, Stmt
from weft.ir.machine import Machine
from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import Affine, to_expr
from weft.ir.scalar_expr import Expr, Literal, Var, literal
from weft.ir.scop import Statement
from weft.polyhedral.analysis.tile_domain import TileDomain

Lets = list[tuple[str, Expr]]


@dataclass(frozen=True, slots=True)
class TileVersion:
    """The tile with rows and lanes in ``box``, by variable; ``sizes``: of the whole tile.

    ``boundary``: constraints that points of the whole tile may violate. ``closed``: each row of the
    box has a lane in the domain and vice versa, so that both may be clamped to it. ``edge``:
    smaller than the tile of the schedule. ``ahead``: cache lines that are prefetched; ``shared``:
    tiles prefetch the next panel together; ``accumulator``: an existing buffer for the sums, '' if
    the tile has its own. ``quick``: in less code, with one tile at each edge and fewer steps
    unrolled.
    """

    instances: Instances
    statement: Statement
    domain: TileDomain
    machine: Machine
    sizes: Mapping[str, int]
    box: Box
    boundary: tuple[Affine, ...] = ()
    closed: bool = True
    instruction: Instruction | None = None
    edge: bool = False
    ahead: int = 0
    shared: bool = False
    accumulator: str = ""
    quick: bool = False

    def line(self, dtype: DType) -> int:
        """Elements of ``dtype`` in a cache line."""
        return max(1, self.machine.line // dtype.itemsize)

    def name(self, which: str, component: int) -> str:
        return f"{self.domain.lane}.{which}{component}"

    def register(self, component: int) -> str:
        """The buffer that accumulates one component of the update."""
        return self.accumulator or self.name("tile", component)

    def place(self) -> tuple[Expr, ...]:
        return tuple(Var(v) for v in self.sizes)

    def rows(self, body: Stmt, kind: Kind = "unrolled") -> Stmt:
        for row in reversed(self.domain.rows):
            body = For(row, ZERO, literal(self.sizes[row]), kind, body)
        return body

    def lanes(self, body: Stmt) -> Stmt:
        lane = self.domain.lane
        return For(lane, ZERO, literal(self.sizes[lane]), "vector", body)

    def inside(self, forms: Sequence[Affine]) -> tuple[Lets, Expr, Expr]:
        """The lanes of the current row (and point of the stream) that satisfy ``forms``: lets for
        the bounds, the condition that there are any, a mask."""
        lane = self.domain.lane
        lets: Lets = []
        fixed = [to_expr(c) >= 0 for c in forms if not c.coefficient(lane)]
        moving = [c for c in forms if c.coefficient(lane)]
        lanes = named(self.instances, span(moving, lane, self.sizes[lane]), lane, lets)
        some = [] if not moving else [lanes[0] < lanes[1]]
        return lets, all_of([*fixed, *some]), self.mask(lanes)

    def mask(self, lanes: Span) -> Expr:
        lane, (low, high) = Var(self.domain.lane), lanes
        conditions = [] if low == ZERO else [lane >= low]
        if high != literal(self.sizes[self.domain.lane]):
            conditions.append(lane < high)
        return all_of(conditions)


def named(instances: Instances, bounds: Span, hint: str, lets: Lets) -> Span:
    """``bounds``, with lets (added to ``lets``) for those that are neither constants nor names."""
    found: list[Expr] = []
    for bound, which in zip(bounds, ("begin", "end"), strict=True):
        if isinstance(bound, Literal | Var):
            found.append(bound)
            continue
        name = instances.fresh(f"{hint}.{which}")
        lets.append((name, bound))
        found.append(Var(name))
    return found[0], found[1]


def targets_of(tile: TileVersion) -> Iterator[tuple[str, tuple[Expr, ...]]]:
    """The elements that are updated, over rows, lanes and outer loops; no stream occurs in them."""
    for write in tile.statement.writes:
        stored = write.indices[tile.instances.tensor(write.tensor).contracted :]
        forms = (tile.domain.inverse.over_loops(affine(index)) for index in stored)
        yield write.tensor, tuple(map(to_expr, forms))


# ---- Register tiles on a matrix unit, as loops.
#
#     for r, l: tile[r, l] = C[r, l]
#     once, on the unit:                             its registers are loaded from ``tile``
#       for k in groups as deep as one issue:
#         for r: for l: for q: on the unit           one block, all of its rows and lanes
#           tile[r, l] += A[r, k + q] * B[k + q, l]
#       what is left of k: a block of fewer steps    filled up with zeros
#                                                    and stored to ``tile``
#     for r, l: C[r, l] = tile[r, l]
#
# These are ordinary loops for the interpreter; ``llvm/tiles.py`` emits them as instructions.


def on_matrix_unit(instruction: Instruction, stmt: Stmt) -> Stmt:
    """``stmt`` with the sums of its blocks in the unit's registers."""
    return For(f"{instruction}.once", literal(0), literal(1), "unrolled", stmt, 1, instruction)


def matrix_unit_block(instruction: Instruction, rows: Stmt) -> Stmt:
    """The loops ``rows`` over rows, lanes and steps of a block, marked as one ``instruction``."""
    if isinstance(rows, For):
        rows = replace(rows, instruction=instruction)
    return map_children(rows, lambda part: matrix_unit_block(instruction, part))


def whole_registers(instruction: Instruction, sizes: Sequence[int]) -> list[int]:
    """``sizes``, of rows and at last of lanes, rounded up to whole registers."""
    (lanes,) = (n for d, n in instruction.extents.items() if d in instruction.across)
    whole = [*[instruction.rows] * (len(sizes) - 1), lanes]
    return [-(-size // n) * n for size, n in zip(sizes, whole, strict=True)]
