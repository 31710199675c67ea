"""Contract: a temporary keeps only the elements that live within one iteration of its loops.

    for i_t: for i_p: { x[32·i_t + i_p] = …; … = x[32·i_t + i_p] }
    →   for i_t: for i_p: { x[i_t, i_p] = …; … = x[i_t, i_p] }       (no dimension has storage)

    for t: { for i: row[t, i] = …; for i: … = row[t, i] }
    →   for t: { for i: row[t, i] = …; for i: … = row[t, i] }        (t has no storage)

The loops' values stay in the logical indices (``contracted``), so that dataflow can be validated
exactly; only storage forgets them.
Also known as: array contraction (Alias, Baray, Darte 2007), storage folding; Halide ``store_at``,
TVM ``set_scope``, Exo ``sink_alloc`` + ``reduce_dim``.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.isl_context import bounded
from weft.ir.schedule_times import paths, schedule_map
from weft.ir.schedule_tree import Loop, marked_tiles
from weft.ir.scop import Access, Scope, Statement, Tensor
from weft.polyhedral.analysis.values_through import values_through
from weft.polyhedral.analysis.window import windows
from weft.polyhedral.proof.order_check import keeps_order
from weft.polyhedral.transform.edit import accesses_of
from weft.polyhedral.transform.local_tile import layout_of, local_tile
from weft.polyhedral.transform.scheduled import Scheduled, transformation


@transformation
def contract(
    scheduled: Scheduled, tensor: str, *, scope: Scope = "local", order: Seq[int] | None = None
) -> Scheduled:
    """``tensor`` gets storage, in ``scope``, for one iteration of the loops around all of its
    accesses: of as many of them, from outside, as none of its values passes from one iteration
    to another. Its dims are stored in ``order`` (default: as they come).

    What one iteration touches along each dim is a window (``analysis.window``) whose size is the
    dim's new size; a dim of size 1 disappears. Where nothing becomes smaller, only the order does.
    ``scope`` 'fragment' is for the sums of a tile of warps, and for the first factor of one that is
    computed from them (``codegen/fragment_loops.py``).
    Raises ``IllegalScheduleError`` (WEFT-E0464) for a tensor that outlives the Scop, is local
    already, or is accessed at data-dependent indices, and for an ``order`` that is none.
    """
    old = scheduled.tensor(tensor)
    uses = [(s, a) for s, a, _ in accesses_of(scheduled.scop, tensor)]
    why = ""
    if old.role != "temp":
        why = f"{tensor} is no temporary"
    elif old.contracted:
        why = f"{tensor} is local already"
    elif any(a.may for _, a in uses):
        why = f"{tensor} is accessed at data-dependent indices"
    elif order is not None and sorted(order) != list(range(len(old.shape))):
        why = f"the order {list(order)} does not name each of its {len(old.shape)} dims once"
    if why:
        raise IllegalScheduleError("WEFT-E0464", f"{tensor} cannot be contracted", why=why)
    if not uses:
        return scheduled
    loops = _private(scheduled, tensor, [s for s, _ in uses])
    boxes = windows(scheduled.scop, uses, loops) if loops else None
    if boxes is None:
        return _in_order(scheduled, old, order)
    used = max((k for box in boxes for k, step in enumerate(box.steps) if step), default=-1) + 1
    everyone = range(used)
    moving = [k for k in everyone if any(box.steps[k] for box in boxes)]
    tile = None
    for chosen in (everyone, moving):  # a loop that moves nothing may have no closed form
        around = [loops[k] for k in chosen]
        inside = tuple(replace(b, steps=tuple(b.steps[k] for k in chosen)) for b in boxes)
        layout = layout_of(inside, order, None)
        tile = tile or local_tile(scheduled.scop, tensor, old, uses, around, inside, layout, scope)
    if not used or tile is None:
        return _in_order(scheduled, old, order)
    scop = scheduled.scop.with_tensor(tile.tensor, lambda s, a: tile.redirected(a, s.name))
    return replace(scheduled, scop=scop)


def _private(scheduled: Scheduled, tensor: str, users: Seq[Statement]) -> tuple[Loop, ...]:
    """The outermost loops around all ``users`` that keep the values of ``tensor`` inside."""
    above = paths(scheduled.tree)
    tiles = {x.name for tile in marked_tiles(scheduled.tree).values() for x in tile.loops}
    shared: list[Loop] = []
    for entries in zip(*(above[s.name] for s in users), strict=False):
        first = entries[0]
        if isinstance(first, Loop):
            if any(e is not first for e in entries) or first.name in tiles:
                break  # a register tile runs as a whole
            shared.append(first)
        elif any(e != first for e in entries):
            break
    if not shared:
        return ()
    scop, tree = scheduled.scop, scheduled.tree
    times = None if keeps_order(scop, tree, tensor) else schedule_map(scop, tree)
    through = values_through(scop, tensor, times)
    with bounded(what="the analysis of private storage"):
        for depth, loop in enumerate(shared):
            if not through.stays_within(loop.at):
                return tuple(shared[:depth])
    return tuple(shared)


def _in_order(scheduled: Scheduled, tensor: Tensor, order: Seq[int] | None) -> Scheduled:
    """``scheduled`` with the dims of ``tensor`` stored in ``order``."""
    if order is None or list(order) == sorted(order):
        return scheduled

    def turned(_: Statement, access: Access) -> Access:
        return replace(access, indices=tuple(access.indices[d] for d in order))

    stored = replace(tensor, shape=tuple(tensor.shape[d] for d in order))
    return replace(scheduled, scop=scheduled.scop.with_tensor(stored, turned))
