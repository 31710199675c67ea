"""Affine statements → a schedule for a GPU, proved legal → launches, proved free of races.

What is refused runs as it is written, on one thread of the device, with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

from weft.codegen.cuda.form_launches import form_launches
from weft.codegen.cuda.idle_barriers import without_idle_barriers
from weft.codegen.cuda.optimise_launches import optimise_launches
from weft.codegen.from_schedule import build_kernel
from weft.driver.cluster_code import (
    ClusterCode,
    ClusterKernel,
    Nest,
    given_schedule,
    nests,
    prove,
    role,
)
from weft.driver.passes import Passes
from weft.ir.errors import CompileError, UnsupportedError, WeftWarning
from weft.ir.gpu import Gpu
from weft.ir.loop_ir import Kernel
from weft.ir.loop_printer import print_kernel
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr
from weft.ir.schedule_printer import print_schedule
from weft.ir.schedule_tree import statements_below
from weft.ir.scop import Scop
from weft.polyhedral.launches.fragments import check_fragments
from weft.polyhedral.launches.idle_barriers import idle_barriers
from weft.polyhedral.launches.launch_memory import LaunchMemory, check_launch_memory
from weft.polyhedral.policy.gpu import schedule_gpu
from weft.polyhedral.proof.gpu import check_races
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled


def gpu_code(
    scop: Scop, name: str, gpu: Gpu, passes: Passes, given: Scheduled | None = None
) -> ClusterCode:
    """The launches of a cluster or a loop kernel, in the order that the user has ``given`` or in
    Weft's own. ``name``: what theirs begin with."""
    fallback = ""
    if given is not None:
        scheduled = given_schedule(scop, given, passes)
        kernels = _kernels(scheduled, name, passes)
    else:
        try:
            scheduled = _proved(scop, lambda: schedule_gpu(scop, gpu), passes)
            kernels = _kernels(scheduled, name, passes)
        except UnsupportedError:
            raise
        except CompileError as error:  # a bug of the scheduler's is no reason not to compile
            fallback = str(error)
            warnings.warn(
                f"{scop.name}: as it is written, on one thread of the GPU\n{error}",
                WeftWarning,
                stacklevel=2,
            )
            scheduled = _proved(scop, lambda: initial(scop), passes)
            kernels = _kernels(scheduled, name, passes)
    return ClusterCode(scheduled, kernels, role(scop, "input"), role(scop, "output"), fallback)


def _proved(scop: Scop, choose: Callable[[], Scheduled], passes: Passes) -> Scheduled:
    scheduled = passes.run("schedule", choose, show=lambda s: print_schedule(s.tree))
    passes.run("legality", lambda: prove(scop, scheduled))
    return scheduled


def _kernels(scheduled: Scheduled, name: str, passes: Passes) -> tuple[ClusterKernel, ...]:
    return passes.run(
        "loops",
        lambda: tuple(map(_kernel, nests(scheduled, name))),
        show=lambda ks: "\n\n".join(print_kernel(k.kernel) for k in ks),
    )


def _kernel(nest: Nest) -> ClusterKernel:
    kernel, memory = launches(
        build_kernel(nest.scop, nest.tree, nest.scop.name),
        [c.condition for c in nest.scop.context],
    )
    buffers = {buffer.name for buffer in kernel.buffers}
    written = {w.tensor for s in nest.scop.statements for w in s.writes}
    read = {r.tensor for s in nest.scop.statements for r in s.reads}
    return ClusterKernel(
        kernel,
        statements_below(nest.tree),
        frozenset(read & buffers),
        frozenset(written & buffers),
        unclaimed=memory.unclaimed,
    )


def launches(kernel: Kernel, context: Sequence[Expr] = ()) -> tuple[Kernel, LaunchMemory]:
    """``kernel``, fresh from its schedule, as launches, with no barrier that the proof can do
    without; and what was found of their memory. Proved, as it is printed, for sizes for which
    ``context`` holds: free of races, shared memory is filled before it is read, as far as that
    says, warps multiply what belongs together."""
    made = form_launches(optimise_launches(kernel))
    verify_kernel(made)
    made = without_idle_barriers(made, idle_barriers(made))
    check_races(made)
    memory = check_launch_memory(made, context)
    check_fragments(made)
    return made, memory
