"""A price in words: what the estimate consists of, the bound, and what limits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, prod

import numpy as np

from weft.ir.errors import BudgetError, WeftError
from weft.ir.machine import Machine
from weft.ir.scalar_expr import Apply, Literal, variable_names, walk
from weft.ir.schedule_tree import MarkedTile, marked_tiles
from weft.ir.units import bytes_text, time_text
from weft.polyhedral.analysis.counting import LARGE
from weft.polyhedral.analysis.linear import moves
from weft.polyhedral.analysis.trip_count import trip_count
from weft.polyhedral.cost.compute import instruction_of, registers
from weft.polyhedral.cost.price import Price, price
from weft.polyhedral.transform.scheduled import Scheduled


@dataclass(frozen=True, slots=True)
class Told:
    """A price, where there is one, at these ``sizes``; else ``why`` not."""

    price: Price | None
    sizes: Mapping[str, int] = field(default_factory=dict)
    why: str = ""

    @property
    def at(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.sizes.items())


def told(
    scheduled: Scheduled,
    machine: Machine,
    sizes: Mapping[str, int] | None = None,
    threads: int = 1,
) -> Told:
    """The price of ``scheduled`` on ``threads``; sizes that are not given are large ones. Never
    raises."""
    derived = {name for name, _ in scheduled.scop.derived}
    open_ = [name for name in scheduled.scop.parameters if name not in derived]
    values = dict.fromkeys(open_, LARGE) | dict(sizes or {})
    try:
        found = price(scheduled, machine, threads, values)
    except (WeftError, ArithmeticError, RecursionError) as error:
        return Told(None, why=f"no estimate: {error}".splitlines()[0])
    return Told(found, {name: values[name] for name in open_})


def tile_lines(scheduled: Scheduled, machine: Machine) -> list[str]:
    """Register tiles that are larger than the registers or than the loops that they stand for, or
    whose lanes are those of no panel."""
    lines: list[str] = []
    for name, tile in marked_tiles(scheduled.tree).items():
        if not tile.payload.warps:
            said = (
                _spilled(scheduled, tile, machine),
                _empty(scheduled, tile),
                _cut(scheduled, tile),
            )
            lines += [f"register tile of {name}: {why}" for why in said if why]
    return lines


def _spilled(scheduled: Scheduled, tile: MarkedTile, machine: Machine) -> str:
    statement, payload = scheduled.scop.statement(tile.statement), tile.payload
    by = instruction_of(statement, payload, machine)
    vectors = ceil(payload.lanes / by.lanes)
    issues = vectors * ceil(prod(payload.rows) / by.rows)
    along = variable_names(tile.loops[-1].at[statement.name]) & {*statement.dims}
    moved = sum(moves(read, *along) for read in statement.reads)
    needed = int(registers(np.array(issues), np.array(moved * vectors * (by.depth // by.word))))
    if needed <= by.registers:
        return ""
    size = " x ".join(map(str, (*payload.rows, payload.lanes)))
    more = needed - by.registers
    return f"{size} takes {needed} registers of {by.registers}; in each step {more} go through L1"


def _empty(scheduled: Scheduled, tile: MarkedTile) -> str:
    sizes = (*tile.payload.rows, tile.payload.lanes)
    for loop, size in zip(tile.loops[-len(sizes) :], sizes, strict=True):
        try:
            turns = trip_count(scheduled.scop, scheduled.tree, loop.name)
        except BudgetError:
            continue
        if turns and turns < size:
            return f"{size} along {loop.name}, which has {turns} iterations at most"
    return ""


def _cut(scheduled: Scheduled, tile: MarkedTile) -> str:
    """Whether the lanes of ``tile`` go over the ends of panels."""
    statement, lanes = scheduled.scop.statement(tile.statement), tile.payload.lanes
    along = variable_names(tile.loops[-1].at[statement.name]) & {*statement.dims}
    for read in statement.reads:
        for node in (n for index in read.indices for n in walk(index)):
            match node:
                case Apply("floordiv", (inside, Literal(width))) if variable_names(inside) & along:
                    if int(width) % lanes:
                        return f"{lanes} lanes, which panels of {width} in {read.tensor} cut"
    return ""


def price_lines(known: Told) -> list[str]:
    """Some lines for ``explain``."""
    found = known.price
    if found is None:
        return [known.why]
    most = max(found.parts.values(), default=0.0)
    ranked = sorted(found.parts.items(), key=lambda part: -part[1])
    clock = found.frequency
    parts = ", ".join(f"{n} {time_text(c / clock)}" for n, c in ranked if c and c * 100 > most)
    moved = ", ".join(f"{name} {bytes_text(n)}" for name, n in found.moved.items())
    at = f" for {known.at}" if known.at else ""
    return [
        f"estimate {time_text(found.seconds)}{at}: {parts or 'nothing to do'}",
        f"operations {found.operations:.3g}; bytes into {moved}",
        bound_text(found),
    ]


def bound_text(found: Price) -> str:
    """``bound 1.2 ms, by arithmetic``"""
    if not found.bound:
        return "no bound is known"
    return f"bound {time_text(found.bound / found.frequency)}, by {found.limit}"
