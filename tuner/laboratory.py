"""A laboratory: prices, builds and times plans of one problem, in processes of their own.

Whatever a trial does (crash, hang, refuse, give NaN) becomes an answer that says so.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from weft.driver.options import Options
from weft.driver.targets import thread_count
from weft.ir.errors import WeftError
from weft.runtime.executable import available_threads
from weft.tuner.problem import Problem
from weft.tuner.trial import (
    Build,
    Draft,
    Drafts,
    Overrides,
    Rounds,
    Task,
    Timed,
    task_of,
    write_arrays,
)
from weft.workers.worker_pool import Result, WorkerPool

BATCH = 4  # plans that a worker drafts at once
DRAFT_SECONDS, BUILD_SECONDS = 60.0, 120.0  # after which a trial counts as hung
SLACK = 20.0  # times what rounds are to take, after which they count as hung


@dataclass(frozen=True, slots=True)
class Built:
    """A program that was made by ``plan``: its artifact and the digest of its code; or, without
    them, why there is none."""

    plan: Overrides
    path: str = ""
    digest: str = ""
    refused: str = ""


@dataclass(slots=True)
class Laboratory:
    """For one ``problem`` and ``options``; ``arrays``: a file of those of the call that is timed
    ('': they are made up). A ``Workshop`` makes one."""

    problem: Problem
    options: Options
    folder: Path
    arrays: str
    seed: int
    task: Task
    workers: WorkerPool
    timers: WorkerPool
    _made: dict[str, Built] = field(default_factory=dict)

    # ---- prices -----------------------------------------------------------------------------

    def draft(self, plans: Sequence[Overrides]) -> list[Draft]:
        """What each plan leads to, or why it leads nowhere."""
        chunks = [plans[k : k + BATCH] for k in range(0, len(plans), BATCH)]
        asked = [_packed(Drafts(self.task, [dict(p) for p in chunk])) for chunk in chunks]
        results = self.workers.run("draft", asked, timeout=DRAFT_SECONDS)
        found: list[Draft] = []
        for chunk, result in zip(chunks, results, strict=True):
            if isinstance(result, WeftError):
                alone = chunk if len(chunk) > 1 else ()
                found += [each for plan in alone for each in self.draft([plan])] or [
                    Draft(refused=_why(result))
                ]
            else:
                found += msgspec.msgpack.decode(result, type=list[Draft])
        return found

    # ---- programs ---------------------------------------------------------------------------

    def build(self, plans: Sequence[Overrides]) -> list[Built]:
        """A program for each plan, compiled and proved; what was built before is not again."""
        keys = [_packed(sorted(plan.items())).hex() for plan in plans]
        fresh = {k: p for k, p in zip(keys, plans, strict=True) if k not in self._made}
        paths = [str(self.folder / f"{len(self._made) + n}.weft") for n in range(len(fresh))]
        jobs = [
            _packed(Build(self.task, dict(plan), path))
            for plan, path in zip(fresh.values(), paths, strict=True)
        ]
        results = self.workers.run("build", jobs, timeout=BUILD_SECONDS)
        for (key, plan), path, result in zip(fresh.items(), paths, results, strict=True):
            self._made[key] = (
                Built(plan, refused=_why(result))
                if isinstance(result, WeftError)
                else Built(plan, path, result.decode())
            )
        return [self._made[key] for key in keys]

    # ---- times ------------------------------------------------------------------------------

    def rounds(self, built: Sequence[Built], seconds: float) -> list[Times]:
        """Of each program, round by round, the first one's among them."""
        return self._timer.rounds(built, seconds, self.timers)

    def rounds_elsewhere(self, built: Sequence[Built], seconds: float) -> list[Times]:
        """``rounds`` in a process that has not run before."""
        return self._timer.rounds_elsewhere(built, seconds)

    @property
    def _timer(self) -> Timer:
        data = self.task.problem
        return Timer(data, self.arrays, self.seed, thread_count(self.options))


Times = list[float] | str
"""Seconds of a call, round by round; or why there are none."""


@dataclass(frozen=True, slots=True)
class Timer:
    """Times programs of one call: with the arrays of a file, or made up for a problem."""

    problem: bytes
    arrays: str
    seed: int
    threads: int

    def rounds_elsewhere(self, built: Sequence[Built], seconds: float) -> list[Times]:
        """``rounds`` in a process that has not run before."""
        with WorkerPool(1) as once:
            return self.rounds(built, seconds, once)

    def rounds(self, built: Sequence[Built], seconds: float, pool: WorkerPool) -> list[Times]:
        """Of each program, round by round; where one of them breaks down, each beside the first."""
        paths = [b.path for b in built]
        asked = Rounds(self.problem, paths, self.arrays, self.seed, seconds, self.threads)
        (result,) = pool.run("rounds", [_packed(asked)], timeout=SLACK * (seconds + 3))
        if not isinstance(result, WeftError):
            timed = msgspec.msgpack.decode(result, type=Timed)
            return [
                "NaN where there was none" if spoiled else times
                for times, spoiled in zip(timed.seconds, timed.spoiled, strict=True)
            ]
        if len(built) <= 2:
            return [_why(result)] * len(built)
        share = seconds / (len(built) - 1)
        pairs = [self.rounds([built[0], other], share, pool) for other in built[1:]]
        first = next((pair[0] for pair in pairs if not isinstance(pair[0], str)), pairs[0][0])
        return [first, *(pair[1] for pair in pairs)]


@dataclass(frozen=True, slots=True)
class Workshop:
    """What laboratories share: processes that draft and build, one that times, and a folder."""

    workers: WorkerPool
    timers: WorkerPool
    folder: Path

    def laboratory(
        self,
        problem: Problem,
        options: Options,
        arrays: Mapping[str, np.ndarray] | None = None,
        seed: int = 0,
    ) -> Laboratory:
        """For ``problem``, timed with ``arrays`` by name (None: made up). Raises ``CompileError``
        (WEFT-E1101) for options that other processes cannot have."""
        task = task_of(problem, options)
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        path = ""
        if arrays is not None:
            path = str(folder / "arrays")
            Path(path).write_bytes(write_arrays(arrays))
        return Laboratory(problem, options, folder, path, seed, task, self.workers, self.timers)


@contextmanager
def workshop(options: Options) -> Iterator[Workshop]:
    """A workshop; its processes and files are gone at the end."""
    processors = available_threads() if options.workers is None else options.workers
    with (
        tempfile.TemporaryDirectory(prefix="weft-tune-") as folder,
        WorkerPool(processors) as workers,
        WorkerPool(1) as timers,
    ):
        yield Workshop(workers, timers, Path(folder))


def _packed(message: object) -> bytes:
    return msgspec.msgpack.encode(message)


def _why(error: Result) -> str:
    assert isinstance(error, WeftError)
    return f"{error.code}: {error.what}"
