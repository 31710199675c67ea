"""Is there code for a register tile?

Its loops are written in closed form: the dims of its instances have to follow linearly from the
loops, without holes (``analysis/tile_domain.py``), and the element that an instance updates has to
move linearly with rows and lane. That it may stay in registers meanwhile, the proof says
(``proof/register_tile.py``).
"""

from __future__ import annotations

from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import FloorDiv
from weft.ir.schedule_tree import MarkedTile, Tree, marked_tiles
from weft.ir.schedule_verifier import source_of
from weft.ir.scop import Scop
from weft.polyhedral.analysis.tile_domain import tile_domain
from weft.polyhedral.analysis.warp_tile import held_places, warp_tile
from weft.polyhedral.proof.register_tile import register_tile_refused, why_not_in_registers


def check_closed_form(scop: Scop, tree: Tree) -> None:
    """Check that there is code for every register tile in ``tree``, a legal schedule of ``scop``.

    Raises IllegalScheduleError (WEFT-E0424), with what stands against the tile.
    """
    for tile in marked_tiles(tree).values():
        reason = _why_no_code(scop, tile)
        if reason:
            raise register_tile_refused(source_of(scop.statement(tile.statement)), reason)


def why_not_register_tile(scop: Scop, tile: MarkedTile) -> str:
    """What stands against ``tile``, or its code, or ''."""
    return why_not_in_registers(scop, tile) or _why_no_code(scop, tile)


def _why_no_code(scop: Scop, tile: MarkedTile) -> str:
    statement = scop.statement(tile.statement)
    names = [f"loop {k}" for k in range(len(tile.outer) + len(tile.loops))]  # no user name has ' '
    domain = tile_domain(scop, tile, names)
    if domain is None:
        return "its instances do not follow linearly from the loops around it, or leave holes"
    own = tile.payload.instruction
    if own is not None and own.warp:
        found = warp_tile(scop, tile, domain)
        if isinstance(found, str):
            return found
        held = any(scop.tensor(w.tensor).scope == "fragment" for w in statement.writes)
        if held and isinstance(places := held_places(scop, tile, domain), str):
            return places
    elif tile.payload.warps:
        return f"{own or 'multiply-adds'} are no warp's"
    inside = {*domain.streams, *domain.rows, domain.lane}
    for write in statement.writes:
        stored = write.indices[scop.tensor(write.tensor).contracted :]
        for form in (domain.inverse.over_loops(affine(index)) for index in stored):
            floors = (term for term, _ in form.terms if isinstance(term, FloorDiv))
            if any(floor.numerator.variables() & inside for floor in floors):
                return f"the element of {write.tensor} that is updated does not move linearly"
    return ""
