"""Sinking loops to just around each statement."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.harness import (
    AWKWARD,
    legal,
    matmul,
    promise,
    random_scops,
    refusal,
    stencil,
)
from tests.polyhedral.transform.test_share import fused
from tests.polyhedral.transform.test_tile import skewed
from weft.ir import build as w
from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_printer import print_schedule
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.sink import sink
from weft.polyhedral.transform.tile import tile


def test_golden() -> None:
    """Point loops of a register tile, inside the reduction."""
    now = sink(tile(fused(matmul(), 2), {"s0": 2, "s1": 4}), ["s0_p", "s1_p"])
    assert print_schedule(now.tree) == (
        "for s0_t = i // 2\n"
        "  for s1_t = j // 4\n"
        "    sequence\n"
        "      for s0_p_C_add_init = i - 2*(i // 2)\n"
        "        for s1_p_C_add_init = j - 4*(j // 4)\n"
        "          C_add_init\n"
        "      for r = r\n"
        "        for s0_p_C_add = i - 2*(i // 2)\n"
        "          for s1_p_C_add = j - 4*(j // 4)\n"
        "            C_add\n"
        "      for s0_p_D = i - 2*(i // 2)\n"
        "        for s1_p_D = j - 4*(j // 4)\n"
        "          D\n"
    )


def test_a_loop_of_one_statement_keeps_its_name() -> None:
    now = sink(initial(matmul(relu=False)), ["i_2"])
    assert [loop.name for loop in now.loops()] == ["i", "j", "j_2", "r", "i_2"]


@pytest.mark.parametrize("n", AWKWARD)
def test_sizes(n: int) -> None:
    of = matmul(n, 5, 2)
    promise(of, sink(tile(fused(of, 2), {"s0": 2, "s1": 4}), ["s0_p", "s1_p"]))


def test_symbolic_sizes() -> None:
    of = matmul(w.var("m"), w.var("n"), w.var("h"))
    now = sink(tile(fused(of, 2), {"s0": 4, "s1": 2}), ["s0_p", "s1_p"])
    promise(of, now, {"m": 0, "n": 1, "h": 2}, {"m": 5, "n": 3, "h": 0}, {"m": 4, "n": 7, "h": 1})


def test_a_shared_loop_that_keeps_two_statements_apart_must_not_go() -> None:
    """T and Y in step, then each on its own: reading ahead stays wrong, in either form."""
    text = refusal(stencil(), sink(tile(fused(stencil()), {"s0": 4}), ["s0_p"]))
    assert "WEFT-E0420" in text and "T[i=4] writes T[4] before Y[i=" in text


def test_random_loops() -> None:
    accepted = 0
    for of, sizes in random_scops(10, seed=200):
        now = sink(initial(of), [loop.name for loop in initial(of).loops()[:2]])
        if legal(now):
            accepted += 1
            promise(of, now, sizes)
    assert accepted > 5


def test_past_a_dependence_is_refused() -> None:
    """A[t - 1, i + 1] must be there before A[t, i]: t cannot go inside i."""
    outer = initial(skewed()).loops()[0].name
    assert "WEFT-E0420" in refusal(skewed(), sink(initial(skewed()), [outer]))


def test_errors() -> None:
    with pytest.raises(IllegalScheduleError, match=r"E0450.*'x'"):
        sink(initial(matmul()), ["x"])
