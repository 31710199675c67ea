"""Arrange: all loops anew, from the text of a schedule tree.

    for i = i            for j_t = j // 8            arrange(\"\"\"
      for j = j    →       for i = i                 for j_t = j // 8
        S                    for j_p = j % 8           for i = i
                               S                         for j_p = j % 8    vector
                                                           S
                                                     \"\"\")

What no sequence of other steps says, and what schedulers that build whole trees have to say.
Also known as: isl schedule trees; Halide, TVM and Exo have no such form.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.schedule_reader import read_schedule
from weft.ir.schedule_verifier import verify_schedule
from weft.polyhedral.transform.scheduled import Scheduled, tidy, transformation


@transformation
def arrange(scheduled: Scheduled, tree: str) -> Scheduled:
    """The statements run as ``tree`` says, which ``print_schedule`` might have printed.

    Loops give, for each statement inside, their value in terms of its dims. Raises
    ``IllegalScheduleError``: WEFT-E0478 for a text that is no tree, and the codes of
    ``verify_schedule`` where it is none for these statements.
    """
    made = tidy(read_schedule(tree))
    verify_schedule(scheduled.scop, made)
    return replace(scheduled, tree=made)
