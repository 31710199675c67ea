"""The automatic scheduler of loop programs: in place, triangular, iterated in time.

Statements that depend on each other in a cycle are scheduled together, groups one after the other,
sources first; neighbours that stream through the same memory share a loop (``policy/fuse``). The
first of these strategies that has an answer decides on the loops of a group:

    matrix      updates with reuse in two directions       register tiles over cache tiles
    stencil     a time loop around uniform accesses        skewed tiles of time and rows
    slanted     nothing but recurrences                    a few rows side by side
    single      one statement                              its best loop innermost, as a vector
    serial      anything else                              a loop that carries dependences

Nothing here is trusted: ``legality`` and ``validation`` judge the result.
"""

from __future__ import annotations

from weft.errors import BudgetError, IllegalScheduleError
from weft.polyhedral.machine import Machine
from weft.polyhedral.policy.fuse import fuse, share
from weft.polyhedral.policy.matrix import matrix
from weft.polyhedral.policy.planner import Packing, Planner
from weft.polyhedral.policy.serial import serial
from weft.polyhedral.policy.single import single
from weft.polyhedral.policy.slanted import slanted
from weft.polyhedral.policy.stencil import stencil
from weft.polyhedral.scop import Scop
from weft.polyhedral.transform.contract import contract
from weft.polyhedral.transform.expand_all import expand_all
from weft.polyhedral.transform.pack import pack
from weft.polyhedral.transform.scheduled import Scheduled, tidy

STRATEGIES = (
    ("matrix", matrix),
    ("stencil", stencil),
    ("slanted", slanted),
    ("single", single),
    ("serial", serial),
)


def schedule_loops(
    scop: Scop, machine: Machine, *, threads: int = 1, time_tile: bool = True
) -> Scheduled:
    """``scop`` with a schedule for ``threads`` cores of ``machine``; without ``time_tile``, no
    tiles over time steps.

    Raises ``IllegalScheduleError`` (WEFT-E0477) where no loop orders some cycle of statements, and
    ``BudgetError`` rather than running unbounded.
    """
    strategies = [s for s in STRATEGIES if time_tile or s[0] != "stencil"]
    planner = Planner(expand_all(scop), machine, strategies, fuse, share, threads)
    tree = planner.nest(planner.everything())
    tree = tidy(planner.completed(tree))
    scheduled = Scheduled(scop, planner.scop, tree, notes=tuple(planner.notes))
    for packing in planner.packings:
        scheduled = _packed(scheduled, packing)
    return _contracted(scheduled)


def _packed(scheduled: Scheduled, p: Packing) -> Scheduled:
    """``scheduled`` with one operand in panels; as it is where the operand cannot be copied."""
    read = scheduled.scop.statement(p.statement).reads[p.operand]
    order = [*(d for d in range(len(read.indices)) if d != p.dim), p.dim]
    try:
        return pack(
            scheduled,
            read.tensor,
            p.statement,
            p.loop,
            {p.dim: p.width},
            order=order,
            operand=p.operand,
        )
    except IllegalScheduleError:
        return scheduled


def _contracted(scheduled: Scheduled) -> Scheduled:
    """``scheduled`` with temporaries as small as its order allows; those of whole nests stay."""
    for tensor in scheduled.scop.tensors:
        if tensor.role == "temp" and tensor.scope == "global":
            try:
                scheduled = contract(scheduled, tensor.name)
            except (IllegalScheduleError, BudgetError):
                continue
    return scheduled
