"""Programs for accelerators: affine statements → work → mapping → tiling → stream.

All stages, in order, on one page: ``offload`` is for an accelerator what ``cluster_code`` is for
the processor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from weft.accel.banks import flatten_banks
from weft.accel.capabilities import Capabilities
from weft.accel.emit import Arranged
from weft.accel.machines.named import MACHINES, machine_named
from weft.accel.mapping import Mapping as Mapped
from weft.accel.mappings import mappings
from weft.accel.normalise_scop import inline_scalars
from weft.accel.place import Offloaded, place
from weft.accel.rank_tilings import Candidate, candidates, missing_room, with_slots
from weft.accel.read_semantics import read_semantics
from weft.accel.refusal import Refusal
from weft.accel.timing import timing
from weft.accel.work import work
from weft.ir.accelerator import Accelerator
from weft.ir.errors import CompileError, WeftError
from weft.ir.scop import Scop
from weft.ir.scop_printer import scop_text
from weft.offload.accelerators import Semantics
from weft.polyhedral.transform.inline_producer import inline_producer, why_not_inline

Array = np.ndarray[Any, Any]
TRIED = 3  # tilings whose streams are made, of those that cost least in closed form


@dataclass(frozen=True, slots=True)
class Target:
    """An accelerator with what it can do. ``plain``: the same with one address for each element,
    for which streams are planned."""

    machine: Accelerator
    capabilities: Capabilities
    semantics: Semantics
    plain: Accelerator
    arranged: Arranged = field(default_factory=dict, compare=False, repr=False)
    answers: dict[str, tuple[Mapped, ...] | Refusal] = field(
        default_factory=dict, compare=False, repr=False
    )

    @staticmethod
    def of(machine: Accelerator) -> Target:
        """Raises as ``Semantics`` does."""
        semantics = Semantics(machine)
        scops = {
            name: prepared(inline_scalars(kernel.scop))
            for name, kernel in semantics.kernels.items()
        }
        plain, flat = flatten_banks(machine, scops)
        return Target(machine, read_semantics(plain, flat), semantics, plain)


def ways(scop: Scop, target: Target) -> tuple[Mapped, ...]:
    """The ways for ``target`` to compute ``scop``. Raises ``Refusal``. The same question is
    answered once."""
    folds = [s.update.monoid for s in scop.statements if s.update is not None]
    key = f"{scop_text(scop)}{folds}"  # which the text does not say all of
    if key not in target.answers:
        try:
            whole = work(prepared(scop))
            target.answers[key] = tuple(mappings(whole, target.plain, target.capabilities))
        except Refusal as refusal:
            target.answers[key] = refusal
    answer = target.answers[key]
    if isinstance(answer, Refusal):
        raise answer
    return answer


def can_compute(scop: Scop, target: Target) -> str:
    """Why ``target`` cannot compute ``scop``, or ''."""
    try:
        every = ways(scop, target)
    except Refusal as refusal:
        return str(refusal)
    missing = [missing_room(way, target.plain) for way in every]
    return too_small(target.plain, missing[0]) if all(missing) else ""


def cheapest(
    every: Sequence[Mapped], target: Target, most: int, buffers: int = 2
) -> list[Candidate]:
    """Up to ``most`` tilings of each of the ways, those that cost least in closed form first."""
    found = [candidates(way, target.plain, most, buffers=buffers) for way in every]
    return sorted(chain(*found), key=lambda each: (each.cycles, each.bytes))


def _placed(
    every: Sequence[Mapped], target: Target, constants: Mapping[str, Array], buffers: int
) -> list[Offloaded]:
    """Streams of the tilings that cost least. Raises ``Refusal`` where there is none."""
    made: list[Offloaded] = []
    reasons: dict[str, None] = {}
    best = cheapest(every, target, TRIED, buffers)
    prices: dict[str, float] = {}
    for each in best:
        prices.setdefault(each.mapped.way, each.cycles)
    machines = target.machine, target.plain, target.capabilities
    for number, each in enumerate(best):
        if made and number >= TRIED:
            break
        for tiling in with_slots([each], target.plain, buffers):
            try:
                one = place(*machines, tiling, constants, target.arranged)
                made.append(replace(one, prices=prices))
            except Refusal as refusal:
                reasons[str(refusal)] = None
    if not made:
        missing = missing_room(every[0], target.plain)
        if missing:
            raise Refusal(too_small(target.plain, missing))
        raise Refusal("; ".join(reasons) or "none of its tilings that were tried has room")
    return made


def prepared(scop: Scop) -> Scop:
    """``scop`` with what can be computed where it is read computed there."""
    for name in [s.name for s in scop.statements]:
        if not why_not_inline(scop, scop.statement(name)):
            scop = inline_producer(scop, name)
    return scop


def offload(
    scop: Scop, target: Target, constants: Mapping[str, Array], *, buffers: int = 2
) -> Offloaded:
    """The stream that computes ``scop``, lowered without normal forms (``from_tensor_expr``), on
    ``target``; the fastest of a few. ``constants``: data of some tensors. ``buffers`` 1: nothing is
    loaded before it is needed.

    Raises ``CompileError`` (WEFT-E1030) where the accelerator cannot compute it.
    """
    try:
        made = _placed(ways(scop, target), target, constants, buffers)
    except Refusal as refusal:
        unused = [f"{name}: {why}" for name, why in target.capabilities.refusals.items()]
        raise CompileError(
            "WEFT-E1030",
            f"{target.machine.name} cannot compute {scop.name}",
            why=str(refusal),
            hint="some operations are not understood: " + "; ".join(unused) if unused else "",
        ) from None
    return min(made, key=lambda each: timing(each.artifact.stream).cycles)


# ---- What to say where memories of an accelerator are too small: how much, and what would do.


STEPS = 16  # by which one entry of a configuration is made larger, at most


def too_small(machine: Accelerator, missing: Mapping[str, int]) -> str:
    """``missing``: elements that are needed, of the memories that have fewer."""
    parts = []
    for name, count in missing.items():
        memory = machine.memory(name)
        have, size = memory.depth or 0, memory.nbytes
        parts.append(
            f"{count} elements of {name}, {count * size:,} bytes, where there are {have}, "
            f"{have * size:,} bytes"
        )
    found = nearest(machine, missing)
    more = ", ".join(f"{key} = {value}" for key, value in found.items())
    would = f" ({more} would do)" if more else ""
    return f"its smallest tile needs {' and '.join(parts)}{would}"


def nearest(machine: Accelerator, missing: Mapping[str, int]) -> dict[str, int]:
    """Entries of ``machine``'s configuration, as large as they have to be for that many elements;
    none where no entry is about one of these memories alone."""
    found: dict[str, int] = {}
    for name, count in missing.items():
        for key, value in machine.configuration.items():
            if type(value) is int and (least := _least(machine, name, count, key, value)):
                found[key] = least
                break
        else:
            return {}
    return found


def _least(machine: Accelerator, name: str, count: int, key: str, value: int) -> int:
    """The least value of ``key`` with ``count`` elements of ``name``, and elements as they are; 0:
    there is none."""
    if machine.name not in MACHINES:
        return 0
    for more in range(1, STEPS + 1):
        try:
            made = machine_named(machine.name, {**machine.configuration, key: value + more})
        except WeftError:
            return 0
        if any(m.shape != machine.memory(m.name).shape for m in made.memories):
            return 0
        if (made.memory(name).depth or 0) >= count:
            return value + more
    return 0
