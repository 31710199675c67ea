"""Automatic schedules of random programs, a few of ``python -m tests.properties.fuzz --scheduler``,
and the fuzzer noticing what it is there to notice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.properties import executions, scheduler
from tests.properties.scheduler import Effort, examine
from weft.ir.schedule_tree import Loop
from weft.polyhedral.transform.scheduled import Scheduled, with_loops

EFFORT = Effort(larger=0.2, loop_ir=0.1, native=0.01, poor=0.2)
QUICK = Effort(0, 0, 0, 0)
SEEDS = range(20)


def test_programs() -> None:
    notes: Counter[str] = Counter()
    for seed in range(40):
        outcome = examine(seed, EFFORT)
        assert not outcome.problem, f"seed {seed}: {outcome.problem}"
        notes.update(outcome.notes)
    shapes = ("parallel", "vector", "unrolled", "register tile", "statement in parts", "as written")
    for seen in (*(f"schedule {s}" for s in shapes), "gave up", "run as loop IR"):
        assert notes[seen], notes


def problems() -> Counter[str]:
    found = (examine(seed, QUICK).problem for seed in SEEDS)
    return Counter(text.split(": ")[1] for text in found if text)


def test_a_scheduler_that_makes_every_loop_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    made = scheduler.schedule_loops

    def reckless(*given: object, **named: object) -> Scheduled:
        of: Scheduled = made(*given, **named)  # type: ignore[arg-type]

        def change(loop: Loop) -> Loop:
            return replace(loop, kind="parallel" if loop.kind == "serial" else loop.kind)

        return replace(of, tree=with_loops(of.tree, change))

    monkeypatch.setattr(scheduler, "schedule_loops", reckless)
    assert problems()["illegal"] >= 5


def test_a_scheduler_that_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*given: object, **named: object) -> Scheduled:
        raise KeyError("S0")

    monkeypatch.setattr(scheduler, "schedule_loops", crash)
    assert problems()["crash"] == len(SEEDS)


def test_wrong_results_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    run = executions.run

    def wrong(scop, tree, sizes, inputs):  # type: ignore[no-untyped-def]
        found = run(scop, tree, sizes, inputs)
        return found if tree is None else {name: value + 1 for name, value in found.items()}

    monkeypatch.setattr(executions, "run", wrong)
    assert problems()["wrong result"] >= 10


@pytest.mark.parametrize("seed", [40760, 200115, 200548, 320120])
def test_programs_that_went_wrong_once(seed: int) -> None:
    """Sums that start anew, tiles of one row, strided sums, two planes called after one dim."""
    outcome = examine(seed, QUICK)
    assert not outcome.problem, outcome.problem
