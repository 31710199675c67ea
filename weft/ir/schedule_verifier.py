"""Is a schedule tree well-formed for a Scop? Does it run every instance exactly once?

Legality, whether it runs them in an order that computes the same, is ``legality``'s question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import islpy as isl

from weft.ir.errors import CompileError, IllegalScheduleError
from weft.ir.isl_context import bounded, derived
from weft.ir.named_isl import domain_set, multi_aff, sample_pair, tuple_space
from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import Affine, FloorDiv, Term
from weft.ir.schedule_times import paths
from weft.ir.schedule_tree import Band, Loop, Tree, statements_below, walk
from weft.ir.scop import Scop, Statement

LARGEST = 1 << 31  # number in the value of a loop, which is computed in 64 bits


def verify_schedule(scop: Scop, tree: Tree) -> None:
    """Check that ``tree`` is a schedule of ``scop``.

    Raises IllegalScheduleError: WEFT-E0410 if a statement is not in exactly one leaf, E0411 if two
    loops have one name, E0412 if a loop has no value, or none that is quasi-affine over the dims
    and parameters, for a statement below, E0413 if two instances of a statement would run at once.
    """
    derived(lambda: _verified(scop, tree), "verified", (), scop, tree)


def _verified(scop: Scop, tree: Tree) -> bool:
    _leaves(scop, tree)
    names = Counter(
        loop.name for node in walk(tree) if isinstance(node, Band) for loop in node.loops
    )
    for name, count in names.items():
        if count > 1:
            raise IllegalScheduleError("WEFT-E0411", f"{count} loops are named {name!r}")
    above = paths(tree)
    for statement in scop.statements:
        loops = [entry for entry in above[statement.name] if isinstance(entry, Loop)]
        values = [loop_value(scop, statement, loop) for loop in loops]
        if not determined(statement.dims, statement.dims, values):
            _injective(scop, statement, values)
    return True


def _leaves(scop: Scop, tree: Tree) -> None:
    counts = Counter(statements_below(tree))
    for statement in scop.statements:
        found = counts.pop(statement.name, 0)
        if found != 1:
            raise IllegalScheduleError(
                "WEFT-E0410",
                f"the schedule runs statement {statement.name} {found} times",
                where=source_of(statement),
                hint="every statement stands in exactly one leaf",
            )
    for name in counts:
        raise IllegalScheduleError(
            "WEFT-E0410", f"the schedule runs {name!r}, which is no statement of {scop.name}"
        )


def loop_value(scop: Scop, statement: Statement, loop: Loop) -> Affine:
    """The value of ``loop`` for ``statement``. Raises ``IllegalScheduleError`` (WEFT-E0412) where
    it has none that is quasi-affine over the statement's dims and the parameters."""
    where = f"loop {loop.name}, statement {statement.name}"
    if statement.name not in loop.at:
        raise IllegalScheduleError(
            "WEFT-E0412", "a loop has no value for a statement below it", where=where
        )
    try:
        value = affine(loop.at[statement.name])
    except CompileError as error:
        raise IllegalScheduleError(
            "WEFT-E0412", "the value of a loop is not quasi-affine", where=where, why=error.what
        ) from None
    if _largest(value) > LARGEST:
        raise IllegalScheduleError(
            "WEFT-E0412",
            f"the value {value} of a loop does not fit 64 bits",
            where=where,
            hint="sizes, shifts and factors, multiplied where one is inside another, up to 2**31",
        )
    unknown = sorted(value.variables() - {*statement.dims, *scop.parameters})
    if unknown:
        raise IllegalScheduleError(
            "WEFT-E0412",
            f"the value {value} of a loop mentions {unknown[0]!r}",
            where=where,
            why=f"the statement has the dims {', '.join(statement.dims) or 'none'}, the program the"
            f" sizes {', '.join(scop.parameters) or 'none'}",
        )
    return value


def _largest(value: Affine) -> int:
    """The largest number in ``value``, below floors too."""
    numbers = [abs(value.constant), *(abs(c) for _, c in value.terms)]
    floors = (t for t, _ in value.terms if isinstance(t, FloorDiv))
    return max(numbers + [n for f in floors for n in (f.divisor, _largest(f.numerator))])


def determined(wanted: Sequence[str], dims: Sequence[str], values: Sequence[Affine]) -> bool:
    """Whether each of the ``wanted`` among ``dims`` is a linear combination of the loops' values,
    floors taken as unknowns.

    Enough for what tiling, skewing, shifting and permuting make, and needs no isl: Gaussian
    elimination, the wanted dims last.
    """
    floors = list(dict.fromkeys(a for v in values for a, _ in v.terms if not isinstance(a, str)))
    others: list[Term] = [*floors, *(d for d in dims if d not in wanted)]
    columns: list[Term] = [*others, *wanted]
    rows = [[Fraction(v.coefficient(a)) for a in columns] for v in values]
    rank_of_others = eliminate(rows, len(others))
    return eliminate(rows[rank_of_others:], len(columns), len(others)) == len(wanted)


def eliminate(rows: list[list[Fraction]], end: int, begin: int = 0) -> int:
    """Bring columns ``begin`` … ``end`` - 1 of ``rows`` into echelon form; their rank."""
    rank = 0
    for column in range(begin, end):
        pivot = next((r for r in range(rank, len(rows)) if rows[r][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for r in range(rank + 1, len(rows)):
            if rows[r][column]:
                factor = rows[r][column] / rows[rank][column]
                rows[r] = [x - factor * y for x, y in zip(rows[r], rows[rank], strict=True)]
        rank += 1
    return rank


def told_apart(scop: Scop, statement: Statement, values: Sequence[Affine]) -> bool:
    """Whether no two instances of ``statement`` have the same ``values``."""
    return _same_values(scop, statement, values) is None


def _same_values(
    scop: Scop, statement: Statement, values: Sequence[Affine]
) -> tuple[dict[str, int], tuple[int, ...], tuple[int, ...]] | None:
    """Sizes and two instances of ``statement`` that have the same ``values``."""
    with bounded(what="the check that every instance runs once"):
        target = tuple_space(scop, "", len(values))
        times = isl.Map.from_multi_aff(multi_aff(scop, statement, values, target))
        times = times.intersect_domain(domain_set(scop, statement))
        together = times.apply_range(times.reverse())
        return sample_pair(together.subtract(isl.Map.identity(together.get_space())))


def _injective(scop: Scop, statement: Statement, values: Sequence[Affine]) -> None:
    """Raise if two instances of ``statement`` have the same ``values``."""
    pair = _same_values(scop, statement, values)
    if pair is not None:
        parameters, first, second = pair
        raise IllegalScheduleError(
            "WEFT-E0413",
            f"two instances of statement {statement.name} run at the same time",
            where=source_of(statement),
            statements=originals(statement),
            why=f"the loops around it do not tell {instance(statement, first)} from "
            f"{instance(statement, second)}{for_parameters(parameters)}",
            hint="every dim of a statement has to follow from the loops around it",
        )


def instance(statement: Statement, point: Sequence[int]) -> str:
    """``conv[o=1, y=0]``."""
    dims = ", ".join(f"{d}={v}" for d, v in zip(statement.dims, point, strict=True))
    return f"{statement.name}[{dims}]"


def for_parameters(parameters: dict[str, int]) -> str:
    """`` for n=3``, or nothing."""
    shown = ", ".join(f"{name}={value}" for name, value in parameters.items())
    return f" for {shown}" if shown else ""


def originals(*statements: Statement) -> tuple[str, ...]:
    """The original statements that ``statements`` stand for, by name; new ones stand for none."""
    names = (s.origin.statement if s.origin and s.origin.statement else s.name for s in statements)
    return tuple(dict.fromkeys(names))


def refusal(
    code: str, what: str, statements: Sequence[Statement], why: str, hint: str = ""
) -> IllegalScheduleError:
    """The error ``code`` about ``statements``, which says where these come from."""
    where = ", ".join(dict.fromkeys(map(source_of, statements)))
    names = originals(*statements)
    return IllegalScheduleError(code, what, where=where, why=why, hint=hint, statements=names)


def source_of(statement: Statement) -> str:
    """Where ``statement`` comes from, in the user's terms."""
    if statement.origin is not None and statement.origin.source:
        return f"{statement.name} ({statement.origin.source})"
    return statement.name
