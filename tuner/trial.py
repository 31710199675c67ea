"""What worker processes do for a tuner: price plans, build programs, time them.

Jobs are functions from bytes to bytes (``weft/workers/worker.py`` lists them), so that a trial that
crashes, hangs or eats the memory costs that trial and nothing else.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from weft.codegen.calibrate import rates
from weft.driver.advice import machine_key
from weft.driver.cluster_code import planned_schedule
from weft.driver.loop_front import scop_of
from weft.driver.options import Options
from weft.driver.passes import Passes
from weft.driver.targets import target_for, thread_count
from weft.ir.dtypes import as_dtype
from weft.ir.errors import CompileError, WeftError
from weft.ir.machine import Machine
from weft.ir.plan import Decisions, Value
from weft.ir.scop import Scop
from weft.polyhedral.cost.bound import bound_of
from weft.polyhedral.cost.price import price
from weft.polyhedral.transform.scheduled import Scheduled
from weft.runtime.executable import Executable, load
from weft.runtime.records import Overrides
from weft.tuner.problem import Problem

ALLOCATIONS = 3  # sets of arrays: identical code in other buffers differs by up to 1.11 (tuner.md)
TURN = 0.002  # s of calls that make one sample, where one call takes less
SPREAD = 4096 + 64  # bytes by which sets of arrays are apart within a page


class Task(msgspec.Struct, array_like=True, frozen=True):
    """A ``problem`` as bytes (of a whole graph, none), and the fields of ``Options`` that say for
    what."""

    problem: bytes
    options: dict[str, Any]


class Drafts(msgspec.Struct, array_like=True, frozen=True):
    task: Task
    plans: list[dict[str, Value]]


class Draft(msgspec.Struct, array_like=True, frozen=True):
    """A plan that leads to a schedule: its ``estimate`` in seconds (0: there is none), the
    ``digest`` of the schedule, all its decisions as text, and the ``script`` of it. Or why not."""

    estimate: float = 0.0
    digest: str = ""
    plan: str = ""
    script: str = ""
    refused: str = ""


class Rates(msgspec.Struct, array_like=True, frozen=True):
    """``clock``: cycles a second; ``fma``: vector multiply-adds a cycle."""

    clock: float
    fma: float


class Bound(msgspec.Struct, array_like=True, frozen=True):
    """The bound of a problem at measured ``rates``."""

    task: Task
    rates: Rates


class Build(msgspec.Struct, array_like=True, frozen=True):
    """Compile ``plan`` and write the artifact to ``path``."""

    task: Task
    plan: dict[str, Value]
    path: str


class Rounds(msgspec.Struct, array_like=True, frozen=True):
    """Time the artifacts ``paths`` in turns, for about ``seconds``, with the arrays of the file
    ``arrays`` ('': made up for the problem, from ``seed``)."""

    task: Task
    paths: list[str]
    arrays: str
    seed: int
    seconds: float


class Timed(msgspec.Struct, array_like=True, frozen=True):
    """``seconds`` of each artifact by round, for which of them results are NaN where those of the
    first are not, and the ``machine`` that they were timed on."""

    seconds: list[list[float]]
    spoiled: list[bool]
    machine: str


# ---- drafts --------------------------------------------------------------------------------------


def draft(payload: bytes) -> bytes:
    """A ``Draft`` for each plan of ``Drafts``."""
    asked = msgspec.msgpack.decode(payload, type=Drafts)
    problem, options = read_task(asked.task)
    return msgspec.msgpack.encode([_draft(problem, options, plan) for plan in asked.plans])


def _draft(problem: Problem, options: Options, plan: Overrides) -> Draft:
    machine, threads = target_for(options).machine, thread_count(options)
    decisions = Decisions(plan)
    try:
        scheduled = planned_schedule(scheduled_scop(problem, options), machine, threads, decisions)
        made = decisions.plan()
    except WeftError as error:
        return Draft(refused=f"{error.code}: {error.what}")
    digest = hashlib.sha256(repr((scheduled.scop, scheduled.tree)).encode()).hexdigest()
    script = "\n".join(["s = s", *(f"s = s.{step}" for step in scheduled.steps)])
    return Draft(_estimate(scheduled, options, problem), digest, str(made), script)


def bound(payload: bytes) -> bytes:
    """Seconds that no schedule of the problem of ``Bound`` stays below, 0 where none are known."""
    asked = msgspec.msgpack.decode(payload, type=Bound)
    problem, options = read_task(asked.task)
    record, threads = target_for(options).machine, thread_count(options)
    peaks = replace(record.peaks, frequency=asked.rates.clock, fma=asked.rates.fma)
    found = _bound(problem, options, replace(record, peaks=peaks), threads)
    return msgspec.msgpack.encode(found)


def _bound(problem: Problem, options: Options, machine: Machine, threads: int) -> float:
    try:
        scheduled = planned_schedule(
            scheduled_scop(problem, options), machine, threads, Decisions()
        )
        seconds = bound_of(scheduled, machine, threads, dict(problem.sizes))
    except CompileError:  # data decide how often a loop runs
        return 0.0
    return max(seconds.values(), default=0.0)


@lru_cache(maxsize=8)
def scheduled_scop(problem: Problem, options: Options) -> Scop:
    """The statements that ``problem`` schedules."""
    if not problem.ports:
        return problem.scop
    return scop_of(problem.kernel, Passes(options, problem.name))


def _estimate(scheduled: Scheduled, options: Options, problem: Problem) -> float:
    machine = target_for(options).machine
    try:
        return price(scheduled, machine, thread_count(options), dict(problem.sizes)).seconds
    except CompileError:  # data decide how often a loop runs
        return 0.0


# ---- programs ------------------------------------------------------------------------------------


def build(payload: bytes) -> bytes:
    """Do what a ``Build`` says; the digest of the machine code."""
    asked = msgspec.msgpack.decode(payload, type=Build)
    problem, options = read_task(asked.task)
    made = problem.compiled(options, asked.plan)
    made.save(asked.path, texts=False, certificate=False)
    code = hashlib.sha256()
    for each in made.compiled.objects:
        code.update(each)
    return code.hexdigest().encode()


# ---- times ---------------------------------------------------------------------------------------


def rounds(payload: bytes) -> bytes:
    """The ``Timed`` of ``Rounds``."""
    asked = msgspec.msgpack.decode(payload, type=Rounds)
    options = read_options(asked.task)
    threads = thread_count(options)
    _pin(threads)
    programs = [load(path, threads=threads) for path in asked.paths]
    made = not asked.arrays
    given = _problem(asked.task.problem).arrays(asked.seed) if made else _arrays(asked.arrays)
    sets = [_Set(programs, given, k) for k in range(ALLOCATIONS)]
    spoiled = _spoiled(sets[0])
    taken = _taken(sets, asked.seconds)
    return msgspec.msgpack.encode(Timed(taken, spoiled, machine_key(options)))


def machine(payload: bytes) -> bytes:
    """The ``machine_key`` of this machine for a ``Task``."""
    asked = msgspec.msgpack.decode(payload, type=Task)
    return machine_key(read_options(asked)).encode()


def measured_rates(_: bytes) -> bytes:
    """The ``Rates`` of one processor here, nothing beside it."""
    _pin(1)
    return msgspec.msgpack.encode(Rates(*rates()))


def _pin(threads: int) -> None:
    """This process on so many processors, which its threads inherit."""
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[-threads:])  # the first one serves the machine's own work


class _Set:
    """Arguments in places of their own, the same for all programs, and calls of each with them."""

    def __init__(self, programs: Sequence[Executable], given: Mapping[str, Any], k: int) -> None:
        self.arrays = {name: _placed(np.asarray(a), k) for name, a in given.items()}
        first = programs[0]
        changed = [first.inputs[p.input].name for p in first.compiled.in_place if p.shared]
        self._changed = [(self.arrays[n], np.array(given[n])) for n in changed]
        self.calls: list[Callable[[], Any]] = [p.bind(**self.arrays) for p in programs]

    @property
    def repeats(self) -> bool:
        """Whether a call may follow another without anything between."""
        return not self._changed

    def restore(self) -> None:
        for array, before in self._changed:
            np.copyto(array, before)


def _placed(array: np.ndarray, k: int) -> np.ndarray:
    """A copy of ``array``, the ``k``-th set of arrays at another place within a page."""
    if array.ndim == 0:
        return array
    room = np.empty(array.nbytes + 2 * 4096 + k * SPREAD, np.uint8)
    begin = -room.ctypes.data % 4096 + k * SPREAD % 4096 // 64 * 64
    place = room[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    place[...] = array
    return place


def _spoiled(first: _Set) -> list[bool]:
    """For each program, whether there is NaN where the first one has none."""
    counts = []
    for call in first.calls:
        first.restore()
        with np.errstate(all="ignore"):
            made = call()
        results = made if isinstance(made, tuple) else (made,)
        results = (*results, *(array for array, _ in first._changed))
        counts.append(sum(_nans(r) for r in results if isinstance(r, np.ndarray)))
    return [count > counts[0] for count in counts]


def _nans(array: np.ndarray) -> int:
    return int(np.isnan(array).sum()) if array.dtype.kind in "fc" else 0


def _taken(sets: Sequence[_Set], seconds: float) -> list[list[float]]:
    """Seconds of a call of each program, round by round, another set of arrays in each; every other
    round goes backwards."""
    count = len(sets[0].calls)
    found: list[list[float]] = [[] for _ in range(count)]
    once = _timed(sets[0], 0, 1)
    repeat = min(10_000, max(1, round(TURN / max(once, 1e-7)))) if sets[0].repeats else 1
    end = time.perf_counter() + seconds
    number = 0
    while number < ALLOCATIONS or (time.perf_counter() < end and number < 200):
        current = sets[number % len(sets)]
        for k in range(count) if number % 2 else reversed(range(count)):
            found[k].append(_timed(current, k, repeat))
        number += 1
    return found


def _timed(arrays: _Set, k: int, repeat: int) -> float:
    call = arrays.calls[k]
    arrays.restore()
    if arrays.repeats:
        call()  # brings back what the others drove out of the caches
    begun = time.perf_counter()
    for _ in range(repeat):
        call()
    return (time.perf_counter() - begun) / repeat


# ---- tasks ---------------------------------------------------------------------------------------


def task_of(problem: bytes, options: Options) -> Task:
    """Raises ``CompileError`` (WEFT-E1101) for options that other processes cannot have."""
    functions = [*options.passes, *options.seeds, *options.instructions]
    if not isinstance(options.target, str) or functions:
        raise CompileError(
            "WEFT-E1101",
            "trials run in processes of their own, which have options by name alone",
            hint="a target by its name, and no passes, seeds or instructions in the options",
        )
    names = ("strict", "target", "effort", "winograd", "memory", "online")
    plain = {name: getattr(options, name) for name in names}
    return Task(problem, {**plain, "threads": thread_count(options)})


@lru_cache(maxsize=8)
def _problem(data: bytes) -> Problem:
    return Problem.read(data)


def read_task(task: Task) -> tuple[Problem, Options]:
    """The problem and the options of ``task``, in this process."""
    return _problem(task.problem), read_options(task)


def read_options(task: Task) -> Options:
    """The options of ``task``, and nothing that this process's environment says."""
    own = Options(workers=0, cache=False, texts=False, tuned="off", verify="normal")
    quiet = replace(own, print_after=(), logs=(), dump=None)
    return replace(quiet, **task.options)


Written = dict[str, tuple[str, list[int], bytes]]  # dtype, shape and data by name


def write_arrays(arrays: Mapping[str, np.ndarray]) -> bytes:
    """``arrays`` as the bytes of a file that ``Rounds`` names."""
    found = {n: (as_dtype(a.dtype).name, a.shape, a.tobytes()) for n, a in arrays.items()}
    return msgspec.msgpack.encode(found)


@lru_cache(maxsize=2)
def _arrays(path: str) -> dict[str, np.ndarray]:
    found = msgspec.msgpack.decode(Path(path).read_bytes(), type=Written)
    return {
        name: np.frombuffer(data, as_dtype(dtype).numpy).reshape(shape)
        for name, (dtype, shape, data) in found.items()
    }
