"""Stubs for tests of the tuner: places where nothing is compiled or timed."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np

import weft
from weft.driver.advice import machine_key
from weft.driver.options import Options
from weft.ir.errors import BudgetError, InternalError
from weft.ir.plan import Decision, Option, Plan
from weft.runtime.records import Records, plan_text
from weft.tuner import trial
from weft.tuner.laboratory import Laboratory, Workshop
from weft.tuner.problem import Problem, problem_of_kernel
from weft.tuner.session import Budget, Outcome, Tuner, tuned
from weft.workers.worker import Job, as_error, perform
from weft.workers.worker_pool import Result

MACHINE = "a machine"
OPTIONS = weft.Options(threads=1, cache=False, workers=0)
FORTY = Budget(None, 40)
SHAPE = (3, 4, 4, 5)  # options of each decision


@weft.kernel
def halve(A: weft.f32[n]):  # noqa: F821
    for i in range(n):  # noqa: F821
        A[i] = 0.5 * A[i]


def problem() -> Problem:
    return problem_of_kernel(halve.lowered, {"A": np.ones(4, np.float32)})


@dataclass
class Inside:
    """All jobs in this process."""

    width: int = 1
    asked: Counter[str] = field(default_factory=Counter)

    def machine(self, options: Options) -> str:
        return machine_key(options)

    def run(
        self, job: str, payloads: Sequence[bytes], timeout: float, *, fresh: bool = False
    ) -> list[Result]:
        self.asked[job] += len(payloads)
        pinned = os.sched_getaffinity(0)
        answers = [perform(Job(job, payload)) for payload in payloads]
        os.sched_setaffinity(0, pinned)
        return [as_error(a.failure) if a.failure else a.payload for a in answers]


@dataclass
class Imagined:
    """Programs by four decisions, whose times are made up; ``faults`` is the share of jobs that end
    in one, of each kind as often. ``interrupt``: the number of a job that Ctrl-C hits."""

    seed: int = 0
    faults: float = 0.0
    width: int = 1
    noise: float = 0.01
    interrupt: int = -1
    injected: Counter[str] = field(default_factory=Counter)
    timed: list[str] = field(default_factory=list)
    jobs: int = 0

    def __post_init__(self) -> None:
        random = np.random.default_rng(7)
        self.factors = [np.exp(0.2 * random.standard_normal(n)) for n in SHAPE]
        self.random = Random(self.seed)

    def machine(self, options: Options) -> str:
        return MACHINE

    def seconds(self, plan: dict[str, Any]) -> float:
        """What a program by ``plan`` takes in truth."""
        found = 1e-3
        for k, factor in enumerate(self.factors):
            found *= float(factor[int(plan.get(f"S0.d{k}", 0))])
        return found

    def run(
        self, job: str, payloads: Sequence[bytes], timeout: float, *, fresh: bool = False
    ) -> list[Result]:
        return [self._result(job, payload) for payload in payloads]

    def _result(self, job: str, payload: bytes) -> Result:
        self.jobs += 1
        if self.jobs == self.interrupt:
            raise KeyboardInterrupt
        kind = ""
        if self.random.random() < self.faults:
            more = {"rounds": ["nan", "lie", "junk"], "draft": ["junk"]}.get(job, [])
            kind = self.random.choice(["crash", "hang", "memory", *more])
            self.injected[kind] += 1
        match kind:
            case "crash":
                return InternalError("WEFT-E0570", "a compiler worker crashed (SIGKILL)")
            case "hang":
                return BudgetError("WEFT-E0571", "a compiler worker was stopped after 9 s")
            case "memory":
                return BudgetError("WEFT-E0572", "out of memory")
            case "junk":
                return self.random.randbytes(self.random.randrange(30))
        return getattr(self, f"_{job}")(payload, kind)

    def _draft(self, payload: bytes, kind: str) -> bytes:
        asked = msgspec.msgpack.decode(payload, type=trial.Drafts)
        return msgspec.msgpack.encode([self._drafted(plan) for plan in asked.plans])

    def _rates(self, payload: bytes, kind: str) -> bytes:
        return msgspec.msgpack.encode(trial.Rates(3e9, 2.0))

    def _bound(self, payload: bytes, kind: str) -> bytes:
        return msgspec.msgpack.encode(1e-5)

    def _drafted(self, plan: dict[str, Any]) -> trial.Draft:
        if not all(name.startswith("S0.d") for name in plan):
            return trial.Draft(refused="WEFT-E0025: there is no such decision")
        decisions = tuple(
            Decision(f"S0.d{k}", tuple(map(Option, map(str, range(n)))), plan.get(f"S0.d{k}", "0"))
            for k, n in enumerate(SHAPE)
        )
        seconds = self.seconds(plan)
        estimate = seconds * np.exp(0.1 * Random(plan_text(plan)).gauss(0, 1))
        return trial.Draft(float(estimate), repr(seconds), str(Plan(decisions)), "s = s")

    def _build(self, payload: bytes, kind: str) -> bytes:
        asked = msgspec.msgpack.decode(payload, type=trial.Build)
        Path(asked.path).write_text(plan_text(asked.plan))
        return hashlib.sha256(repr(self.seconds(asked.plan)).encode()).hexdigest().encode()

    def _rounds(self, payload: bytes, kind: str) -> bytes:
        asked = msgspec.msgpack.decode(payload, type=trial.Rounds)
        texts = [Path(path).read_text() for path in asked.paths]
        self.timed += texts[1:]
        plans = [msgspec.json.decode(text) for text in texts]
        taken = [
            [self.seconds(p) * (1 + self.noise * abs(self.random.gauss(0, 1))) for _ in range(9)]
            for p in plans
        ]
        spoiled = [
            kind == "nan" and k > 0 and self.random.random() < 0.5 for k in range(len(plans))
        ]
        machine = "another machine" if kind == "lie" else MACHINE
        return msgspec.msgpack.encode(trial.Timed(taken, spoiled, machine))


def laboratory(place: Any, folder: Path, seed: int = 0) -> Laboratory:
    """At ``place``, for a small kernel."""
    folder.mkdir(exist_ok=True)
    return Workshop(place, folder).laboratory(problem(), OPTIONS, None, seed)


def session(
    place: Any, records: Records, folder: Path, budget: Budget = FORTY, seed: int = 0
) -> tuple[Outcome, Tuner]:
    """A search at ``place`` from beginning to end."""
    tuner = Tuner(laboratory(place, folder, seed), records)
    tuner.begin()
    return tuned(tuner, budget, seed), tuner
