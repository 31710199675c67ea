"""What is worth trying on a schedule: steps of every move, which apply or are refused."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import PROGRAMS, every, same
from tests.weft.scheduled_kernels import matmul, of, smooth
from tests.weft.test_storage_moves import paths, scaled, scratch, shares, sums, through, twice
from weft.driver.schedule_value import TRANSFORMATIONS, Schedule
from weft.ir.errors import BudgetError, IllegalScheduleError
from weft.ir.index_reader import parse_index
from weft.ir.machine import Cache, Machine
from weft.ir.quasi_affine import affine
from weft.polyhedral.transform.space import SPACES, space

MACHINE = Machine("test", 16, 8, (Cache(1024), Cache(8192), Cache(1 << 16)))
STARTS = (
    *(of(name) for name in PROGRAMS),
    *(k.schedule() for k in (smooth, matmul, scaled, scratch, shares, sums, through, twice, paths)),
    matmul.schedule().distribute("i").tile({"i_S1": 4, "j_S1": 8}).reorder(
        ["k", "i_S1_p", "j_S1_p"]),
    twice.schedule().separate("x").privatize(),
    matmul.schedule().cache_read("A", "S1", "i"),
)  # fmt: skip


def test_every_move_has_one() -> None:
    assert {*SPACES} == {*TRANSFORMATIONS}


@pytest.mark.long
@pytest.mark.parametrize("move", SPACES)
def test_each_applies_somewhere_and_nothing_fails(move: str) -> None:
    taken = tried = 0
    for start in STARTS:
        for args, kwargs in list(space(start.scheduled, MACHINE, move))[:60]:
            tried += 1
            try:
                made = getattr(start, move)(*args, **kwargs)
            except (IllegalScheduleError, BudgetError):
                continue
            taken += bool(made.steps[len(start.steps) :])
    assert tried and (taken or move in ("double_buffer", "hoist"))  # of a tile, of constants


def test_what_is_given_is_legal_and_computes_the_same() -> None:
    start = of("stencil")
    found = list(start.space(MACHINE, "fuse"))
    assert found and all(isinstance(s, Schedule) for s in found)
    for s in found:
        same(s.scheduled, *every(s.scheduled.original, (0, 1, 6)))
    with pytest.raises(IllegalScheduleError, match="E0019"):
        list(start.space(MACHINE, "tilt"))


def test_sizes_of_a_nest() -> None:
    """Halved and doubled in tiles and points alike."""
    loops = {"i_t": "(i + 5) // 96", "k": "k", "i_p": "(i + 5) % 96", "j": "j"}
    start = scaled.schedule().nest("S0", loops)
    found = [s.scheduled.loops() for s in start.space(MACHINE, "nest")]
    for loops_, size in zip(found, (48, 192), strict=True):
        values = {loop.name: loop.at["S0"] for loop in loops_}
        wanted = {"i_t": f"(i + 5) // {size}", "i_p": f"(i + 5) % {size}"}
        for name, text in wanted.items():
            assert affine(values[name]) == affine(parse_index(text))
