"""Programs that are iterated in time: their loops over time, rows and columns, and their sizes.

for t: for i: S(t, i, …)    time = t    rows = i + f·t, or i within a step
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from weft.ir.machine import Machine
from weft.ir.scalar_expr import Expr, Literal, Var, literal
from weft.ir.scop import Constraint, Scop, Statement, Tensor
from weft.polyhedral.analysis.hyperplanes import Hyperplane
from weft.polyhedral.analysis.linear import box, linear, mentions
from weft.polyhedral.cost.operation_counts import computing, operation_counts
from weft.polyhedral.policy.planner import At, Group, Planner
from weft.polyhedral.policy.time_costs import Iterated

TYPICAL_ELEMENTS = 4_000_000  # of an array whose size is not known
MAX_SLOPE = 3


@dataclass(frozen=True, slots=True)
class TimeLoops:
    """Loops over time and skewed rows of statements in a dependence cycle, ``slope`` rows per step;
    skewed ``columns``, if any; ``mirror``: rows of the opposite slope (for diamonds); ``shared``: a
    loop over the rows of one step that all statements can share."""

    time: At
    rows: At
    slope: int
    columns: At | None
    mirror: At | None
    shared: Hyperplane | None


def time_loops(planner: Planner, group: Group) -> TimeLoops | None:
    """The loops of ``group`` if the domains of its statements are boxes and every time step updates
    the same elements; else None, also where rows depend on none but themselves: they go outside."""
    statements = planner.statements(group)
    odd = [s.name for s in statements if not s.dims or set(box(s)) != set(s.dims)]
    if odd:
        planner.declines(f"the loops around {odd[0]} are no box: bounds depend on loops")
        return None
    order = {s.name: loops_of(s) for s in statements}
    anchor = max(statements, key=lambda s: len(s.dims)).name
    if len(order[anchor]) < 2:
        planner.declines(f"{anchor} has no rows inside a loop over time steps")
        return None
    search = group.search()
    steps: At = {name: Var(dims[0]) for name, dims in order.items()}
    time = search.valid(steps)
    if time is None:
        planner.declines(
            lambda: f"the outermost loop is not over time steps, because of {group.against(steps)}"
        )
        return None
    if time.coincident or not any(map(_comes_back, statements)):
        planner.declines("no loop is over time steps, which update the same elements")
        return None
    inner = _rows_of(order, len(order[anchor]))
    for row in inner[anchor][:-1]:
        apart = search.complete({anchor: row}, inner)
        if apart is not None and apart.coincident:
            planner.declines(f"rows of {anchor} depend on none but themselves")
            return None
    for slope in range(1, MAX_SLOPE + 1):
        skewed = {n: [Var(order[n][0]) * slope + d for d in inner[n]] for n in order}
        rows = search.complete({anchor: skewed[anchor][0]}, skewed)
        if rows is None:
            continue
        columns = mirror = None
        if all(len(dims) > 3 for dims in order.values()):
            columns = search.complete({}, {n: skewed[n][1:2] for n in group.names})
        other = {n: (Var(order[n][0]) * (2 * slope) - e,) for n, e in rows.at.items()}
        mirror = search.complete({}, other)
        shared = None
        if len(group.names) > 1:
            shared = group.inside(time.at).search().complete({anchor: inner[anchor][0]}, inner)
        return TimeLoops(time.at, rows.at, slope, _at(columns), _at(mirror), shared)
    planner.declines(f"rows skewed by up to {MAX_SLOPE} still go backwards somewhere")
    return None


def _rows_of(order: Mapping[str, Sequence[str]], most: int) -> dict[str, list[Expr]]:
    """The dims that may be rows, by statement. A statement with fewer dims than others may count as
    one row of theirs (0)."""
    found: dict[str, list[Expr]] = {}
    for name, dims in order.items():
        own: list[Expr] = [*map(Var, dims[1:])]
        found[name] = [*own, literal(0)] if len(dims) == most else [literal(0), *own]
    return found


def _at(plane: Hyperplane | None) -> At | None:
    return None if plane is None else plane.at


def loops_of(s: Statement) -> list[str]:
    """The dims of ``s``, in textual order."""
    return [p for p in s.position if isinstance(p, str)]


def _comes_back(s: Statement) -> bool:
    """Whether ``s`` writes the same elements in every time step; otherwise no step reuses what the
    one before has loaded."""
    time = loops_of(s)[0]
    forms = [linear(index, (time,)) for write in s.writes for index in write.indices]
    return not any(form is not None and form.coefficients.get(time) for form in forms)


# ---- how large it is ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    """An array that changes with time: its ``axes`` along rows and columns, and the ``rest``."""

    tensor: Tensor
    axes: tuple[int, ...]
    rest: tuple[int, ...]


def iterated(
    scop: Scop, statements: Sequence[Statement], slope: int, machine: Machine, *, tiled: int
) -> Iterated | None:
    """What the cost model needs to know of ``statements``, whose first ``tiled`` dims in space are
    rows and columns; None if no array changes along these."""
    fields = _fields(scop, statements, tiled)
    if not fields:
        return None
    extents = [1] * tiled
    for field in fields:
        sizes = _sizes(field.tensor)
        extents = [max(e, sizes[a]) for e, a in zip(extents, field.axes, strict=True)]
    element = sum(_bytes(field.tensor, field.rest) for field in fields)
    volume = prod(extents) * element
    return Iterated(
        tuple(extents),
        element,
        slope,
        len(statements),
        any(len(s.dims) > 1 + tiled for s in statements),
        _passes(scop, statements, fields) / volume,
        sum(_work(scop, s, machine) for s in statements),
    )


def larger(scop: Scop, statements: Sequence[Statement], limit: int) -> Constraint | None:
    """Where the changing arrays take more than about ``limit`` bytes, as a condition on the sum of
    sizes: of all sizes of that sum, equal ones have the largest product. None if sizes do not
    decide it."""
    fields = _fields(scop, statements, 1)
    open_ = [[e for e in f.tensor.shape if not isinstance(e, Literal)] for f in fields]
    if not fields or not all(open_):
        return None
    fixed = sum(
        prod(int(e.value) for e in f.tensor.shape if isinstance(e, Literal))
        * f.tensor.dtype.itemsize
        for f in fields
    )
    sizes = max(open_, key=len)
    side = int((limit / max(fixed, 1)) ** (1 / len(sizes)))
    total: Expr = literal(-side * len(sizes) - 1)
    for size in sizes:
        total = total + size
    return Constraint(total)


def _fields(scop: Scop, statements: Sequence[Statement], tiled: int) -> list[Field]:
    found: dict[str, Field] = {}
    for s in statements:
        for write in s.writes:
            dims = loops_of(s)[1 : 1 + tiled]
            axes = [
                next((k for k, index in enumerate(write.indices) if mentions(index, (d,))), None)
                for d in dims
            ]
            known = tuple(a for a in axes if a is not None)
            if len(known) == tiled and len(set(known)) == tiled:
                rest = tuple(k for k in range(len(write.indices)) if k not in known)
                found.setdefault(write.tensor, Field(scop.tensor(write.tensor), known, rest))
    return list(found.values())


def _sizes(tensor: Tensor) -> list[int]:
    known = [int(e.value) for e in tensor.shape if isinstance(e, Literal)]
    count = max(1, len(tensor.shape) - len(known))
    typical = int((TYPICAL_ELEMENTS / max(1, prod(known))) ** (1 / count))
    return [int(e.value) if isinstance(e, Literal) else max(1, typical) for e in tensor.shape]


def _bytes(tensor: Tensor, axes: Sequence[int]) -> int:
    sizes = _sizes(tensor)
    return prod(sizes[a] for a in axes) * tensor.dtype.itemsize


def _passes(scop: Scop, statements: Sequence[Statement], fields: Sequence[Field]) -> float:
    """Bytes that sweeps move: each statement reads its arrays, and writes those that it changes."""
    names = {field.tensor.name for field in fields}
    total = 0
    for s in statements:
        written = {w.tensor for w in s.writes}
        for name in sorted(names & {*written, *(r.tensor for r in s.reads)}):
            tensor = scop.tensor(name)
            whole = _bytes(tensor, range(len(tensor.shape)))
            total += whole * (2 if name in written else 1)
    return float(total)


def _work(scop: Scop, s: Statement, machine: Machine) -> float:
    """Cycles of one time step of ``s`` in vectors, with all data in L1."""
    tensor = max((scop.tensor(w.tensor) for w in s.writes), key=lambda t: len(t.shape))
    points = prod(_sizes(tensor)[-max(1, len(s.dims) - 1) :])
    moving = len(s.reads) / machine.loads_per_cycle + len(s.writes)
    return (
        points / machine.lanes(tensor.dtype) * max(computing(operation_counts(s), machine), moving)
    )
