"""One pair: what enumeration says of it, what Weft says, and where they differ."""

from __future__ import annotations

import re
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from tests.properties import executions
from tests.properties.enumeration import TooLarge, enumerate_scop
from tests.properties.generators import NoPair
from tests.properties.random_affine import inputs_of
from tests.properties.random_schedules import MoveFailed, Pair, expected_at, random_pair
from tests.properties.tree_moves import loops
from tests.properties.values_seen import agree
from tests.properties.verdicts import Verdict, is_violation, outside
from weft.ir import build as w
from weft.ir.errors import BudgetError, CompileError, IllegalScheduleError, InternalError
from weft.ir.scalar_expr import Apply, Expr, rewrite
from weft.ir.schedule_tree import Kind, Tree, marked_tiles
from weft.ir.scop import Body, Scop, Statement
from weft.ir.scop_verifier import verify
from weft.polyhedral.proof.legality import check, check_bounds
from weft.polyhedral.proof.validation import validate
from weft.polyhedral.register_tile import check_closed_form
from weft.polyhedral.transform.scheduled import with_loops


@dataclass(frozen=True, slots=True)
class Effort:
    """What share of the pairs goes through what is slow."""

    kinds: float = 0.1  # each loop of legal schedules as a parallel and a vector loop
    all_sizes: float = 0.1  # runs at all sizes, not one
    loop_ir: float = 0.03
    native: float = 0.004


@dataclass(slots=True)
class Outcome:
    kind: str  # for the histogram
    problem: str = ""
    notes: Counter[str] = field(default_factory=Counter)


ILL_FORMED = {"WEFT-E0410", "WEFT-E0411", "WEFT-E0412"}  # trees that leave out a statement, say
ORDER_CODES = {"WEFT-E0413", "WEFT-E0420", "WEFT-E0421", "WEFT-E0422"}


def examine(seed: int, effort: Effort, make: Callable[[int], Pair] = random_pair) -> Outcome:
    """Pair ``seed`` of those that ``make`` makes, checked."""
    try:
        return examine_pair(make(seed), Random(f"effort {seed}"), effort)
    except NoPair as error:
        return Outcome(str(error))
    except MoveFailed as error:
        return Outcome("a transformation failed", str(error))
    except executions.Stopped:
        return Outcome("stopped by a check of data")
    except InternalError as error:
        if "is not bounded" in error.what:  # by intervals, which is all that interpreters know
            return Outcome("cannot be interpreted")
        return Outcome("crash", f"InternalError: {error}")
    except Exception as crash:  # of transformations, checkers, code generation, interpreters
        where = traceback.extract_tb(crash.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        return Outcome("crash", f"{type(crash).__name__} at {place}: {crash}")


def examine_pair(pair: Pair, r: Random, effort: Effort) -> Outcome:
    notes = Counter({f"move {m.lstrip('_')}": 1 for m in set(pair.moves)})
    notes.update({f"refused by {name}": n for name, n in pair.refused.items()})
    error = refusal(pair)
    if isinstance(error, BudgetError):
        return Outcome("given up, over budget", "", notes)
    if error is not None and error.code in ILL_FORMED:
        return Outcome("no schedule", "", notes)
    truth = pair.oracle.judge(pair.scheduled.tree)
    kind, problem = _compare(pair, truth, error)
    if not problem and error is None:
        problem = _run(pair, r, effort, notes)
        if not problem and r.random() < effort.kinds:
            problem = _wrong_kind(pair, truth)
    return Outcome(kind, problem, notes)


def refusal(pair: Pair) -> CompileError | None:
    """How the checkers refuse a pair."""
    of = pair.scheduled
    try:
        if pair.changed:
            verify(of.scop)
        check_bounds(of.scop)
        check(of.scop, of.tree)
        check_closed_form(of.scop, of.tree)
        if pair.changed:
            validate(of.original, of.scop, of.tree)
    except (IllegalScheduleError, BudgetError) as error:
        return error
    except CompileError as error:
        if error.code == "WEFT-E0430":
            return error
        raise
    return None


def _compare(pair: Pair, truth: Verdict, error: CompileError | None) -> tuple[str, str]:
    """(the pair's kind, the contradiction)."""
    kind = _kind(pair, truth)
    wrong = pair.oracle.outside()
    if error is None:
        if wrong:
            return kind, f"accepted, but {wrong}"
        if not truth.injective:
            return kind, "accepted, but two instances run at the same time"
        if truth.violated:
            named = ", ".join(map(pair.oracle.describe, sorted(truth.violated)))
            return kind, f"accepted, but it violates {named}"
        return kind, ""
    if error.code in ORDER_CODES:
        if not _claim(pair, error):
            return kind, f"refused for a reason that is none: {error}"
        return kind if not truth.legal else "illegal at larger sizes only", ""
    if error.code == "WEFT-E0430":
        claim = _claim_outside(pair.oracle.scop, error)
        if claim is False or (claim is None and not wrong):
            return kind, f"refused for a reason that is none: {error}"
        return "out of bounds", ""
    if error.code == "WEFT-E0424":
        return "no register tile", ""
    if error.code == "WEFT-E0425":
        return "no such claim on memory", ""
    if not pair.changed:
        return kind, f"refused as if storage had changed: {error}"
    if "do not follow it" in error.what:  # storage is contracted along loops, step by step
        return "contracted, and not followed", ""
    if _depends_on_data(pair, error):
        return "wrong for some data", ""
    if truth.legal and not _seen_differs(pair, error) and not _values_differ(pair, error):
        return "valid but refused", f"refused, but its results are right: {error}"
    return "wrong storage or instances", ""


def _depends_on_data(pair: Pair, error: CompileError) -> bool:
    """Whether a refusal is about a statement that may touch any element, whatever it does here."""
    named = error.statements if isinstance(error, IllegalScheduleError) else ()
    found = (s for s in pair.subject.affine.scop.statements if s.name in named)
    return any(access.may for s in found for access in (*s.reads, *s.writes))


def _kind(pair: Pair, truth: Verdict) -> str:
    if not truth.injective:
        return "not injective"
    if truth.violated:
        return "illegal by one" if len(truth.violated) == 1 else "illegal by several"
    if pair.identity:
        return "legal, identity"
    return "legal, storage changed" if pair.changed else "legal"


def _values_differ(pair: Pair, error: CompileError) -> str:
    """Where the transformed program gives other values at some of its sizes, or ''.

    Without minima and maxima, of which some may drop out
    unseen, and with outputs that hold
    something before.
    """
    of, original = pair.scheduled, sharpened(pair.subject.affine.scop)
    of = replace(of, scop=sharpened(of.scop))
    for sizes in _sizes_of(pair, error):
        for seed in range(2):
            inputs = inputs_of(original, dict(sizes), seed)
            expected = executions.run_original(original, sizes, inputs)
            try:
                found = executions.run(of.scop, of.tree, sizes, inputs)
            except CompileError as error:
                return str(error)
            text = executions.difference(found, expected)
            if text:
                return text
    return ""


def _seen_differs(pair: Pair, error: CompileError) -> bool:
    """Whether some read sees another value than in the original, dead as it may be."""
    of, original = pair.scheduled, pair.subject.affine.scop
    try:
        return not all(agree(original, of.scop, of.tree, s) for s in _sizes_of(pair, error))
    except TooLarge:
        return False


def _sizes_of(pair: Pair, error: CompileError) -> list[Mapping[str, int]]:
    """All sizes to look at, among them those that ``error`` speaks of."""
    claimed = _sizes(pair.scheduled.scop, error.why)
    wanted = [claimed] if claimed and max(claimed.values()) < 30 else []
    return [*wanted, *pair.subject.affine.sizes]


def sharpened(scop: Scop) -> Scop:
    """``scop`` without minima and maxima, and with outputs that hold something before."""

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Apply) and node.op in ("max", "min"):
            return node.args[0] * 3 + node.args[1]
        return None

    def changed(s: Statement) -> Statement:
        body = Body(
            tuple((n, rewrite(e, change)) for n, e in s.body.lets),
            tuple(rewrite(e, change) for e in s.body.results),
        )
        update = s.update
        if update is not None:
            monoid = replace(w.monoid("add", update.monoid.left[0].dtype), laws=update.monoid.laws)
            update = replace(update, monoid=monoid)
        return replace(s, body=body, update=update)

    tensors = tuple(replace(t, role="inout") if t.role == "output" else t for t in scop.tensors)
    return replace(scop, tensors=tensors, statements=tuple(map(changed, scop.statements)))


# ---- what errors claim --------------------------------------------------------------------------

_INSTANCE = r"(\w+)\[([^\]]*)\]"
_PAIR = re.compile(rf"{_INSTANCE} (?:reads|writes) .*? before {_INSTANCE} (?:reads|writes) it")
_SAME = re.compile(rf"do not tell {_INSTANCE} from {_INSTANCE}")
_TOUCHES = re.compile(rf"{_INSTANCE} touches")
_SIZES = re.compile(r" for (\w+=-?\d+(?:, \w+=-?\d+)*)")


def _numbers(text: str) -> list[int]:
    return [int(part.split("=")[1]) for part in text.split(", ") if part]


def _sizes(scop: Scop, text: str) -> dict[str, int] | None:
    found = _SIZES.search(text)
    named = dict(part.split("=") for part in found[1].split(", ")) if found else {}
    if set(named) != set(scop.parameters):
        return None
    return {name: int(value) for name, value in named.items()}


def _claim(pair: Pair, error: CompileError) -> bool:
    """Whether the two instances that ``error`` shows are in conflict, in the wrong order."""
    scop, tree = pair.scheduled.scop, pair.scheduled.tree
    found = _PAIR.search(error.why) or _SAME.search(error.why)
    sizes = _sizes(scop, error.why)
    if found is None or sizes is None:
        return False
    one, first, two, second = found.groups()
    return is_violation(scop, tree, sizes, (one, _numbers(first)), (two, _numbers(second)))


def _claim_outside(scop: Scop, error: CompileError) -> bool | None:
    sizes = _sizes(scop, error.why)
    if sizes is None or not _TOUCHES.search(error.why):
        return False
    try:
        return bool(outside(enumerate_scop(scop, sizes)))
    except TooLarge:
        return None


# ---- running ------------------------------------------------------------------------------------


def _run(pair: Pair, r: Random, effort: Effort, notes: Counter[str]) -> str:
    """Where an accepted schedule computes something else, or ''."""
    sizes = pair.subject.affine.sizes
    chosen = list(sizes) if r.random() < effort.all_sizes else [r.choice(sizes[len(sizes) // 2 :])]
    for values in chosen:
        problem = _run_at(pair, values)
        if problem:
            return f"{problem} at {values}"
    code = r.random() * (1 if not _has_marks(pair) else 0.1)
    if code < effort.loop_ir:
        notes["run as loop IR"] += 1
        return _run_code(pair, chosen, r, native=code < effort.native, notes=notes)
    return ""


def _run_at(pair: Pair, values: Mapping[str, int]) -> str:
    of, original = pair.scheduled, pair.subject.affine.scop
    inputs = inputs_of(original, dict(values))
    expected = expected_at(pair.subject, values)
    found = executions.run(of.scop, of.tree, values, inputs)
    text = executions.difference(found, expected)
    if text:
        return f"accepted, but {text}"
    if pair.changed and keeps_statements(pair) and not agree(original, of.scop, of.tree, values):
        return "accepted, but some read sees another value than in the original"
    disturbed = executions.run_disturbed(of.scop, of.tree, values, inputs)
    text = executions.difference(disturbed, expected) if disturbed else ""
    return f"accepted, but with parallel and vector loops in another order {text}" if text else ""


def _has_marks(pair: Pair) -> bool:
    """Whether code differs from what interpreters of schedules see: register tiles."""
    return bool(marked_tiles(pair.scheduled.tree))


def keeps_statements(pair: Pair) -> bool:
    """Whether every original statement still has instances, and all that is new copies."""
    known = {s.name for s in pair.subject.affine.scop.statements}
    kept = {
        s.origin.statement if s.origin is not None and s.origin.statement else s.name
        for s in pair.scheduled.scop.statements
    }
    return known <= kept


def _run_code(
    pair: Pair, chosen: list[dict[str, int]], r: Random, *, native: bool, notes: Counter[str]
) -> str:
    of, original = pair.scheduled, pair.subject.affine.scop
    try:
        made = executions.kernels(of)
    except BudgetError as error:
        return f"no code: {error}"
    for values in chosen:
        inputs = inputs_of(original, values)
        expected = expected_at(pair.subject, values)
        found = executions.run_loop_ir(made, of.scop, values, inputs)
        text = executions.difference(found, expected)
        if text:
            return f"its loop IR computes something else at {values}: {text}"
    if native:
        notes["run as native code"] += 1
        program = executions.compiled(of)
        for values in chosen:
            inputs = inputs_of(original, values)
            expected = expected_at(pair.subject, values)
            at_end = r.random() < 0.5
            found = executions.run_native(program, of.scop, values, inputs, at_end)
            text = executions.difference(found, expected)
            if text:
                return f"its code computes something else at {values}: {text}"
    return ""


def _wrong_kind(pair: Pair, truth: Verdict) -> str:
    """Where legality and enumeration differ on one loop of a legal tree made concurrent, or ''."""
    if pair.changed:
        return ""
    forbidden: dict[Kind, frozenset[str]] = {
        "vector": truth.carries,
        "parallel": truth.carries | truth.carries_reduction,
    }
    for name in [loop.name for loop in loops(pair.scheduled.tree)]:
        for kind, refused in forbidden.items():
            tree = _with_kind(pair.scheduled.tree, name, kind)
            try:
                check(pair.scheduled.scop, tree)
            except IllegalScheduleError as error:
                other = Pair(
                    pair.seed, pair.subject, replace(pair.scheduled, tree=tree), pair.oracle
                )
                if name not in refused and not _claim(other, error):
                    return f"{kind} loop {name} refused, but it is legal: {error}"
            else:
                if name in refused:
                    return f"{kind} loop {name} accepted, but it carries a dependence"
    return ""


def _with_kind(tree: Tree, name: str, kind: Kind) -> Tree:
    return with_loops(tree, lambda x: replace(x, kind=kind) if x.name == name else x)
