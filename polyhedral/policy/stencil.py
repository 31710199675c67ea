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

from collections.abc import Sequence
from dataclasses import replace

from weft.ir.plan import Option
from weft.ir.scalar_expr import Apply, Var, walk
from weft.ir.schedule_tree import Band, Tree
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.ir.scop import Statement
from weft.polyhedral.analysis.hyperplanes import Hyperplane, components
from weft.polyhedral.analysis.work import operations
from weft.polyhedral.policy.planner import At, Group, Planner
from weft.polyhedral.policy.time_costs import (
    DIAMONDS,
    TILES,
    Form,
    Iterated,
    forms,
    limit,
)
from weft.polyhedral.policy.time_loops import (
    TYPICAL_ELEMENTS,
    TimeLoops,
    iterated,
    larger,
    time_loops,
)
from weft.polyhedral.policy.wavefront import tile_loops


def stencil(planner: Planner, group: Group) -> Tree | None:
    """``group`` in skewed tiles of time and rows; None if it is no such program, or better off
    without."""
    if group.above or not group.active or planner.untiled & set(group.names):
        return None
    loops = time_loops(planner, group)
    if loops is None:
        return None
    rows = group.inside(loops.time, loops.rows)
    thin = not any(planner.free(rows, n) for n in group.names)  # rows are single elements
    if thin and waits(planner, group.inside(loops.time)):
        return None
    sized = _sized(planner, group, loops)
    if sized is None:
        return None
    x, ways = sized
    if waits(planner, rows):
        tiles = [form for form in ways if form.name == TILES and not form.columns]
        return _tiled(planner, group, loops, tiles[0], skewed=True) if tiles else None
    best = _chosen(planner, group, ways)
    others = [form for form in ways if form is not best]
    planner.notes.append(_told(best, others, x))
    if best.steps == 1:
        return None
    return _versions(planner, group, loops, best, x)


def sweeps(planner: Planner, group: Group) -> Tree | None:
    """``group`` one time step after the other, with its statements fused over the rows, so that one
    finds in cache what another has loaded. None if that is illegal, or costs parallelism."""
    if group.above or not group.active or planner.threads > 1:
        return None
    loops = time_loops(planner, group)
    if loops is None or loops.shared is None or loops.shared.coincident:
        return None
    rows = loops.shared.at
    inside = group.inside(loops.time, rows)
    if not all(planner.free(inside, n) for n in group.names) or waits(planner, inside):
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
    name = f"{planner.title(group)}.time_tile"
    return known[str(planner.decisions.choose(name, options, ways[0].label))]


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
    where = larger(planner.scop, planner.statements(group), small) if small else None
    if where is None:
        return _tiled(planner, group, loops, form)
    edges = planner.versions(group, where)
    planner.untiled |= set(edges)
    planner.notes.append(f"arrays of up to about {small:,} bytes: sweeps, chosen when it runs")
    tiled = _tiled(planner, planner.group(group.names), loops, form)
    return TreeSequence((tiled, planner.nest(planner.group(edges))))


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


# ---- Skewed unroll-and-jam: a few rows of a recurrence overlap, each behind the one before.
#
#     for i: for j: S(i, j)   →   for i_t: for s: unrolled i_p < 8: S(8·i_t + i_p, s - f·i_p)
#
# All loops carry dependences, but in one iteration of the skewed ``s = j + f·i`` rows are
# independent, so that their chains of dependent operations overlap in the processor.
#
# Reference: wavefronts, Lamport, The parallel execution of DO loops, CACM 1974.


ROWS = 8  # unrolled
MAX_SKEW = 3  # the largest factor f


def skewed_unroll_and_jam(planner: Planner, group: Group) -> Tree | None:
    """``group``, all loops of which carry dependences, with its rows skewed, unrolled and jammed;
    else None."""
    return (
        None if group.in_tile or _quick(planner, group) else unroll_and_jam_strips(planner, group)
    )


def unroll_and_jam_strips(planner: Planner, group: Group) -> Tree | None:
    """The same, also within tiles."""
    if not all(len(planner.free(group, n)) == 2 for n in group.names):
        return None
    rows = group.search().valid({n: Var(planner.free(group, n)[0]) for n in group.names})
    if rows is None or rows.coincident or not waits(planner, group.inside(rows.at)):
        return None
    strips = {n: e // ROWS for n, e in rows.at.items()}
    inside = unroll_and_jam_rows(planner, group.inside(strips), rows.at)
    if inside is None:
        return None
    return Band((planner.loop(f"{planner.name(rows.at)}_t", strips),), inside)


def unroll_and_jam_rows(planner: Planner, group: Group, rows: At) -> Tree | None:
    """Within tiles of ``rows``: the skewed loop, and the unrolled rows of the tile inside it."""
    found = _least_skew(planner, group, rows)
    if found is None:
        return None
    points = planner.point(group, rows)
    if points == rows:
        return None
    name = planner.name(rows)
    loops = (planner.loop("s", found.at), planner.loop(f"{name}_p", points, "unrolled"))
    return Band(loops, planner.nest(group.inside(found.at, rows)))


def _least_skew(planner: Planner, group: Group, rows: At) -> Hyperplane | None:
    """The loop along the rows with the least skew inside which rows are independent; None if there
    is none."""
    free = {n: planner.free(group, n) for n in group.names}
    if not all(free.values()):
        return None
    for skew in range(1, MAX_SKEW + 1):
        at = {n: rows[n] * skew + Var(dims[-1]) for n, dims in free.items()}
        found = group.search().complete({}, {n: (e,) for n, e in at.items()})
        if found is not None:
            across = group.inside(found.at).search().valid(rows)
            if across is not None and across.coincident:
                return found
    return None


def waits(planner: Planner, row: Group) -> bool:
    """Whether the rows of a statement, or of a cycle of statements, carry dependences."""
    for names in row.components():
        part = row.part(names)
        free = [planner.free(part, n) for n in names]
        if not all(free):
            return False
        along = part.search().valid({n: Var(dims[-1]) for n, dims in zip(names, free, strict=True)})
        if along is None or not along.coincident:
            return True
    return False


def _quick(planner: Planner, group: Group) -> bool:
    """Whether no row carries more than an integer addition or the like: that takes no longer than
    to load the next element, and one row after the other is easier to prefetch."""
    free = {n: planner.free(group, n) for n in group.names}
    if not all(free.values()):
        return False
    row = group.inside({n: Var(dims[0]) for n, dims in free.items()})
    flows = [a.dependence for a in row.active if a.dependence.kind == "flow"]
    tensors = {t.name: t for t in planner.scop.tensors}
    for names in components(row.names, flows):
        statements = [planner.scop.statement(n) for n in names]
        carried = len(names) > 1 or any(d.source.name == d.sink.name == names[0] for d in flows)
        if carried and (
            sum(map(operations, statements)) > 1
            or any(_chooses(s) for s in statements)
            or any(tensors[w.tensor].dtype.is_float for s in statements for w in s.writes)
        ):
            return False
    return True


def _chooses(s: Statement) -> bool:
    """Whether a statement takes a minimum or maximum."""
    own = s.body.expressions
    combined = s.update.monoid.combined if s.update is not None else ()
    nodes = (n for e in (*own, *combined) for n in walk(e))
    return any(isinstance(n, Apply) and n.op in ("min", "max") for n in nodes)
