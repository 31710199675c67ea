"""What loops do with arrays that exceed a cache: results stream past the caches, what is only read
is asked for ahead, and large temporaries are kept in the results that they become."""

from __future__ import annotations

from weft.ir.errors import BudgetError
from weft.ir.machine import Machine
from weft.ir.scalar_expr import Literal, Var, literal
from weft.ir.schedule_tree import Band, Mark, RegisterTile, Tree, children, statements_below
from weft.ir.scop import Scop, Statement, Tensor
from weft.polyhedral.analysis.linear import box
from weft.polyhedral.analysis.nests import nests
from weft.polyhedral.proof.order_check import keeps_dependences
from weft.polyhedral.transform.alias import alias
from weft.polyhedral.transform.edit import accesses_of
from weft.polyhedral.transform.prefetch import prefetch
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.transform.stream import stream

# ---- Results stream past the caches: large ones, of nests that exceed the last cache.
#
# A store that misses the caches loads its line first (write-allocate), so that a copy moves three
# bytes for every two. A store past them does not, but a later reader waits for memory. So results
# stream if the nest accesses more than the last cache holds, so that their first lines are evicted
# before the last ones are stored, and if they are a good part of that size.


PART = 8  # results below 1/8 of the last cache do not stream


def stream_large(scheduled: Scheduled, machine: Machine) -> Scheduled:
    """``scheduled`` with the stores that may gain by streaming marked; sizes that are parameters
    are compared when the nest runs."""
    if not machine.caches:
        return scheduled
    last = machine.caches[-1].size
    parts = nests(scheduled.scop, scheduled.tree)
    large = list(dict.fromkeys(t for n in parts for t in _results(scheduled.scop, n, last)))
    if not large:
        return scheduled
    return stream(scheduled, large[0] if len(large) == 1 else large, last, last // PART)


def _results(scop: Scop, nest: Tree, last: int) -> list[str]:
    """What vectors of ``nest`` store and nobody in it reads, unless it is known to be small."""
    inside = [scop.statement(name) for name in statements_below(nest)]
    read = {r.tensor for s in inside for r in s.reads}
    vectors = in_vectors(nest)
    stored = {w.tensor for s in inside if s.name in vectors for w in s.writes}
    touched = read | {w.tensor for s in inside for w in s.writes}
    tensors = [t for t in scop.tensors if t.name in touched and t.scope == "global"]
    sizes = {t.name: known_bytes(t) for t in tensors}
    if None not in sizes.values() and sum(size or 0 for size in sizes.values()) <= last:
        return []
    return [
        t.name
        for t in tensors
        if t.name in stored - read and not t.contracted and not _small(sizes[t.name], last)
    ]


def _small(size: int | None, last: int) -> bool:
    return size is not None and size <= last // PART


def in_vectors(nest: Tree) -> set[str]:
    """The statements inside vector loops and register tiles."""
    found: set[str] = set()
    stack = [nest]
    while stack:
        node = stack.pop()
        match node:
            case Mark(RegisterTile()):
                found.update(statements_below(node))
            case Band(loops) if any(x.kind == "vector" for x in loops):
                found.update(statements_below(node))
            case _:
                stack += children(node)
    return found


def known_bytes(tensor: Tensor) -> int | None:
    """The size of ``tensor``; None where parameters decide."""
    size = tensor.dtype.itemsize
    for extent in tensor.shape[tensor.contracted :]:
        if not isinstance(extent, Literal):
            return None
        size *= int(extent.value)
    return size


# ---- Vector loops ask ahead for large arrays that a nest beyond the last cache only reads.
#
# A long computation fills the reorder buffer, so that only few loads are in flight, and hardware
# prefetchers stop at the end of each page. Lines that are asked for take an eighth of the first
# cache at most, so that they are still there when they are due, and are at most half a page ahead,
# so that most are on a page that the TLB holds: at 6 KiB ahead, GELU took 1.6 times as long on one
# processor, as long as without prefetches. A cache with a sequential prefetcher needs no hints, or
# none where nothing large is stored.


HELD = 8  # 1/8 of the first cache for prefetched lines: rows come again
NEAR = 2  # 1/2 of a page
COUNTS = 8  # arrays of less than 1/8 of all bytes do not


def prefetch_large(scheduled: Scheduled, machine: Machine) -> Scheduled:
    """``scheduled`` with the loads that may gain by prefetches marked; only where sizes are
    known."""
    if not machine.caches:
        return scheduled
    last = machine.caches[-1]
    for nest in nests(scheduled.scop, scheduled.tree):
        if last.sequential_prefetcher and not (
            last.hints_beside_stores and _stores_much(scheduled.scop, nest, last.size)
        ):
            continue
        large = _large(scheduled.scop, nest, last.size)
        ahead = min(machine.page // NEAR, machine.caches[0].size // HELD // max(1, len(large)))
        for tensor, readers in large.items():
            if ahead and readers:
                scheduled = prefetch(scheduled, tensor, ahead, readers)
    return scheduled


def _stores_much(scop: Scop, nest: Tree, last: int) -> bool:
    """Whether ``nest`` stores a result that is not known to be small."""
    inside = [scop.statement(name) for name in statements_below(nest)]
    stored = {w.tensor for s in inside for w in s.writes}
    return any(
        t.name in stored and t.scope == "global" and not _small(known_bytes(t), last)
        for t in scop.tensors
    )


def _large(scop: Scop, nest: Tree, last: int) -> dict[str, list[str]]:
    """The arrays that ``nest`` only reads, and a large part of more than ``last`` bytes: who reads
    them in vectors."""
    inside = [scop.statement(name) for name in statements_below(nest)]
    written = {w.tensor for s in inside for w in s.writes}
    read = {r.tensor for s in inside for r in s.reads}
    tensors = [t for t in scop.tensors if t.name in read | written and t.scope == "global"]
    sizes = {t.name: known_bytes(t) or 0 for t in tensors}
    total = sum(sizes.values())
    if total <= last:
        return {}
    large = [n for n, size in sizes.items() if n not in written and size * COUNTS > total]
    vectors = [s for s in inside if s.name in in_vectors(nest)]
    return {n: [s.name for s in vectors if n in {r.tensor for r in s.reads}] for n in large}


# ---- Temporaries too large for the first cache are kept in the results that they become.
#
# What does not fit into the first cache is written to the second one and read from there, and the
# result's lines are fetched besides. In the result's memory these are fetched while the temporary
# is computed, when bandwidth is free. The results of a nest that exceeds the last cache stream:
# there, the temporary must exceed the second one, too.


def alias_large(
    scheduled: Scheduled, local: Scheduled, tensor: str, machine: Machine
) -> Scheduled | None:
    """``scheduled`` with the temporary ``tensor`` in the result that it becomes, if it is large
    even in the storage that it has in ``local``; None where it is not, or where the result is not
    free until then."""
    stored = local.tensor(tensor)
    size = known_bytes(stored) if stored.scope == "local" and machine.caches else None
    if size is None or size <= machine.caches[0].size:
        return None
    users = {s.name: s for s, _, _ in accesses_of(scheduled.scop, tensor)}
    *before, maker = sorted(users.values(), key=lambda s: s.position[:1])
    result = _made_whole(scheduled.scop, maker, tensor)
    if result is None or any(s.position[:1] == maker.position[:1] for s in before):
        return None
    if size <= machine.l2 and _exceeds_last(scheduled, maker, machine):
        return None
    made = alias(scheduled, tensor, result)
    try:
        return made if keeps_dependences(made.scop, made.tree, result) else None
    except BudgetError:
        return None


def _made_whole(scop: Scop, maker: Statement, tensor: str) -> str | None:
    """The result that ``maker`` alone touches, and makes elementwise of all of ``tensor``."""
    (write, *others), bounds = maker.writes, box(maker)
    reads = {a.indices for a in maker.reads if a.tensor == tensor}
    dims = tuple(i.name for at in reads for i in at if isinstance(i, Var))
    whole = tuple((literal(0), size) for size in scop.tensor(tensor).shape)
    result = scop.tensor(write.tensor)
    if others or len(reads) != 1 or sorted(dims) != sorted(maker.dims) or maker.update:
        return None
    if tuple(bounds.get(d) for d in dims) != whole or None in map(write.axis, dims):
        return None
    alone = len(accesses_of(scop, result.name)) == 1 and result.role in ("output", "inout")
    same = result.dtype == scop.tensor(tensor).dtype and not (write.may or write.guard)
    return result.name if alone and same else None


def _exceeds_last(scheduled: Scheduled, maker: Statement, machine: Machine) -> bool:
    """Whether the arrays of the nest of ``maker`` exceed the last cache, as far as is known."""
    scop = scheduled.scop
    for nest in nests(scop, scheduled.tree):
        inside = statements_below(nest)
        if maker.name in inside:
            touched = {a.tensor for name in inside for a in scop.statement(name).accesses}
            kept = [t for t in scop.tensors if t.name in touched and t.role != "temp"]
            sizes = [known_bytes(t) for t in kept]
            return None in sizes or sum(size or 0 for size in sizes) > machine.caches[-1].size
    return True
