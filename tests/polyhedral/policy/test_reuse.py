"""What of a product's operands stays in caches: steps whole pages apart share their sets."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import read
from weft.polyhedral.machine import Cache, Machine
from weft.polyhedral.policy.reuse import in_few_sets, pages_apart
from weft.polyhedral.schedule_loops import schedule_loops
from weft.polyhedral.schedule_tree import Mark, RegisterTile, walk
from weft.polyhedral.scop import Scop

WIDE = Machine("wide", 64, 32, (Cache(1 << 15), Cache(1 << 20)), misses=20)


def product(width: str, right: str = "B[k, j]", depth: int = 1100) -> Scop:
    text = f"""
    for i in range(8):
        for j in range(96):
            for k in range({depth}):
                C[i, j] += A[i, k] * {right}
    """
    return read(text, A=f"in 8 {depth}", B=f"in {depth} {width}", C="io 8 96")


@pytest.mark.parametrize(
    ("scop", "far"),
    [
        (product("512"), (1,)),  # of eight bytes
        (product("1024"), (1,)),
        (product("513"), ()),  # a step goes on in another set each time
        (product("N"), ()),  # who knows
        (product("1100", "B[j, k]"), ()),  # lanes are apart, steps are not
    ],
)
def test_lanes_whole_pages_apart(scop: Scop, far: tuple[int, ...]) -> None:
    s = scop.statement("S0")
    assert pages_apart(scop, s, "j", ("k",)) == far
    assert in_few_sets(scop, s, "j", ("k",)) == bool(far)
    marks = [n.payload for n in walk(schedule_loops(scop, WIDE).tree) if isinstance(n, Mark)]
    assert {m.ahead for m in marks if isinstance(m, RegisterTile)} == {20 if far else 0}


def test_a_few_steps_have_sets_enough() -> None:
    scop = product("512", depth=200)
    assert not in_few_sets(scop, scop.statement("S0"), "j", ("k",))
