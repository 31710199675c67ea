"""Shift: one of the statements of a loop runs some iterations later.

    for i:                           for i:
      A(i)               →             A(i)                             shift("B", "i", 1)
      B(i)                             B(i - 1)

Statements that one loop keeps too close together move apart; alone in a loop, nothing changes.
Also known as: loop shifting, retiming, loop alignment (Allen and Kennedy); the offset of Halide's
``compute_with`` alignment; not in TVM; Exo ``shift_loop`` moves whole loops.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.polyhedral.transform.scheduled import (
    Scheduled,
    path_to,
    replace_loop,
    transformation,
)


@transformation
def shift(scheduled: Scheduled, statement: str, loop: str, by: int) -> Scheduled:
    """The instance of ``statement`` at iteration i of ``loop`` moves to iteration i + ``by``.

    ``by`` may be negative. Raises ``IllegalScheduleError``: WEFT-E0450 and E0451 where there is no
    such loop or statement, E0460 for a ``by`` that is no integer, E0463 where the statement is not
    inside the loop.
    """
    old = scheduled.loop(loop)
    path_to(scheduled.tree, statement)
    if isinstance(by, bool) or not isinstance(by, int):
        raise IllegalScheduleError("WEFT-E0460", f"{statement} cannot be shifted by {by!r}")
    if statement not in old.at:
        raise IllegalScheduleError(
            "WEFT-E0463",
            f"statement {statement} is not inside loop {loop}",
            hint=f"statements inside: {', '.join(old.at)}",
        )
    at = {s: value + by if s == statement else value for s, value in old.at.items()}
    moved = replace(old, at=at, kind="serial")
    return replace(scheduled, tree=replace_loop(scheduled.tree, loop, moved))
