"""What the register tiles of a schedule are made of, and how near the machine's peak they come.

One step of a tile's streams takes as long as its arithmetic, its loads, or the chain through one
of its sums, whichever is longest. Tiles at the edges are smaller ones, of whole vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod

from weft.ir.machine import Machine, outer_product
from weft.ir.scalar_expr import Expr, Literal, Var, walk
from weft.ir.schedule_tree import Band, Leaf, Mark, RegisterTile, Tree, children
from weft.ir.scop import Scop, Statement
from weft.polyhedral.analysis.linear import box, moves


@dataclass(frozen=True, slots=True)
class TileCosts:
    """``rows`` and ``lanes``: how many, by dim; ``streams``: dims that it sums over. Cycles are
    those of one step: of ``arithmetic``, of ``loads``, and of the ``chain`` through one sum;
    ``kept``: the share of its elements that exist, 1 where sizes are not known."""

    statement: str
    instruction: str
    rows: dict[str, int]
    lanes: tuple[str, int]
    streams: tuple[str, ...]
    sums: int
    registers: int
    arithmetic: float
    loads: float
    chain: float
    kept: float

    @property
    def bound(self) -> str:
        """What a step waits for."""
        parts = {"arithmetic": self.arithmetic, "loads": self.loads, "latency": self.chain}
        return max(parts, key=lambda name: parts[name])

    @property
    def share(self) -> float:
        """Of the instruction's peak."""
        return self.arithmetic / max(self.arithmetic, self.loads, self.chain) * self.kept

    def text(self) -> str:
        """Two lines for ``explain``."""
        rows = "".join(f"{size} rows of {dim} by " for dim, size in self.rows.items())
        lost = f", {1 - self.kept:.0%} cut off at edges" if self.kept < 0.995 else ""
        return (
            f"{self.statement} by {self.instruction}: {rows}{self.lanes[1]} lanes of "
            f"{self.lanes[0]}, over {', '.join(self.streams)}\n"
            f"  {self.sums} sums in {self.registers} registers; a step takes "
            f"{self.arithmetic:.3g} cycles of arithmetic, {self.loads:.3g} of loads, and the chain "
            f"through a sum {self.chain:.3g}: bound by {self.bound}, "
            f"{self.share:.0%} of the peak{lost}"
        )


def tile_costs(scop: Scop, tree: Tree, machine: Machine) -> list[TileCosts]:
    """Of every register tile of ``tree``, in its order."""
    return [
        _costs(scop.statement(band.child.statement), payload, band, scop, machine)
        for payload, band in _tiles(tree)
        if isinstance(band.child, Leaf)
    ]


def _tiles(tree: Tree) -> Iterator[tuple[RegisterTile, Band]]:
    stack = [tree]
    while stack:
        node = stack.pop()
        match node:
            case Mark(RegisterTile() as payload, Band() as band):
                yield payload, band
            case _:
                stack.extend(reversed(children(node)))


def _costs(
    s: Statement, payload: RegisterTile, band: Band, scop: Scop, machine: Machine
) -> TileCosts:
    dims = [_dim(s, loop.at[s.name]) for loop in band.loops]
    count = len(payload.rows)
    lane, rows = dims[-1], dict(zip(dims[-1 - count : -1], payload.rows, strict=True))
    dtype = scop.tensor(s.writes[0].tensor).dtype
    plain = s.update is not None and s.update.monoid.name == "add"
    instruction = payload.instruction or outer_product(machine, dtype, any_update=not plain)
    width = instruction.lanes
    vectors = ceil(payload.lanes / width)
    sums = vectors * prod(rows.values())
    issues = vectors * ceil(prod(rows.values()) / instruction.rows)
    words = instruction.depth // instruction.word  # vectors of them, for each of a step's lanes
    loads = 0.0
    for read in s.reads:
        moved = {dim for dim in (*rows, lane) if moves(read, dim)}
        each = vectors * words if lane in moved else 1
        loads += each * prod(rows[dim] for dim in moved - {lane})
    kept = _kept(s, lane, payload.lanes, width)
    return TileCosts(
        s.name,
        instruction.name,
        rows,
        (lane, payload.lanes),
        tuple(dims[: -1 - count]),
        issues if instruction.unit else sums,
        instruction.registers,
        issues * instruction.cycles,
        loads / machine.loads_per_cycle,
        float(machine.fma_latency),
        kept,
    )


def _dim(s: Statement, at: Expr) -> str:
    """The dim that a loop of the tile goes along."""
    names = (node.name for node in walk(at) if isinstance(node, Var))
    return next(name for name in names if name in s.dims)


def _kept(s: Statement, lane: str, lanes: int, width: int) -> float:
    """How many of the elements of the vectors are lanes that exist, in tiles of so many."""
    match box(s).get(lane):
        case (Literal() as low, Literal() as high) if int(high.value) > int(low.value):
            values = int(high.value) - int(low.value)
        case _:
            values = lanes
    whole, left = divmod(values, lanes)
    vectors = whole * ceil(lanes / width) + ceil(left / width)
    return values / (vectors * width)
