"""Reverse: a loop runs from its last iteration to its first.

    for i in 0…n-1: S(i)      →      for i in -(n-1)…0: S(-i)                     reverse("i")

Legal where the loop carries no dependence; two loops of which one descends can fuse afterwards.
Also known as: loop reversal; not in Halide, TVM or Exo.
"""

from __future__ import annotations

from dataclasses import replace

from weft.frontend.scalar_expr import Literal, literal
from weft.polyhedral.schedule_tree import Loop
from weft.polyhedral.transform.scheduled import Scheduled, replace_loop, transformation


@transformation
def reverse(scheduled: Scheduled, loop: str) -> Scheduled:
    """``loop`` runs over the negative of its old value, and keeps its name.

    Raises ``IllegalScheduleError`` (WEFT-E0450) where there is no such loop.
    """
    old = scheduled.loop(loop)
    at = {
        s: literal(-int(value.value)) if isinstance(value, Literal) else literal(0) - value
        for s, value in old.at.items()
    }
    return replace(scheduled, tree=replace_loop(scheduled.tree, loop, Loop(loop, at)))
