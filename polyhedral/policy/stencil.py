"""Strategies for time-iterated programs over boxes: time tiling, or sweeps that share their rows.

    for t: for i: S(t, i, …)   →   for tt: for it: for t: for w: S(t, w - f·t, …)   w = i + f·t

A tile of ``steps`` time steps moves a window of rows through the arrays: what it loads serves all
of its steps. Inner dimensions are not tiled, so that vectors run along whole rows. With threads,
tiles run in wavefronts, or as diamonds between slopes ``f·t + i`` and ``f·t - i``.

If the arrays fit into a cache, time tiles gain nothing: a cost model decides (``time_costs``), and
where it depends on unknown sizes, both forms are versions, chosen at run time.

References: time skewing, Wonnacott, IJPP 2002; diamonds, Bandishti et al., SC 2012.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from weft.ir.machine import Machine
from weft.ir.plan import Option
from weft.ir.scalar_expr import Expr, Literal, Var, literal
from weft.ir.schedule_tree import Band, Tree
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.ir.scop import Constraint, Scop, Statement, Tensor
from weft.polyhedral.analysis.hyperplanes import Hyperplane
from weft.polyhedral.analysis.linear import box, linear, mentions
from weft.polyhedral.cost.operation_counts import computing, operation_counts
from weft.polyhedral.policy.planner import At, Group, Planner
from weft.polyhedral.policy.skewed_rows import (
    ROWS,
    unroll_and_jam_rows,
    unroll_and_jam_strips,
    waits,
)
from weft.polyhedral.policy.time_costs import (
    DIAMONDS,
    MARGIN,
    TILES,
    Form,
    Iterated,
    forms,
    limit,
)
from weft.polyhedral.policy.wavefront import tile_loops
from weft.polyhedral.transform.isolate import negated


def stencil(planner: Planner, group: Group) -> Tree | None:
    """``group`` in skewed tiles of time and rows; None if it is no such program, or better off
    without."""
    if group.above or not group.active:
        planner.declines("no dependence goes from one time step to another")
        return None
    if planner.untiled & set(group.names):
        planner.declines("it is the version for arrays so small that tiles of time do not pay")
        return None
    loops = time_loops(planner, group)
    if loops is None:
        return None
    rows = group.inside(loops.time, loops.rows)
    thin = not any(planner.free(rows, n) for n in group.names)  # rows are single elements
    if thin and waits(planner, group.inside(loops.time)):
        planner.declines("rows are single elements, which wait for each other")
        return None
    sized = _sized(planner, group, loops)
    if sized is None:
        planner.declines("what its forms cost is not known")
        return None
    x, ways = sized
    if waits(planner, rows):
        tiles = [form for form in ways if form.name == TILES and not form.columns]
        return _tiled(planner, group, loops, tiles[0], skewed=True) if tiles else None
    best = _chosen(planner, group, ways)
    others = [form for form in ways if form is not best]
    planner.notes.append(_told(best, others, x))
    if best.steps == 1:
        planner.decisions.settle(_decision(planner, group))
        planner.declines(f"of its forms, time_tile, {best.label} is taken")
        return None
    return _versions(planner, group, loops, best, x)


def sweeps(planner: Planner, group: Group) -> Tree | None:
    """``group`` one time step after the other, with its statements fused over the rows, so that one
    finds in cache what another has loaded. None if that is illegal, or costs parallelism."""
    if group.above or not group.active:
        planner.declines("no dependence goes from one time step to another")
        return None
    if planner.threads > 1:
        planner.declines("it is for one thread: there is no loop to share")
        return None
    loops = time_loops(planner, group)
    if loops is None:
        return None
    if loops.shared is None or loops.shared.coincident:
        planner.declines("no two statements share rows that depend on each other")
        return None
    rows = loops.shared.at
    inside = group.inside(loops.time, rows)
    if not all(planner.free(inside, n) for n in group.names) or waits(planner, inside):
        planner.declines("rows are single elements, or these wait for each other")
        return None
    band = (planner.loop("t", loops.time), planner.loop("w", rows))
    return Band(band, planner.nest(inside))


# ---- which form ---------------------------------------------------------------------------------


def _sized(planner: Planner, group: Group, loops: TimeLoops) -> tuple[Iterated, list[Form]] | None:
    """All forms of ``group``, the cheapest first, and what they are costed by."""
    statements, machine = planner.statements(group), planner.machine
    shared = loops.shared is not None
    x = iterated(planner.scop, statements, loops.slope, machine, tiled=2 if loops.columns else 1)
    if x is None:
        return None
    ways = forms(x, machine, planner.threads, shared=shared)
    if loops.mirror is None:
        ways = [form for form in ways if form.name != DIAMONDS]
    return x, ways


def _chosen(planner: Planner, group: Group, ways: Sequence[Form]) -> Form:
    known = {form.label: form for form in ways}
    options = [Option(label, form.cycles) for label, form in known.items()]
    least = min(ways, key=lambda form: form.cycles)
    why = f"{least.name} are to be {MARGIN:g} times as fast as tiles" if least != ways[0] else ""
    name = _decision(planner, group)
    chosen = planner.decisions.choose(name, options, ways[0].label, why=why)
    return known[str(chosen)]


def _decision(planner: Planner, group: Group) -> str:
    return f"{planner.title(group)}.time_tile"


def _told(best: Form, others: Sequence[Form], x: Iterated) -> str:
    rejected = "; ".join(map(str, others))
    return (
        f"time loop: {best}, rather than {rejected}"
        f" (arrays of {x.volume:,} bytes in all, sizes not known counted as"
        f" {TYPICAL_ELEMENTS:,} elements an array)"
    )


def _versions(
    planner: Planner, group: Group, loops: TimeLoops, form: Form, x: Iterated
) -> Tree | None:
    """``group`` in tiles, and as sweeps in a version for sizes at which these are cheaper."""
    small = limit(form, x, planner.machine, planner.threads, shared=loops.shared is not None)
    apart = small and planner.sized
    where = larger(planner.scop, planner.statements(group), small) if apart else None
    if where is None or planner.never(group, negated(where)):
        return _tiled(planner, group, loops, form)
    note = f"arrays of up to about {small:,} bytes, sweeps"
    few = planner.versions(group, where, "small", note)
    planner.untiled |= set(few)
    tiled = _tiled(planner, planner.group(group.names), loops, form)
    return TreeSequence((tiled, planner.nest(planner.group(few))))


# ---- its loops ----------------------------------------------------------------------------------


def _tiled(
    planner: Planner, group: Group, loops: TimeLoops, form: Form, *, skewed: bool = False
) -> Tree:
    """``group`` in tiles as ``form`` says; ``skewed``: its rows carry dependences, and are unrolled
    and jammed."""
    if skewed:
        form = replace(form, width=ROWS)
    rows = {n: e // form.width for n, e in loops.rows.items()}
    if form.name == DIAMONDS and loops.mirror is not None:
        tiles = {"w_t": rows, "x_t": {n: e // form.width for n, e in loops.mirror.items()}}
    else:
        tiles = {"t_t": {n: e // form.steps for n, e in loops.time.items()}, "w_t": rows}
    band = list(tile_loops(planner, group, tiles))
    above: list[At] = list(tiles.values())
    if form.columns and loops.columns is not None:
        columns = {n: e // form.width for n, e in loops.columns.items()}
        band.append(planner.loop("v_t", columns))
        above.append(columns)
    band.append(planner.loop("t", loops.time))
    inside = group.inside(*above, loops.time)
    if skewed:
        free = {len(planner.free(inside.inside(loops.rows), n)) for n in group.names}
        jammed = unroll_and_jam_rows(planner, inside, loops.rows) if free == {1} else None
        if jammed is not None:
            return Band(tuple(band), jammed)
    if any(len(planner.free(inside, n)) > 1 for n in group.names):  # rows are vectors of their own
        band.append(planner.loop("w", loops.rows))
        inside = inside.inside(loops.rows)
        strips = unroll_and_jam_strips(planner, inside) if skewed else None
        if strips is not None:
            return Band(tuple(band), strips)
    return Band(tuple(band), planner.nest(inside))


# ---- Which of its loops are over time, rows and columns.
#
# for t: for i: S(t, i, …)    time = t    rows = i + f·t, or i within a step


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
        _steps(statements),
    )


def _steps(statements: Sequence[Statement]) -> int | None:
    """The time steps of ``statements``, if known."""
    bounds = [box(s)[loops_of(s)[0]] for s in statements]
    counts = [upper - lower for lower, upper in bounds]
    known = [int(count.value) for count in counts if isinstance(count, Literal)]
    return max(1, *known) if len(known) == len(counts) else None


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
