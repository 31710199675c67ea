"""What each decision about a loop kernel would have led to: the estimate of the whole program with
it, or why there is no such program.

    S1.k_tile: 384 (41.3 ms); else 192 (43.5 ms), 768 (40.8 ms)

The program is scheduled, proved and priced once for each alternative, when somebody asks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, prod

from weft.driver.cluster_code import ClusterCode, chosen_schedule, prove
from weft.driver.lowered import Lowered
from weft.driver.passes import Passes
from weft.ir.errors import WeftError, WeftWarning
from weft.ir.plan import Decision, Value
from weft.ir.scalar_expr import literal, variable_names
from weft.ir.schedule_verifier import source_of
from weft.ir.scop import Statement
from weft.ir.size_arithmetic import evaluate
from weft.ir.units import time_text
from weft.polyhedral.analysis.linear import hull
from weft.polyhedral.cost.text import told

MOST = 40  # alternatives that are scheduled, each of which takes as long as the program did


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to decide, and the ``seconds`` that are estimated for the whole program; None: it
    has no estimate, or was ``refused`` for a reason."""

    value: Value
    seconds: float | None = None
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Weighed:
    """Alternatives by the name of their decision, and the decisions ``left`` without."""

    found: Mapping[str, tuple[Alternative, ...]]
    left: tuple[str, ...] = ()


def alternatives(lowered: Lowered, sizes: Mapping[str, int]) -> Weighed:
    """What was chosen, and then what else there is; of sizes, half and twice. Nothing of decisions
    that have an estimate of their own, or that are about statements that do not run at ``sizes``.
    Of ``MOST`` alternatives at most: those of the statements with most instances come first."""
    (code,) = lowered.distinct
    known = told(code.scheduled, lowered.machine, sizes)
    if code.fallback or known.price is None:
        return Weighed({})
    decisions = lowered.plan.decisions
    given = {d.name: d.chosen for d in decisions if d.given or _kind(d) == "seed"}
    open_ = [(d, list(_others(d))) for d in decisions if _runs(code, d, known.sizes)]
    open_ = [(d, others) for d, others in open_ if others]
    open_.sort(key=lambda pair: -_instances(code, pair[0], known.sizes))
    found: dict[str, tuple[Alternative, ...]] = {}
    budget = MOST
    for d, others in open_:
        budget -= len(others)
        if budget < 0:
            break
        mine = Alternative(d.chosen, known.price.seconds)
        made = (_alternative(lowered, code, {**given, d.name: v}, v, known.sizes) for v in others)
        found[d.name] = (mine, *made)
    return Weighed(found, tuple(d.name for d, _ in open_ if d.name not in found))


def _instances(code: ClusterCode, d: Decision, sizes: Mapping[str, int]) -> float:
    """Of the statement of ``d`` with most, about as many; of a seed, more than of any."""
    if d.seed or _kind(d) == "seed":
        return inf
    names = _subject(d).split(" & ")
    of_ = [s for s in code.scheduled.scop.statements if s.name in names]
    return max((prod(_turns(s, dim, sizes) for dim in s.dims) for s in of_), default=0.0)


def _turns(s: Statement, dim: str, sizes: Mapping[str, int]) -> float:
    lower, upper = hull(s).get(dim, (literal(0), literal(1)))
    if not (variable_names(lower) | variable_names(upper)) <= sizes.keys():
        return 1.0
    return float(max(0, evaluate(upper, sizes) - evaluate(lower, sizes)))


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
    lowered: Lowered,
    code: ClusterCode,
    plan: Mapping[str, Value],
    value: Value,
    sizes: Mapping[str, int],
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
    price = told(made, machine, sizes).price
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


def decision_lines(lowered: Lowered, sizes: Mapping[str, int]) -> list[str]:
    """The decisions of a loop kernel below the statements that they are about, each with its
    alternatives at ``sizes``, those that do not apply and why among them."""
    weighed = alternatives(lowered, sizes)
    found = weighed.found
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
    if weighed.left:
        lines.append(f"  without estimates, beyond {MOST} of them: {', '.join(weighed.left)}")
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
