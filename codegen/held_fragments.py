"""Fragments that are tensors: what threads have of the sums of a tile, or of its first factor, for
those who compute on them in place (``fragment_loops``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from weft.codegen.statement_instance import Instances
from weft.codegen.warp_tile import Point, emission_of
from weft.ir.instruction import ACCUMULATOR, ROW, Instruction
from weft.ir.loop_ir import Buffer, Stmt
from weft.ir.scalar_expr import Expr, Load, Var
from weft.ir.scalar_point import PointEvaluator
from weft.ir.schedule_tree import MarkedTile
from weft.polyhedral.analysis.tile_domain import TileDomain
from weft.polyhedral.analysis.warp_tile import held_places


@dataclass(frozen=True, slots=True)
class HeldSums:
    """The sums of a tile whose target is a tensor in scope 'fragment'.

    ``buffer``: of that name, [warp, row tile, lane tile, thread, number], laid out by
    ``instruction``; ``lane``: the tile's loop of lanes, all of them of each warp if ``alone``;
    ``loops``: the tile's loop of rows or lanes whose value each stored index is;
    ``single``: the value of each loop of them that has one alone; ``each``: loops of warps and
    lanes over all elements, around what a function makes of the thread's own element and the values
    of the tile's loops there.
    """

    buffer: Buffer
    instruction: Instruction
    lane: str
    alone: bool
    loops: tuple[str, ...]
    single: Mapping[str, int]
    each: Callable[[Callable[[Load, Point], Stmt]], Stmt]

    def digit(self, own: Load, each: int, above: int) -> Expr | None:
        """``lane // each % (above // each)`` of the element ``own``, from what the thread knows; as
        many as there are where ``above`` is 0. None where that takes a division."""
        many, (_, _, tile, thread, number) = self.instruction.lanes, own.indices
        if not self.alone:
            return None
        if each % many == 0:
            found = tile // (each // many)
            return found % (above // each) if above else found
        if not above or many % above:
            return None
        turns = above // each
        for name, place in (("thread", thread), ("number", number)):
            if self._is_digit(Var(name) % turns, each, turns):
                return place % turns
        return None

    def _is_digit(self, candidate: Expr, each: int, turns: int) -> bool:
        point, (across,) = PointEvaluator(), self.instruction.across
        element = self.instruction.operands[ACCUMULATOR].elements[across]
        return all(
            point.value(candidate, at) == point.value(element, at) // each % turns
            for at in _places(self.instruction)
        )

    @property
    def ascending(self) -> bool:
        """Whether a thread's lanes of a row come in order."""
        elements = self.instruction.operands[ACCUMULATOR].elements
        point, (across,) = PointEvaluator(), self.instruction.across
        last: dict[tuple[int, int], int] = {}
        for at in _places(self.instruction):
            row, lane = (int(point.value(elements[d], at)) for d in (ROW, across))
            key = at["thread"], row
            if last.setdefault(key, -1) >= lane:
                return False
            last[key] = lane
        return True


def _places(own: Instruction) -> Iterator[dict[str, int]]:
    """The places in a fragment of sums, a thread's one after the other."""
    assert own.warp is not None, "a warp computes it"
    numbers = own.rows * own.lanes // own.warp.threads
    for thread, number in product(range(own.warp.threads), range(numbers)):
        yield {"thread": thread, "number": number}


def held_sums(instances: Instances, tile: MarkedTile, domain: TileDomain) -> HeldSums:
    """The sums of ``tile``, whose target is in scope 'fragment'."""
    emission = emission_of(instances, tile, domain)
    places = held_places(instances.scop, tile, domain)
    assert not isinstance(places, str), "there is code for it"
    alone = tile.payload.warps[1] == 1
    own, lane = emission.found.instruction, domain.lane
    return HeldSums(emission.sums(), own, lane, alone, *places, emission.each_sum)


@dataclass(frozen=True, slots=True)
class HeldFactor:
    """The first factor of a tile in scope 'fragment', ``buffer``: [warp, row tile, step tile,
    thread, number], which ``instruction`` multiplies."""

    buffer: Buffer
    instruction: Instruction

    def element(self, sums: Sequence[Expr], own: Instruction) -> tuple[Expr, ...] | None:
        """The place of the element that ``own`` has as the sum at [warp, row tile, lane tile,
        thread, number] ``sums``, a lane for a step; None where it is another thread's."""
        mine = own.operands[ACCUMULATOR]
        theirs = self.instruction.operands[self.instruction.tensors[0]]
        (row, lane), step = (ROW, *own.across), self.instruction.summed[0]
        each, many = self.instruction.depth // own.lanes, own.rows * own.lanes
        alike = own.warp == self.instruction.warp and self.instruction.rows == own.rows
        if own.warp is None or not alike or self.instruction.depth % own.lanes:
            return None
        point, numbers = PointEvaluator(), many // own.warp.threads
        for k, thread, number in product(range(each), range(own.warp.threads), range(numbers)):
            at = {"thread": thread, "number": number}
            r, c = (int(point.value(mine.elements[d], at)) for d in (row, lane))
            place = {ROW: r, step: k * own.lanes + c}
            found = tuple(int(point.value(e, place)) for e in theirs.place)
            if found != (thread, number + k * numbers):
                return None
        warp, down, across, thread_, number_ = sums
        return warp, down, across // each, thread_, number_ + across % each * numbers


def held_factor(
    instances: Instances, tile: MarkedTile, domain: TileDomain
) -> tuple[str, HeldFactor] | None:
    """The first factor of ``tile`` if that is a tensor in scope 'fragment', with its name."""
    emission = emission_of(instances, tile, domain)
    name = emission.found.left.access.tensor
    if instances.tensor(name).scope != "fragment":
        return None
    return name, HeldFactor(emission.factor(), emission.found.instruction)
