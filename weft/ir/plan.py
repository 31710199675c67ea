"""Decisions of a compilation as data: what was chosen, among what, and a plan that overrules it.

    {"weft plan": 1,
     "decisions": [
      {"name": "C_add.register_tile", "chosen": "fma i 8 j 48",
       "options": [{"value": "fma i 8 j 48", "cycles": 33000}, {"value": "fma i 14 j 32"}]},
      {"name": "kernel0.seed", "chosen": "automatic",
       "options": [{"value": "automatic", "seconds": 0.0012}, {"value": "rows", "seconds": 0.002}]},
      {"name": "C_add.kc", "chosen": 256, "options": "any size"}]}

A decision has a name that says of what it is, ``subject.kind``, the options that there were, each
with an estimate where the cost model has one, and the one that was taken. Whoever decides asks
``Decisions.choose``, which takes what the user's plan says. Plans change no results: what they lead
to is proved like any other schedule.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from weft.ir.errors import PlanError, did_you_mean, short
from weft.ir.units import time_text

Value = str | int | bool
VERSION = 1
LARGEST = 1 << 24  # of a size that a plan may give
MOST = 1e30  # cycles or seconds that an estimate may say: no number beyond, nor NaN, is one
_KEY = "weft plan"
_ANY = "any size"


@dataclass(frozen=True, slots=True)
class Option:
    """One way to decide: its ``value``, and what the cost model estimates for it (None: it has no
    such estimate), of the part that it is about in ``cycles`` of one core, or of the whole program
    in ``seconds``."""

    value: Value
    cycles: float | None = None
    seconds: float | None = None

    @property
    def priced(self) -> bool:
        """Whether it has an estimate."""
        return self.cycles is not None or self.seconds is not None


@dataclass(frozen=True, slots=True)
class Decision:
    """What was ``chosen``, under a ``name``, among ``options``. ``size``: other positive numbers
    would do as well. ``given``: whether a plan said so. ``unit``: the cluster or loop kernel that
    it is about, '' for the graph, or where a plan was read. ``why``: the reason for what is taken
    where no plan says otherwise, with its numbers; '' where the options' estimates are it. ``at``:
    the sizes and threads that estimates are for, '' where that needs no word. ``seed``: the seed
    that asks for it; '' where Weft does."""

    name: str
    options: tuple[Option, ...]
    chosen: Value
    size: bool = False
    given: bool = False
    unit: str = ""
    why: str = ""
    at: str = ""
    seed: str = ""

    @property
    def own_name(self) -> str:
        """``name`` as ``unit`` alone would have it."""
        return self.name.removesuffix(f" in {self.unit}")

    def __str__(self) -> str:
        """The choice beside what else there was, with estimates."""
        others = [_said(o) for o in self.options if o.value != self.chosen]
        mine = next((o for o in self.options if o.value == self.chosen), Option(self.chosen))
        shown = f"{self.name}: {_said(mine)}{', as the plan says' if self.given else ''}"
        more = f", and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
        at = f"; estimated for {self.at}" if self.at else ""
        return f"{shown}; else {', '.join(others[:SHOWN])}{more}{at}" if others else f"{shown}{at}"


SHOWN = 4  # alternatives in a line


def _said(option: Option) -> str:
    if option.seconds is not None:
        return f"{option.value} ({time_text(option.seconds)})"
    cost = "" if option.cycles is None else f" ({option.cycles:.4g} cycles)"
    return f"{option.value}{cost}"


@dataclass(frozen=True, slots=True, eq=False)
class Plan(Mapping[str, Value]):
    """The decisions of a compilation, by name: ``weft.compile(x, plan=…)`` takes them again.

    ``plan["S0.kc"]`` is what was chosen, ``plan.changed({"S0.kc": 128})`` a plan that overrules it,
    ``str(plan)`` JSON text for a file. ``decisions``: all of them in the order in which they were
    made, each with its alternatives. Plans that decide alike are equal.
    """

    decisions: tuple[Decision, ...] = ()
    _chosen: dict[str, Value] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_chosen", {d.name: d.chosen for d in self.decisions})

    def __getitem__(self, name: str) -> Value:
        return self._chosen[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._chosen)

    def __len__(self) -> int:
        return len(self._chosen)

    def changed(self, values: Mapping[str, Value]) -> Plan:
        """The plan with other ``values``, by name of a decision. Raises ``PlanError``:
        WEFT-E0025 for a name that is none, E0026 for a value that is no option."""
        check_names(values, self._chosen)
        return Plan(
            tuple(
                replace(d, chosen=fitting(d, values[d.name])) if d.name in values else d
                for d in self.decisions
            )
        )

    def __str__(self) -> str:
        """JSON text, the same for the same decisions."""
        return json.dumps({_KEY: VERSION, "decisions": list(map(_json, self.decisions))}, indent=1)

    @classmethod
    def read(cls, source: Any) -> Plan:
        """The plan in ``source``: one, a mapping from names to values, JSON text (what begins with
        a brace), or the path of a file of such text.

        Raises ``PlanError`` (WEFT-E0027) for anything else, a file that cannot be read included.
        """
        if isinstance(source, Plan):
            return source
        if isinstance(source, str | os.PathLike):
            source = _parsed(source)
        if not isinstance(source, Mapping):
            raise _no_plan(f"it is a {type(source).__name__}")
        if _KEY in source:
            return cls(tuple(_decisions(source)))
        for name, value in source.items():
            if not isinstance(name, str) or not isinstance(value, str | int):
                raise _no_plan(f"{name!r} is decided as {value!r}")
        return cls(tuple(Decision(n, (Option(v),), v) for n, v in source.items()))


def _json(d: Decision) -> dict[str, Any]:
    def option(o: Option) -> dict[str, Any]:
        cycles = {} if o.cycles is None else {"cycles": round(o.cycles)}
        seconds = {} if o.seconds is None else {"seconds": float(f"{o.seconds:.4g}")}
        return {"value": o.value} | cycles | seconds

    options: Any = _ANY if d.size else [option(o) for o in d.options]
    return {"name": d.name, "chosen": d.chosen, "options": options}


def _parsed(source: str | os.PathLike[str]) -> Any:
    text = os.fspath(source)
    where = ""
    try:
        if not text.lstrip().startswith("{"):
            where, file = text, Path(text)
            if file.exists() and not file.is_file():
                raise _no_plan("it is no regular file", where)
            text = file.read_text(encoding="utf-8")
        return json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise _no_plan(str(error) or type(error).__name__, where) from None


def _decisions(source: Mapping[str, Any]) -> Iterator[Decision]:
    if source[_KEY] != VERSION or not isinstance(source.get("decisions"), list):
        raise _no_plan(f"version {source[_KEY]!r} with decisions, where {VERSION} is known")
    for entry in source["decisions"]:
        match entry:
            case {"name": str(name), "chosen": str() | int() as chosen, "options": options}:
                known = [Option(chosen)] if options == _ANY else list(_options(options))
                yield fitted(Decision(name, tuple(known), chosen, size=options == _ANY))
            case _:
                raise _no_plan(f"a decision is {short(entry)}")


def _options(entries: Any) -> Iterator[Option]:
    for entry in entries if isinstance(entries, list) else [entries]:
        match entry:
            case {"value": str() | int() as value, "cycles": int() | float() as cycles} if (
                0 <= cycles <= MOST
            ):
                yield Option(value, cycles)
            case {"value": str() | int() as value, "seconds": int() | float() as seconds} if (
                0 <= seconds <= MOST
            ):
                yield Option(value, seconds=seconds)
            case {"value": str() | int() as value} if not {"cycles", "seconds"} & entry.keys():
                yield Option(value)
            case _:
                raise _no_plan(f"an option is {short(entry)}")


def _no_plan(why: str, where: str = "") -> PlanError:
    return PlanError(
        "WEFT-E0027",
        "what is given as a plan is none",
        where=where,
        why=why,
        hint="what Executable.plan gives, its JSON text or file, or a mapping from names to values",
    )


def check_names(
    names: Mapping[str, Value],
    known: Mapping[str, object],
    reasons: Mapping[str, str] | None = None,
) -> None:
    """Raise ``PlanError`` (WEFT-E0025) for a name that is no decision, with its nearest; ``why`` is
    what ``reasons`` say of it, or else what there is to decide about the same subject."""
    for name in names:
        if name not in known:
            raise PlanError(
                "WEFT-E0025",
                f"there is no decision {name!r}",
                why=(reasons or {}).get(name) or _instead(name, known),
                hint=f"{did_you_mean(name, known)}Executable.plan has them all; {BY_SCRIPT}",
            )


BY_SCRIPT = (
    "what is no decision is a step of str(weft.schedule(x).automatic()): "
    "edit that script, plan={'NAME.script': …} takes it"
)


def _instead(name: str, known: Iterable[str]) -> str:
    subject = name.rpartition(".")[0]
    about = [n for n in known if n.rpartition(".")[0] == subject]
    if subject and about:
        return f"all that is decided about {subject}: {', '.join(about)}"
    return "the program, or an earlier decision, leads elsewhere"


def fitting(decision: Decision, value: Value) -> Value:
    """``value``, which the decision may take. Raises ``PlanError`` (WEFT-E0026)."""
    return fitted(replace(decision, chosen=value)).chosen


def fitted(decision: Decision) -> Decision:
    """``decision``, which takes one of its options. Raises ``PlanError`` (WEFT-E0026)."""
    value, options = decision.chosen, [o.value for o in decision.options]
    if decision.size and type(value) is int and 1 <= value <= LARGEST:
        return decision
    if not decision.size and any(type(o) is type(value) and o == value for o in options):
        return decision
    raise PlanError(
        "WEFT-E0026",
        f"{decision.name} cannot be {value!r}",
        hint=f"a number from 1 to {LARGEST}"
        if decision.size
        else f"options: {', '.join(map(str, options))}",
    )


class Decisions:
    """What is decided while one program is compiled, where a plan may have a say.

    ``unit``: what is being scheduled; two units may each have a decision of one name. ``advice``
    about it, by the names that it alone would have: where the plan says nothing.
    """

    def __init__(self, plan: Mapping[str, Value] | None = None) -> None:
        self.unit = ""
        self.advice: Mapping[str, Value] = {}
        self._plan = dict(plan or {})
        self._made: dict[str, Decision] = {}
        self._owners: dict[str, str] = {}
        self._reasons: dict[str, str] = {}
        self._settled: set[str] = set()

    def choose(
        self,
        name: str,
        options: Sequence[Value | Option],
        default: Value,
        *,
        size: bool = False,
        why: str = "",
        at: str = "",
        seed: str = "",
    ) -> Value:
        """What the plan says about ``name``, or else ``default``, of ``options``, for the reason
        ``why``; of any number where it is a ``size``. What is asked twice is answered alike. ``at``
        and ``seed`` are those of ``Decision``.

        Raises ``PlanError`` (WEFT-E0026) where the plan's is no option.
        """
        advised = self.advice.get(name)
        name = self._own(name)
        known = self._made.get(name)
        asked = tuple(o if isinstance(o, Option) else Option(o) for o in options)
        if known is not None and known.options == asked:
            return known.chosen
        given = name in self._plan or advised is not None
        if not given and not size and len(asked) < 2:
            return default  # there is nothing to decide
        chosen = self._plan.get(name, default if advised is None else advised)
        made = Decision(name, asked, chosen, size, given, self.unit, why, at, seed)
        self._made[name] = fitted(made) if given else made
        return chosen

    @property
    def asked(self) -> str:
        """The plan as text, in one order: part of what identifies a compilation."""
        return json.dumps(sorted(self._plan.items()))

    def lacks(self, name: str, why: str) -> None:
        """What to tell a plan for ``name``, unless that is decided elsewhere."""
        self._reasons[self._own(name)] = why

    def drop(self, name: str, why: str = "") -> None:
        """Forget a decision that nothing came of."""
        self.forget([self._own(name)], why)

    def forget(self, names: Iterable[str], why: str) -> None:
        """``drop`` decisions by the names that they have in the plan."""
        for name in names:
            if self._made.pop(name, None) is not None:
                self._reasons[name] = why

    def settle(self, name: str) -> None:
        """What a plan says about ``name`` is done, by leading to other decisions."""
        self._settled.add(self._own(name))

    def made(self, name: str) -> bool:
        """Whether ``name`` is decided."""
        return self._own(name) in self._made

    def planned(self, name: str) -> Value | None:
        """What the plan says about ``name``; None: nothing."""
        return self._plan.get(self._own(name), self.advice.get(name))

    def mark(self) -> dict[str, Decision]:
        """What is decided so far, to go ``back`` to."""
        return dict(self._made)

    def back(self, mark: Mapping[str, Decision]) -> None:
        """Forget what was decided since ``mark``."""
        self._made = dict(mark)

    def since(self, mark: Mapping[str, Decision]) -> tuple[str, ...]:
        """The names of what was decided since ``mark``."""
        return tuple(n for n in self._made if n not in mark)

    def given_since(self, mark: Mapping[str, Decision]) -> tuple[str, ...]:
        """The names of what a plan has decided since ``mark``."""
        return tuple(n for n, d in self._made.items() if d.given and n not in mark)

    def plan(self) -> Plan:
        """All that was decided. Raises ``PlanError`` (WEFT-E0025) for what was to be decided,
        by the plan, and did not come up."""
        asked = {n: v for n, v in self._plan.items() if n not in self._settled}
        check_names(asked, self._made, self._reasons)
        return Plan(tuple(self._made.values()))

    def _own(self, name: str) -> str:
        owner = self._owners.setdefault(name, self.unit)
        return name if owner == self.unit else f"{name} in {self.unit}"


Choose = Callable[[str, Sequence[Value | Option], Value], Value]
"""``Decisions.choose``, or what stands for it where nobody has a plan."""


def by_default(name: str, options: Sequence[Value | Option], default: Value) -> Value:
    """The default."""
    return default
