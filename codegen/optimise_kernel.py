"""What every kernel goes through between its schedule and an emitter, in order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from weft.codegen.block_transposes import block_transposes
from weft.codegen.collapse_parallel import collapse_parallel
from weft.codegen.collapse_rows import collapse_rows
from weft.codegen.cut_points import cut_points
from weft.codegen.cut_ranges import cut_ranges
from weft.codegen.form_parallel_region import form_parallel_region
from weft.codegen.forward_fills import forward_fills
from weft.codegen.group_guards import group_guards
from weft.codegen.hoist_checks import hoist_checks
from weft.codegen.known_loads import known_loads
from weft.codegen.late_operands import late_operands
from weft.codegen.multi_stream_loads import multi_stream_loads
from weft.codegen.peel_first import peel_first
from weft.codegen.rows_side_by_side import rows_side_by_side
from weft.codegen.scalar_replacement import scalar_replacement
from weft.codegen.short_sums import short_sums
from weft.codegen.show_short_rows import show_short_rows
from weft.codegen.simplify import simplify_kernel
from weft.codegen.software_pipeline import software_pipeline
from weft.codegen.software_prefetch import software_prefetch
from weft.codegen.split_tails import split_tails
from weft.codegen.stream_stores import stream_stores
from weft.codegen.transpose_strips import transpose_strips
from weft.codegen.trim_parameters import trim_parameters
from weft.codegen.unroll_and_jam import unroll_and_jam
from weft.codegen.unswitch import unswitch
from weft.ir.loop_ir import Kernel
from weft.ir.machine import TYPICAL, Cache, Machine

Pass = tuple[str, Callable[[Kernel], Kernel]]


def _always(l1: Cache) -> tuple[Pass, ...]:
    """What kernels for any machine go through; ``l1``: its first cache, or a typical one."""
    return (
        ("simplify", simplify_kernel),
        ("hoist_checks", hoist_checks),
        ("cut_points", cut_points),
        ("split_tails", split_tails),
        ("unswitch", unswitch),
        ("group_guards", group_guards),
        ("cut_ranges", cut_ranges),
        ("known_loads", known_loads),
        ("peel_first", peel_first),
        ("forward_fills", forward_fills),
        ("collapse_rows", collapse_rows),
        ("scalar_replacement", scalar_replacement),
        ("late_operands", late_operands),
        ("unroll_and_jam", unroll_and_jam),
        ("transpose_strips", transpose_strips),
        ("block_transposes", partial(block_transposes, l1=l1)),
        ("collapse_parallel", collapse_parallel),
        ("form_parallel_region", form_parallel_region),
    )


PASSES = _always(TYPICAL.caches[0])
COPIES = ("multi_stream_loads", "rows_side_by_side", "software_pipeline", "stream_stores")
"""Passes that make several copies of loops, for speed alone."""


def passes(machine: Machine | None, threads: int = 1) -> tuple[Pass, ...]:
    """``PASSES``, and what a kernel for ``machine`` goes through behind them.

    Rows of which a few fit into its first caches are pipelined. Unless its last cache has a
    sequential prefetcher, reductions beyond its size use several streams of loads; if it is faster
    so, those beyond the second one read long rows side by side. Short rows are
    prefetched where prefetchers do not follow loads under a mask.
    """
    trim: Pass = ("trim_parameters", trim_parameters)
    if machine is None or not machine.caches:
        return (*PASSES, ("software_prefetch", software_prefetch), trim)
    l1, l2 = machine.caches[0], machine.l2
    last = machine.caches[-1]
    several = partial(multi_stream_loads, near=l1, last_cache=last.size, threads=threads)
    beside = partial(
        rows_side_by_side,
        places=last.side_by_side,
        least=l2,
        threads=threads,
        registers=machine.vector_registers,
    )
    shown = partial(show_short_rows, vector_bytes=machine.vector_bytes)
    return (
        *_always(l1),
        ("short_sums", lambda k: short_sums(k, machine)),
        *([] if last.sequential_prefetcher else [("multi_stream_loads", several)]),
        *([("rows_side_by_side", beside)] if last.side_by_side > 1 else []),
        ("software_prefetch", software_prefetch),
        *([] if last.masked_loads else [("show_short_rows", shown)]),
        ("software_pipeline", lambda k: software_pipeline(k, l1.size, l2, machine.line)),
        ("stream_stores", lambda k: stream_stores(k, machine.line)),
        trim,
    )


def optimise_kernel(
    kernel: Kernel, machine: Machine | None = None, threads: int = 1, *, quick: bool = False
) -> Kernel:
    """``kernel`` in normal form: partial tiles separated, parallel loops collapsed or in a region.
    ``machine``: what runs it on ``threads`` threads, if that is known. ``quick``: without
    ``COPIES``."""
    for name, action in passes(machine, threads):
        if not (quick and name in COPIES):
            kernel = action(kernel)
    return kernel
