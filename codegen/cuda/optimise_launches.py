"""What kernels for a GPU go through between their schedule and launches: the passes that need no
vectors, caches or teams of threads."""

from __future__ import annotations

from weft.codegen.group_guards import group_guards
from weft.codegen.scalar_replacement import scalar_replacement
from weft.codegen.simplify import simplify_kernel
from weft.ir.loop_ir import Kernel

PASSES = (simplify_kernel, group_guards, scalar_replacement)


def optimise_launches(kernel: Kernel) -> Kernel:
    """``kernel`` in normal form, recurrences of serial loops in registers."""
    for action in PASSES:
        kernel = action(kernel)
    return kernel
