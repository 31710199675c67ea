"""Skew: a loop runs further ahead with every iteration of another one.

    for t: for i: S(t, i)      →      for t: for i' = i + t: S(t, i' - t)         skew("i", by="t")

Dependences of distance (1, -1) become (1, 0): then the loops may be tiled, or change places, and
the inner one runs in parallel (a wavefront). Skewing an inner loop by an outer one is always legal.
Also known as: loop skewing (Wolfe, 1986); isl ``multi_aff``; not in Halide, TVM or Exo.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Literal, literal
from weft.ir.schedule_tree import Loop
from weft.polyhedral.transform.scheduled import Scheduled, replace_loop, transformation


@transformation
def skew(scheduled: Scheduled, loop: str, by: str, factor: int = 1) -> Scheduled:
    """``loop`` runs over its old value plus ``factor`` times that of ``by``, and keeps its name.

    ``by`` may stand outside or inside ``loop``. Raises ``IllegalScheduleError``: WEFT-E0450 where
    there is no such loop, E0460 for a factor that is no integer, E0463 where a statement of
    ``loop`` is not inside ``by``.
    """
    old, other = scheduled.loop(loop), scheduled.loop(by)
    if isinstance(factor, bool) or not isinstance(factor, int) or loop == by:
        raise IllegalScheduleError(
            "WEFT-E0460", f"loop {loop} cannot be skewed by {factor!r} times {by}"
        )
    outside = [s for s in old.at if s not in other.at]
    if outside:
        raise IllegalScheduleError(
            "WEFT-E0463",
            f"loop {loop} cannot be skewed by {by}",
            why=f"statement {outside[0]} is inside {loop}, but not inside {by}",
        )
    at = {s: value + other.at[s] * factor for s, value in old.at.items()}
    return replace(scheduled, tree=replace_loop(scheduled.tree, loop, Loop(loop, at)))


# ---- Reverse: a loop runs from its last iteration to its first.
#
#     for i in 0…n-1: S(i)      →      for i in -(n-1)…0: S(-i)                     reverse("i")
#
# Legal where the loop carries no dependence; two loops of which one descends can fuse afterwards.
# Also known as: loop reversal; not in Halide, TVM or Exo.


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
