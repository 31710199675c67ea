"""A Scop under transformation: what it was, what it has become, and in which order it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from weft.errors import IllegalScheduleError
from weft.polyhedral.schedule_tree import (
    Band,
    Leaf,
    Loop,
    Mark,
    Sequence,
    Tree,
    children,
    walk,
    with_children,
)
from weft.polyhedral.scop import Scop


@dataclass(frozen=True, slots=True)
class Scheduled:
    """``scop`` scheduled by ``tree`` computes what ``original`` does in its initial order."""

    original: Scop
    scop: Scop
    tree: Tree

    def loops(self) -> tuple[Loop, ...]:
        """Every loop, outermost first, in textual order."""
        return tuple(
            loop for node in walk(self.tree) if isinstance(node, Band) for loop in node.loops
        )

    def loop(self, name: str) -> Loop:
        found = next((loop for loop in self.loops() if loop.name == name), None)
        if found is None:
            raise IllegalScheduleError(
                "WEFT-E0450",
                f"no loop is named {name!r}",
                hint=f"loops: {', '.join(loop.name for loop in self.loops())}",
            )
        return found


def rewrite(tree: Tree, change: Callable[[Tree], Tree | None]) -> Tree:
    """Bottom-up: each node goes through ``change``; None keeps it."""
    rebuilt = with_children(tree, tuple(rewrite(child, change) for child in children(tree)))
    changed = change(rebuilt)
    return rebuilt if changed is None else changed


def tidy(tree: Tree) -> Tree:
    """No empty bands, no sequences of one or within sequences."""

    def change(node: Tree) -> Tree | None:
        match node:
            case Band((), child):
                return child
            case Band(outer, Band(inner, child)):
                return Band(outer + inner, child)
            case Sequence((only,)):
                return only
            case Sequence(parts):
                flat: list[Tree] = []
                for part in parts:
                    flat.extend(part.children if isinstance(part, Sequence) else (part,))
                return Sequence(tuple(flat))
        return None

    return rewrite(tree, change)


def path_to(tree: Tree, statement: str) -> tuple[Tree, ...]:
    """The nodes from the root down to the leaf of ``statement``."""
    trail = _path(tree, statement)
    if trail is None:
        raise IllegalScheduleError("WEFT-E0451", f"the schedule has no statement {statement!r}")
    return trail


def _path(tree: Tree, statement: str) -> tuple[Tree, ...] | None:
    if isinstance(tree, Leaf):
        return (tree,) if tree.statement == statement else None
    for child in children(tree):
        below = _path(child, statement)
        if below is not None:
            return (tree, *below)
    return None


def loops_above(tree: Tree, statement: str) -> tuple[Loop, ...]:
    """The loops around ``statement``, outermost first."""
    return tuple(
        loop for node in path_to(tree, statement) if isinstance(node, Band) for loop in node.loops
    )


def with_loops(tree: Tree, change: Callable[[Loop], Loop]) -> Tree:
    """Every loop replaced by ``change(loop)``."""
    return rewrite(
        tree,
        lambda n: replace(n, loops=tuple(map(change, n.loops))) if isinstance(n, Band) else None,
    )


def fresh(name: str, taken: set[str]) -> str:
    """``name``, or ``name_2`` … where it is taken; the result is added to ``taken``."""
    candidate, n = name, 1
    while candidate in taken:
        n += 1
        candidate = f"{name}_{n}"
    taken.add(candidate)
    return candidate


__all__ = [
    "Mark", "Scheduled", "fresh", "loops_above", "path_to", "rewrite", "tidy", "with_loops",
]  # fmt: skip
