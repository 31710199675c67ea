"""Is the layout that an instruction's record gives one to one?

Each operand has one place for each element, or one for each of its copies: ``elements`` is the
inverse of ``place``, by enumeration.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import prod

from weft.ir.errors import IllegalScheduleError
from weft.ir.instruction import Instruction, Operand
from weft.ir.isl_context import derived
from weft.ir.scalar_point import PointEvaluator


def check_layout(instruction: Instruction) -> None:
    """Check that each operand of ``instruction`` has one place for each element, or one for each of
    its copies, and says so. A record is enumerated once.

    Raises ``IllegalScheduleError`` (WEFT-E0428) with an element of other places, or of none."""
    derived(lambda: _enumerate(instruction), "layout", (), instruction)


def _enumerate(instruction: Instruction) -> None:
    warp, point = instruction.warp, PointEvaluator()
    assert warp is not None, "a warp issues it"
    for name, operand in instruction.operands.items():
        dims = list(operand.elements)
        extents = [instruction.extents[d] for d in dims]
        own = product(range(warp.threads), range(prod(extents) * operand.copies // warp.threads))
        seen: Counter[tuple[int, ...]] = Counter()
        for thread, number in own:
            element = _element(point, operand, (thread, number))
            there, first = (int(point.value(e, element)) for e in operand.place)
            inside = all(0 <= element[d] < n for d, n in zip(dims, extents, strict=True))
            same = _element(point, operand, (there, first)) == element
            seen[tuple(element.values())] += 1
            alone = operand.copies > 1 or (there, first) == (thread, number)
            if not (inside and same and alone) or max(seen.values()) > operand.copies:
                why = f"number {number} of thread {thread} is {element}, "
                why += f"which is at {(there, first)}"
                raise refused(instruction, f"the layout of {name} is not one to one", why)


def _element(point: PointEvaluator, operand: Operand, own: tuple[int, int]) -> dict[str, int]:
    """The dims of what a thread has under a number."""
    at = dict(zip(("thread", "number"), own, strict=True))
    return {d: int(point.value(e, at)) for d, e in operand.elements.items()}


def refused(instruction: Instruction | None, what: str, why: str = "") -> IllegalScheduleError:
    return IllegalScheduleError(
        "WEFT-E0428",
        what if instruction is None else f"{what}, by {instruction.name}",
        why=why,
        hint="leave out the register tile; if Weft made it, this is a bug in Weft",
    )
