"""Without laws, no schedule reorders a sum of floats; integers stay free."""

from __future__ import annotations

import pytest

import weft
from weft.ir.errors import IllegalScheduleError
from weft.ir.machine import Cache, Machine
from weft.ir.scop import Scop
from weft.polyhedral.from_tensor_expr import lower
from weft.polyhedral.keep_order import keep_order
from weft.polyhedral.proof.legality import check
from weft.polyhedral.schedule_loops import schedule_loops
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import loops_above
from weft.polyhedral.transform.set_kinds import set_kinds

MACHINE = Machine("any", 32, 16, (Cache(32768),))


def sums(dtype: str) -> Scop:
    x = weft.placeholder((7, 100), dtype, name="x")
    k = weft.reduce_axis((0, 100), name="k")
    y = weft.compute((7,), lambda i: weft.sum(x[i, k], axis=k), name="y")
    return lower(weft.program(y), "sums")


def fold_of(scop: Scop) -> str:
    return next(s.name for s in scop.statements if s.update)


@pytest.mark.parametrize(
    ("dtype", "free"), [("float32", False), ("bfloat16", False), ("int32", True)]
)
def test_only_integer_sums_may_be_vectorised_along(dtype: str, free: bool) -> None:
    scop = keep_order(sums(dtype))
    vector = set_kinds(initial(scop), {"k": "vector"})
    if free:
        check(vector.scop, vector.tree)
        return
    with pytest.raises(IllegalScheduleError) as refused:
        check(vector.scop, vector.tree)
    assert refused.value.code == "WEFT-E0422"


def test_the_scheduler_does_not_try() -> None:
    free, ordered = (
        schedule_loops(s, MACHINE) for s in (sums("float32"), keep_order(sums("float32")))
    )
    kinds = [
        {loop.name: loop.kind for loop in loops_above(s.tree, fold_of(s.scop))}
        for s in (free, ordered)
    ]
    assert kinds[0]["k"] == "vector" and kinds[1]["k"] == "serial"
    check(ordered.scop, ordered.tree)
