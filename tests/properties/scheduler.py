"""The automatic scheduler on random affine programs: it always has an answer, and a right one.

For each program, machine and number of threads: a schedule comes out within its budget, the
checkers accept it, and its instances, loop IR and code compute what the program does. Besides the
processor itself, programs are scheduled for a machine of tiny caches and few registers and with
tiny tiles, so that small sizes have full tiles, partial ones and edges.
"""

from __future__ import annotations

import contextlib
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from types import ModuleType

from tests.properties import executions
from tests.properties.examine import Outcome
from tests.properties.generators import NoPair
from tests.properties.random_affine import Affine, inputs_of
from tests.properties.random_schedules import Subject, subject_of
from weft.codegen.machines.host import host_machine
from weft.ir.errors import BudgetError, CompileError, InternalError, WeftWarning
from weft.ir.machine import Cache, Machine
from weft.ir.schedule_tree import Mark, RegisterTile, walk
from weft.polyhedral.policy import (
    cache_tiles,
    matrix,
    planner,
    share,
    stencil,
    time_costs,
)
from weft.polyhedral.proof.legality import check, check_bounds
from weft.polyhedral.proof.validation import validate
from weft.polyhedral.register_tile import check_closed_form
from weft.polyhedral.schedule_loops import Limits, schedule_loops
from weft.polyhedral.transform.scheduled import Scheduled

TINY = Machine("tiny", 16, 8, (Cache(512), Cache(4096), Cache(32768)))
TINY_SIZES: Constants = (
    (matrix, {"PANEL": 3, "MANY": 9}),
    (cache_tiles, {"SELDOM": 2, "HIDDEN": 4, "SUMS": 0.06, "IN_PLACE": 0.06}),
    (time_costs, {"FEW_STEPS": 2, "MAX_STEPS": 3}),
    (stencil, {"TYPICAL_ELEMENTS": 256, "ROWS": 3}),
    (share, {"LONG_STRIP": 4, "PAGES": 0}),
)  # tile sizes of the strategies, made small
LARGER = (7, 12, 13)  # sizes of programs whose parameters are not limited


@dataclass(frozen=True, slots=True)
class Effort:
    """What share of the schedules goes through what is slow."""

    larger: float = 0.3  # sizes larger than those that are enumerated
    loop_ir: float = 0.2
    native: float = 0.02
    poor: float = 0.1  # schedules with a budget that does not suffice
    limited: float = 0.2  # schedules that have to do without something


def examine(
    seed: int, effort: Effort | None = None, subject: Callable[[int], Subject] = subject_of
) -> Outcome:
    """Program ``seed`` of those that ``subject`` makes, under the schedules that Weft chooses."""
    effort = effort or Effort()
    try:
        affine = subject(seed).affine
    except NoPair as error:
        return Outcome(str(error))
    r = Random(f"scheduler {seed}")
    notes: Counter[str] = Counter({f"family {affine.family}": 1})
    for tiny, threads in product((True, False), (1, 2)):
        poor = tiny and r.random() < effort.poor
        try:
            with constants(TINY_SIZES if tiny else ()), constants(_budget(r) if poor else ()):
                limits = _limits(affine, r) if r.random() < effort.limited else Limits()
                made = _made(affine, tiny, threads, limits)
            problem = _wrong(affine, made, poor, r, effort, notes)
        except executions.Stopped:
            return Outcome("stopped by a check of data", "", notes)
        except Refused as refused:
            problem = str(refused)
        except Exception as crash:
            problem = f"crash: {described(crash)}"
        if problem:
            where = f"{'tiny' if tiny else 'host'} machine, threads={threads}"
            return Outcome(problem.split(":")[0], f"{affine.family}, {where}: {problem}", notes)
    return Outcome("scheduled", "", notes)


def described(error: Exception) -> str:
    """``error`` and where it was raised."""
    places = traceback.extract_tb(error.__traceback__)[-2:]
    named = ", ".join(f"{Path(p.filename).name}:{p.lineno}" for p in reversed(places))
    return f"{type(error).__name__} at {named}: {error}"


class Refused(Exception):
    """No schedule came out."""


def _limits(affine: Affine, r: Random) -> Limits:
    """What is left after a refusal, of some statements or of all storage."""
    names = [s.name for s in affine.scop.statements]
    plain = frozenset(r.sample(names, r.randint(0, len(names))))
    return Limits(plain, storage=r.random() < 0.7)


def _made(affine: Affine, tiny: bool, threads: int, limits: Limits) -> Scheduled:
    machine = TINY if tiny else host_machine()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeftWarning)
        try:
            return schedule_loops(affine.scop, machine, threads=threads, limits=limits)
        except (CompileError, BudgetError) as error:
            raise Refused(f"no schedule: {error}") from error


def _wrong(
    affine: Affine, made: Scheduled, poor: bool, r: Random, effort: Effort, notes: Counter[str]
) -> str:
    """What is wrong with one schedule, or ''."""
    notes.update(f"schedule {kind}" for kind in _shape(made))
    gave_up = any(note.startswith("gave up") for note in made.notes)
    notes["gave up"] += gave_up
    if gave_up and not poor:
        return f"over budget: {made.notes}"
    try:
        check_bounds(made.scop)
        check(made.scop, made.tree)
        check_closed_form(made.scop, made.tree)
        validate(affine.scop, made.scop, made.tree)
    except BudgetError as error:
        return f"over budget: {error}"
    except InternalError:
        raise
    except CompileError as error:
        return f"illegal: {error}"
    return _wrong_result(affine, made, r, effort, notes)


def _shape(made: Scheduled) -> Iterator[str]:
    """What is in a schedule, for the histogram."""
    nodes = list(walk(made.tree))
    kinds = {loop.kind for node in nodes for loop in getattr(node, "loops", ())}
    yield from sorted(kinds)
    if any(isinstance(node, Mark) and isinstance(node.payload, RegisterTile) for node in nodes):
        yield "register tile"
    if any(note.startswith("no register tile") for note in made.notes):
        yield "register tile that cannot stand"
    if any(note.startswith("as written") for note in made.notes):
        yield "as written"
    if len(made.scop.statements) > len(made.original.statements):
        yield "statement in parts"


def _wrong_result(
    affine: Affine, made: Scheduled, r: Random, effort: Effort, notes: Counter[str]
) -> str:
    sizes = [r.choice(affine.sizes)]
    if not affine.closed and affine.scop.parameters and r.random() < effort.larger:
        sizes.append({name: r.choice(LARGER) for name in affine.scop.parameters})
    runs = [partial(executions.run, made.scop, made.tree)]
    if r.random() < effort.loop_ir:
        notes["run as loop IR"] += 1
        runs.append(partial(executions.run_loop_ir, executions.kernels(made), made.scop))
    if r.random() < effort.native and executions.is_whole(made.original):
        notes["run as native code"] += 1
        program = executions.compiled(made)
        at_end = r.random() < 0.5
        runs.append(lambda s, i: executions.run_native(program, made.scop, s, i, at_end))
    for values in sizes:
        inputs = inputs_of(affine.scop, values)
        expected = executions.run_original(affine.scop, values, inputs)
        for number, run in enumerate(runs):
            text = executions.difference(run(values, inputs), expected)
            if text:
                how = ("its instances", "its loop IR or code", "its code")[number]
                return f"wrong result: {how} at {values}: {text}"
    return ""


Constants = tuple[tuple[ModuleType, Mapping[str, object]], ...]


def _budget(r: Random) -> Constants:
    return ((planner, {"STEPS": r.choice((0, 50, 300, 1000))}),)


@contextlib.contextmanager
def constants(chosen: Constants) -> Iterator[None]:
    """Modules with other constants."""
    known = [(m, n, v) for m, names in chosen for n, v in names.items()]
    old = [(m, n, getattr(m, n)) for m, n, _ in known]
    try:
        for module, name, value in known:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in old:
            setattr(module, name, value)
