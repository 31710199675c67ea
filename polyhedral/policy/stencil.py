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
from weft.ir.schedule_tree import Band, Tree
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.polyhedral.policy.planner import At, Group, Planner
from weft.polyhedral.policy.skewed_rows import (
    ROWS,
    unroll_and_jam_rows,
    unroll_and_jam_strips,
    waits,
)
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
