"""Fuse: two neighbouring loops become one.

    for i: A(i)                      for i:                                       fuse("i", "i_2")
    for i_2: B(i_2)          →         A(i)
                                       B(i)

With ``shift=1``, iteration i holds A(i) and B(i - 1): where B reads what A makes one iteration
later, that is the way to fuse at all, and it has to be one step.
Legal where nothing that the second loop needs comes later in the first, and the other way round.
Also known as: loop fusion with shifting; Halide ``compute_with``, TVM ``compute_at``, Exo ``fuse``.
(What Halide and TVM call ``fuse``, one loop over two nested ones, happens to parallel loops.)
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_tree import Band, Loop, Sequence, Tree, statements_below, walk
from weft.polyhedral.transform.order import textual_order
from weft.polyhedral.transform.scheduled import (
    Scheduled,
    merge_bands,
    new_name,
    rewrite,
    tidy,
    transformation,
)


@transformation
def fuse(
    scheduled: Scheduled, first: str, second: str, *, shift: int = 0, name: str | None = None
) -> Scheduled:
    """Loops ``first`` and ``second`` as one, in the place of the first, called ``name``.

    Both must be the outermost loops of two nests that stand in one sequence; statements and nests
    between them go before or behind the fused loop, as their accesses ask. The iteration i of
    ``second`` runs in iteration i + ``shift``, which may be negative. By default the name is that
    of ``first``. Raises ``IllegalScheduleError``: WEFT-E0450 where there is no such loop, E0460 for
    a shift that is no integer or a name that is taken, E0463 where the loops are not neighbours.
    """
    one, two = scheduled.loop(first), scheduled.loop(second)
    if isinstance(shift, bool) or not isinstance(shift, int):
        raise IllegalScheduleError("WEFT-E0460", f"loops cannot be fused with shift {shift!r}")
    called = first if name in (None, first, second) else new_name(scheduled, name, first)
    called = second if name == second else called
    moved = {s: value + shift for s, value in two.at.items()}
    merged = Loop(called, {**one.at, **moved})
    fused = False

    def change(node: Tree) -> Tree | None:
        if not isinstance(node, Sequence):
            return None
        nonlocal fused
        places = {_outermost(c): k for k, c in enumerate(node.children)}
        if first not in places or second not in places:
            return None
        fused = True
        return _joined(scheduled, node, (places[first], places[second]), merged)

    tree = tidy(rewrite(merge_bands(scheduled.tree), change))
    if not fused or first == second:
        raise IllegalScheduleError(
            "WEFT-E0463",
            f"loops {first} and {second} are not neighbours",
            why=_why_not(scheduled, first, second),
            hint="fuse loops from the outermost inwards; "
            "reorder(…) or distribute(…) brings a loop to the outside of its nest",
        )
    return replace(scheduled, tree=tree)


def _outermost(tree: Tree) -> str | None:
    return tree.loops[0].name if isinstance(tree, Band) else None


def _joined(scheduled: Scheduled, node: Sequence, at: tuple[int, int], merged: Loop) -> Tree:
    """The sequence with its children at ``at`` under ``merged``, in their present order."""
    low, high = sorted(at)
    inner = [
        replace(child, loops=child.loops[1:])
        for child in (node.children[low], node.children[high])
        if isinstance(child, Band)
    ]
    band = Band((merged,), Sequence(tuple(inner)))
    rest = (*node.children[low + 1 : high], *node.children[high + 1 :])
    parts = (*node.children[:low], band, *rest)
    if high == low + 1:
        return Sequence(parts)
    below = [set(statements_below(part)) for part in parts]
    return Sequence(tuple(parts[k] for k in textual_order(below, scheduled.scop)))


def _why_not(scheduled: Scheduled, first: str, second: str) -> str:
    if first == second:
        return "they are one loop"
    one, two = set(scheduled.loop(first).at), set(scheduled.loop(second).at)
    if one & two:
        return "one is inside the other"
    heads = {
        _outermost(child)
        for node in walk(merge_bands(scheduled.tree))
        if isinstance(node, Sequence)
        for child in node.children
    }
    inner = [name for name in (first, second) if name not in heads]
    if inner:
        return f"{inner[0]} is inside other loops of its nest"
    return "they stand in different nests"
