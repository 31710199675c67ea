"""Operand transposition: operands and sums of a product that no loop of its tiles reads in order
are copied to and from temporaries in another order of dimensions.

    for h: for i: for d: O[i, d, h] = 0             for j: for d: for h: B[h, j, d] = V[j, d, h]
    for h: for i: for d: for j:              →      for h: for i: for d: T[h, i, d] = 0
      O[i, d, h] += A[h, i, j] * V[j, d, h]         for h: for i: for d: for j:
                                                      T[h, i, d] += A[h, i, j] * B[h, j, d]
                                                    for i: for d: for h: O[i, d, h] = T[h, i, d]

Where neither rows nor lanes nor the reduction run along the last dimension, every element is on a
cache line of its own, and every tile touches it again. The copies before and after the product are
block transposes. All ways to transpose are compared by the costs of register tiles
(``product_costs``), beside the elements that they copy. Sums over windows are transposed where the
target is contiguous along dims in which all that they read is strided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from weft.ir.machine import Machine
from weft.ir.scalar_expr import literal
from weft.ir.scop import Access, Scop, Statement
from weft.polyhedral.analysis.linear import box, moves
from weft.polyhedral.policy.lanes import choose_lanes, strided
from weft.polyhedral.policy.product import sum_cycles
from weft.polyhedral.policy.product_costs import extents
from weft.polyhedral.transform.cache_read import copy_operand
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.transform.transpose_sums import indices_of, start_of, transpose_sums

WORTH = 0.9  # of the cycles before: what must be left
MOST = 3  # accesses of a product that are transposed


def operand_transposition(
    now: Scheduled, machine: Machine, kept: frozenset[str] = frozenset()
) -> Scheduled:
    """``now`` with temporaries for transposed operands and sums of its products, but for tensors
    that are ``kept``."""
    for name in [s.name for s in now.scop.statements if s.update is not None]:
        s = now.scop.statement(name)
        if kept.isdisjoint(a.tensor for a in s.accesses):
            now = _transposed(now, s, machine)
    return now


def _transposed(now: Scheduled, s: Statement, machine: Machine) -> Scheduled:
    """``now`` with the cheapest of all ways to transpose operands and sums of ``s``."""
    accesses, sizes, scop = s.accesses, extents(s), now.scop
    if sizes is None or len(s.writes) != 1:
        return now
    outer = [d for d in s.dims if all(moves(a, d) for a in accesses)]
    numbers = [n for n, a in enumerate(accesses) if _scattered(a, outer) and _fits(scop, s, n)]
    if not numbers and not _across(s):
        return now
    cycles, before = sum_cycles, sum_cycles(scop, s, machine)
    if before is None:  # a window, if anything
        numbers = [len(s.reads)] if _across(s) and _fits(scop, s, len(s.reads)) else []
        outer, cycles, before = [], _window_cycles, _window_cycles(scop, s, machine)
    if before is None or not 0 < len(numbers) <= MOST:
        return now
    best, least = now, before * WORTH
    for orders in product(*([None, *_orders(accesses[n], outer)] for n in numbers)):
        changed, copied = now, 0
        for number, order in zip(numbers, orders, strict=True):
            if order is not None:
                changed = _with_order(changed, changed.scop.statement(s.name), number, order)
                copied += prod([sizes[d] for d in indices_of(accesses[number])])
        after = cycles(changed.scop, changed.scop.statement(s.name), machine)
        if after is not None and after + machine.moves.pack * copied < least:
            best, least = changed, after + machine.moves.pack * copied
    return best


def _window_cycles(scop: Scop, statement: Statement, machine: Machine) -> float | None:
    """What vectors along the target of ``statement`` take for their accesses, at one a cycle."""
    sizes = extents(statement)
    moving = [d for d in statement.dims if moves(statement.writes[0], d)]
    lanes = choose_lanes(scop, statement, moving, machine)
    if sizes is None or lanes is None:
        return None
    return lanes.cost * prod(sizes.values()) / lanes.lanes


def _scattered(access: Access, outer: Sequence[str]) -> bool:
    """Whether no tile has neighbours of that access, and, in another order of dims, one would."""
    names = indices_of(access)
    return bool(names) and names[-1] in outer and not set(names) <= set(outer)


def _across(s: Statement) -> bool:
    """Whether all reads of ``s`` that move along the last dimension of its target are strided along
    it."""
    (target,) = s.writes
    last = indices_of(target)[-1:]
    along = [r for r in s.reads for d in last if moves(r, d)]
    return bool(along) and all(strided(r, *last) for r in along)


def _fits(scop: Scop, s: Statement, number: int) -> bool:
    """Whether that access can be transposed: a read of a whole input, or the sums of an output."""
    if number == len(s.reads):
        return scop.tensor(s.writes[0].tensor).role == "output" and start_of(scop, s) is not None
    read = s.reads[number]
    tensor, bounds = scop.tensor(read.tensor), box(s)
    whole = [bounds.get(d) for d in indices_of(read)] == [
        (literal(0), size) for size in tensor.shape
    ]
    return tensor.role == "input" and whole and not read.may and not read.guard


def _orders(access: Access, outer: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """Orders of the dims of ``access``: the ``outer`` ones first, each of the others in
    turn last."""
    names = indices_of(access)
    first = [k for k, d in enumerate(names) if d in outer]
    rest = [k for k, d in enumerate(names) if d not in outer]
    for last in rest:
        yield (*first, *(k for k in rest if k != last), last)


def _with_order(now: Scheduled, s: Statement, number: int, order: tuple[int, ...]) -> Scheduled:
    if number < len(s.reads):
        dims = indices_of(s.reads[number])
        return copy_operand(now, s.name, number, [dims[d] for d in order], "turned")
    return transpose_sums(now, s.name, order)
