"""Parts of statements: together they are the whole, and run where it did."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import PROGRAMS, every, lu, promise, read
from weft.ir.errors import IllegalScheduleError
from weft.ir.machine import Cache, Machine
from weft.ir.scalar_expr import Var
from weft.ir.scop import Constraint, Scop
from weft.polyhedral.policy.fuse import fuse
from weft.polyhedral.policy.planner import Planner
from weft.polyhedral.policy.share import share
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.isolate import isolate
from weft.polyhedral.transform.scheduled import Scheduled, tidy

i, j, k, t = map(Var, "ijkt")
MACHINE = Machine("test", 16, 8, (Cache(1024),))


def in_order(original: Scop, scop: Scop) -> Scheduled:
    """All statements of ``scop`` by their places in the initial order."""
    planner = Planner(initial(scop), MACHINE, (), fuse, share)
    return Scheduled(original, scop, tidy(planner.as_written(planner.everything())))


@pytest.mark.parametrize("name", PROGRAMS)
def test_parts_are_the_whole(name: str) -> None:
    scop = PROGRAMS[name]()
    for s in scop.statements:
        first, last = Var(s.dims[0]), Var(s.dims[-1])
        where = [Constraint(first - last * 2 + 1), Constraint(first // 4 * 4 - last)]
        changed, parts = isolate(scop, s.name, where)
        assert len(parts) == 2 and len(changed.statements) == len(scop.statements) + 2
        promise(in_order(scop, changed), *every(scop, (0, 1, 2, 7)))


def test_where_each_part_is() -> None:
    scop = read("for i in range(N):\n A[i] = 2 * A[i]", A="io N")
    changed, (edge, other) = isolate(scop, "S0", [Constraint(i - 3), Constraint(7 - i)])
    holds = {
        s.name: [v for v in range(12) if all(_at(c, v) for c in s.domain)]
        for s in changed.statements
    }
    assert holds == {"S0": [3, 4, 5, 6, 7], edge: [0, 1, 2], other: [8, 9, 10, 11]}


def _at(constraint: Constraint, value: int) -> bool:
    from weft.ir.scalar_interpreter import evaluate

    return int(evaluate(constraint.expr, {"i": value, "N": 12})) >= 0


def test_equalities_are_refused() -> None:
    with pytest.raises(IllegalScheduleError, match="E0476"):
        isolate(lu(), "S0", [Constraint(i - 3, equality=True)])
