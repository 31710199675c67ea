"""Last strategy: the statements of a group in their textual order, which is always legal.

Whatever is left to order inside the loops around the group, the program's own loops order it.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.frontend.scalar_expr import Var
from weft.polyhedral.policy.planner import At, Group, Planner
from weft.polyhedral.schedule_tree import Band, Leaf, Tree
from weft.polyhedral.schedule_tree import Sequence as TreeSequence
from weft.polyhedral.scop import Statement

_Item = tuple[Statement, tuple[int | str, ...]]  # a statement and what is left of its position


def as_written(planner: Planner, group: Group) -> Tree:
    """All textual loops of ``group``, serial; those that the loops above fix run once."""
    inside = set(group.names)
    statements = [s for s in planner.scop.statements if s.name in inside]
    return _sequence(planner, [(s, s.position) for s in statements])


def _sequence(planner: Planner, items: Sequence[_Item]) -> Tree:
    groups: dict[int, list[_Item]] = {}
    for statement, position in items:
        groups.setdefault(int(position[0]), []).append((statement, position[1:]))
    return TreeSequence(tuple(_shared(planner, groups[key]) for key in sorted(groups)))


def _shared(planner: Planner, items: Sequence[_Item]) -> Tree:
    if not items[0][1]:  # parts of one statement, of which each instance has one
        return TreeSequence(tuple(Leaf(s.name) for s, _ in items))
    at: At = {s.name: Var(str(position[0])) for s, position in items}
    loop = planner.loop(str(items[0][1][0]), at)
    return Band((loop,), _sequence(planner, [(s, position[1:]) for s, position in items]))
