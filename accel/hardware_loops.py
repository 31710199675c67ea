"""A loop nest as instructions: an accelerator's hardware loops, micro-operations, issues.

    Loop        ::= extent, steps          how far each address moves: the target's, the operands'
    Arrangement ::= issued: Loop…, hardware: Loop…, unrolled: Loop…

An instruction has a fixed number of loops, whose extents and steps are its fields. Loops inside
these are unrolled into a list of micro-operations, with any addresses, which takes memory and time
to load. Loops outside take one instruction for each iteration. A loop may be strip-mined, one part
for each kind. Some iterations must lie between two updates of an address (``Operation.apart``), so
loops that move the target go inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from math import prod

from weft.accel.capabilities import Compute

MAX_WORDS = 256  # micro-operations of one instruction
WORD = 0.5  # cycles to load a micro-operation
REUSED = 4  # estimated uses of a list of micro-operations before it is loaded again
PARTS = (4, 8)  # least iterations that are unrolled of a strip-mined loop


@dataclass(frozen=True, slots=True)
class Loop:
    extent: int
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Each from outer to inner. ``issued``: one instruction per iteration; ``hardware``: the
    instruction's own loops, of extent 1 if unused; ``unrolled``, innermost: micro-operations."""

    issued: tuple[Loop, ...]
    hardware: tuple[Loop, ...]
    unrolled: tuple[Loop, ...]

    @property
    def instructions(self) -> int:
        return prod(loop.extent for loop in self.issued)

    @property
    def words(self) -> int:
        return prod(loop.extent for loop in self.unrolled)

    @property
    def count(self) -> int:
        """Iterations of one instruction, micro-operations included."""
        return prod(loop.extent for loop in self.hardware) * self.words


def arrange(compute: Compute, loops: Sequence[Loop], most: int = MAX_WORDS) -> Arrangement:
    """The arrangement of ``loops``, which may be permuted, with the fewest estimated cycles and at
    most ``most`` micro-operations.

    If ``compute`` initialises its target, reduction loops are either issued, or among the hardware
    loops that it accumulates over by itself.
    """
    found = _arrangements(compute, collapsed(loops), min(most, MAX_WORDS))
    if begins(compute):
        found = (each for each in found if _begins_once(compute, each))
    return min(found, key=lambda each: _cost(compute, each))


def begins(compute: Compute) -> bool:
    """Whether the result of ``compute`` is independent of the old value of its target."""
    return compute.first is not None or (compute.step.update is None and len(compute.operands) > 1)


def _begins_once(compute: Compute, made: Arrangement) -> bool:
    """Whether no later iteration initialises an element again."""
    pairs = zip(compute.loops, made.hardware, strict=True)
    again = [loop for own, loop in pairs if own.dim not in compute.repeats]
    return all(loop.steps[0] or loop.extent == 1 for loop in (*again, *made.unrolled))


def collapsed(loops: Sequence[Loop]) -> tuple[Loop, ...]:
    """``loops`` without those of extent 1, nested ones collapsed where their steps allow it."""
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
        for chosen in _assignments(len(cut), len(compute.loops)):
            hardware = _fitting(compute, [None if c is None else cut[c] for c in chosen])
            if hardware is None:
                continue
            rest = [loop for n, loop in enumerate(cut) if n not in chosen]
            for unrolled in product((False, True), repeat=len(rest)):
                if any(unrolled) and compute.words is None:
                    continue
                inner = [loop for loop, inside in zip(rest, unrolled, strict=True) if inside]
                # Loops that move the target go inside.
                inner.sort(key=lambda loop: bool(loop.steps[0]))
                issued = [loop for loop, inside in zip(rest, unrolled, strict=True) if not inside]
                made = Arrangement(tuple(issued), hardware, tuple(inner))
                if made.words <= most and _apart(compute, made):
                    yield made


def _cuts(compute: Compute, loops: tuple[Loop, ...]) -> Iterator[tuple[Loop, ...]]:
    """``loops`` as they are, and with each one strip-mined."""
    yield loops
    if compute.words is None:
        return
    for n, loop in enumerate(loops):
        for part in _parts(loop.extent) if loop.steps[0] else ():
            outer = Loop(loop.extent // part, tuple(part * step for step in loop.steps))
            yield (*loops[:n], outer, Loop(part, loop.steps), *loops[n + 1 :])


def _parts(extent: int) -> list[int]:
    """Divisors of ``extent``: for each of ``PARTS`` the least that is no smaller."""
    divisors = [d for d in range(2, extent) if extent % d == 0]
    return sorted(
        {
            min(d for d in divisors if d >= least)
            for least in PARTS
            if any(d >= least for d in divisors)
        }
    )


def _assignments(loops: int, hardware: int) -> Iterator[tuple[int | None, ...]]:
    """All assignments of loops to hardware loops; None: unused."""
    for used in range(min(loops, hardware), -1, -1):
        for given in permutations(range(loops), used):
            yield (*(None for _ in range(hardware - used)), *given)


def _fitting(compute: Compute, given: Sequence[Loop | None]) -> tuple[Loop, ...] | None:
    """The hardware loops that are ``given``, if fields hold their extents and steps."""
    holds = compute.operation.holds
    addresses = (compute.target, *compute.operands)
    found = []
    for own, loop in zip(compute.loops, given, strict=True):
        if loop is None:
            loop = Loop(1, (0,) * len(addresses))
        if not holds(own.field, loop.extent - own.offset):
            return None
        for address, step in zip(addresses, loop.steps, strict=True):
            field = address.steps.get(own.dim, 0)
            if isinstance(field, str):
                if not holds(field, step):
                    return None
            elif field != step and loop.extent > 1:
                return None
        found.append(loop)
    return tuple(found)


def _apart(compute: Compute, made: Arrangement) -> bool:
    """Whether ``Operation.apart`` iterations lie between two updates of an address."""
    inner = 1
    for loop in reversed((*made.hardware, *made.unrolled)):
        if not loop.steps[0] and loop.extent > 1:
            return inner >= compute.operation.apart
        inner *= loop.extent
    return True


def _cost(compute: Compute, made: Arrangement) -> tuple[float, int, int]:
    fields = {
        t.field: loop.extent - t.offset
        for t, loop in zip(compute.loops, made.hardware, strict=True)
    }
    if compute.words is not None:
        fields |= {compute.words.begin: 0, compute.words.end: made.words}
    cycles = compute.operation.takes(fields).cycles + made.words * WORD / REUSED
    return made.instructions * cycles, made.words, made.instructions
