"""A register tile that the warps of a block compute together: what its code has to know of it.

    for i_p < 128: for j_p < 128: for k:         warps [2, 2]: each 64 × 64 of the results, in
      C[i_p, j_p] += A[i_p, k] * B[k, j_p]  →    fragments; ``depth`` steps of k at once

An instruction of the target multiplies what moves with the rows by what moves with the lanes. Both
operands are *panels*: their elements follow from rows (or lanes) and streams. An element that no
instance reads counts as 0. What moves with the rows may be a tensor in scope 'fragment': it lies in
the registers of the warp whose rows it has, for the whole stream, where it was computed from the
sums of another tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from weft.ir.instruction import ROW, Instruction
from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import Affine, FloorDiv, affine_bounds, variable
from weft.ir.scalar_expr import Literal, Load, literal
from weft.ir.scalar_match import matches
from weft.ir.schedule_tree import MarkedTile
from weft.ir.scop import Access, Scop, Statement
from weft.polyhedral.analysis.bounds import bounds
from weft.polyhedral.analysis.tile_domain import TileDomain


@dataclass(frozen=True, slots=True)
class Panel:
    """An operand. ``name``: the instruction's; ``own``: the loops that it moves with beside the
    streams, of so many turns in all; ``indices`` over the loops; ``conditions``, each >= 0 where
    an instance reads the element; ``along``: the loop along which elements are neighbours in memory
    of the device, and from the first that is read on all are, up to the last; '' for none."""

    name: str
    access: Access
    own: tuple[str, ...]
    turns: int
    indices: tuple[Affine, ...]
    conditions: tuple[Affine, ...]
    along: str


@dataclass(frozen=True, slots=True)
class WarpTile:
    """``left`` moves with the rows and ``right`` with the lanes. ``sizes``: of the row loops and
    the lane loop, by name. ``target``: forms, each >= 0 where there is such a row and lane."""

    instruction: Instruction
    sizes: Mapping[str, int]
    left: Panel
    right: Panel
    target: tuple[Affine, ...]


def warp_tile(scop: Scop, tile: MarkedTile, domain: TileDomain) -> WarpTile | str:
    """``tile``, which proof has found legal, as its warps compute it; what stands against it."""
    instruction = tile.payload.instruction
    assert instruction is not None, "warps compute by an instruction"
    sizes = (*tile.payload.rows, tile.payload.lanes)
    reason = next(_misfits(tile, instruction, sizes), "")
    if reason:
        return reason
    for k, (name, hull) in enumerate(zip(domain.streams, domain.streams_hull, strict=True)):
        if _mentions([form for form in hull if name in form.variables()], domain.streams[:k]):
            return "how many steps a stream has depends on another"
    rows, lanes = domain.rows, (domain.lane,)
    for form in domain.whole:
        if sum(_mentions([form], names) for names in (rows, lanes, domain.streams)) > 1:
            return "which of its rows, lanes and steps there are depends on each other"
    statement = scop.statement(tile.statement)
    by_name = dict(zip((*rows, *lanes), sizes, strict=True))
    found = _operands(statement, instruction, domain)
    if found is None:
        return "no operand moves with the rows alone, and the other with the lanes alone"
    left, right = (
        _panel(scop, domain, access, name, own, by_name)
        for access, name, own in zip(found, instruction.tensors, (rows, lanes), strict=True)
    )
    for panel in (left, right):
        if scop.tensor(panel.access.tensor).scope == "fragment":
            reason = _why_not_held(scop, tile, domain, panel)
            if reason:
                return reason
    box = {n: (0, size - 1) for n, size in by_name.items()}
    target = tuple(
        f for f in domain.target if not f.variables().isdisjoint(box) and not _holds(f, box)
    )
    return WarpTile(instruction, by_name, left, right, target)


def _why_not_held(scop: Scop, tile: MarkedTile, domain: TileDomain, panel: Panel) -> str:
    """What stands against ``panel``, a tensor in scope 'fragment', being what each warp has of it,
    or ''."""
    (*_, stream), statement = domain.streams, scop.statement(tile.statement)
    limits = bounds(scop, [(statement, tile.loops[tile.streams - 1].at[tile.statement])])
    steps = None if limits is None else limits.size
    short = isinstance(steps, Literal) and steps.value <= tile.payload.depth
    if panel.indices != tuple(map(variable, (*domain.rows, stream))) or len(domain.streams) > 1:
        return f"the elements of {panel.access.tensor} are not its rows and steps, one for one"
    if tile.payload.warps[1] > 1 or panel.own != domain.rows or not short:
        return f"no warp has all of {panel.access.tensor} that it multiplies"
    return ""


def held_places(
    scop: Scop, tile: MarkedTile, domain: TileDomain
) -> tuple[tuple[str, ...], Mapping[str, int]] | str:
    """For a target in scope 'fragment': the loop of rows or lanes whose value each stored index is,
    and the value of each loop of them that has one alone; what stands against it."""
    statement = scop.statement(tile.statement)
    if len(statement.writes) != 1:
        return "it updates several elements"
    (write,) = statement.writes
    stored = write.indices[scop.tensor(write.tensor).contracted :]
    own = (*domain.rows, domain.lane)
    forms = [domain.inverse.over_loops(affine(index)) for index in stored]
    loops = tuple(next((x for x in own if form == variable(x)), "") for form in forms)
    if "" in loops:
        return f"the elements of {write.tensor} are not its rows and lanes, one for one"
    single: dict[str, int] = {}
    for name, loop in zip(own, tile.loops[tile.streams :], strict=True):
        if name in loops:
            continue
        limits = bounds(scop, [(statement, loop.at[tile.statement])])
        if limits is None or limits.size != literal(1) or not isinstance(limits.lower, Literal):
            return f"{write.tensor} has no index for the loop {loop.name}"
        single[name] = int(limits.lower.value)
    return loops, single


def _misfits(tile: MarkedTile, own: Instruction, sizes: Sequence[int]) -> Iterator[str]:
    payload = tile.payload
    if len(payload.warps) != 2 or min(payload.warps) < 1:
        yield "it does not say how many warps there are along rows and lanes"
        return
    if any(loop.kind in ("block", "warp", "lane", "parallel", "vector") for loop in tile.outer):
        yield "the threads of a block are at work in a loop around it"
    for what, n, warps, dim in (
        ("rows", prod(sizes[:-1]), payload.warps[0], ROW),
        ("lanes", sizes[-1], payload.warps[1], own.across[0]),
    ):
        if n % (warps * own.extents[dim]):
            yield f"its {n} {what} are no whole issues of {own.extents[dim]} for {warps} warps"
    if payload.depth < 1 or payload.depth % own.depth:
        yield f"its depth of {payload.depth} steps is no multiple of the instruction's {own.depth}"
    if payload.stages < 0:
        yield "it has less than no stages"


def _operands(
    statement: Statement, instruction: Instruction, domain: TileDomain
) -> tuple[Access, Access] | None:
    """What moves with rows, and what with lanes."""
    for found in matches(instruction.value, statement.body.results[0]):
        reads = [
            statement.reads[value.source]
            for _, value in sorted(found.items())
            if isinstance(value, Load) and isinstance(value.source, int)
        ]
        if len(reads) == 2 and not (
            _moves(reads[0], domain, (domain.lane,)) or _moves(reads[1], domain, domain.rows)
        ):
            return reads[0], reads[1]
    return None


def _moves(access: Access, domain: TileDomain, names: Sequence[str]) -> bool:
    """Whether ``access``, or whether it is performed, depends on the loops ``names``."""
    forms = [domain.inverse.over_loops(affine(i)) for i in access.indices]
    forms += [domain.inverse.over_loops(affine(c.expr)) for c in access.guard]
    return any(not form.variables().isdisjoint(names) for form in forms)


def _panel(
    scop: Scop,
    domain: TileDomain,
    access: Access,
    name: str,
    own: tuple[str, ...],
    sizes: Mapping[str, int],
) -> Panel:
    tensor = scop.tensor(access.tensor)
    box = {n: (0, size - 1) for n, size in sizes.items()}
    inside = {*own, *domain.streams}
    needed = [
        form
        for form in domain.whole
        if not form.variables().isdisjoint(inside) and not _holds(form, box)
    ]
    kept = [f for f in needed if f.variables().isdisjoint({*sizes} - {*own})]
    first = {*domain.streams}  # streams begin at their least value
    conditions = [f for f in kept if not _is_lower(f, first)]
    for c in access.guard:
        form = domain.inverse.over_loops(affine(c.expr))
        conditions += [form, form.scaled(-1)] if c.equality else [form]
    indices = tuple(
        domain.inverse.over_loops(affine(i)) for i in access.indices[tensor.contracted :]
    )
    along = ""
    if tensor.scope == "global":
        along = next(
            (
                x
                for x in (domain.streams[-1], own[-1])
                if _neighbours(indices, x) and not any(_starts_late(f, x) for f in conditions)
            ),
            "",
        )
    turns = prod(sizes[n] for n in own)
    return Panel(name, access, own, turns, indices, tuple(dict.fromkeys(conditions)), along)


def _holds(form: Affine, box: Mapping[str, tuple[int, int]]) -> bool:
    least = affine_bounds(form, box)[0]
    return least is not None and least >= 0


def _is_lower(form: Affine, streams: set[str]) -> bool:
    """Whether ``form`` >= 0 says only from which value on a stream runs."""
    mine = [n for n in streams if form.coefficient(n)]
    return len(mine) == 1 and form.coefficient(mine[0]) > 0


def _neighbours(indices: Sequence[Affine], x: str) -> bool:
    """Whether the elements along loop ``x`` are neighbours in memory."""
    *outer, last = indices
    floors = (t for t, _ in last.terms if isinstance(t, FloorDiv))
    return (
        last.coefficient(x) == 1
        and not any(x in floor.numerator.variables() for floor in floors)
        and not any(x in form.variables() for form in outer)
    )


def _starts_late(form: Affine, x: str) -> bool:
    """Whether ``form`` may hold for an element along ``x``, but not for one before."""
    floors = (t for t, _ in form.terms if isinstance(t, FloorDiv))
    return form.coefficient(x) > 0 or any(x in floor.numerator.variables() for floor in floors)


def _mentions(forms: Sequence[Affine], names: Sequence[str]) -> bool:
    return any(not form.variables().isdisjoint(names) for form in forms)
