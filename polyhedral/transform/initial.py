"""The schedule that a Scop starts with: its own textual order."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.instruction import Instruction
from weft.ir.scalar_expr import Expr, Var
from weft.ir.schedule_tree import Band, Leaf, Loop, Sequence, Tree
from weft.ir.scop import Scop, Statement
from weft.polyhedral.transform.scheduled import Scheduled, fresh, tidy, with_loops
from weft.polyhedral.transform.tile import point_name, tile_name

_Item = tuple[Statement, tuple[int | str, ...]]  # a statement and what is left of its position


def initial(scop: Scop, instructions: Seq[Instruction] = ()) -> Scheduled:
    """The tree of ``Statement.position``s: statements with a common prefix share its loops.
    ``instructions``: those of the machine that it is for.

    A loop is named after the dim of its first statement, with a number where that, or what tiling
    would make of it, is taken.
    """
    taken: set[str] = set()

    def loop(dim: str, at: dict[str, Expr]) -> Loop:
        return Loop(_named(dim, taken), at)

    tree = tidy(textual(scop.statements, loop))
    return Scheduled(scop, scop, tree, instructions=tuple(instructions))


def in_textual_order(scheduled: Scheduled, scop: Scop, move: str) -> Scheduled:
    """``scop``, which ``move`` has made of ``scheduled``, in its textual order. Raises
    ``IllegalScheduleError`` (WEFT-E0463) where ``scheduled`` is in another order."""
    placed = all(s.position for s in scheduled.scop.statements)
    if not placed or _nameless(scheduled.tree) != _nameless(initial(scheduled.scop).tree):
        raise IllegalScheduleError(
            "WEFT-E0463",
            f"{move} is for the order of the source",
            why="it puts statements inside the program's own loops",
            hint=f"take {move} before the steps that change loops",
        )
    return replace(scheduled, scop=scop, tree=initial(scop).tree)


def _nameless(tree: Tree) -> Tree:
    return with_loops(tree, lambda loop: replace(loop, name=""))


def textual(statements: Seq[Statement], loop: Callable[[str, dict[str, Expr]], Loop]) -> Tree:
    """The tree of the positions of ``statements``; ``loop`` makes one of a dim and its values."""
    return _sequence([(s, s.position) for s in statements], loop)


def _sequence(items: Seq[_Item], loop: Callable[[str, dict[str, Expr]], Loop]) -> Tree:
    groups: dict[int, list[_Item]] = {}
    for statement, position in items:
        groups.setdefault(int(position[0]), []).append((statement, position[1:]))
    return Sequence(tuple(_shared(groups[key], loop) for key in sorted(groups)))


def _shared(items: Seq[_Item], loop: Callable[[str, dict[str, Expr]], Loop]) -> Tree:
    rest = items[0][1]
    if not rest:  # parts of one statement, of which each instance has one, if there are several
        return Sequence(tuple(Leaf(s.name) for s, _ in items))
    made = loop(str(rest[0]), {s.name: Var(str(position[0])) for s, position in items})
    return Band((made,), _sequence([(s, position[1:]) for s, position in items], loop))


def _named(dim: str, taken: set[str]) -> str:
    while True:
        name = fresh(dim, taken)
        tiled = {tile_name(name), point_name(name)}
        if not tiled & taken:
            taken |= tiled
            return name
