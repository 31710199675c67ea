"""The ways of computing work on an accelerator: its mappings, and those of work rearranged.

Operands of few bits are loaded into accumulators, or added to them by products with the identity
(``identity_products``); reduction loops are as they are, or merged (``im2col``); groups that no
instruction computes are blocks of zeros beside their weights (``block_diagonal``). What is cheapest
on a machine, its tilings say.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import prod

from weft.accel.artifact import Layout
from weft.accel.block_diagonal import block_diagonal
from weft.accel.capabilities import Capabilities
from weft.accel.identity_products import identity_products
from weft.accel.im2col import im2col
from weft.accel.map_work import REASONS, map_work
from weft.accel.mapping import Mapping
from weft.accel.refusal import Refusal
from weft.accel.work import Work
from weft.ir.accelerator import Accelerator

MERGED = 4  # choices of loops to merge that are tried: all of three loops


def mappings(work: Work, machine: Accelerator, found: Capabilities) -> list[Mapping]:
    """Mappings of ``work`` to ``machine``, one for each way of computing it: the one with the
    fewest iterations. Results have the same layout in all of them. Raises ``Refusal`` if there is
    none."""
    reasons: dict[str, None] = {}
    some = list(_ways(work, machine, found, reasons))
    if some:
        others = _merged(some[0])
    else:
        block = max((n for c in found.computes for n in c.extents.values()), default=1)
        others = block_diagonal(work, block) if work.start is not None else iter(())
    for other in others:
        some += _ways(other, machine, found, reasons, some[0].write.layout if some else None)
    if not some:
        shown = list(reasons)[:REASONS] + ["…"] * (len(reasons) > REASONS)
        raise Refusal("; ".join(shown) or "no instruction computes anything like it")
    return some


def _merged(mapping: Mapping) -> Iterator[Work]:
    """Its work with loops merged such that it takes fewer iterations."""
    compute, work = mapping.compute, mapping.work
    if compute is None or compute.step.update is None:
        return iter(())
    block = prod(compute.extents[d] for d in compute.step.update.dims)
    found = im2col(work, block, prod(mapping.extents[d] for d in mapping.folds))
    return islice(found, MERGED)


def _ways(
    work: Work,
    machine: Accelerator,
    found: Capabilities,
    reasons: dict[str, None],
    layout: Layout | None = None,
) -> Iterator[Mapping]:
    """With operands of few bits loaded into accumulators, and added to them by products.
    ``layout``: of the results, if it matters."""
    for products in ((), identity_products(found)):
        for made in map_work(work, machine, found, products, reasons):
            if layout in (None, made.write.layout):
                layout = made.write.layout
                if not products or _has_diagonals(made):
                    yield made
                break


def _has_diagonals(mapping: Mapping) -> bool:
    return any(view.diagonal is not None for view in mapping.reads.values())
