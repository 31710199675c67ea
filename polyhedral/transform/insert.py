"""Insert: a statement that was not there gets its place in a schedule tree."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

from weft.errors import IllegalScheduleError
from weft.frontend.scalar_expr import Expr
from weft.polyhedral.schedule_tree import (
    Band,
    Loop,
    Sequence,
    Tree,
    children,
    statements_below,
    with_children,
)
from weft.polyhedral.transform.scheduled import tidy


@dataclass(frozen=True, slots=True)
class Place:
    """Directly inside ``loop`` ('' for outside of all loops): before the part that holds one of the
    statements ``before``, or after the last part that holds one of ``after``."""

    loop: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def insert(tree: Tree, place: Place, nest: Tree, outer: Seq[Mapping[str, Expr]]) -> Tree:
    """``nest`` at ``place``; ``outer`` gives the value of each loop around it, outermost first, for
    each statement of the nest.

    Raises ``IllegalScheduleError`` (WEFT-E0470) where there is no such place.
    """
    if not place.loop:
        return tidy(_beside(tree, place, nest))
    made = _insert(tree, place, nest, list(outer))
    if made is None:
        raise IllegalScheduleError("WEFT-E0470", f"no loop is named {place.loop!r}")
    return tidy(made)


def _insert(tree: Tree, place: Place, nest: Tree, outer: list[Mapping[str, Expr]]) -> Tree | None:
    if isinstance(tree, Band):
        names = [loop.name for loop in tree.loops]
        if place.loop in names:
            cut = names.index(place.loop) + 1
            around = tuple(map(_with_values, tree.loops[:cut], outer))
            inside = Band(tree.loops[cut:], tree.child) if tree.loops[cut:] else tree.child
            return Band(around, _beside(inside, place, nest))
        child = _insert(tree.child, place, nest, outer[len(names) :])
        if child is None:
            return None
        return Band(tuple(map(_with_values, tree.loops, outer)), child)
    for k, child in enumerate(children(tree)):
        made = _insert(child, place, nest, outer)
        if made is not None:
            parts = children(tree)
            return with_children(tree, (*parts[:k], made, *parts[k + 1 :]))
    return None


def _with_values(loop: Loop, values: Mapping[str, Expr]) -> Loop:
    return replace(loop, at={**loop.at, **values})


def _beside(tree: Tree, place: Place, nest: Tree) -> Tree:
    parts = tree.children if isinstance(tree, Sequence) else (tree,)
    wanted = set(place.before or place.after)
    found = [k for k, part in enumerate(parts) if wanted & set(statements_below(part))]
    missing = wanted - {s for part in parts for s in statements_below(part)}
    if not found or missing:
        what = ", ".join(sorted(missing or wanted))
        raise IllegalScheduleError(
            "WEFT-E0470",
            f"{what} is not inside loop {place.loop}" if place.loop else f"there is no {what}",
            hint=f"inside are {', '.join(statements_below(tree))}",
        )
    at = found[0] if place.before else found[-1] + 1
    return Sequence((*parts[:at], nest, *parts[at:]))
