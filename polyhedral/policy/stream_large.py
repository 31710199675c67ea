"""Which results stream past the caches: large ones, of nests that exceed the last cache.

A store that misses the caches loads its line first (write-allocate), so that a copy moves three
bytes for every two. A store past them does not, but a later reader waits for memory. So results
stream if the nest accesses more than the last cache holds, so that their first lines are evicted
before the last ones are stored, and if they are a good part of that size.
"""

from __future__ import annotations

from weft.ir.machine import Machine
from weft.ir.scalar_expr import Literal
from weft.ir.schedule_tree import Band, Mark, RegisterTile, Tree, children, statements_below
from weft.ir.scop import Scop, Tensor
from weft.polyhedral.analysis.nests import nests
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.transform.stream import stream

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
