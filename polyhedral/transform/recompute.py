"""Recompute: later readers of a temporary have it computed again, for themselves.

    for i: for k: s[i] += A[i, k]             for i: for k: s[i] += A[i, k]
    for i: m = max(m, s[i])             →     for i: m = max(m, s[i])
    for i: y[i] = f(s[i], m)                  for i: for k: s_again[i] += A[i, k]
                                              for i: y[i] = f(s_again[i], m)

Where a sweep over all of it stands between two readers, either keeps the whole in memory or makes
it anew: what is made and used tile by tile needs no memory. The reads of its own maker are not
made again.
Also known as: rematerialisation; Halide computes ``compute_inline`` and ``compute_at`` so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.polyhedral.transform.edit import accesses_of, insert_nest, origin_of, placed
from weft.polyhedral.transform.initial import in_textual_order
from weft.polyhedral.transform.scheduled import Scheduled, fresh, path_to, transformation


@transformation
def recompute(scheduled: Scheduled, tensor: str, readers: Sequence[str]) -> Scheduled:
    """The statements ``readers`` read ``tensor_again``, which copies of the statements that write
    the temporary ``tensor`` compute, called alike, right behind them.

    For the order of the source. Raises ``IllegalScheduleError``: WEFT-E0452 and E0451 where there
    is no such tensor or statement, E0463 in another order, E0465 where ``tensor`` is no temporary,
    what writes it writes others, too, or a reader does not read it or writes it.
    """
    placed(scheduled, tensor, "recompute")
    scop, old = scheduled.scop, scheduled.tensor(tensor)
    for name in readers:
        path_to(scheduled.tree, name)
    uses = accesses_of(scop, tensor)
    writers = list({s.name: s for s, _, is_write in uses if is_write}.values())
    reading = {s.name for s, _, is_write in uses if not is_write} - {s.name for s in writers}
    why = ""
    if old.role != "temp":
        why = f"{tensor} is no temporary"
    elif any(w.tensor != tensor for s in writers for w in s.writes):
        why = f"what writes {tensor} writes other tensors, too"
    elif not {*readers} <= reading:
        why = f"{', '.join(sorted({*readers} - reading))} does not read it, or writes it"
    if why:
        raise IllegalScheduleError("WEFT-E0465", f"{tensor} cannot be computed again", why=why)
    own = fresh(f"{tensor}_again", {t.name for t in scop.tensors})
    made = replace(
        scop,
        tensors=(*scop.tensors, replace(old, name=own)),
        statements=tuple(
            s.map_accesses(lambda a: replace(a, tensor=own), tensor) if s.name in readers else s
            for s in scop.statements
        ),
    )
    taken, after = {s.name for s in scop.statements}, writers[-1]
    for s in writers:
        again = s.map_accesses(lambda a: replace(a, tensor=own), tensor)
        name = fresh(f"{s.name}_again", taken)
        made = insert_nest(made, replace(again, name=name, origin=origin_of(s)), after)
        after = made.statement(name)
    return in_textual_order(scheduled, made, "recompute")
