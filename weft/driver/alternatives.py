"""What each decision about a loop kernel would have led to: the estimate of the whole program with
it, or why there is no such program.

    S1.k_tile: 384 (41.3 ms); else 192 (43.5 ms), 768 (40.8 ms)

The program is scheduled, proved and priced once for each alternative, when somebody asks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from weft.driver.cluster_code import ClusterCode, chosen_schedule, prove
from weft.driver.lowered import Lowered
from weft.driver.passes import Passes
from weft.ir.errors import WeftError, WeftWarning
from weft.ir.plan import Decision, Value
from weft.ir.scalar_expr import variable_names
from weft.ir.schedule_verifier import source_of
from weft.ir.size_arithmetic import evaluate
from weft.ir.units import time_text
from weft.polyhedral.cost.text import told

MOST = 40  # alternatives that are scheduled, each of which takes as long as the program did


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to decide, and the ``seconds`` that are estimated for the whole program; None: it
    has no estimate, or was ``refused`` for a reason."""

    value: Value
    seconds: float | None = None
    refused: str = ""


def alternatives(lowered: Lowered) -> dict[str, tuple[Alternative, ...]]:
    """By name of a decision, what was chosen, and then what else there is; of sizes, half and
    twice. Nothing of decisions that have an estimate of their own, that are about statements that
    do not run at the sizes of the estimate, or that come after the first ``MOST`` alternatives."""
    (code,) = lowered.distinct
    known = told(code.scheduled, lowered.machine)
    if code.fallback or known.price is None:
        return {}
    decisions = lowered.plan.decisions
    given = {d.name: d.chosen for d in decisions if d.given or _kind(d) == "seed"}
    found: dict[str, tuple[Alternative, ...]] = {}
    left = MOST
    for d in decisions:
        others = list(_others(d))
        left -= len(others)
        if left < 0:
            break
        if others and _runs(code, d, known.sizes):
            mine = Alternative(d.chosen, known.price.seconds)
            made = (_alternative(lowered, code, {**given, d.name: v}, v) for v in others)
            found[d.name] = (mine, *made)
    return found


def _others(d: Decision) -> Iterator[Value]:
    if all(o.priced for o in d.options):
        return
    for o in d.options:
        near = not d.size or int(o.value) in (int(d.chosen) * 2, int(d.chosen) // 2)
        if o.value != d.chosen and near:
            yield o.value


def _runs(code: ClusterCode, d: Decision, sizes: Mapping[str, int]) -> bool:
    """Whether all statements that ``d`` is about have instances at ``sizes``."""
    names = () if d.seed else _subject(d).split(" & ")
    conditions = (
        c.expr
        for s in code.scheduled.scop.statements
        for c in s.domain
        if s.name in names and variable_names(c.expr) <= sizes.keys()
    )
    return all(evaluate(condition, sizes) >= 0 for condition in conditions)


def _alternative(
    lowered: Lowered, code: ClusterCode, plan: Mapping[str, Value], value: Value
) -> Alternative:
    scop, machine = code.scheduled.original, lowered.machine
    passes = Passes(lowered.passes.options, scop.name, plan)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeftWarning)  # it is not what runs
            made = chosen_schedule(scop, machine, passes)
        prove(scop, made)
    except WeftError as error:
        why = f"; {error.why}" if error.why else ""
        return Alternative(value, refused=f"{error.code}: {error.what}{why}")
    price = told(made, machine).price
    return Alternative(value, None if price is None else price.seconds)


# ---- in words -----------------------------------------------------------------------------------

TITLE = "decisions, which weft.compile(…, plan=…) takes otherwise"
BRACKETS = "in brackets, the estimated time of the whole program, or cycles of a part"
CHEAPER = 0.99  # of what was chosen: an estimate below that is worth a word
RULES = {  # how a decision is made that does not ask for the estimate, by how its kind begins
    "strategy": "the first that applies is taken",
    "loop_fusion": "loops are shared where they may be",
    "pack_once": "what many rows read is packed; the estimate counts all of its way to L1",
    "pack_per_tile": "panels are packed where that takes less than reading rows apart",
    "inner_loop": "the innermost loop keeps the smaller operand in a cache",
    "loops": "the form follows from which operand a cache holds",
    "prefetch": "misses in flight are the machine's",
    "strip": "a strip's data fit into a cache",
    "vector": "vectors are along memory",
}
SIZES = "sizes follow from the machine's record"  # of kinds that end in _tile; Decision.why has it
OWN = "the strategy that asks says so"  # of all others


def decision_lines(lowered: Lowered) -> list[str]:
    """The decisions of a loop kernel below the statements that they are about, each with its
    alternatives, those that do not apply and why among them."""
    found = alternatives(lowered)
    (code,) = lowered.distinct
    sources = {s.name: source_of(s) for s in code.scheduled.scop.statements}
    lines = [f"{TITLE}{f'; {BRACKETS}' if found else ''}"]
    heading, said = "", set[str]()
    for d in sorted(lowered.plan.decisions, key=_first_of(lowered.plan.decisions)):
        subject = _subject(d)
        if subject != heading:
            heading = subject
            about = [sources.get(n, n) for n in subject.split(" & ")]
            lines.append(f"  seed {subject}" if d.seed else f"  {', '.join(about)}")
        known = found.get(d.name, ())
        lines.append(f"    {_said(d, known) if known else briefly(d)}")
        lines += because(d, said)
        lines += [f"      not {a.value}: {a.refused}" for a in known if a.refused]
    return lines


def because(d: Decision, said: set[str]) -> list[str]:
    """The reason of ``d`` as a line, unless it was ``said`` before."""
    if not d.why or d.why in said:
        return []
    said.add(d.why)
    return [f"      because {d.why}"]


def briefly(d: Decision) -> str:
    """``d`` in words; of strategies the one alone, since few of the others apply."""
    return str(replace(d, options=()) if _kind(d) == "strategy" else d)


def _subject(d: Decision) -> str:
    return d.own_name.rpartition(".")[0]


def _kind(d: Decision) -> str:
    """What Weft decides there, as the end of the name says; '' for what a seed asks for, which is
    called as the seed likes."""
    return "" if d.seed else d.own_name.rpartition(".")[2]


def _first_of(decisions: Sequence[Decision]) -> Callable[[Decision], int]:
    """Where the first decision about the same statements stands."""
    first: dict[str, int] = {}
    for k, d in enumerate(decisions):
        first.setdefault(_subject(d), k)
    return lambda d: first[_subject(d)]


def _said(d: Decision, known: Sequence[Alternative]) -> str:
    mine, *others = (a for a in known if not a.refused)
    plan = ", as the plan says" if d.given else ""
    shown = f"{d.name}: {_valued(mine)}{plan}"
    if not others:
        return shown
    more = ", or any number" if d.size else ""
    least = min((a.seconds for a in others if a.seconds is not None), default=inf)
    cheaper = not d.given and mine.seconds is not None and least < CHEAPER * mine.seconds
    why = f"; not by the estimate: {_rule(d)}" if cheaper else ""
    return f"{shown}; else {', '.join(map(_valued, others))}{more}{why}"


def _valued(a: Alternative) -> str:
    return f"{a.value} ({'no estimate' if a.seconds is None else time_text(a.seconds)})"


def _rule(d: Decision) -> str:
    if d.seed:
        return f"it is what seed {d.seed} takes by itself"
    kind = _kind(d)
    named = (text for start, text in RULES.items() if kind.startswith(start))
    return next(named, SIZES if kind.endswith("_tile") else OWN)
