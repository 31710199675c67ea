"""Remove: statements that are gone leave a schedule tree, and so do loops around them alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from weft.polyhedral.schedule_tree import (
    Band,
    Leaf,
    Sequence,
    Tree,
    children,
    statements_below,
    with_children,
)
from weft.polyhedral.transform.scheduled import tidy


def remove(tree: Tree, statements: Collection[str]) -> Tree:
    """``tree`` without ``statements``, which are not all there are."""
    return tidy(_remove(tree, frozenset(statements)))


def _remove(tree: Tree, gone: frozenset[str]) -> Tree:
    match tree:
        case Leaf():
            return tree
        case Band(loops, child):
            kept = (
                replace(loop, at={s: value for s, value in loop.at.items() if s not in gone})
                for loop in loops
            )
            return Band(tuple(kept), _remove(child, gone))
        case Sequence(parts):
            left = (part for part in parts if not set(statements_below(part)) <= gone)
            return Sequence(tuple(_remove(part, gone) for part in left))
    return with_children(tree, tuple(_remove(child, gone) for child in children(tree)))
