"""How loops run: permission comes from dependences."""

from __future__ import annotations

import re

import pytest

from tests.polyhedral.transform.harness import matmul, promise, refusal
from tests.polyhedral.transform.test_tile import skewed
from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_printer import print_schedule
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.set_kinds import set_kinds


def test_golden() -> None:
    now = set_kinds(initial(matmul(relu=False)), {"i_2": "parallel", "j_2": "vector"})
    assert print_schedule(now.tree) == (
        "sequence\n"
        "  for i = i\n"
        "    for j = j\n"
        "      C_add_init\n"
        "  for i_2 = i    parallel\n"
        "    for j_2 = j    vector\n"
        "      for r = r\n"
        "        C_add\n"
    )
    promise(matmul(relu=False), now)


def test_other_loops_keep_theirs() -> None:
    now = set_kinds(set_kinds(initial(matmul()), {"i": "parallel"}), {"j": "vector"})
    assert [loop.kind for loop in now.loops()][:2] == ["parallel", "vector"]


def test_a_reduction_may_be_vectorised_but_not_parallel() -> None:
    of = matmul(relu=False)
    promise(of, set_kinds(initial(of), {"r": "vector"}))
    text = refusal(of, set_kinds(initial(of), {"r": "parallel"}))
    assert "WEFT-E0421" in text
    assert re.search(
        r"C_add\[i=(.), j=(.), r=.\] writes C\[\1, \2\] before C_add\[i=\1, j=\2", text
    )


def test_a_recurrence_may_be_neither() -> None:
    of = skewed()
    outer = initial(of).loops()[0].name
    for kind, code in (("parallel", "WEFT-E0421"), ("vector", "WEFT-E0422")):
        text = refusal(of, set_kinds(initial(of), {outer: kind}))  # type: ignore[dict-item]
        assert code in text and f"{kind} loop {outer} may run both at the same time" in text


def test_errors() -> None:
    with pytest.raises(IllegalScheduleError, match=r"E0450.*'x'"):
        set_kinds(initial(matmul()), {"x": "parallel"})
