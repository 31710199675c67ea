"""Reorder: loops of one band change places.

    for i: for j: S(i, j)   →   for j: for i: S(i, j)

Also known as: Halide ``reorder``, TVM ``reorder``, Exo ``reorder_loops``; loop interchange.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.errors import IllegalScheduleError
from weft.polyhedral.schedule_tree import Band, Tree
from weft.polyhedral.transform.scheduled import Scheduled, rewrite


def reorder(scheduled: Scheduled, order: Seq[str]) -> Scheduled:
    """The loops of ``order`` take the places that they have together, in the new order.

    Raises ``IllegalScheduleError`` where they are not the loops of one band, each named once.
    """
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

    tree = rewrite(scheduled.tree, change) if len(wanted) == len(order) else scheduled.tree
    if not found:
        raise IllegalScheduleError(
            "WEFT-E0450", f"no band holds the loops {', '.join(order)}, each once"
        )
    return replace(scheduled, tree=tree)
