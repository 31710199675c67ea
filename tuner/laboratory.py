"""A laboratory: prices, builds and times plans of one problem, in processes of a ``Place``.

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
from weft.ir.errors import WeftError
from weft.runtime.records import Overrides, plan_text
from weft.tuner.problem import Problem
from weft.tuner.trial import (
    Bound,
    Build,
    Draft,
    Drafts,
    Rates,
    Rounds,
    Task,
    Timed,
    task_of,
    write_arrays,
)
from weft.tuner.workplace import RATES, TIMES, Place
from weft.workers.worker_pool import Result

BATCH = 4  # plans that a worker drafts at once
DRAFT_SECONDS, BUILD_SECONDS = 60.0, 120.0  # after which a trial counts as hung
NONSENSE = "an answer without sense"  # of a place that may be far away
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
    """For one ``problem`` and ``options``; ``timer`` times its programs. A ``Workshop`` makes
    one."""

    problem: Problem
    options: Options
    folder: Path
    timer: Timer
    _made: dict[str, Built] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        return self.timer.place

    # ---- prices -----------------------------------------------------------------------------

    def draft(self, plans: Sequence[Overrides]) -> list[Draft]:
        """What each plan leads to, or why it leads nowhere."""
        chunks = [plans[k : k + BATCH] for k in range(0, len(plans), BATCH)]
        asked = [_packed(Drafts(self.timer.task, [dict(p) for p in chunk])) for chunk in chunks]
        results = self.place.run("draft", asked, DRAFT_SECONDS)
        found: list[Draft] = []
        for chunk, result in zip(chunks, results, strict=True):
            made = _drafts(result, len(chunk))
            if isinstance(made, str) and len(chunk) > 1:
                made = [each for plan in chunk for each in self.draft([plan])]
            found += [Draft(refused=made)] if isinstance(made, str) else made
        return found

    def bound(self) -> float:
        """Seconds that no schedule stays below, at the rates that are measured now; 0 where none
        are known."""
        try:
            rates = msgspec.msgpack.decode(self._one(RATES, b""), type=Rates)
            asked = _packed(Bound(self.timer.task, rates))
            return msgspec.msgpack.decode(self._one("bound", asked), type=float)
        except (WeftError, msgspec.MsgspecError):
            return 0.0

    def _one(self, job: str, payload: bytes) -> bytes:
        (result,) = self.place.run(job, [payload], DRAFT_SECONDS)
        if isinstance(result, WeftError):
            raise result
        return result

    # ---- programs ---------------------------------------------------------------------------

    def build(self, plans: Sequence[Overrides]) -> list[Built]:
        """A program for each plan, compiled and proved; what was built before is not again."""
        keys = [plan_text(plan) for plan in plans]
        fresh = {k: p for k, p in zip(keys, plans, strict=True) if k not in self._made}
        paths = [str(self.folder / f"{len(self._made) + n}.weft") for n in range(len(fresh))]
        jobs = [
            _packed(Build(self.timer.task, dict(plan), path))
            for plan, path in zip(fresh.values(), paths, strict=True)
        ]
        results = self.place.run("build", jobs, BUILD_SECONDS)
        refused: dict[str, Built] = {}
        for (key, plan), path, result in zip(fresh.items(), paths, results, strict=True):
            if isinstance(result, WeftError):
                refused[key] = Built(plan, refused=_why(result))
            elif not result.isascii():
                refused[key] = Built(plan, refused=NONSENSE)
            else:
                self._made[key] = Built(plan, path, result.decode())
        return [self._made.get(key) or refused[key] for key in keys]


Pair = tuple[list[float], list[float]] | str
"""Seconds of a call of one program and of another, round by round; or why there are none."""


@dataclass(frozen=True, slots=True)
class Timer:
    """Times programs of one call, those of a ``task``, on the ``machine`` of a ``place``: with
    ``arrays``, a file, or made-up ones ('')."""

    place: Place
    task: Task
    machine: str
    arrays: str
    seed: int

    def beside(self, base: Built, others: Sequence[Built], seconds: float) -> list[Pair]:
        """``base`` and each of ``others``, in rounds of all of them that take so long."""
        width = min(self.place.width, len(others))
        groups = [range(first, len(others), width) for first in range(width)]
        each = seconds / (len(others) + 1)
        return [pair for (pair,) in self._timed(base, others, groups, each)]

    def confirm(
        self, base: Built, others: Sequence[Built], seconds: float, processes: int
    ) -> list[list[Pair]]:
        """``beside`` in so many processes that have not run before: for each of ``others``."""
        groups = [range(len(others))] * processes
        return self._timed(base, others, groups, seconds / (len(others) + 1), fresh=True)

    def _timed(
        self,
        base: Built,
        others: Sequence[Built],
        groups: Sequence[Sequence[int]],
        each: float,
        *,
        fresh: bool = False,
    ) -> list[list[Pair]]:
        """For each of ``others``, from the groups that have its number. Where a group breaks down,
        each of it is timed alone beside ``base``."""
        found: list[list[Pair]] = [[] for _ in others]
        alone: list[Sequence[int]] = []
        asked = [[base, *(others[k] for k in group)] for group in groups]
        for group, result in zip(groups, self._run(asked, each, fresh), strict=True):
            if isinstance(result, WeftError) and len(group) > 1:
                alone += [[k] for k in group]
                continue
            pairs = [_why(result)] if isinstance(result, WeftError) else self._pairs(result, group)
            for k, pair in zip(group, pairs, strict=True):
                found[k].append(pair)
        if alone:
            more = self._timed(base, others, alone, each, fresh=fresh)
            found = [one + other for one, other in zip(found, more, strict=True)]
        return found

    def _run(self, groups: Sequence[Sequence[Built]], each: float, fresh: bool) -> list[Result]:
        jobs = []
        for group in groups:
            paths = [b.path for b in group]
            jobs.append(
                _packed(Rounds(self.task, paths, self.arrays, self.seed, each * len(paths)))
            )
        longest = each * max([0, *map(len, groups)])
        return self.place.run(TIMES, jobs, SLACK * (longest + 3), fresh=fresh)

    def _pairs(self, answer: bytes, group: Sequence[int]) -> list[Pair]:
        """What a place answers, which may be far away and say anything."""
        try:
            timed = msgspec.msgpack.decode(answer, type=Timed)
            if timed.machine != self.machine:
                return [f"timed on {timed.machine}, not on {self.machine}"] * len(group)
            first, *rest = _seconds(timed, len(group) + 1)
        except (msgspec.MsgspecError, ValueError):
            return [NONSENSE] * len(group)
        return [
            "NaN where there was none" if spoiled else (first, times)
            for times, spoiled in zip(rest, timed.spoiled[1:], strict=True)
        ]


def _drafts(answer: Result, count: int) -> list[Draft] | str:
    """So many drafts, or why there are none."""
    if isinstance(answer, WeftError):
        return _why(answer)
    try:
        made = msgspec.msgpack.decode(answer, type=list[Draft])
    except msgspec.MsgspecError:
        return NONSENSE
    return made if len(made) == count else NONSENSE


def _seconds(timed: Timed, count: int) -> list[list[float]]:
    """Those of so many programs. Raises ``ValueError`` for what no clock says."""
    array = np.asarray(timed.seconds)
    if array.shape[:1] != (count,) or len(timed.spoiled) != count or not array.size:
        raise ValueError("other programs")
    if array.ndim != 2 or not np.all(np.isfinite(array) & (array > 0)):
        raise ValueError("times are positive")
    return timed.seconds


@dataclass(frozen=True, slots=True)
class Workshop:
    """Makes laboratories at a ``place``, with a folder for what they build."""

    place: Place
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
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        timer = self.timer(problem.data, options, arrays, seed)
        return Laboratory(problem, options, folder, timer)

    def timer(
        self,
        problem: bytes,
        options: Options,
        arrays: Mapping[str, np.ndarray] | None,
        seed: int,
    ) -> Timer:
        """Of programs of ``problem``. Raises as ``laboratory``."""
        task = task_of(problem, options)
        path = ""
        if arrays is not None:
            path = str(Path(tempfile.mkdtemp(dir=self.folder)) / "arrays")
            Path(path).write_bytes(write_arrays(arrays))
        return Timer(self.place, task, self.place.machine(options), path, seed)


@contextmanager
def workshop(place: Place) -> Iterator[Workshop]:
    """A workshop at ``place``; its files are gone at the end."""
    with tempfile.TemporaryDirectory(prefix="weft-tune-") as folder:
        yield Workshop(place, Path(folder))


def _packed(message: object) -> bytes:
    return msgspec.msgpack.encode(message)


def _why(error: WeftError) -> str:
    return f"{error.code}: {error.what}"
