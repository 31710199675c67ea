"""A refused schedule costs the statements that it was refused for, and no others."""

# Loop kernels are read as text, and not run by Python as they stand.
# ruff: noqa: F821, UP037

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

import weft
from weft.ir.errors import BudgetError, IllegalScheduleError, WeftWarning
from weft.ir.scalar_expr import literal
from weft.ir.schedule_tree import Tree
from weft.polyhedral import schedule_loops as scheduler
from weft.polyhedral.policy.planner import Group, Planner
from weft.polyhedral.schedule_loops import STEPS, Limits
from weft.polyhedral.transform.scheduled import with_loops

OPTIONS = weft.Options(cache=False, threads=2)


@weft.kernel
def two(A: weft.i64["N", "M"], B: weft.i64["N", "M"], c: weft.i64["M"]):
    for i in range(N):
        for j in range(M):
            B[i, j] = 2 * A[i, j]
    for j in range(1, M):
        c[j] = c[j - 1] + 3 * c[j]


def backwards(planner: Planner, group: Group) -> Tree | None:
    """A strategy that is wrong about recurrences."""
    if group.above or "S1" not in group.names:
        return None
    tree = planner.as_written(group)
    return with_loops(tree, lambda x: replace(x, at={s: literal(0) - e for s, e in x.at.items()}))


def right(program: weft.Executable) -> None:
    random = np.random.default_rng(0)
    A, B, c = (random.integers(-9, 9, shape) for shape in ((5, 9), (5, 9), 9))
    want = c.copy()
    for j in range(1, 9):
        want[j] = want[j - 1] + 3 * want[j]
    program(A, B, c)
    np.testing.assert_array_equal(B, 2 * A)
    np.testing.assert_array_equal(c, want)


def test_only_what_is_refused_is_given_up() -> None:
    strategies = (("backwards", backwards), *scheduler.STRATEGIES)
    with (
        patch.object(scheduler, "STRATEGIES", strategies),
        pytest.warns(WeftWarning, match=r"written for S1, because WEFT-E0420(.|\n)*S1\[j_2=1\]"),
    ):
        program = two.compile(options=OPTIONS)
    right(program)
    assert program.stats["serial_fallbacks"] == 0
    text = program.explain()
    assert "gave up on better loops and storage than written for S1" in text
    assert "parallel" in text  # S0 has what it had


def test_a_scheduler_that_fails_is_done_without() -> None:
    broken = patch.object(scheduler, "private_results", side_effect=KeyError("S0"))
    with broken, pytest.warns(WeftWarning) as seen:
        program = two.compile(options=OPTIONS)
    right(program)
    told = "\n".join(str(w.message) for w in seen)
    assert "changes of storage" in told and "threads" in told and "serial schedule" in told
    assert program.stats["serial_fallbacks"] == 1


def test_steps() -> None:
    scop = two.scop
    about = IllegalScheduleError("WEFT-E0420", "what", statements=("S1", "copy_of_A"))
    one = Limits().after(about, scop, 2)
    assert one is not None and one.plain == {"S1"} and one.kept(scop) == {"c"}
    again = one.after(about, scop, 2)  # nothing is left to set aside
    assert again is not None and not again.storage and again.kept(scop) == {"A", "B", "c"}
    third = again.after(BudgetError("WEFT-E0400", "too long"), scop, 2)
    assert third is not None and third.one_thread and len(third.given_up) == 3 <= STEPS
    assert third.after(about, scop, 2) is None
    assert again.after(about, scop, 1) is None
