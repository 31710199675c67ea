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
    """What ``made`` started from, as ``privatize``, ``cut`` and ``arrange`` make it from its
    original; None where they do not."""
    made = made.start or made
    try:
        now = initial(made.original)
        if _expanded(now.scop, made.scop):
            now = privatize(now)
        names = [s.name for s in made.original.statements]
        for name in names:  # what is cut off may be cut again
            conditions = _beyond(now.scop, made.scop, name)
            if conditions:
                known = {s.name for s in now.scop.statements}
                now = cut(now, name, conditions)
                names += [s.name for s in now.scop.statements if s.name not in known]
        now = arrange(now, "\n" + print_schedule(made.tree))
    except (IllegalScheduleError, BudgetError):
        return None
    return now if same_program(now, made) else None


def same_program(one: Scheduled, two: Scheduled) -> bool:
    """Whether both run the same statements in the same order, however they are written."""
    orders = print_schedule(one.tree) == print_schedule(two.tree)
    return orders and _normal(one.scop) == _normal(two.scop)


def _expanded(before: Scop, after: Scop) -> bool:
    """Whether temporaries have other shapes, or there are others."""
    shapes = [{t.name: t.shape for t in scop.tensors} for scop in (before, after)]
    return shapes[0] != shapes[1]


def _beyond(before: Scop, after: Scop, name: str) -> list[str]:
    """The conditions that statement ``name`` has in ``after`` beyond those in ``before``."""
    now = next((s for s in after.statements if s.name == name), None)
    if now is None:
        return []
    old, new = (_plain(s).domain for s in (before.statement(name), now))
    if new[: len(old)] != old:
        return []
    return [f"{affine(c.expr)} >= 0" for c in new[len(old) :] if not c.equality]


def _normal(scop: Scop) -> Scop:
    """``scop`` with its domains in normal form: what was read from text is written otherwise.

    The parts of a statement that was cut come by name: their instances are never at one place.
    """
    statements = sorted(map(_plain, scop.statements), key=lambda s: s.name)
    return replace(scop, statements=tuple(statements))


def _plain(s: Statement) -> Statement:
    return replace(
        s, domain=tuple(Constraint(to_expr(affine(c.expr)), c.equality) for c in s.domain)
    )
