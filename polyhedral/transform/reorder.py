"""Reorder: loops directly inside each other change places.

    for i: for j: S(i, j)   →   for j: for i: S(i, j)                           reorder(["j", "i"])

Legal where every dependence still points forwards, that is, mostly, where the loops are permutable.
Where other statements stand between the loops, ``distribute`` them away first.
Also known as: Halide ``reorder``, TVM ``reorder``, Exo ``reorder_loops``; loop interchange.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_tree import Band, Sequence, Tree
from weft.polyhedral.transform.scheduled import (
    Scheduled,
    merge_bands,
    path_to,
    rewrite,
    transformation,
)


@transformation
def reorder(scheduled: Scheduled, order: Seq[str]) -> Scheduled:
    """The loops of ``order`` take the places that they have together, in the new order.

    Raises ``IllegalScheduleError`` (WEFT-E0450) where there is no such loop, or where they are not
    directly inside each other, each named once.
    """
    for name in order:
        scheduled.loop(name)
    wanted = set(order)
    found = False

    def change(node: Tree) -> Tree | None:
        nonlocal found
        if not isinstance(node, Band) or not wanted <= {loop.name for loop in node.loops}:
            return None
        found = True
        by_name = {loop.name: loop for loop in node.loops}
        queue = iter(order)
        return replace(
            node,
            loops=tuple(
                by_name[next(queue)] if loop.name in wanted else loop for loop in node.loops
            ),
        )

    if len(wanted) == len(order):
        tree = rewrite(merge_bands(scheduled.tree), change)
    if not found:
        raise IllegalScheduleError(
            "WEFT-E0450",
            f"the loops {', '.join(order)} are not directly inside each other",
            why=_between(scheduled, order),
            hint="reorder loops of one nest, with nothing but loops between them; "
            "distribute(…) gives statements that stand between nests of their own",
        )
    return replace(scheduled, tree=tree)


def _between(scheduled: Scheduled, order: Seq[str]) -> str:
    """What keeps the loops of ``order`` apart."""
    if len(set(order)) < len(order):
        return "a loop is named twice"
    inside = [set(scheduled.loop(name).at) for name in order]
    common = set.intersection(*inside)
    if not common:
        return "no statement is inside all of them"
    path = path_to(scheduled.tree, min(common, key=scheduled.below(order[0]).index))
    places = [
        next(k for k, n in enumerate(path) if isinstance(n, Band) and name in _names(n))
        for name in order
    ]
    apart = [n for n in path[min(places) : max(places)] if isinstance(n, Sequence)]
    if not apart:
        return "the schedule has a mark between them"
    most = max(inside, key=len)
    others = [s for s in scheduled.scop.statements if s.name in most - common]
    return f"statements stand between them: {', '.join(s.name for s in others)}"


def _names(band: Band) -> set[str]:
    return {loop.name for loop in band.loops}
