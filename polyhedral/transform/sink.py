"""Sink: loops move inwards, below sequences and other loops, to just around each statement.

    for j:                              for k: A(…)  becomes  for k: for j: A(k, j)
      for k: A(k, j)             →      for j: B(j)
      B(j)

Also known as: loop distribution followed by interchange; Exo ``fission`` + ``reorder_loops``.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.ir.schedule_tree import Band, Leaf, Loop, Tree
from weft.polyhedral.transform.scheduled import Scheduled, fresh, rewrite, tidy, transformation


@transformation
def sink(scheduled: Scheduled, loops: Seq[str]) -> Scheduled:
    """``loops``, in this order, become the innermost ones of every statement that they surround.

    A loop that surrounds one statement keeps its name; copies are named ``loop_statement``.
    """
    moved = {name: scheduled.loop(name) for name in loops}
    taken = {loop.name for loop in scheduled.loops()}

    def change(node: Tree) -> Tree | None:
        match node:
            case Band():
                return replace(node, loops=tuple(x for x in node.loops if x.name not in moved))
            case Leaf(statement):
                mine = [x for x in moved.values() if statement in x.at]
                return Band(tuple(_copy(x, statement, taken) for x in mine), node)
        return None

    return replace(scheduled, tree=tidy(rewrite(scheduled.tree, change)))


def _copy(loop: Loop, statement: str, taken: set[str]) -> Loop:
    name = loop.name if len(loop.at) == 1 else fresh(f"{loop.name}_{statement}", taken)
    return Loop(name, {statement: loop.at[statement]}, loop.kind)
