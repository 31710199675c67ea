"""Cut: a statement becomes two, one for the instances where a condition holds, one for the others.

    for i: S(i)   →   for i: { if i < 8: S(i); else: S_edge(i) }              cut("S", ["i < 8"])

The order stays. Then each may get loops of its own: full tiles apart from the edges, the first
iterations apart from the rest.
Also known as: index-set splitting (Griebl, Feautrier, Lengauer 2000); Exo ``cut_loop``; Halide
``specialize`` and TVM ``loop_partition`` cut loops, not statements.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.ir.errors import CompileError, IllegalScheduleError
from weft.ir.index_reader import parse_constraint
from weft.ir.quasi_affine import affine
from weft.ir.schedule_tree import Leaf, Mark, Sequence, Tree
from weft.ir.scop import Constraint
from weft.polyhedral.transform.isolate import isolate
from weft.polyhedral.transform.scheduled import (
    Scheduled,
    path_to,
    rewrite,
    tidy,
    transformation,
    with_loops,
)


@transformation
def cut(
    scheduled: Scheduled, statements: str | Seq[str], where: Seq[str], rest: str = "edge"
) -> Scheduled:
    """Each of ``statements``, one or several, where all of ``where`` hold, and ``statement_edge``,
    … where one does not.

    The first new statement is where the first condition fails, the next where only the second
    does, and so on; ``rest`` is what follows ``statement_`` in their names. Conditions compare
    index expressions over the dims that the statements have in common and the sizes. Raises
    ``IllegalScheduleError``: WEFT-E0451 where there is no such statement, or none at all, E0476 for
    an equality, E0479 for a condition that is none, or a ``rest`` that ends no name.
    """
    names = [statements] if isinstance(statements, str) else list(statements)
    if not names:
        raise IllegalScheduleError("WEFT-E0451", "cut without a statement", hint='cut("S0", …)')
    for name in names:
        scheduled = _cut(scheduled, name, where, rest)
    return scheduled


def _cut(scheduled: Scheduled, statement: str, where: Seq[str], rest: str) -> Scheduled:
    path_to(scheduled.tree, statement)
    dims = {*scheduled.scop.statement(statement).dims, *scheduled.scop.parameters}
    conditions = [_condition(text, dims) for text in where]
    if not isinstance(rest, str) or not f"_{rest}".isidentifier():
        raise IllegalScheduleError(
            "WEFT-E0479", f"{rest!r} ends no name", hint='letters, digits, underscores: "edge"'
        )
    scop, edges = isolate(scheduled.scop, statement, conditions, rest)
    if not edges:
        raise IllegalScheduleError("WEFT-E0479", f"{statement} is cut by no condition")

    def change(node: Tree) -> Tree | None:
        match node:
            case Leaf(name) if name == statement:
                return Sequence((node, *map(Leaf, edges)))
            case Mark(_, child) if not isinstance(child, Leaf) and _holds(child, statement):
                return child  # what was said of one statement does not hold of several
        return None

    tree = with_loops(
        rewrite(scheduled.tree, change),
        lambda x: (
            replace(x, at={**x.at, **dict.fromkeys(edges, x.at[statement])})
            if statement in x.at
            else x
        ),
    )
    return replace(scheduled, scop=scop, tree=tidy(tree))


def condition(constraint: Constraint) -> str:
    """``constraint`` as ``cut`` takes it."""
    return f"{affine(constraint.expr)} >= 0"


def _holds(tree: Tree, statement: str) -> bool:
    try:
        return bool(path_to(tree, statement))
    except IllegalScheduleError:
        return False


def _condition(text: str, names: set[str]) -> Constraint:
    try:
        found = parse_constraint(text)
        unknown = sorted(_variables(found) - names)
    except (ValueError, CompileError) as error:
        why = error.what if isinstance(error, CompileError) else str(error)
        raise IllegalScheduleError(
            "WEFT-E0479", f"{text!r} is no condition on indices", why=why, hint='"i < 8"'
        ) from None
    if unknown:
        raise IllegalScheduleError(
            "WEFT-E0479",
            f"the condition {text!r} mentions {unknown[0]!r}",
            hint=f"known here: {', '.join(sorted(names))}",
        )
    return found


def _variables(constraint: Constraint) -> frozenset[str]:
    return affine(constraint.expr).variables()
