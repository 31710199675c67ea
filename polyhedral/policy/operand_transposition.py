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
from dataclasses import replace
from itertools import product
from math import prod

from weft.ir.machine import Machine
from weft.ir.scalar_expr import Expr, Load, Var, literal
from weft.ir.scop import Access, Body, Scop, Statement
from weft.polyhedral.analysis.linear import box, moves
from weft.polyhedral.policy.lanes import choose_lanes, strided
from weft.polyhedral.policy.product import sum_cycles
from weft.polyhedral.policy.product_costs import extents
from weft.polyhedral.transform.cache_read import copy_read
from weft.polyhedral.transform.edit import accesses_of, insert_nest, nest_position
from weft.polyhedral.transform.scheduled import fresh

WORTH = 0.9  # of the cycles before: what must be left
MOST = 3  # accesses of a product that are transposed


def operand_transposition(scop: Scop, machine: Machine, kept: frozenset[str] = frozenset()) -> Scop:
    """``scop`` with temporaries for transposed operands and sums of its products, but for tensors
    that are ``kept``."""
    for name in [s.name for s in scop.statements if s.update is not None]:
        s = scop.statement(name)
        if kept.isdisjoint(a.tensor for a in s.accesses):
            scop = _transposed(scop, s, machine)
    return scop


def _transposed(scop: Scop, s: Statement, machine: Machine) -> Scop:
    """``scop`` with the cheapest of all ways to transpose operands and sums of ``s``."""
    accesses, sizes = s.accesses, extents(s)
    if sizes is None or len(s.writes) != 1:
        return scop
    outer = [d for d in s.dims if all(moves(a, d) for a in accesses)]
    numbers = [n for n, a in enumerate(accesses) if _scattered(a, outer) and _fits(scop, s, n)]
    if not numbers and not _across(s):
        return scop
    cycles, before = sum_cycles, sum_cycles(scop, s, machine)
    if before is None:  # a window, if anything
        numbers = [len(s.reads)] if _across(s) and _fits(scop, s, len(s.reads)) else []
        outer, cycles, before = [], _window_cycles, _window_cycles(scop, s, machine)
    if before is None or not 0 < len(numbers) <= MOST:
        return scop
    best, least = scop, before * WORTH
    for orders in product(*([None, *_orders(accesses[n], outer)] for n in numbers)):
        changed, copied = scop, 0
        for number, order in zip(numbers, orders, strict=True):
            if order is not None:
                changed = _with_order(changed, changed.statement(s.name), number, order)
                copied += prod([sizes[d] for d in _names(accesses[number])])
        after = cycles(changed, changed.statement(s.name), machine)
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
    names = _names(access)
    return bool(names) and names[-1] in outer and not set(names) <= set(outer)


def _across(s: Statement) -> bool:
    """Whether all reads of ``s`` that move along the last dimension of its target are strided along
    it."""
    (target,) = s.writes
    last = _names(target)[-1:]
    along = [r for r in s.reads for d in last if moves(r, d)]
    return bool(along) and all(strided(r, *last) for r in along)


def _fits(scop: Scop, s: Statement, number: int) -> bool:
    """Whether that access can be transposed: a read of a whole input, or the sums of an output."""
    if number == len(s.reads):
        return scop.tensor(s.writes[0].tensor).role == "output" and _start(scop, s) is not None
    read = s.reads[number]
    tensor, bounds = scop.tensor(read.tensor), box(s)
    whole = [bounds.get(d) for d in _names(read)] == [(literal(0), size) for size in tensor.shape]
    return tensor.role == "input" and whole and not read.may and not read.guard


def _orders(access: Access, outer: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """Orders of the dims of ``access``: the ``outer`` ones first, each of the others in
    turn last."""
    names = _names(access)
    first = [k for k, d in enumerate(names) if d in outer]
    rest = [k for k, d in enumerate(names) if d not in outer]
    for last in rest:
        yield (*first, *(k for k in rest if k != last), last)


def _with_order(scop: Scop, s: Statement, number: int, order: tuple[int, ...]) -> Scop:
    if number < len(s.reads):
        dims = _names(s.reads[number])
        return copy_read(scop, s.name, number, [dims[d] for d in order], "turned")[0]
    start = _start(scop, s)
    assert start is not None
    return _through(scop, start, s.writes[0].tensor, order)


def _start(scop: Scop, s: Statement) -> Statement | None:
    """The statement that initialises all elements that ``s`` updates, if only these two use them;
    None if there is none, or the elements are not one for each point."""
    users = list({u.name: u for u, _, _ in accesses_of(scop, s.writes[0].tensor)}.values())
    if len(users) != 2 or len(s.writes) != 1 or users[1].name != s.name:
        return None
    (start, _) = users
    for user in users:
        plain = [a for a in user.accesses if a.tensor == s.writes[0].tensor]
        if len(plain) != 1 or plain[0].may or plain[0].guard or not _names(plain[0]):
            return None
    whole = start.update is None and set(_names(start.writes[0])) == set(start.dims)
    return start if whole and len(start.writes) == 1 else None


def _names(access: Access) -> tuple[str, ...]:
    """The dims that are the indices; () if these are anything else."""
    found = tuple(index.name for index in access.indices if isinstance(index, Var))
    return found if len(set(found)) == len(access.indices) else ()


def _through(scop: Scop, start: Statement, tensor: str, order: tuple[int, ...]) -> Scop:
    """``scop`` with the sums in a temporary whose dims are those of ``tensor`` in ``order``."""
    old = scop.tensor(tensor)
    own = fresh(f"{tensor}_turned", {t.name for t in scop.tensors})

    def change(access: Access) -> Access:
        return Access(own, tuple(access.indices[d] for d in order))

    statements = tuple(s.map_accesses(change, tensor) for s in scop.statements)
    temp = replace(old, name=own, role="temp", shape=tuple(old.shape[d] for d in order))
    at: tuple[Expr, ...] = start.writes[0].indices
    copy = Statement(
        fresh(f"{tensor}_copy", {s.name for s in scop.statements}),
        start.dims,
        start.domain,
        nest_position(start.dims),
        writes=(Access(tensor, at),),
        reads=(change(Access(tensor, at)),),
        body=Body((), (Load(0, (), old.dtype),)),
    )
    changed = replace(scop, tensors=(*scop.tensors, temp), statements=statements)
    return insert_nest(changed, copy, changed.statements[-1])
