"""A nest of loops as instructions: which loops an instruction turns by itself, which its
micro-operations list, which take an instruction each.

    Loop        ::= extent, steps          how far each address moves: the target's, the operands'
    Arrangement ::= separate: Loop…, turns: Loop…, listed: Loop…

An instruction has so many turns of its own, with steps that its fields hold. What
micro-operations list is any address, but each takes memory, and time to load. A loop may be cut in
two, one part for either. In between, an address must not be updated again too soon
(``Operation.apart``), so loops that move the target go inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from math import prod

from weft.accel.abilities import Compute

MAX_WORDS = 256  # micro-operations of one instruction: there are many
WORD = 0.5  # cycles that it takes to load one
REUSED = 4  # times that a list of them is used before it is loaded again, about
PARTS = (4, 8)  # of a loop that is cut: so many are listed, at least


@dataclass(frozen=True, slots=True)
class Loop:
    extent: int
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """All from outer to inner. ``turns``: one for each of the instruction's, of 1 where it has
    nothing to do; ``listed`` are innermost."""

    separate: tuple[Loop, ...]
    turns: tuple[Loop, ...]
    listed: tuple[Loop, ...]

    @property
    def instructions(self) -> int:
        return prod(loop.extent for loop in self.separate)

    @property
    def words(self) -> int:
        return prod(loop.extent for loop in self.listed)

    @property
    def count(self) -> int:
        """Turns of one instruction, micro-operations counted."""
        return prod(loop.extent for loop in self.turns) * self.words


def arrange(compute: Compute, loops: Sequence[Loop], most: int = MAX_WORDS) -> Arrangement:
    """The arrangement of ``loops`` (any order is right) that takes the fewest cycles, about, with
    ``most`` micro-operations.

    Where ``compute`` begins a sum, what the sum goes over stands among those loops that take an
    instruction each, or those that it adds up by itself.
    """
    found = _arrangements(compute, collapsed(loops), min(most, MAX_WORDS))
    if begins(compute):
        found = (each for each in found if _begins_once(compute, each))
    return min(found, key=lambda each: _cost(compute, each))


def begins(compute: Compute) -> bool:
    """Whether it leaves what does not depend on what its target held."""
    return compute.first is not None or (compute.step.update is None and len(compute.operands) > 1)


def _begins_once(compute: Compute, made: Arrangement) -> bool:
    """Whether no element is begun anew by a turn after its first."""
    turned = zip(compute.turns, made.turns, strict=True)
    again = [loop for turn, loop in turned if turn.dim not in compute.repeats]
    return all(loop.steps[0] or loop.extent == 1 for loop in (*again, *made.listed))


def collapsed(loops: Sequence[Loop]) -> tuple[Loop, ...]:
    """``loops`` without those of one turn, neighbours as one where their steps allow it."""
    kept = [loop for loop in loops if loop.extent != 1]
    found: list[Loop] = []
    for loop in kept:
        if found:
            inner = tuple(loop.extent * step for step in loop.steps)
            if found[-1].steps == inner:
                found[-1] = Loop(found[-1].extent * loop.extent, loop.steps)
                continue
        found.append(loop)
    return tuple(found)


def _arrangements(compute: Compute, loops: tuple[Loop, ...], most: int) -> Iterator[Arrangement]:
    for cut in _cuts(compute, loops):
        for chosen in _chosen(len(cut), len(compute.turns)):
            turns = _fitting(compute, [None if c is None else cut[c] for c in chosen])
            if turns is None:
                continue
            rest = [loop for n, loop in enumerate(cut) if n not in chosen]
            for listed in product((False, True), repeat=len(rest)):
                if any(listed) and compute.words is None:
                    continue
                inner = [loop for loop, inside in zip(rest, listed, strict=True) if inside]
                # What moves the target goes inside.
                inner.sort(key=lambda loop: bool(loop.steps[0]))
                separate = [loop for loop, inside in zip(rest, listed, strict=True) if not inside]
                made = Arrangement(tuple(separate), turns, tuple(inner))
                if made.words <= most and _apart(compute, made):
                    yield made


def _cuts(compute: Compute, loops: tuple[Loop, ...]) -> Iterator[tuple[Loop, ...]]:
    """``loops``, and with one of them in two parts."""
    yield loops
    if compute.words is None:
        return
    for n, loop in enumerate(loops):
        for part in _parts(loop.extent) if loop.steps[0] else ():
            outer = Loop(loop.extent // part, tuple(part * step for step in loop.steps))
            yield (*loops[:n], outer, Loop(part, loop.steps), *loops[n + 1 :])


def _parts(extent: int) -> list[int]:
    """Divisors to cut by: the least from each of ``PARTS`` on."""
    divisors = [d for d in range(2, extent) if extent % d == 0]
    return sorted(
        {
            min(d for d in divisors if d >= least)
            for least in PARTS
            if any(d >= least for d in divisors)
        }
    )


def _chosen(loops: int, turns: int) -> Iterator[tuple[int | None, ...]]:
    """Which loop each turn is, in all ways."""
    for used in range(min(loops, turns), -1, -1):
        for given in permutations(range(loops), used):
            yield (*(None for _ in range(turns - used)), *given)


def _fitting(compute: Compute, given: Sequence[Loop | None]) -> tuple[Loop, ...] | None:
    """The turns that are ``given``, if fields hold their counts and steps."""
    holds = compute.operation.holds
    addresses = (compute.target, *compute.operands)
    found = []
    for turn, loop in zip(compute.turns, given, strict=True):
        if loop is None:
            loop = Loop(1, (0,) * len(addresses))
        if not holds(turn.field, loop.extent - turn.offset):
            return None
        for address, step in zip(addresses, loop.steps, strict=True):
            own = address.steps.get(turn.dim, 0)
            if isinstance(own, str):
                if not holds(own, step):
                    return None
            elif own != step and loop.extent > 1:
                return None
        found.append(loop)
    return tuple(found)


def _apart(compute: Compute, made: Arrangement) -> bool:
    """Whether no address is updated again within ``Operation.apart`` turns."""
    inner = 1
    for loop in reversed((*made.turns, *made.listed)):
        if not loop.steps[0] and loop.extent > 1:
            return inner >= compute.operation.apart
        inner *= loop.extent
    return True


def _cost(compute: Compute, made: Arrangement) -> tuple[float, int, int]:
    fields = {
        t.field: loop.extent - t.offset for t, loop in zip(compute.turns, made.turns, strict=True)
    }
    if compute.words is not None:
        fields |= {compute.words.begin: 0, compute.words.end: made.words}
    cycles = compute.operation.takes(fields).cycles + made.words * WORD / REUSED
    return made.instructions * cycles, made.words, made.instructions
