"""Rewrites of a Scop before it is scheduled: producers are inlined into their readers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import prod

import networkx as nx

from weft.ir.errors import IllegalScheduleError
from weft.ir.machine import Machine
from weft.ir.plan import Decisions
from weft.ir.scalar_expr import Var
from weft.ir.scop import Access, Scop, Statement
from weft.polyhedral.analysis.delta_box import Distances
from weft.polyhedral.analysis.linear import extent, hull, mentions
from weft.polyhedral.analysis.tile_domain import WRITTEN_OUT
from weft.polyhedral.analysis.work import operations
from weft.polyhedral.policy.lanes import choose_lanes, folds, strided
from weft.polyhedral.policy.product import find_product, find_window
from weft.polyhedral.policy.product_costs import extents
from weft.polyhedral.proof.dependences import Dependence, dependences
from weft.polyhedral.transform.edit import accesses_of
from weft.polyhedral.transform.expand_all import privatize
from weft.polyhedral.transform.expand_carried import expand_carried
from weft.polyhedral.transform.hoist_constants import hoist
from weft.polyhedral.transform.inline_producer import after, beside, inline, why_not_inline
from weft.polyhedral.transform.private_results import private_result
from weft.polyhedral.transform.scheduled import Scheduled, loops_above
from weft.polyhedral.transform.split_node import split_node

Around = tuple[int | str, ...]  # the position of a loop's body

MAX_READS = 64  # of one statement, so that bodies stay small


def prepare(now: Scheduled) -> Scheduled:
    """``now`` with pointwise producers inlined where their readers recompute them at no loss."""
    for pays in (_is_copy, _pays):  # so that readers see what is stored before it is converted
        for name in [s.name for s in now.scop.statements]:
            scop, producer = now.scop, now.scop.statement(name)
            if not why_not_inline(scop, producer) and _few(scop, producer) and pays(scop, producer):
                now = inline(now, name)
    for statement in now.scop.statements:
        if statement.update is None:
            now = hoist(now, statement.name)
    return now


def _few(scop: Scop, producer: Statement) -> bool:
    """Whether its readers, all in later nests, still have at most ``MAX_READS`` reads."""
    uses = _uses(scop, producer)
    if not uses or any(len(s.reads) + len(producer.reads) > MAX_READS for s, _ in uses):
        return False
    return all(s.position[0] != producer.position[0] for s, _ in uses)


def _is_copy(scop: Scop, producer: Statement) -> bool:
    """Whether ``producer`` only copies or converts: inlining that always pays."""
    plain = not any(a.guard or a.may for a in producer.reads)
    return plain and operations(producer) == 0


def _pays(scop: Scop, producer: Statement) -> bool:
    """Whether recomputing the body costs no more than storing and loading the value: copies always;
    otherwise each value is read about once, in one place, or is a few cheap operations."""
    if _is_copy(scop, producer):
        return True
    uses = _uses(scop, producer)
    repeated = max(_instances(s) for s, _ in uses) > 1.5 * _instances(producer)
    if repeated:
        return False
    plain = not any(a.guard or a.may for a in producer.reads)
    return len(uses) == 1 or (operations(producer) <= 2 and plain and len(uses) <= 3)


def _uses(scop: Scop, producer: Statement) -> list[tuple[Statement, Access]]:
    """The reads of what ``producer`` writes, with their statements."""
    tensor = producer.writes[0].tensor
    return [(s, a) for s, a, is_write in accesses_of(scop, tensor) if not is_write]


def _instances(s: Statement) -> int:
    bounds = hull(s)
    return prod(extent(bounds[d]) if d in bounds else 16 for d in s.dims)


# ---- Implicit padding: no padded copy of an operand is stored if windows can guard their reads.
#
#     P[i, l] = 0 <= i - 1 < n ? x[i - 1, l] : 0
#     y[i, l] += P[i + r, l] * w[r, l]
#     →
#     y[i, l] += (0 <= i + r - 1 < n ? x[i + r - 1, l] : 0) * w[r, l]
#
# The guard does not change along the lanes l, and in an unrolled register tile most steps know it
# at compile time. The copy P, as large as x, costs more than the guards.
#
# Images at most one vector wide have their lanes along the width, across the edges; but each step
# meets the edge in the same lanes, which a constant mask leaves out. With a copy, loads would stall
# on stores that they overlap by all but one element (7 x 7 images, 3 x 3 taps: 3 times as long).


def implicit_padding(
    now: Scheduled, machine: Machine, kept: frozenset[str] = frozenset()
) -> Scheduled:
    """``now`` without padded copies that only one window reads, but for tensors that are
    ``kept``."""
    for producer in now.scop.statements:
        scop = now.scop
        if not _pads(scop, producer) or producer.writes[0].tensor in kept:
            continue
        uses = accesses_of(scop, producer.writes[0].tensor)
        readers = [s for s, _, is_write in uses if not is_write]
        if len(readers) == 1 and _is_window(scop, readers[0], machine):
            changed = inline(now, producer.name)
            if _is_window(changed.scop, changed.scop.statement(readers[0].name), machine):
                now = changed
    return now


def _pads(scop: Scop, producer: Statement) -> bool:
    """Whether it copies one element under a guard, and can be inlined."""
    one = len(producer.reads) == 1 and bool(producer.reads[0].guard)
    return one and not producer.reads[0].may and not why_not_inline(scop, producer)


def _is_window(scop: Scop, s: Statement, machine: Machine) -> bool:
    """Whether ``s`` is a window in unrolled tiles of several rows, with guards that do not change
    along the lanes or, in one vector, change in the same way at each step."""
    if s.update is None or find_product(scop, s, s.dims, machine) is not None:
        return False
    window, sizes = find_window(scop, s, s.dims, machine), extents(s)
    if window is None or not window.rows or window.tile is None or sizes is None:
        return False
    rows, lanes = window.tile
    if prod(rows) * lanes * prod(sizes[d] for d in window.stream) > WRITTEN_OUT:
        return False
    if sizes[window.lanes] <= machine.lanes(scop.tensor(s.writes[0].tensor).dtype):
        return not any(read.guard and strided(read, window.lanes) for read in s.reads)
    guards = [c.expr for read in s.reads for c in read.guard]
    return not any(mentions(e, (window.lanes,)) for e in guards)


# ---- Forward substitution: cheap values are computed where they are used, not stored.
#
#     for i: for j: { s = a[i] == b[j]; H[i, j] = f(H[i, j-1], s) }
#     →
#     for i: for j: H[i, j] = f(H[i, j-1], a[i] == b[j])
#
# Expansion gave s an element for each iteration; a nest of its own for a few cheap operations would
# write and read all of them.


READERS = 2  # accesses that each compute the value anew
CHEAP = 2  # operations: cheaper than a store and a load


def forward_substitution(now: Scheduled, kept: Collection[str] = ()) -> Scheduled:
    """``now`` with cheap values substituted into statements of the same iteration, but for tensors
    that are ``kept``."""
    for name in [s.name for s in now.scop.statements]:
        producer = now.scop.statement(name)
        touched = {a.tensor for a in producer.accesses}
        if touched.isdisjoint(kept) and _is_cheap(now.scop, producer):
            now = inline(now, name)
    return now


def private_results(now: Scheduled, kept: Collection[str] = ()) -> Scheduled:
    """``now``, whose arguments that serve as scratch are temporaries until the last iteration, but
    for those that are ``kept``."""
    for tensor in now.scop.tensors:
        if tensor.name not in kept:
            now = private_result(now, tensor.name)
    return now


def _is_cheap(scop: Scop, producer: Statement) -> bool:
    if why_not_inline(scop, producer) or operations(producer) > CHEAP:
        return False
    if any(read.guard or read.may for read in producer.reads):
        return False
    uses = [(s, a) for s, a, write in accesses_of(scop, producer.writes[0].tensor) if not write]
    if not all(beside(producer, s, access) for s, access in uses) or len(uses) > READERS:
        return False
    if operations(producer):
        return bool(uses)
    # A copy of what is overwritten later pays where the reader does that, which reads it anyway.
    read = {access.tensor for access in producer.reads}
    over = [s for s in after(scop, producer) if any(w.tensor in read for w in s.writes)]
    return any(s in over for s, _ in uses) if over else bool(uses)


# ---- Values that one turn of a loop leaves to the next: elements of their own.
#
#     for i: { here = x[i]; x[i] = f(left, here); left = here }
#     →
#     for i: { here[i] = x[i]; left[i + 1] = here[i] }
#     for i: x[i] = f(left[i], here[i])
#
# People who write in place keep in scalars what they overwrite. Where what a turn leaves does not
# depend on what it was left, the loop can be distributed and run in vectors. Elsewhere, and where
# another loop has vectors to offer, the scalars stay in registers.


def carried_values(
    now: Scheduled, machine: Machine, decisions: Decisions, kept: Collection[str] = ()
) -> Scheduled:
    """``now`` with temporaries that go from turn to turn of an innermost loop expanded where the
    loop can be vectors then, but for those that are ``kept``."""
    done = now
    for around, body in _innermost_bodies(now.scop):
        names = [t for t in _left_to_the_next(now.scop, around, body) if t not in kept]
        if not names or _a_loop_around_is_free(now.scop, around, body):
            continue
        try:
            tried = _all_expanded(done, names, body)
        except IllegalScheduleError:
            continue
        changed = [tried.scop.statement(s.name) for s in body]
        if _in_cycles(tried.scop, around, changed, machine) is None:
            continue
        answers = {decisions.choose(f"{name}.expand", ("yes", "no"), "yes") for name in names}
        done = tried if answers == {"yes"} else done
    return done


def _left_to_the_next(scop: Scop, around: Around, body: Sequence[Statement]) -> list[str]:
    """The temporaries that ``body`` writes and reads, and that all turns of its loop share."""
    last = (str(around[-1]),)
    read = {access.tensor for s in body for access in s.reads}
    return list(
        dict.fromkeys(
            w.tensor
            for s in body
            for w in s.writes
            if w.tensor in read
            and scop.tensor(w.tensor).role == "temp"
            and not any(mentions(index, last) for index in w.indices)
        )
    )


def _a_loop_around_is_free(scop: Scop, around: Around, body: Sequence[Statement]) -> bool:
    """Whether one of the loops around that of ``body`` carries no dependence."""
    *outer, _ = (str(p) for p in around[1::2])
    names = {s.name for s in body}
    return any(
        all(
            left.between(Var(dim), Var(dim)) == (0, 0)
            for _, left in _within(scop, names, outer[:k])
        )
        for k, dim in enumerate(outer)
    )


def _all_expanded(now: Scheduled, names: Sequence[str], body: Sequence[Statement]) -> Scheduled:
    loop = loops_above(now.tree, body[0].name)[-1].name
    for name in names:
        now = expand_carried(now, name, loop)
    return now


# ---- Node splitting: a loop that only overwrites what it has read becomes vectors.
#
#     for i: u[i] = f(u[i], u[i + 1])
#     →
#     for i: x[i] = u[i + 1]
#     for i: u[i] = f(u[i], x[i])
#
# Of a cycle of dependences in an innermost loop, anti dependences alone can be taken out: what is
# read before it is overwritten may be read earlier still. Where that breaks all of its cycles, the
# loop is distributed, and each part is a vector loop; strips keep x in L1 between the two. (What
# only moves elements is left to LLVM, which sees a ``memmove``.)


def node_splitting(
    now: Scheduled, machine: Machine, decisions: Decisions, kept: Collection[str] = ()
) -> Scheduled:
    """``now`` with reads in statements of their own where these are all that keeps an innermost
    loop from being vectors, but for tensors that are ``kept``."""
    done = now
    for around, body in _innermost_bodies(now.scop):
        if not _overwrites(body):
            continue
        for name, operand in _in_cycles(now.scop, around, body, machine) or ():
            tensor = done.scop.statement(name).reads[operand].tensor
            if tensor in kept:
                continue
            if decisions.choose(f"{name}.split_{tensor}", ("yes", "no"), "yes") == "yes":
                done = split_node(done, name, operand)
    return done if done is now else privatize(done, [t.name for t in now.scop.tensors])


def _overwrites(body: Sequence[Statement]) -> bool:
    """Whether the statements of a loop write other elements of what they read."""
    written = {w.tensor: w.indices for s in body for w in s.writes}
    return any(
        written.get(read.tensor, read.indices) != read.indices for s in body for read in s.reads
    )


def _innermost_bodies(scop: Scop) -> Iterator[tuple[Around, list[Statement]]]:
    """The loops around each innermost body, as positions, and the statements of the body."""
    bodies: dict[Around, list[Statement]] = {}
    for s in scop.statements:
        bodies.setdefault(s.position[:-1], []).append(s)
    for around, body in bodies.items():
        inside = [s for s in scop.statements if s.position[: len(around)] == around]
        if around and len(inside) == len(body):
            yield around, body


def _in_cycles(
    scop: Scop, around: Around, body: Sequence[Statement], machine: Machine
) -> list[tuple[str, int]] | None:
    """The reads, by statement and number, whose anti dependences are in cycles in the innermost of
    the loops ``around``; None if cycles would remain without them, or vectors are worth nothing."""
    *outer, last = (str(p) for p in around[1::2])
    if not any(map(operations, body)):
        return None
    if any(folds(s, last) or choose_lanes(scop, s, [last], machine) is None for s in body):
        return None
    edges = list(_inside(scop, {s.name for s in body}, outer, last))
    flows = {(d.sink.name, d.sink_access) for d in edges if d.kind == "flow"}
    anti = [
        d
        for d in edges
        if d.kind == "anti"
        and (d.source.name, d.source_access) not in flows
        and not d.source_access.guard
        and not d.source_access.may
    ]
    fixed = nx.DiGraph((d.source.name, d.sink.name) for d in edges if d not in anti)
    if not nx.is_directed_acyclic_graph(fixed):
        return None
    whole = nx.DiGraph((d.source.name, d.sink.name) for d in edges)
    together = {
        n: k for k, part in enumerate(nx.strongly_connected_components(whole)) for n in part
    }
    return [
        (d.source.name, number)
        for d in anti
        if together[d.source.name] == together[d.sink.name]
        for number, read in enumerate(d.source.reads)
        if read == d.source_access
    ]


def _inside(
    scop: Scop, names: Collection[str], outer: Sequence[str], last: str
) -> list[Dependence]:
    """The dependences among ``names`` in one iteration of the loops ``outer``, without those of a
    statement on itself in one iteration of ``last``."""
    return [
        d
        for d, left in _within(scop, names, outer)
        if d.source.name != d.sink.name or left.between(Var(last), Var(last)) != (0, 0)
    ]


def _within(
    scop: Scop, names: Collection[str], outer: Sequence[str]
) -> Iterator[tuple[Dependence, Distances]]:
    """The dependences among ``names`` in one iteration of the loops ``outer``, with what is left of
    their distances."""
    for d in dependences(scop, implied=False):
        if d.source.name not in names or d.sink.name not in names or d.reduction:
            continue
        left: Distances | None = Distances(d)
        for dim in outer:
            left = left and left.within(Var(dim), Var(dim))
        if left is not None:
            yield d, left
