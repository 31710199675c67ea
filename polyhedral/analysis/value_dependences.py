"""Value-based dependences: which instance computes a value that which instance uses.

Of the memory-based dependences (``dependences``) these are the ones that no renaming of storage can
remove, and far fewer: each read depends on the last write of its element only. A schedule that
keeps them computes the same if besides no write comes between a value and its use, be it that
storage is expanded, be it that the memory-based dependences are kept as well.

* Instances of one update whose order is free do not depend on each other's values. They depend
  on the write that they start from, and whoever reads the result depends on all of them. Besides,
  they must not run at the same time: that is a dependence with ``reduction``, as it stands in
  ``dependences``.
* Of other updates, each instance depends on the one before it.

See Feautrier, "Dataflow analysis of array and scalar references" (1991).
"""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl

from weft.polyhedral.analysis.dependences import (
    Dependence,
    dependences,
    folding,
    ordered_updates,
)
from weft.polyhedral.analysis.flow import FINAL, flow
from weft.polyhedral.named_isl import access_map, bounded, derived, tuple_names, union_maps
from weft.polyhedral.scop import Access, Scop, Statement


def value_dependences(scop: Scop) -> tuple[Dependence, ...]:
    """The flow of values in the initial order of ``scop``, one record for each pair of accesses.

    ``kind`` is always flow; ``map`` is exact: from the instances that write a value to those that
    read it. Raises BudgetError (WEFT-E0400) rather than running unbounded.
    """

    def make() -> tuple[Dependence, ...]:
        with bounded(what="the analysis of the flow of values"):
            free = tuple(d for d in dependences(scop) if d.reduction)
            return (*_flows(scop), *free)

    return derived(make, "value dependences", (), scop)


def _flows(scop: Scop) -> Iterator[Dependence]:
    folds = folding(scop)
    seen = flow(scop, folds=lambda s: s.name in folds, implicit=True)
    for read, writers in seen.sources.items():
        if read.number == FINAL:
            continue
        sink = scop.statement(read.name)
        access = (*sink.reads, *sink.writes)[read.number]
        for part in union_maps(writers.reverse()):
            source = scop.statement(tuple_names(part)[0])
            if source is sink and sink.name in folds and read.number >= len(sink.reads):
                part = ordered_updates(part, sink)
            if not part.is_empty():
                yield from _by_write(scop, part.coalesce(), source, sink, access)


def _by_write(
    scop: Scop, pairs: isl.Map, source: Statement, sink: Statement, access: Access
) -> Iterator[Dependence]:
    """``pairs`` by the write of ``source`` that makes the value."""
    writes = [w for w in source.writes if w.tensor == access.tensor]
    read = access_map(scop, sink, access)
    for write in writes:
        part = pairs
        if len(writes) > 1:
            touched = access_map(scop, source, write).apply_range(read.reverse())
            part = pairs.intersect(touched)
        if not part.is_empty():
            yield Dependence(source, sink, write, access, "flow", part)
