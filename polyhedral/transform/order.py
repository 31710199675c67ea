"""Order: nests run where all that they need is done.

    for i: { A(i); C(i) }           for j: B(j)
    for j: B(j)               →     for i: { A(i); C(i) }          where C reads what B writes

Fusing nests takes others along, to before or behind what stood between them.
Also known as: topological sorting of the fused loops' dependence graph.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.ir.schedule_tree import Sequence, Tree, statements_below
from weft.ir.scop import Scop, Statement
from weft.polyhedral.transform.scheduled import Scheduled, rewrite, transformation


@transformation
def order(scheduled: Scheduled) -> Scheduled:
    """The children of each sequence with statements that share a tensor in their textual order.

    Children keep their order where nothing speaks against it, and copies and partial results stand
    where they were put; where no order serves all of their statements, they stay as they are, for
    ``legality`` to judge.
    """

    def change(node: Tree) -> Tree | None:
        if not isinstance(node, Sequence):
            return None
        parts = [set(statements_below(child)) for child in node.children]
        return Sequence(tuple(node.children[k] for k in textual_order(parts, scheduled.scop)))

    return replace(scheduled, tree=rewrite(scheduled.tree, change))


def textual_order(parts: Seq[set[str]], scop: Scop) -> list[int]:
    """The numbers of ``parts``, sets of statements, each after those that must come before it.

    A statement without a place in the source (a copy, say) is where it belongs.
    """
    home = {name: k for k, part in enumerate(parts) for name in part}
    inside = [s for s in scop.statements if s.name in home]
    before: list[set[int]] = [set() for _ in parts]
    for place, second in enumerate(inside):
        for first in inside[:place]:
            early, late = home[first.name], home[second.name]
            if not (first.position and second.position):
                early, late = sorted((early, late))
            if early != late and _conflict(first, second):
                before[late].add(early)
    done: list[int] = []
    while len(done) < len(parts):
        ready = (k for k in range(len(parts)) if k not in done and before[k] <= set(done))
        following = next(ready, None)
        if following is None:
            return list(range(len(parts)))
        done.append(following)
    return done


def _conflict(a: Statement, b: Statement) -> bool:
    """Whether both touch one tensor and one of them writes it."""
    written = {w.tensor for w in a.writes}, {w.tensor for w in b.writes}
    read = {r.tensor for r in a.reads}, {r.tensor for r in b.reads}
    return bool(written[0] & (written[1] | read[1]) or read[0] & written[1])
