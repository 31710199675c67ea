"""Steps that lead to a schedule which was made in another way, by a scheduler that builds trees."""

from __future__ import annotations

from dataclasses import replace

from weft.errors import BudgetError, IllegalScheduleError
from weft.frontend.scalar_affine import to_expr
from weft.polyhedral.analysis.quasi_affine import affine
from weft.polyhedral.schedule_printer import print_schedule
from weft.polyhedral.scop import Constraint, Scop, Statement
from weft.polyhedral.transform.arrange import arrange
from weft.polyhedral.transform.cut import cut
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.privatize import privatize
from weft.polyhedral.transform.scheduled import Scheduled


def with_steps(made: Scheduled) -> Scheduled | None:
    """``made``, as ``privatize``, ``cut``s and ``arrange`` make it from its original; None where
    they do not."""
    try:
        now = initial(made.original)
        if {t.name for t in made.scop.tensors} != {t.name for t in now.scop.tensors} or any(
            made.scop.tensor(t.name).shape != t.shape for t in now.scop.tensors
        ):
            now = privatize(now)
        for statement in made.original.statements:
            conditions = _beyond(now.scop, made.scop, statement.name)
            if conditions:
                now = cut(now, statement.name, conditions)
        now = arrange(now, "\n" + print_schedule(made.tree))
    except (IllegalScheduleError, BudgetError):
        return None
    return now if _normal(now.scop) == _normal(made.scop) else None


def _beyond(before: Scop, after: Scop, name: str) -> list[str]:
    """The conditions that statement ``name`` has in ``after`` beyond those in ``before``."""
    now = next((s for s in after.statements if s.name == name), None)
    if now is None:
        return []
    old = before.statement(name).domain
    if now.domain[: len(old)] != old:
        return []
    return [f"{affine(c.expr)} >= 0" for c in now.domain[len(old) :] if not c.equality]


def _normal(scop: Scop) -> Scop:
    """``scop`` with its domains in normal form: what was read from text is written otherwise."""
    return replace(scop, statements=tuple(map(_plain, scop.statements)))


def _plain(s: Statement) -> Statement:
    return replace(
        s, domain=tuple(Constraint(to_expr(affine(c.expr)), c.equality) for c in s.domain)
    )
