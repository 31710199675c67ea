"""Blocks of steps of an update by its own rows and columns: the same values, step by step."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import PROGRAMS, lu, promise, read
from weft.ir.machine import Cache, Machine
from weft.ir.scalar_expr import Var
from weft.ir.schedule_tree import Band
from weft.ir.scop import Scop
from weft.polyhedral.policy.fuse import fuse
from weft.polyhedral.policy.planner import Planner
from weft.polyhedral.policy.share import share
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.panels import in_panels
from weft.polyhedral.transform.scheduled import Scheduled, tidy

MACHINE = Machine("test", 16, 8, (Cache(1024),))


def paths() -> Scop:
    text = """
    for k in range(N):
        for i in range(N):
            for j in range(N):
                P[i, j] += P[i, k] * P[k, j]
    """
    return read(text, P="io N N")


@pytest.mark.parametrize("size", [1, 3, 4])
def test_panels_compute_the_same(size: int) -> None:
    """With sums and products, which show each value that is read too late or too early."""
    scop = paths()
    found = in_panels(scop, "S0", size)
    assert found is not None
    changed, names = found
    assert len(set(names)) == 25 and {s.name for s in changed.statements} == set(names)
    planner = Planner(initial(changed), MACHINE, (), fuse, share)
    block = {name: Var("k") // size for name in names}
    inside = planner.as_written(planner.everything())
    tree = tidy(Band((planner.loop("k_t", block),), inside))
    promise(Scheduled(scop, changed, tree), *({"N": n} for n in (0, 1, 2, 3, 5)))


def test_what_has_no_panels() -> None:
    for scop in (lu(), PROGRAMS["matmul"](), PROGRAMS["stencil"]()):
        assert all(in_panels(scop, s.name, 4) is None for s in scop.statements)
