"""Arguments whose lines register tiles load again and again, so that it matters where these begin.

    for i_r: for j_r:                            each vector of B is loaded by every tile of rows:
      for k: for 8 rows i: for 48 lanes j        two lines instead of one, where B begins within a
        C[i, j] += A[i, k] * B[k, j]             line, as NumPy's larger arrays do

Who calls may put arguments anywhere. If the rows of one are whole lines, all of its vectors begin
at a line where the first does: it is copied there first, as it lies, unless it does already
(``program.Aligned``). That costs less than a load for each of its lines.
"""

from __future__ import annotations

from math import prod

from weft.frontend.scalar_affine import to_affine
from weft.frontend.scalar_expr import Literal
from weft.polyhedral.analysis.linear import mentions
from weft.polyhedral.analysis.tile_domain import MarkedTile, marked_tiles
from weft.polyhedral.machine import Machine
from weft.polyhedral.policy.far_constants import LINE, bytes_beside, moves
from weft.polyhedral.policy.operand_panels import ACROSS
from weft.polyhedral.policy.product_costs import extents
from weft.polyhedral.schedule_tree import Tree
from weft.polyhedral.scop import Access, Scop, Tensor

BLOCKS = 1.75  # cycles more for a row of a matrix unit's register on two lines
NEAREST = 0.25  # cycles more for a vector on two lines of the first cache
COPIED = 10.0  # cycles for a vector, to a place near and back
TRANSFERS = 4  # of a line from and to a cache further away: read, taken over, written, read again


def read_again(scop: Scop, tree: Tree, machine: Machine) -> frozenset[str]:
    """The inputs of ``scop`` that are worth copying to where a line begins."""
    found = set[str]()
    for tile in marked_tiles(tree).values():
        statement = scop.statement(tile.statement)
        for read in statement.reads:
            if scop.tensor(read.tensor).role == "input":
                waits = _waits(scop, tile, read, machine)
                if waits > _copied(scop, tile, read, machine):
                    found.add(read.tensor)
    return frozenset(found)


def _waits(scop: Scop, tile: MarkedTile, read: Access, machine: Machine) -> float:
    """Cycles that all tiles wait longer for a vector of ``read`` on two lines, along the lanes or,
    of a matrix unit, the steps; 0 where sizes are not known, or it begins anywhere by itself."""
    statement, tensor = scop.statement(tile.statement), scop.tensor(read.tensor)
    sizes = extents(statement)
    inside, payload = [loop.at[tile.statement] for loop in tile.loops], tile.payload
    unit = payload.instruction is not None and payload.instruction.unit is not None
    along = [*inside[tile.streams - 1 : tile.streams], inside[-1]] if unit else inside[-1:]
    dims = [d for d in statement.dims if any(mentions(at, (d,)) for at in along)]
    if sizes is None or not any(_in_lines(tensor, read, d) for d in dims):
        return 0.0
    beside = [d for d in statement.dims if not moves(read, d)]
    held = zip(inside[tile.streams :], (*payload.rows, payload.lanes), strict=True)
    at_once = prod(size for at, size in held if mentions(at, beside))
    tiles = {d: n for d, n in sizes.items() if any(mentions(at, (d,)) for at in inside)}
    near = bytes_beside(scop, read, tiles) <= machine.caches[0].size  # until the next rows
    far = BLOCKS if unit else ACROSS
    return prod(sizes[d] for d in beside) / at_once * (NEAREST if near else far)


def _copied(scop: Scop, tile: MarkedTile, read: Access, machine: Machine) -> float:
    """Cycles for each vector of ``read`` that is copied."""
    sizes = extents(scop.statement(tile.statement)) or {}
    near = bytes_beside(scop, read, sizes) <= machine.near
    far = TRANSFERS * machine.vector_bytes / machine.caches[-1].bandwidth
    return COPIED if near else max(COPIED, far)


def _in_lines(tensor: Tensor, read: Access, dim: str) -> bool:
    """Whether ``dim`` moves ``read`` along rows of whole lines, from the beginning of one."""
    line = LINE // tensor.dtype.itemsize
    if not read.indices or read.may or any(mentions(i, (dim,)) for i in read.indices[:-1]):
        return False
    last, row = to_affine(read.indices[-1]), tensor.shape[-1]
    along = last is not None and last.terms == ((dim, 1),) and last.constant % line == 0
    return along and isinstance(row, Literal) and int(row.value) % line == 0
