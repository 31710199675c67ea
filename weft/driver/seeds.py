"""Seeds: schedules that users write for programs of a kind, taken where they cost least.

    Options(seeds=(row_panels, "another"))     functions, or names of registered ones

A seed is a function of a program's schedule in the order of the source, of the machine's record,
and of ``choose``: it gives another schedule, made by moves, or None where it has nothing to say.
What it leaves open it asks ``choose(name, options, default)`` for, which a plan may answer. Each
step is proved when it is taken. Of Weft's own schedule and those of all seeds, the one with the
least estimate is taken (``polyhedral/cost``), unless a plan says another one. A seed that fails, or
takes longer than ``Options.job_seconds``, is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import getfile, isfunction, unwrap

from weft.driver.deadline import TooLong, within
from weft.driver.passes import Passes
from weft.driver.schedule_value import Schedule, Subject
from weft.driver.targets import thread_count
from weft.ir.errors import (
    BudgetError,
    CompileError,
    IllegalScheduleError,
    PlanError,
    did_you_mean,
    line_of,
    short,
)
from weft.ir.machine import Machine
from weft.ir.plan import Choose, Option, Value
from weft.ir.registry import Place, Registry
from weft.ir.scop import Scop
from weft.polyhedral.cost.text import told
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled, fresh

Seed = Callable[[Schedule, Machine, Choose], Schedule | None]
AUTOMATIC = "automatic"
LEAST = (
    "its estimate is the least, which may be up to four times off as a time: time both, by plans"
)


class SeedError(CompileError):
    """A seed of the options is none: the user's to mend, and nothing to do without."""


def register_seed(name: str, found: object, place: Place, replace: bool = False) -> None:
    """Raises ``CompileError``: WEFT-E0005 for a name that is taken, E0006 for what is no
    function."""
    if not callable(found):
        raise CompileError(
            "WEFT-E0006",
            f"seed {name} is a {type(found).__name__}, not a function of a schedule",
            where=place.text,
        )
    SEEDS.add(name, found, place, replace)


SEEDS: Registry[str, Seed] = Registry("seed", "weft.seeds", register_seed)


def cheapest(own: Callable[[], Scheduled], machine: Machine, passes: Passes) -> Scheduled:
    """``own()``, the scheduler's, or what a seed of the options makes of the program for less. Of
    the decisions, those stay that the chosen one has asked for.

    Raises ``SeedError``: WEFT-E0008 for a name that no seed has, E0341 for a seed that fails, takes
    too long, or gives a schedule of another program; ``PlanError`` (WEFT-E0028) where the plan is
    for a seed that does not apply.
    """
    decisions = passes.decisions
    before = decisions.mark()
    first = own()
    scop, found = first.original, {AUTOMATIC: first}
    asked, refused = {AUTOMATIC: decisions.since(before)}, dict[str, str]()
    taken = {AUTOMATIC}
    for given in passes.options.seeds:
        name, seed = _named(given)
        name = fresh(name, taken)  # functions may be called alike
        before = decisions.mark()
        choose = partial(_choose, passes, name, dict[str, str]())
        try:
            made = _grown(name, seed, scop, machine, choose, passes.options.job_seconds)
        except (IllegalScheduleError, BudgetError) as error:
            made, refused[name] = None, error.reason
        asked[name] = decisions.since(before)
        if made is not None:
            found[name] = replace(made, notes=(f"seed {name}",))
        else:
            refused.setdefault(name, f"it gives no schedule of {scop.name}")
    chosen = _chosen(scop, found, refused, machine, passes)
    _forget_others(scop, chosen, asked, refused, passes)
    notes = (f"seed {name}: {why}" for name, why in refused.items())
    return replace(found[chosen], notes=(*found[chosen].notes, *notes))


def _chosen(
    scop: Scop,
    found: Mapping[str, Scheduled],
    refused: Mapping[str, str],
    machine: Machine,
    passes: Passes,
) -> str:
    """The one of least estimate, or of the plan. Raises ``PlanError`` (WEFT-E0028) where that one
    is ``refused``."""
    name, decisions = f"{scop.name}.seed", passes.decisions
    planned = decisions.planned(name)
    if planned in refused:
        raise PlanError(
            "WEFT-E0028",
            f"the seed {planned!r} does not apply to {scop.name}",
            where=name,
            why=refused[str(planned)],
            hint=f"options: {', '.join(found)}",
        )
    if len(found) == 1 and planned is None:
        return AUTOMATIC
    threads = thread_count(passes.options)
    known = {name: told(each, machine, threads=threads) for name, each in found.items()}
    options = [Option(n, seconds=k.price.seconds if k.price else None) for n, k in known.items()]
    unpriced = [str(option.value) for option in options if not option.priced]
    best, why = AUTOMATIC, f"{', '.join(unpriced)} has no estimate to compare"
    if not unpriced:
        best, why = str(min(options, key=lambda option: option.seconds or 0.0).value), LEAST
    shared = f"{threads} threads" if threads > 1 else ""
    at = " on ".join(filter(None, (known[best].at, shared)))
    return str(decisions.choose(name, options, best, at=at, why="" if planned else why))


def _forget_others(
    scop: Scop,
    chosen: str,
    asked: Mapping[str, tuple[str, ...]],
    refused: Mapping[str, str],
    passes: Passes,
) -> None:
    """Of what is ``asked`` by name of a seed, that by the ``chosen`` one is left to decide."""
    own = ", ".join(asked[chosen]) or "nothing"
    for name, names in asked.items():
        why = f"{name} asks for it, and {scop.name}.seed is {chosen}, which asks for {own}"
        if name in refused:
            why = f"seed {name} asks for it, and does not apply: {refused[name]}"
        if name != chosen:
            passes.decisions.forget(names, why)


def _named(given: Seed | str) -> tuple[str, Seed]:
    seed = SEEDS.find(given) if isinstance(given, str) else given
    if seed is None:
        raise SeedError(
            "WEFT-E0008",
            f"there is no seed {given!r}",
            hint=did_you_mean(str(given), SEEDS.names())
            + "@weft.seed registers one: docs/extending.md",
        )
    return (given if isinstance(given, str) else getattr(given, "__name__", "seed")), seed


def _choose(
    passes: Passes,
    seed: str,
    asked: dict[str, str],
    name: str,
    options: Sequence[Value | Option],
    default: Value,
) -> Value:
    """What ``seed`` is told, which has ``asked`` for these names so far. Raises ``SeedError``
    (WEFT-E0341) for a default that is no option, a value that no plan may have, and a name that
    stands for another question already."""
    decisions, whole = passes.decisions, f"{seed}.{name}"
    values = [o.value if isinstance(o, Option) else o for o in options]
    among = ", ".join(map(short, values)) or "there are none"
    if not any(type(v) is type(default) and v == default for v in values):
        raise _failed(seed, f"{name}: the default {short(default)} is none of its options: {among}")
    if not all(isinstance(v, str | int) for v in values):
        raise _failed(seed, f"{name}: options are texts, integers and booleans, not {among}")
    if name not in asked and decisions.made(whole):
        raise _failed(seed, f"{whole} is a decision of Weft's: register the seed by another name")
    question = f"{default!r} of {', '.join(map(repr, values))}"
    if asked.setdefault(name, question) != question:
        raise _failed(seed, f"{name} is asked for twice: {asked[name]}, and now {question}")
    return decisions.choose(whole, options, default, seed=seed)


def _grown(
    name: str,
    seed: Seed,
    scop: Scop,
    machine: Machine,
    choose: Callable[..., object],
    seconds: float,
) -> Scheduled | None:
    """What ``seed`` makes of ``scop`` in so many ``seconds`` at most, None where it has nothing to
    say."""

    def nothing(*_: object) -> Scheduled:
        raise _failed(name, "a seed's schedule has no automatic() and no compile()")

    subject = Subject(f"weft.schedule({scop.name})", nothing, nothing)
    start = Schedule(initial(scop, machine.extensions), subject)
    try:
        made = within(seconds, lambda: seed(start, machine, choose))  # type: ignore[arg-type]
    except (IllegalScheduleError, BudgetError, PlanError, SeedError):
        raise
    except TooLong as error:
        raise _failed(name, f"it takes more than {seconds:g} s, Options.job_seconds") from error
    except (Exception, SystemExit) as error:
        where = line_of(error, getfile(unwrap(seed))) if isfunction(seed) else ""
        raise _failed(name, f"{type(error).__name__}: {error}", where) from error
    if made is None:
        return None
    if not isinstance(made, Schedule):
        raise _failed(name, f"it gives {short(made)}, neither a schedule nor None")
    if made.scheduled.original != scop:
        raise _failed(name, "it gives a schedule of another program")
    return made.scheduled


def scripted(scop: Scop, machine: Machine, script: str) -> Scheduled:
    """What the steps of ``script`` make of ``scop``, which nothing has proved yet. Raises
    ``IllegalScheduleError`` as ``Schedule.replay`` does."""

    return _start(scop, machine).replay(script, proved=False).scheduled


def first_fault(scop: Scop, machine: Machine, script: str, error: CompileError) -> CompileError:
    """``error``, with which the proof of all of ``script`` ended, or that of the first step that is
    refused by itself, with its line."""
    try:
        _start(scop, machine).replay(script, advised=False)
    except IllegalScheduleError as found:
        return found
    except CompileError:
        pass
    return error


def _start(scop: Scop, machine: Machine) -> Schedule:
    def nothing(*_: object) -> Scheduled:
        raise AssertionError("scripts have steps alone")

    subject = Subject(f"weft.schedule({scop.name})", nothing, nothing)
    return Schedule(initial(scop, machine.extensions), subject)


def _failed(name: str, why: str, where: str = "") -> SeedError:
    return SeedError(
        "WEFT-E0341",
        f"seed {name} of Options.seeds gives no schedule",
        where=where,
        why=why,
        hint="a seed is a function (schedule, machine, choose) -> schedule: docs/extending.md",
    )
