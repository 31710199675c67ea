"""Distribute: a loop around several statements becomes one loop around each.

    for i:                           for i: A(i)                                  distribute("i")
      A(i)               →           for i_B: B(i_B)
      B(i)

Legal where no later statement of the loop feeds an earlier one in a later iteration.
Also known as: loop fission, loop distribution; Halide ``compute_root`` has the effect; not in TVM;
Exo ``fission``.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_tree import Band, Loop, Sequence, Tree, statements_below
from weft.polyhedral.transform.scheduled import (
    Scheduled,
    fresh,
    merge_bands,
    path_to,
    rewrite,
    tidy,
    transformation,
)


@transformation
def distribute(scheduled: Scheduled, loop: str, after: str | None = None) -> Scheduled:
    """``loop`` once around each of the nests directly inside it, or cut once, behind ``after``.

    ``after`` is a statement; the first part ends with the nest that it is in. Loops between
    ``loop`` and its statements go along. The first part keeps the loops' names; those of another
    are called ``loop_statement``, after its first statement. Raises ``IllegalScheduleError``:
    WEFT-E0450 and E0451 where there is no such loop or statement, E0463 where the loop has but one
    nest inside, or nothing behind ``after``.
    """
    scheduled.loop(loop)
    if after is not None:
        path_to(scheduled.tree, after)
    taken = scheduled.names()
    done = False

    def change(node: Tree) -> Tree | None:
        nonlocal done
        place = _place(node, loop)
        if place is None or not isinstance(node, Band) or not isinstance(node.child, Sequence):
            return None
        parts = _parts(node.child, after)
        if len(parts) < 2:
            return None
        done = True
        outer, inner = node.loops[:place], node.loops[place:]
        copies = [Band(_restricted(inner, parts[0], None), parts[0])]
        copies += [Band(_restricted(inner, part, taken), part) for part in parts[1:]]
        return Band(outer, Sequence(tuple(copies)))

    tree = tidy(rewrite(merge_bands(scheduled.tree), change))
    if not done:
        raise IllegalScheduleError(
            "WEFT-E0463",
            f"loop {loop} cannot be distributed" + (f" behind {after}" if after else ""),
            why=f"inside it: {', '.join(scheduled.below(loop))}"
            + ("" if after else ", in one nest"),
        )
    return replace(scheduled, tree=tree)


def _place(node: Tree, loop: str) -> int | None:
    if not isinstance(node, Band):
        return None
    return next((k for k, x in enumerate(node.loops) if x.name == loop), None)


def _parts(node: Sequence, after: str | None) -> list[Tree]:
    if after is None:
        return list(node.children)
    at = next((k for k, c in enumerate(node.children) if after in statements_below(c)), None)
    if at is None or at + 1 == len(node.children):
        return []
    return [Sequence(node.children[: at + 1]), Sequence(node.children[at + 1 :])]


def _restricted(loops: tuple[Loop, ...], part: Tree, taken: set[str] | None) -> tuple[Loop, ...]:
    """``loops`` for the statements of ``part`` alone; new names unless ``taken`` is None."""
    inside = statements_below(part)
    return tuple(
        Loop(
            loop.name if taken is None else fresh(f"{loop.name}_{inside[0]}", taken),
            {s: loop.at[s] for s in inside},
            loop.kind,
        )
        for loop in loops
    )
