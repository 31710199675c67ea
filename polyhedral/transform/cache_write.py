"""Cache write: what one iteration of a loop writes of a tensor is built in a local buffer.

    for i_t: for j_t:
      for i_p: for j_p: for k: C[8·i_t + i_p, 4·j_t + j_p] += …
    →
    for i_t: for j_t:
      for a < 8: for b < 4: L[a, b] = C[8·i_t + a, 4·j_t + b]          (where old values are needed)
      for i_p: for j_p: for k: L[i_p, j_p] += …
      for a < 8: for b < 4: C[8·i_t + a, 4·j_t + b] = L[a, b]

In registers, or in another layout, that is an accumulator tile. The copy in is left out where
everything in the buffer is written before it is read.
Also known as: Halide ``in()``/``update`` staging, TVM ``cache_write``, Exo ``stage_mem``.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.ir.schedule_times import schedule_map
from weft.ir.schedule_tree import Loop
from weft.ir.scop import Access, Scop, Scope, Statement
from weft.polyhedral.analysis.values_through import values_through
from weft.polyhedral.analysis.window import windows
from weft.polyhedral.transform.edit import Place
from weft.polyhedral.transform.local_copy import (
    Request,
    loops_through,
    refusal,
    tile_for,
    with_copy,
    with_tile,
)
from weft.polyhedral.transform.local_tile import LocalTile, Use
from weft.polyhedral.transform.scheduled import Scheduled, transformation


@transformation
def cache_write(
    scheduled: Scheduled,
    tensor: str,
    statements: str | Seq[str],
    loop: str,
    *,
    order: Seq[int] | None = None,
    panels: Mapping[int, int] | None = None,
    name: str | None = None,
    scope: Scope = "local",
) -> Scheduled:
    """Writes of ``tensor`` by ``statements`` go to a buffer for one iteration of ``loop``.

    So do their reads of it that move with these writes. ``order``, ``panels``, ``name`` and
    ``scope`` are those of ``cache_read``.

    The copy in (``copy_name``) runs directly inside ``loop`` before the first part that holds one
    of ``statements``, the copy out (``store_name``) behind the last. Whether others see what they
    should, validation decides. Raises ``IllegalScheduleError``: WEFT-E0466 where nothing is
    written, the accesses are data-dependent or in no box of closed form, or the layout is none;
    E0450, E0451, E0470 for wrong names.
    """
    chosen = (statements,) if isinstance(statements, str) else tuple(statements)
    request = Request("WEFT-E0466", order, panels, name, scope)
    if not chosen:
        raise refusal(request, tensor, "no statement is named that writes it")
    scheduled.tensor(tensor)
    loops = loops_through(scheduled, loop, chosen)
    writes, uses = _uses(scheduled.scop, tensor, chosen, loops, request)
    tile = tile_for(scheduled, tensor, uses, loops, request)
    now = with_tile(scheduled, tile)
    wanted = {(s.name, access) for s, access in uses}
    changed = tuple(_redirect(s, wanted, tile) for s in now.scop.statements)
    # The copies are made from the old accesses, so the statements change behind them.
    stored = with_copy(now, tile, writes, Place(loop, after=chosen), store=True)
    plain = _with(stored, changed)
    if not values_through(
        plain.scop, tile.tensor.name, schedule_map(plain.scop, plain.tree)
    ).uninitialised:
        return plain
    return _with(with_copy(stored, tile, uses, Place(loop, before=chosen)), changed)


def _uses(
    scop: Scop, tensor: str, statements: Seq[str], loops: Seq[Loop], request: Request
) -> tuple[list[Use], list[Use]]:
    """The writes, and all accesses that go to the buffer: these, and the reads in their window."""
    chosen = [scop.statement(name) for name in statements]
    writes = [(s, a) for s in chosen for a in s.writes if a.tensor == tensor]
    silent = [s.name for s in chosen if not any(w is s for w, _ in writes)]
    if silent:
        raise refusal(request, tensor, f"{silent[0]} does not write it")
    if any(a.may for _, a in writes):
        raise refusal(request, tensor, "it is written at data-dependent indices")
    reads = [(s, a) for s in chosen for a in s.reads if a.tensor == tensor and not a.may]
    near = [use for use in reads if windows(scop, [writes[0], use], loops) is not None]
    return writes, [*writes, *near]


def _redirect(statement: Statement, wanted: set[tuple[str, Access]], tile: LocalTile) -> Statement:
    def change(access: Access) -> Access:
        mine = (statement.name, access) in wanted
        return tile.redirected(access, statement.name) if mine else access

    return statement.map_accesses(change)


def _with(now: Scheduled, changed: Seq[Statement]) -> Scheduled:
    """``now`` with ``changed`` in place of the statements of these names."""
    by_name = {s.name: s for s in changed}
    statements = tuple(by_name.get(s.name, s) for s in now.scop.statements)
    return replace(now, scop=replace(now.scop, statements=statements))
