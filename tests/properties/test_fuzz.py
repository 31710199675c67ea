"""The fuzzer itself: it notices what it is there to notice."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.properties import examine, executions
from tests.properties.examine import Effort
from tests.properties.fuzz import show
from tests.properties.random_schedules import Pair, random_pair
from tests.properties.scheduled_programs import case
from tests.properties.shrinking import smaller
from tests.properties.verdicts import Program
from weft.ir.errors import IllegalScheduleError

QUICK = Effort(0, 0, 0, 0)
SEEDS = range(48)
ROOT = Path(__file__).parents[2]


def problems(effort: Effort = QUICK) -> Counter[str]:
    """The first words of what is found on a few pairs."""
    found = (examine.examine(seed, effort).problem for seed in SEEDS)
    return Counter(text.split()[0].rstrip(",") for text in found if text)


def test_pairs_do_not_change() -> None:
    assert [show(random_pair(seed)) for seed in (3, 99)] == [
        show(random_pair(seed)) for seed in (3, 99)
    ]


def test_a_checker_that_accepts_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "check", lambda scop, tree: None)
    assert problems()["accepted"] > 10


def test_a_checker_that_refuses_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(scop: object, tree: object) -> None:
        why = "S0[i=0] writes A[0] before S0[i=1] reads it, but so it is"
        raise IllegalScheduleError("WEFT-E0420", "no", why=why)

    monkeypatch.setattr(examine, "check", refuse)
    assert problems()["refused"] > 20


def test_bounds_that_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    base = case("promoted")
    of = base.scheduled
    smaller_x = tuple(
        replace(t, shape=(t.shape[0] - 1, *t.shape[1:])) if t.name == "A" else t
        for t in of.scop.tensors
    )
    scop = replace(of.scop, tensors=smaller_x)
    scheduled = replace(of, original=scop, scop=scop)
    pair = Pair(0, base.subject, scheduled, Program(scop, base.subject.affine.sizes))
    assert examine.examine_pair(pair, Random(0), QUICK).kind == "out of bounds"
    monkeypatch.setattr(examine, "check_bounds", lambda scop: None)
    assert "touches" in examine.examine_pair(pair, Random(0), QUICK).problem


def test_code_that_computes_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    made = executions.kernels
    monkeypatch.setattr(executions, "kernels", lambda of: made(of)[:-1])  # one nest is missing
    assert problems(Effort(0, 0, 1, 0))["its"] > 5


def test_crashes_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(scop: object, tree: object) -> None:
        raise KeyError("S7")

    monkeypatch.setattr(examine, "check", crash)
    outcome = examine.examine(3, QUICK)
    assert outcome.kind == "crash" and "KeyError" in outcome.problem


def test_what_fails_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "check", lambda scop, tree: None)

    def problem(pair: object) -> str:
        return examine.examine_pair(pair, Random(0), QUICK).problem  # type: ignore[arg-type]

    seeds = (s for s in SEEDS if "violates" in problem(random_pair(s)))
    pair = next(p for p in map(random_pair, seeds) if len(p.scheduled.scop.statements) > 2)
    small = smaller(pair, problem)
    assert "violates" in problem(small)
    assert len(small.scheduled.scop.statements) < len(pair.scheduled.scop.statements)


def test_the_command() -> None:
    command = [sys.executable, "-m", "tests.properties.fuzz", "--n", "24", "--jobs", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "24 pairs" in done.stdout and "0 contradictions" in done.stdout
