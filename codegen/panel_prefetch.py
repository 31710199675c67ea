"""Panel prefetch: register tiles that share a panel of lanes prefetch the next panel together.

    for j: for i: for k:                         for j: for i: for k:
      tile[r, l] += A[i, r, k] * B[j, k, l]  →     prefetch the share of iteration i in B[j + 1, …]
                                                   tile[r, l] += A[i, r, k] * B[j, k, l]

Without it, the first tile of a panel would wait for memory while the others load from L1 and L2.
Each tile prefetches a share of the next panel into L2. Packed panels are contiguous, and all tiles
have equal shares; of unpacked ones each tile has lines of its own. Where the number of tiles is
open, they are counted when the code runs. The last panel of a part of the reduction is followed by
the first one of the next part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod

from weft.codegen.tile_bounds import ZERO, mentions_any
from weft.codegen.tile_prefetch import lane_indices
from weft.codegen.tile_version import TileVersion
from weft.ir.build import minimum
from weft.ir.loop_ir import Prefetch, Stmt
from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import Affine, to_expr
from weft.ir.scalar_expr import Expr, Literal, Var, literal, substitute
from weft.ir.scalar_simplify import simplify
from weft.ir.scop import Access


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop from ``begin`` on, with at most ``trips`` iterations. ``count``: how many it has, as
    far as open sizes say; at least ``least``."""

    name: str
    begin: Expr
    trips: int
    count: Expr
    least: int

    @property
    def iteration(self) -> Expr:
        return Var(self.name) - self.begin


@dataclass(frozen=True, slots=True)
class _Shared:
    """A read, made by ``tile`` at ``places``, that is the same in all iterations of the loops
    ``inside``. ``later``: the values of the loops outside at the next panel."""

    tile: TileVersion
    read: Access
    places: tuple[Expr, ...]
    later: dict[str, Expr]
    inside: list[_Loop]
    streams: list[_Loop]

    @property
    def line(self) -> int:
        return self.tile.line(self.tile.instances.tensor(self.read.tensor).dtype)

    def at(self, values: dict[str, Expr]) -> tuple[Expr, ...]:
        return tuple(substitute(p, {**self.later, **values}) for p in self.places)


def prefetch_next_panel(tile: TileVersion) -> list[Stmt]:
    """Prefetches of this tile's share of the panel after the one that it reads, if the mark says so
    and the loops have known numbers of iterations."""
    streams = [_loop(tile.domain.streams_hull[-1], name) for name in tile.domain.streams]
    known = [loop for loop in streams if loop is not None]
    found: list[Stmt] = []
    for read in tile.statement.reads if tile.shared and len(known) == len(streams) else ():
        places = lane_indices(tile, read)
        moving = any(mentions_any(p, tile.domain.streams) for p in places)
        around = _panel_loop(tile, places) if moving else None
        if around is None or places[-1].coefficient(tile.domain.lane) != 1:
            continue
        panel_loop, inside = around
        at = tuple(map(to_expr, places))
        shared = _Shared(tile, read, at, _later(tile, panel_loop), inside, known)
        width = tile.instances.tensor(read.tensor).shape[-1]
        if isinstance(width, Literal) and not places[-1].coefficient(panel_loop.name):
            found += _of_panels(shared, int(width.value))
        else:
            found += _of_rows(shared)
    return found


def _of_panels(s: _Shared, width: int) -> list[Stmt]:
    """As many elements per step as all tiles together need for one step."""
    tiles, least = _count(s.inside), prod(loop.least for loop in s.inside)
    each, most = simplify((tiles + (width - 1)) // tiles), -(-width // least)
    first = {x.name: substitute(x.begin, s.later) for x in s.streams}
    *outer, last = s.at({**first, s.tile.domain.lane: ZERO})
    step = _iteration(s.inside) * prod(x.trips for x in s.streams) + _iteration(s.streams)
    return [
        Prefetch(s.read.tensor, (*outer, last + step * each + n * s.line), far=True)
        for n in range(-(-most // s.line))
    ]


def _of_rows(s: _Shared) -> list[Stmt]:
    """Some lines of the same step of the next part: with rows that do not begin at lines, one more
    line than the lanes fill."""
    lane, least = s.tile.domain.lane, prod(loop.least for loop in s.inside)
    width = s.tile.instances.tensor(s.read.tensor).shape[-1]
    in_lines = isinstance(width, Literal) and int(width.value) % s.line == 0
    lines = -(-s.tile.sizes[lane] // s.line) + (0 if in_lines else 1)
    first = _iteration(s.inside) * lines // _count(s.inside) * s.line
    same = {x.name: x.iteration + substitute(x.begin, s.later) for x in s.streams}
    return [
        Prefetch(s.read.tensor, s.at({**same, lane: first + n * s.line}), far=True)
        for n in range(-(-lines // least))
    ]


def _iteration(loops: Iterable[_Loop]) -> Expr:
    """The number of this iteration among all of ``loops``."""
    total: Expr = ZERO
    for loop in loops:
        total = total * loop.count + loop.iteration
    return total


def _count(loops: Iterable[_Loop]) -> Expr:
    """The number of iterations of all of ``loops``."""
    return simplify(prod((loop.count for loop in loops), start=literal(1)))


def _panel_loop(tile: TileVersion, places: Sequence[Affine]) -> tuple[_Loop, list[_Loop]] | None:
    """The innermost loop outside that moves what is read, and those inside of it."""
    above = [form for c in tile.domain.above for form in _forms(affine(c.expr), c.equality)]
    inside: list[_Loop] = []
    for name in reversed(tile.domain.outer):
        loop = _loop(above, name)
        if loop is None or _moves_streams(tile, name):
            return None
        if any(mentions_any(p, (name,)) for p in places):
            return loop, inside[::-1]
        inside.append(_counted(loop, above, tile.domain.outer))
    return None


def _forms(form: Affine, equality: bool) -> list[Affine]:
    return [form, form.scaled(-1)] if equality else [form]


def _moves_streams(tile: TileVersion, name: str) -> bool:
    hull = tile.domain.streams_hull[-1]
    return any(f.coefficient(name) and mentions_any(f, tile.domain.streams) for f in hull)


def _later(tile: TileVersion, panel_loop: _Loop) -> dict[str, Expr]:
    """The values of the loops outside in the next iteration of ``panel_loop``; after its last one,
    those of its first in the next part of the reduction."""
    outer = tile.domain.outer[: tile.domain.outer.index(panel_loop.name)]
    part = next((name for name in reversed(outer) if _moves_streams(tile, name)), None)
    if part is None:
        return {panel_loop.name: Var(panel_loop.name) + 1}
    over = (panel_loop.iteration + 1) // panel_loop.trips
    return {
        panel_loop.name: Var(panel_loop.name) + 1 - over * panel_loop.trips,
        part: Var(part) + over,
    }


def _loop(forms: Iterable[Affine], name: str) -> _Loop | None:
    """The loop ``name`` as ``forms`` bound it; None if its number of iterations is unbounded."""
    every = list(forms)
    low = [f for f in every if f.coefficient(name) == 1]
    high = [f for f in every if f.coefficient(name) == -1]
    pairs = [(one + other, one) for one in low for other in high if (one + other).is_constant]
    if not pairs:
        return None
    size, begin = min(pairs, key=lambda pair: pair[0].constant)
    trips = size.constant + 1
    return _Loop(name, Var(name) - to_expr(begin), trips, literal(trips), trips)


def _counted(loop: _Loop, forms: Iterable[Affine], loops: Sequence[str]) -> _Loop:
    """``loop`` with the iterations that ``forms`` leave it for sizes that are open: what is in them
    and none of ``loops``."""
    open_ = [f for f in forms if f.coefficient(loop.name) < 0 and f.variables() - {*loops}]
    if not open_:
        return loop
    last = (to_expr(f) // -f.coefficient(loop.name) + Var(loop.name) for f in open_)
    counts = (simplify(end - loop.begin + 1) for end in last)
    return replace(loop, count=reduce(minimum, counts, loop.count), least=1)
