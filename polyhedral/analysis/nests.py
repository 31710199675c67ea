"""The top-level nests of a schedule, each of which becomes one kernel: threads meet in between."""

from __future__ import annotations

from weft.ir.schedule_tree import Leaf, Sequence, Tree, statements_below
from weft.ir.scop import Scop


def nests(scop: Scop, tree: Tree) -> tuple[Tree, ...]:
    """The top-level nests of ``tree``, in order. Neighbours without loops are one nest, and so are
    those from the first to the last that uses a local tensor: a kernel has its local tensors to
    itself."""
    parts: tuple[Tree, ...] = tree.children if isinstance(tree, Sequence) else (tree,)
    local = {t.name for t in scop.tensors if t.scope != "global"}
    users = {s.name: {a.tensor for a in (*s.reads, *s.writes)} & local for s in scop.statements}
    uses = [set[str]().union(*(users[s] for s in statements_below(part))) for part in parts]
    last = {tensor: k for k, used in enumerate(uses) for tensor in used}
    runs: list[list[Tree]] = []
    reach = -1  # up to where the parts belong to the run
    for k, part in enumerate(parts):
        alone = isinstance(part, Leaf) and runs and isinstance(runs[-1][-1], Leaf)
        if k > reach and not alone:
            runs.append([])
        runs[-1].append(part)
        reach = max([reach, *(last[tensor] for tensor in uses[k])])
    return tuple(run[0] if len(run) == 1 else Sequence(tuple(run)) for run in runs)
