"""Diagnostics: why no operation computes a step of a piece of work, in the names of program and
machine.

    y is int8(min(max(sums >> 40, -128), 127)), where mac leaves sums in acc. drain leaves
    int8(min(max(acc >> shift, -128), 127)) in spad: it has shift (from 0 to 31) where 40 stands
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.accel.capabilities import Compute
from weft.accel.immediates import can_produce
from weft.accel.instruction_selection import InstructionSelector
from weft.accel.instruction_tree import Node
from weft.accel.work import Work
from weft.ir.scalar_expr import (
    Apply,
    Cast,
    Expr,
    Literal,
    Load,
    Select,
    Var,
    has_loads,
    rewrite,
    walk,
)
from weft.ir.scalar_match import COMMUTATIVE, matches
from weft.ir.scalar_printer import python_text

FOLDS = {"add": "sum", "min": "minimum", "max": "maximum", "mul": "product"}
SHOWN = 6  # operations that are compared with a step


def sum_step(work: Work) -> str:
    """The reduction of ``work``: its name and its terms."""
    update = work.statement.update
    assert update is not None, "it folds"
    kind = FOLDS.get(update.monoid.name, update.monoid.name)
    names = [access.tensor for access in work.statement.reads]
    terms = _shown(work.statement.body.results[0], names)
    return f"{work.statement.writes[0].tensor} is a {kind} of {terms} in {update.monoid.dtypes[0]}"


def sum_mismatch(work: Work, compute: Compute, refusals: Sequence[str]) -> str:
    """Why ``compute`` does not compute the reduction of ``work``; ``refusals``: of each instruction
    mapping."""
    own, theirs = work.statement.update, compute.step.update
    assert own is not None and theirs is not None, "both fold"
    name, tensor = place_of(compute), work.statement.writes[0].tensor
    term, value = work.statement.body.results[0], compute.step.body.results[0]
    kind = FOLDS.get(theirs.monoid.name, theirs.monoid.name)
    terms = _shown(value, [at.memory for at in compute.operands])
    does = f"{name} makes a {kind} of {terms} in {theirs.monoid.dtypes[0]}"
    if (own.monoid.name, own.monoid.dtypes) != (theirs.monoid.name, theirs.monoid.dtypes):
        return does
    if not any(all(map(_is_read, found.values())) for found in matches(value, term)):
        return does
    dims = [d for d, n in compute.extents.items() if n > 1]
    if len(dims) > len(work.statement.dims):
        loops = len(work.statement.dims)
        return f"{does}, with loops {', '.join(dims)} inside, and {tensor} has {loops}"
    return f"{does}, and not along the loops of {tensor}: {'; '.join(refusals[:2])}"


def _is_read(operand: Expr) -> bool:
    return isinstance(operand, Load) or (
        isinstance(operand, Cast) and isinstance(operand.children[0], Load)
    )


def place_of(compute: Compute) -> str:
    """Its name, and where it is defined."""
    code = getattr(compute.operation.semantics, "__code__", None)
    place = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return f"{compute.operation.name}{place}"


def result_mismatch(
    work: Work, compute: Compute | None, selector: InstructionSelector, storable: set[str]
) -> str:
    """Why nothing computes the epilogue of ``work``, or leaves it where it can be stored from."""
    names = _names(work)
    target = work.write.tensor
    text = f"nothing does what becomes of its results: {target} is {_shown(work.value, names)}"
    if compute is not None:
        text += f", where {compute.operation.name} leaves {names[0]} in {compute.target.memory}"
    if not storable:
        return f"{text}; nothing copies it to main memory"
    homes = " or ".join(sorted(storable))
    done = _done(work.value, selector)
    if work.value in done or isinstance(work.value, Load):
        text += f"; it can be computed, but is stored from {homes}, where nothing brings it"
    elif done:
        parts = ", ".join(_shown(each, names) for each in done)
        text += f"; {parts} can be computed, what follows cannot, or is not in {homes} then"
    if not selector.patterns:
        return f"{text}; no operation computes element by element"
    told = list(dict.fromkeys(_compared(work.value, selector, names)))[:SHOWN]
    return f"{text}. " + ". ".join(told)


def _compared(value: Expr, selector: InstructionSelector, names: Sequence[str]) -> Iterator[str]:
    """The result of each operation, the closest ones to ``value`` first."""
    found = []
    for pattern in selector.patterns:
        own = pattern.value
        if isinstance(own, Literal):
            continue
        places = [pattern.target.memory, *(at.memory for at in pattern.operands)]
        text = f"{place_of(pattern)} leaves {_shown(own, places)} in {pattern.target.memory}"
        tried = [_different(own, each, pattern) for each in _tops(value)]
        depth, mine, other = min(tried, key=lambda each: each[0])
        if mine and depth < 0:
            text += f": it has {_shown(mine[0], places)}{_holds(mine[0], pattern)} where "
            text += f"{_shown(other[0], names)} stands"
            if has_loads(other[0]) and not has_loads(mine[0]):
                text += ", which is no number that is known (constants=…)"
        found.append((depth, text))
    yield from (text for _, text in sorted(found, key=lambda each: each[0]))


def _tops(value: Expr) -> list[Expr]:
    """``value`` and its subexpressions, from the root."""
    return [each for each in reversed(list(walk(value))) if each.children] or [value]


def _different(
    pattern: Expr, expr: Expr, compute: Compute, depth: int = 0
) -> tuple[int, list[Expr], list[Expr]]:
    """Where ``expr`` first differs from ``pattern``, with the size of the rest: less is closer;
    empty if equal."""
    nowhere: tuple[int, list[Expr], list[Expr]] = (-1000, [], [])
    here = (-depth, [pattern], [expr])
    if isinstance(pattern, Load):
        return nowhere if pattern.dtype == expr.dtype else here
    if not has_loads(pattern):
        return nowhere if can_produce(compute, pattern, expr) else here
    same = type(pattern) is type(expr) and pattern.dtype == expr.dtype
    ops = [getattr(each, "op", "") for each in (pattern, expr)]
    if not same or ops[0] != ops[1] or not isinstance(pattern, Apply | Cast | Select):
        return here
    orders = [expr.children]
    if ops[0] in COMMUTATIVE:
        orders.append(expr.children[::-1])
    tried = []
    for order in orders:
        parts = [
            _different(one, other, compute, depth + 1)
            for one, other in zip(pattern.children, order, strict=True)
        ]
        tried.append(next((each for each in parts if each[1]), nowhere))
    return min(tried, key=lambda each: each[0])


def _holds(expr: Expr, compute: Compute) -> str:
    """The range of the fields in ``expr``."""
    fields = dict.fromkeys(each.name for each in walk(expr) if isinstance(each, Var))
    limits = [(name, *compute.operation.limits_of(name)) for name in fields]
    text = " and ".join(f"{name} from {low} to {high}" for name, low, high in limits)
    return f" ({text})" if text else ""


def _done(value: Expr, selector: InstructionSelector) -> list[Expr]:
    """The largest subexpressions of ``value`` that operations compute."""
    found: list[Expr] = []
    memories = sorted({each.target.memory for each in selector.patterns})
    inside: set[int] = set()
    for each in reversed(list(walk(value))):  # what it is made of comes later
        if id(each) in inside:
            inside |= {id(child) for child in each.children}
        elif any(isinstance(selector.tree(each, memory), Node) for memory in memories):
            inside |= {id(child) for child in each.children}
            if any(isinstance(part, Apply) for part in walk(each)):
                found.append(each)
    return found


def _names(work: Work) -> list[str]:
    own = work.statement.writes[0].tensor if work.start is not None else work.write.tensor
    return [own, *(read.tensor for read in work.reads)]


def _shown(expr: Expr, names: Sequence[str]) -> str:
    def named(node: Expr) -> Expr | None:
        if isinstance(node, Load) and isinstance(node.source, int):
            return Load(names[node.source], (), node.dtype)
        match node:
            case Cast(Var(name), dtype):  # a field in the type that it is computed with
                return Var(name, dtype)
        return None

    return python_text(rewrite(expr, named))
