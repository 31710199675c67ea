"""Share: whole nests come under common outer loops, several at once.

    for i: S(i)                       for i:
    for i: for k: T(i, k)      →        S(i)
                                        for k: T(i, k)

``fuse`` is the form for two loops; this one takes loops from anywhere in their nests.
Also known as: Halide ``compute_at``/``compute_with``, TVM ``compute_at``, Exo ``fuse``.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_tree import Band, Loop, Sequence, Tree, statements_below
from weft.polyhedral.transform.scheduled import Scheduled, rewrite, tidy, transformation


@transformation
def share(
    scheduled: Scheduled, loops: Mapping[str, Mapping[str, str]], statements: Seq[str]
) -> Scheduled:
    """The nests of ``statements`` under common ``loops``, outermost first, in their present order.

    ``loops``: name of each new loop -> the loop that it replaces, by statement.

    The nests must be children of one sequence. Where other nests stand between them, the fused one
    takes the place of the first (``order`` may move it); whether that is allowed is for
    ``legality`` to say. Raises ``IllegalScheduleError`` where a statement has no loop of the given
    name, or where the nests hold more or other statements than that.
    """
    wanted = set(statements)
    for name, replaces in loops.items():
        if set(replaces) != wanted:
            raise IllegalScheduleError(
                "WEFT-E0459",
                f"loop {name} replaces loops of {', '.join(replaces)}",
                why=f"the statements to fuse are {', '.join(statements)}",
            )
    fused = False

    def change(node: Tree) -> Tree | None:
        if not isinstance(node, Sequence):
            return None
        nonlocal fused
        chosen = [c for c in node.children if wanted & set(statements_below(c))]
        if len(chosen) < 2 or wanted != {s for c in chosen for s in statements_below(c)}:
            return None
        fused = True
        found: dict[str, dict[str, Loop]] = {}
        rest = Sequence(tuple(_without(c, loops, found) for c in chosen))
        band = Band(tuple(_merged(name, of, found) for name, of in loops.items()), rest)
        at = node.children.index(chosen[0])
        others = tuple(c for c in node.children if c not in chosen)
        return Sequence((*others[:at], band, *others[at:]))

    tree = tidy(rewrite(scheduled.tree, change))
    if not fused:
        raise IllegalScheduleError(
            "WEFT-E0459", f"no sequence has nests of just the statements {', '.join(statements)}"
        )
    return replace(scheduled, tree=tree)


def _without(
    tree: Tree, loops: Mapping[str, Mapping[str, str]], found: dict[str, dict[str, Loop]]
) -> Tree:
    """``tree`` less the loops that become shared; what was taken out goes to ``found``."""
    below = set(statements_below(tree))
    names = {name for of in loops.values() for s, name in of.items() if s in below}

    def change(node: Tree) -> Tree | None:
        if not isinstance(node, Band):
            return None
        for loop in node.loops:
            if loop.name in names:
                for statement in loop.at:
                    found.setdefault(statement, {})[loop.name] = loop
        return replace(node, loops=tuple(loop for loop in node.loops if loop.name not in names))

    return rewrite(tree, change)


def _merged(
    name: str, replaces: Mapping[str, str], found: Mapping[str, Mapping[str, Loop]]
) -> Loop:
    at = {}
    for statement, old in replaces.items():
        if old not in found.get(statement, {}):
            raise IllegalScheduleError(
                "WEFT-E0450", f"statement {statement!r} has no loop {old!r} to fuse"
            )
        at[statement] = found[statement][old].at[statement]
    return Loop(name, at)
