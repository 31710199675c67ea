"""What every kernel goes through between its schedule and an emitter, in order."""

from __future__ import annotations

from collections.abc import Callable

from weft.codegen.alias_outputs import alias_outputs
from weft.codegen.collapse_parallel import collapse_parallel
from weft.codegen.collapse_rows import collapse_rows
from weft.codegen.cut_points import cut_points
from weft.codegen.cut_ranges import cut_ranges
from weft.codegen.form_parallel_region import form_parallel_region
from weft.codegen.forward_fills import forward_fills
from weft.codegen.group_guards import group_guards
from weft.codegen.multi_stream_loads import multi_stream_loads
from weft.codegen.peel_first import peel_first
from weft.codegen.scalar_replacement import scalar_replacement
from weft.codegen.simplify import simplify_kernel
from weft.codegen.software_pipeline import software_pipeline
from weft.codegen.software_prefetch import software_prefetch
from weft.codegen.split_tails import split_tails
from weft.codegen.stream_stores import stream_stores
from weft.codegen.tile_transposes import tile_transposes
from weft.codegen.transpose_strips import transpose_strips
from weft.codegen.unswitch import unswitch
from weft.ir.loop_ir import Kernel
from weft.ir.machine import Machine

PASSES: tuple[tuple[str, Callable[[Kernel], Kernel]], ...] = (
    ("simplify", simplify_kernel),
    ("cut_points", cut_points),
    ("split_tails", split_tails),
    ("unswitch", unswitch),
    ("group_guards", group_guards),
    ("cut_ranges", cut_ranges),
    ("peel_first", peel_first),
    ("collapse_rows", collapse_rows),
    ("forward_fills", forward_fills),
    ("scalar_replacement", scalar_replacement),
    ("transpose_strips", transpose_strips),
    ("tile_transposes", tile_transposes),
    ("collapse_parallel", collapse_parallel),
    ("form_parallel_region", form_parallel_region),
)


def optimise_kernel(kernel: Kernel, machine: Machine | None = None, threads: int = 1) -> Kernel:
    """``kernel`` in normal form: partial tiles separated, parallel loops collapsed or in a region.

    ``machine``: what runs it, if that is known. Rows of which a few fit into its first caches are
    pipelined, and large results bypass the last one. Unless that has a sequential prefetcher, loads
    are prefetched, and reductions beyond its size use several streams of loads.
    """
    for _, action in PASSES:
        kernel = action(kernel)
    if machine and machine.caches:
        sizes = [cache.size for cache in machine.caches]
        if not machine.caches[-1].sequential_prefetcher:
            kernel = multi_stream_loads(kernel, machine.caches[0], sizes[-1], threads)
            kernel = software_prefetch(kernel, sizes[0], sizes[-1], machine.page)
        kernel = software_pipeline(kernel, sizes[0], sizes[:2][-1], machine.line)
        kernel = alias_outputs(kernel, sizes[0], sizes[:2][-1], sizes[-1])
        kernel = stream_stores(kernel, sizes[-1], machine.line)
    return kernel
