"""The automatic scheduler of loop programs: in place, triangular, iterated in time.

Statements that depend on each other in a cycle are scheduled together, groups one after the other,
sources first; neighbours that stream through the same memory share a loop (``policy/fuse``). The
first of these strategies that has an answer decides on the loops of a group:

    matrix      updates with reuse in two directions       register tiles over cache tiles
    stencil     a time loop around uniform accesses        skewed tiles of time and rows
    slanted     nothing but recurrences                    a few rows side by side
    single      one statement                              its best loop innermost, as a vector
    serial      anything else                              a loop that carries dependences
    as written  what none of them has an answer to         its textual loops

Nothing here is trusted: ``legality`` and ``validation`` judge the result.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from weft.errors import BudgetError, IllegalScheduleError, WeftWarning
from weft.frontend.scalar_expr import Literal
from weft.polyhedral.machine import Machine
from weft.polyhedral.policy.as_written import as_written
from weft.polyhedral.policy.fuse import fuse, share
from weft.polyhedral.policy.matrix import matrix
from weft.polyhedral.policy.partial import partial_results
from weft.polyhedral.policy.planner import Packing, Planner, Strategy
from weft.polyhedral.policy.serial import serial
from weft.polyhedral.policy.single import single
from weft.polyhedral.policy.slanted import slanted
from weft.polyhedral.policy.stencil import stencil
from weft.polyhedral.scop import Scop
from weft.polyhedral.transform.contract import contract
from weft.polyhedral.transform.detach import detach
from weft.polyhedral.transform.expand_all import expand_all
from weft.polyhedral.transform.pack import pack
from weft.polyhedral.transform.private_results import private_results
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

    What a budget does not suffice for stays as it is written, with a warning. Raises
    ``BudgetError`` (WEFT-E0400) where not even the dependences can be found within one.
    """
    strategies = [s for s in STRATEGIES if time_tile or s[0] != "stencil"]
    large = tuple(t.name for t in scop.tensors if len(t.shape) > 1)
    while True:
        scheduled, detached = _scheduled(scop, large, machine, strategies, threads)
        kept = tuple(name for name, made in detached.items() if _shrunk(scheduled, name, made))
        if len(kept) == len(detached):
            return scheduled
        large = kept


def _scheduled(
    scop: Scop,
    large: Sequence[str],
    machine: Machine,
    strategies: Sequence[tuple[str, Strategy]],
    threads: int,
) -> tuple[Scheduled, dict[str, tuple[str, ...]]]:
    """``scop`` scheduled, with the temporaries that arrays among ``large`` were detached to."""
    detached: dict[str, tuple[str, ...]] = {}
    inner = private_results(scop)
    for tensor in large:
        inner, names = detach(inner, tensor)
        if names:
            detached[tensor] = names
    planner = Planner(expand_all(inner), machine, strategies, fuse, share, as_written, threads)
    tree = planner.nest(planner.everything())
    tree = tidy(planner.completed(tree))
    for what in planner.given_up:
        warnings.warn(f"{scop.name}: gave up on {what}", WeftWarning, stacklevel=2)
    notes = (*planner.notes, *(f"gave up on {what}" for what in planner.given_up))
    scheduled = Scheduled(scop, planner.scop, tree, notes=notes)
    for packing in planner.packings:
        scheduled = _packed(scheduled, packing)
    if threads > 1:
        scheduled = partial_results(scheduled)
    return _contracted(scheduled), detached


def _shrunk(scheduled: Scheduled, tensor: str, made: Sequence[str]) -> bool:
    """Whether each of the temporaries takes less memory than ``tensor``, by an order of magnitude
    for large sizes."""

    def rank(name: str) -> int:
        found = [t for t in scheduled.scop.tensors if t.name == name]
        sizes = (size for t in found for size in t.shape[t.contracted :])
        return sum(not isinstance(size, Literal) for size in sizes)

    return all(rank(name) < rank(tensor) for name in made)


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
