"""Affine statements of a cluster or a loop kernel → legal schedule → kernels in loop IR."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from collections.abc import Sequence as Sequence_
from dataclasses import dataclass, replace
from functools import partial

from weft.codegen.from_schedule import build_kernel
from weft.codegen.optimise_kernel import optimise_kernel
from weft.driver.advice import advice
from weft.driver.options import Options
from weft.driver.passes import Passes
from weft.driver.seeds import SeedError, cheapest, first_fault, scripted
from weft.driver.targets import thread_count
from weft.ir.errors import CompileError, IllegalScheduleError, PlanError, WeftWarning
from weft.ir.loop_ir import Kernel
from weft.ir.loop_printer import print_kernel
from weft.ir.loop_verifier import verify_kernel
from weft.ir.machine import Machine
from weft.ir.plan import Decisions
from weft.ir.schedule_printer import print_schedule
from weft.ir.schedule_tree import Tree, statements_below
from weft.ir.scop import Scop, Tensor
from weft.polyhedral.analysis.nests import nests as top_level
from weft.polyhedral.keep_order import keep_order
from weft.polyhedral.policy.operand_panels import worth_aligning
from weft.polyhedral.proof import prove as proof
from weft.polyhedral.register_tile import check_closed_form
from weft.polyhedral.schedule_loops import Limits, schedule_loops
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled


@dataclass(frozen=True, slots=True)
class ClusterKernel:
    """A kernel, the ``statements`` that it runs, and the Scop tensors that its buffers are, in
    order; ``again``: those of which it reads each line many times. ``unclaimed``: buffers of which
    it is not claimed that they are filled before they are read, and why not."""

    kernel: Kernel
    statements: tuple[str, ...]
    reads: frozenset[str]
    writes: frozenset[str]
    again: frozenset[str] = frozenset()
    unclaimed: tuple[tuple[str, str], ...] = ()

    @property
    def tensors(self) -> tuple[str, ...]:
        return tuple(buffer.name for buffer in self.kernel.buffers)


@dataclass(frozen=True, slots=True)
class ClusterCode:
    """Everything about one cluster that is independent of the names around it.

    ``inputs`` and ``outputs`` are Scop tensors in the order of the cluster program's; ``fallback``
    says why the serial schedule was taken, '' where the scheduler's own is used.
    """

    scheduled: Scheduled
    kernels: tuple[ClusterKernel, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    fallback: str = ""


def cluster_code(
    scop: Scop, name: str, machine: Machine, passes: Passes, given: Scheduled | None = None
) -> ClusterCode:
    """The kernels of a cluster or a loop kernel, in the order that the user has ``given`` or in
    Weft's own. ``name``: what theirs begin with."""
    if given is not None:
        _check_levels(given)
        scheduled, fallback = given_schedule(scop, given, passes), ""
        kernels = kernels_of(scheduled, name, passes, machine)
    else:
        scheduled, kernels, fallback = _automatic(scop, machine, name, passes)
    inputs, outputs = role(scop, "input"), role(scop, "output", "inout")
    return ClusterCode(scheduled, kernels, inputs, outputs, fallback)


def _check_levels(given: Scheduled) -> None:
    bound = [loop for loop in given.loops() if loop.kind in ("grid", "block")]
    if bound:
        raise CompileError(
            "WEFT-E0032",
            f"loop {bound[0].name} is bound to the {bound[0].kind} of a GPU",
            why="a processor has no such level",
            hint='compile for one, target="cuda-twin" say; or make it parallel',
        )


def automatic_schedule(scop: Scop, machine: Machine, options: Options) -> Scheduled:
    """What ``cluster_code`` runs of ``scop`` where no schedule is given."""
    return _automatic(scop, machine, scop.name, Passes(options, scop.name))[0]


def _automatic(
    scop: Scop, machine: Machine, name: str, passes: Passes
) -> tuple[Scheduled, tuple[ClusterKernel, ...], str]:
    """``_within_limits``, by a tuner's records if the options say so and they fit."""
    decisions = passes.decisions
    decisions.advice = {} if passes.options.tuned == "off" else advice(scop, passes.options)
    before = decisions.mark()
    try:
        return _within_limits(scop, machine, name, passes)
    except PlanError as error:
        if not decisions.advice:
            raise
        decisions.advice = {}
        decisions.back(before)
        made = _within_limits(scop, machine, name, passes)  # raises where a given plan is at fault
        why = f"{error.code}: {error.what}"
        told = f"{scop.name}: what the records say does not fit any more ({why})"
        warnings.warn(told, WeftWarning, stacklevel=3)
        return made
    finally:
        decisions.advice = {}


def _within_limits(
    scop: Scop, machine: Machine, name: str, passes: Passes
) -> tuple[Scheduled, tuple[ClusterKernel, ...], str]:
    """The scheduler's choice in loop IR; less and less of it while it is refused, loudly. Last,
    why the serial schedule was taken, or ''."""
    threads, decisions = thread_count(passes.options), passes.decisions
    limits, before = Limits(versions=not passes.options.quick), decisions.mark()
    while True:
        decisions.back(before)
        choose = partial(chosen_schedule, scop, machine, passes, limits)
        try:
            scheduled = _proved(scop, choose, passes)
            return scheduled, kernels_of(scheduled, name, passes, machine), ""
        except (PlanError, SeedError):
            raise
        except CompileError as error:  # a bug of the scheduler's is no reason not to compile
            given = decisions.given_since(before)
            if given:
                raise _of_plan(scop, machine, given, decisions, error) from error
            less = limits.after(error, scop, threads)
            if less is None:
                scheduled = _serial(scop, error, passes)
                return scheduled, kernels_of(scheduled, name, passes, machine), str(error)
            limits = less
            told = [f"{scop.name}: gave up on {limits.given_up[-1]}", *str(error).splitlines()[1:]]
            warnings.warn("\n".join(told), WeftWarning, stacklevel=3)


def chosen_schedule(
    scop: Scop, machine: Machine, passes: Passes, limits: Limits | None = None
) -> Scheduled:
    """``planned_schedule``, or what a seed of the options makes of the program for less. Nothing
    has proved it yet."""
    threads, decisions = thread_count(passes.options), passes.decisions
    own = partial(planned_schedule, scop, machine, threads, decisions, limits)
    return cheapest(own, machine, passes) if passes.options.seeds else own()


def planned_schedule(
    scop: Scop,
    machine: Machine,
    threads: int,
    decisions: Decisions,
    limits: Limits | None = None,
) -> Scheduled:
    """The scheduler's choice by ``decisions``, within ``limits``, or what the script of their plan
    says. Nothing has proved it yet."""
    name = f"{scop.name}.script"
    script = decisions.planned(name)
    if script is not None:
        return scripted(scop, machine, str(decisions.choose(name, [script], script)))
    return schedule_loops(scop, machine, threads=threads, limits=limits, decisions=decisions)


def _of_plan(
    scop: Scop, machine: Machine, given: Sequence_[str], decisions: Decisions, error: CompileError
) -> PlanError:
    script = decisions.planned(f"{scop.name}.script")
    if script is not None and isinstance(error, IllegalScheduleError):
        error = first_fault(scop, machine, str(script), error)
    return PlanError(
        "WEFT-E0028",
        f"{scop.name} cannot be compiled as the plan says",
        where=", ".join(given),
        why=error.reason,
        hint="leave these decisions out, or take other options",
    )


def _proved(scop: Scop, choose: Callable[[], Scheduled], passes: Passes) -> Scheduled:
    """The scheduler's choice, or the user's, which the checkers accept."""
    scheduled = passes.run("schedule", choose, show=lambda s: print_schedule(s.tree))
    passes.run("legality", lambda: prove(scop, scheduled))
    return scheduled


def _serial(scop: Scop, error: CompileError, passes: Passes) -> Scheduled:
    """The statements as they are written, because of ``error``, with a warning."""
    warnings.warn(
        f"{scop.name}: serial schedule; no fusion, tiling or parallel loops\n{error}",
        WeftWarning,
        stacklevel=2,
    )
    serial = initial(scop)
    passes.run("legality", lambda: prove(scop, serial))
    return serial


def given_schedule(scop: Scop, given: Scheduled, passes: Passes) -> Scheduled:
    """The user's own schedule, checked once more; it must be of this very program."""
    asked = given.original
    if passes.options.strict:
        given = replace(given, original=keep_order(asked), scop=keep_order(given.scop))
    if given.original != scop:
        raise CompileError(
            "WEFT-E0015",
            f"the schedule of {scop.name} is of another program",
            hint="make it by weft.schedules of the same program, with the same options",
        )
    try:
        return _proved(scop, lambda: given, passes)
    except IllegalScheduleError as error:
        if given.original != asked:  # it was legal while sums could be reordered
            error.hint = "options.strict keeps sums in order: compile without it"
        raise


def prove(scop: Scop, scheduled: Scheduled) -> None:
    """Raise unless the schedule is legal, computes what the Scop does, and there is code for it."""
    proof.prove(scop, scheduled.scop, scheduled.tree)
    check_closed_form(scheduled.scop, scheduled.tree)


def kernels_of(
    scheduled: Scheduled, name: str, passes: Passes, machine: Machine
) -> tuple[ClusterKernel, ...]:
    """One kernel in loop IR for each top-level nest."""
    threads, quick = thread_count(passes.options), passes.options.quick
    return passes.run(
        "loops",
        lambda: tuple(_kernel(nest, machine, threads, quick) for nest in nests(scheduled, name)),
        show=lambda ks: "\n\n".join(print_kernel(k.kernel) for k in ks),
    )


def role(scop: Scop, *names: str) -> tuple[Tensor, ...]:
    """The tensors of these roles, in order; constants are inputs."""
    wanted = (*names, "constant") if "input" in names else names
    return tuple(t for t in scop.tensors if t.role in wanted)


@dataclass(frozen=True, slots=True)
class Nest:
    """What becomes one kernel: a top-level nest of a schedule and the statements in it."""

    scop: Scop
    tree: Tree


def nests(scheduled: Scheduled, name: str) -> tuple[Nest, ...]:
    """The top-level nests, in order."""
    trees = top_level(scheduled.scop, scheduled.tree)
    return tuple(
        _nest(scheduled.scop, part, f"{name}_{k}" if len(trees) > 1 else name)
        for k, part in enumerate(trees)
    )


def _nest(scop: Scop, tree: Tree, name: str) -> Nest:
    inside = set(statements_below(tree))
    statements = tuple(s for s in scop.statements if s.name in inside)
    written = {w.tensor for s in statements for w in s.writes}
    read = {r.tensor for s in statements for r in s.reads}
    tensors = tuple(t for t in scop.tensors if t.name in written | read)
    return Nest(replace(scop, name=name, tensors=tensors, statements=statements), tree)


def _kernel(nest: Nest, machine: Machine, threads: int, quick: bool) -> ClusterKernel:
    kernel = build_kernel(nest.scop, nest.tree, nest.scop.name, machine, quick=quick)
    kernel = optimise_kernel(kernel, machine, threads, quick=quick)
    verify_kernel(kernel)
    shared = {buffer.name for buffer in kernel.buffers}
    written = {w.tensor for s in nest.scop.statements for w in s.writes}
    read = {r.tensor for s in nest.scop.statements for r in s.reads}
    again = worth_aligning(nest.scop, nest.tree, machine)
    return ClusterKernel(
        kernel,
        statements_below(nest.tree),
        frozenset(read & shared),
        frozenset(written & shared),
        again,
    )
