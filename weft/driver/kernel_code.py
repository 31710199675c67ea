"""One loop kernel: affine statements → legal schedule → kernels in loop IR → host program → code.

affine statements     Scop, for the sizes that keep every access in bounds
schedule tree         the automatic scheduler's, or the one given; proved legal
loop IR               one kernel for each nest
host program          launches on the caller's own arrays, and an arena for the kernel's
LLVM, object code     one entry point
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache as memoise
from functools import partial

from weft.codegen.llvm.target import LlvmTarget
from weft.driver.assemble import Step, Storage, host_program
from weft.driver.cluster_code import ClusterKernel, automatic_code, given_schedule, kernels_of
from weft.driver.compiled_cache import cache_key, find, store
from weft.driver.explain import (
    cost_lines,
    dependence_lines,
    memory_lines,
    schedule_lines,
    statement_line,
)
from weft.driver.guards import guards_of, range_guards
from weft.driver.object_code import ObjectCode
from weft.driver.options import Options
from weft.driver.passes import Passes
from weft.driver.program_code import program_code
from weft.driver.targets import target_for, thread_count
from weft.frontend.loops.lower import LoopKernel
from weft.ir.errors import IllegalScheduleError, WeftWarning
from weft.ir.isl_context import exclusively
from weft.ir.machine import Machine
from weft.ir.program import Buffer, Input, Output, Place, Program
from weft.ir.program_printer import print_program
from weft.ir.program_verifier import verify_program
from weft.ir.scalar_expr import Expr, Literal, Load, Var, rewrite
from weft.ir.scalar_printer import python_text
from weft.ir.scop import Access, Scop, Statement
from weft.ir.scop_printer import scop_text, tensor_text
from weft.ir.scop_verifier import verify as verify_scop
from weft.polyhedral.assume_sizes import assume_sizes
from weft.polyhedral.contributing import contributing
from weft.polyhedral.keep_order import keep_order
from weft.polyhedral.legality import check_bounds
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.unread import unread
from weft.runtime.cache import open_cache
from weft.runtime.compiled import Compiled
from weft.runtime.executable import Executable


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    """Everything between a kernel's statements and machine code."""

    kernel: LoopKernel
    scheduled: Scheduled
    fallback: str  # why the serial schedule was taken; '': it was not
    program: Program
    machine: Machine
    passes: Passes


def compile_kernel(
    kernel: LoopKernel, options: Options, scheduled: Scheduled | None = None
) -> Executable:
    """``kernel`` as machine code for ``options.target``, from the cache if it is there.

    Raises ``CompileError``; ``IllegalScheduleError`` where ``scheduled`` is not legal.
    """
    target = target_for(options)
    cached = options.cache and not options.watched
    cache = open_cache(options.cache_dir, options.cache_bytes) if cached else None
    identity = _identity(kernel, scheduled, options)
    key = cache_key(identity, (), target, options) if cache else b""
    found = find(cache, key, target.llvm)
    if found is not None:
        anew = memoise(partial(_anew, kernel, options, scheduled))
        found = replace(found, from_cache=True, explain=anew)
        return Executable(found, threads=options.threads)
    compiled = kernel_machine_code(lower_loops(kernel, options, scheduled), target.llvm)
    store(cache, key, replace(compiled, explain=str))
    return Executable(compiled, threads=options.threads)


def _identity(kernel: LoopKernel, scheduled: Scheduled | None, options: Options) -> str:
    arguments = [(a.name, a.kind, a.dtype, a.shape) for a in kernel.arguments]
    chosen = "" if scheduled is None else repr((scheduled.scop, scheduled.tree))
    threads = f"{thread_count(options)} threads"
    return "\n".join([repr(kernel.scop), repr(arguments), chosen, threads])


def _anew(kernel: LoopKernel, options: Options, scheduled: Scheduled | None) -> str:
    """The explanation of what was found in the cache, which keeps none: few are asked for, and
    each would take a seventh of the time to compile."""
    quiet = replace(options, texts=False, logs=())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeftWarning)  # who compiled it has been told
        return _explanation(lower_loops(kernel, quiet, scheduled))()


@exclusively
def assumed(scop: Scop, passes: Passes) -> Scop:
    """``scop`` for the sizes that keep every access in bounds.

    Raises ``CompileError`` (WEFT-E0430) where these are no conjunction of affine constraints.
    """
    scop = passes.run("scop", lambda: scop, show=scop_text, verify=verify_scop)
    scop = passes.run("assume", lambda: assume_sizes(scop), show=scop_text)
    scop = passes.run("needed", lambda: unread(contributing(scop)), show=scop_text)
    passes.run("bounds", lambda: check_bounds(scop))
    return scop


@exclusively
def lower_loops(
    kernel: LoopKernel,
    options: Options,
    scheduled: Scheduled | None = None,
    machine: Machine | None = None,
) -> LoweredKernel:
    """``kernel`` down to a host program of kernels in loop IR, for ``options.target`` unless for
    ``machine``."""
    passes = Passes(options, kernel.scop.name)
    machine = machine or target_for(options).machine
    scop = assumed(kernel.scop, passes)
    if options.strict:
        scop = passes.run("keep_order", lambda: keep_order(scop), show=scop_text)
    if scheduled is None:
        scheduled, kernels, fallback = automatic_code(scop, machine, _kernel_name(scop), passes)
    else:
        scheduled, fallback = _given(scop, scheduled, passes), ""
        kernels = kernels_of(scheduled, _kernel_name(scop), passes, machine)
    program = passes.run(
        "program", lambda: _program(kernel, scheduled, kernels), show=print_program
    )
    verify_program(program)
    return LoweredKernel(kernel, scheduled, fallback, program, machine, passes)


def _kernel_name(scop: Scop) -> str:
    return f"kernel_{scop.name}"


def _given(scop: Scop, scheduled: Scheduled, passes: Passes) -> Scheduled:
    """The user's own schedule, checked."""
    if passes.options.strict:
        original, now = keep_order(scheduled.original), keep_order(scheduled.scop)
        kept = replace(scheduled, original=original, scop=now)
        try:
            return given_schedule(scop, kept, passes)
        except IllegalScheduleError as error:
            if original != scheduled.original:  # it was legal while sums could be reordered
                error.hint = "options.strict keeps sums in order: compile without it"
            raise
    return given_schedule(scop, scheduled, passes)


def _program(
    kernel: LoopKernel, scheduled: Scheduled, kernels: tuple[ClusterKernel, ...]
) -> Program:
    """Launches on the arguments; an array that the kernel writes is an input and an output."""
    scop = scheduled.scop
    tensors = {t.name: t for t in scop.tensors if t.scope == "global"}
    storage = {name: Storage(t.dtype, t.shape) for name, t in tensors.items()}
    storage |= {a.name: Storage(a.dtype, ()) for a in kernel.arguments if a.kind == "parameter"}
    names = tuple(kernel.tensors.get(a.name, a.name) for a in kernel.arguments)
    places: dict[str, Place] = {name: Input(k) for k, name in enumerate(names)}
    steps = [Step(k.kernel, k.tensors, k.reads, k.writes, k.again) for k in kernels]
    program = host_program(
        "main", steps, storage, dict(scop.derived), places, frozenset(), names, ()
    )
    written = [k for k, name in enumerate(names) if _is_written(scop, name)]
    outputs = tuple(
        Buffer(f"{names[k]}/after", b.dtype, b.shape, Output(number))
        for number, k in enumerate(written)
        for b in (program.inputs[k],)
    )
    return replace(
        program,
        outputs=outputs,
        buffers=program.buffers + outputs,
        in_place=tuple(enumerate(written)),
        scalars=tuple(k for k, a in enumerate(kernel.arguments) if a.kind == "parameter"),
    )


def _is_written(scop: Scop, name: str) -> bool:
    return any(t.name == name and t.role == "inout" for t in scop.tensors)


def kernel_machine_code(lowered: LoweredKernel, target: LlvmTarget) -> Compiled:
    """``lowered`` as object code."""
    with ObjectCode(target, lowered.passes.options) as code:
        compiled = program_code(lowered.program, {}, code, lowered.passes)
    names = [argument.name for argument in lowered.kernel.arguments]
    inputs = tuple(replace(s, name=n) for s, n in zip(compiled.inputs, names, strict=True))
    outputs = tuple(
        replace(compiled.outputs[pair.output], name=names[pair.input]) for pair in compiled.in_place
    )
    return replace(
        compiled,
        name=lowered.kernel.scop.name,
        inputs=inputs,
        outputs=outputs,
        guards=range_guards(lowered.scheduled) + guards_of([lowered.scheduled.scop]),
        stats=statistics(lowered.scheduled, lowered.program, lowered.fallback),
        seconds=dict(lowered.passes.seconds),
        texts=lowered.passes.texts,
        explain=memoise(_explanation(lowered)),
    )


def _explanation(lowered: LoweredKernel) -> Callable[[], str]:
    """What explains ``lowered``, without its code."""
    return partial(explain, lowered.scheduled, lowered.machine, lowered.fallback, lowered.program)


# ---- What was decided about a loop kernel and why, in the user's terms; and the counts behind it.


STRATEGIES = {  # those of ``schedule_loops``, in its order
    "one loop": "statements that stream through the same memory share loops",
    "matrix": "register tiles over cache tiles",
    "stencil": "skewed tiles of time and rows",
    "sweeps": "one time step after the other, statements share their rows",
    "skewed unroll-and-jam": "a few rows, each behind the one before, unrolled and jammed",
    "single": "each by itself, its best loop innermost",
    "serial": "a loop that carries dependences, others inside it",
    "source order": "its own loops, outer ones shared by threads where nothing crosses them",
    "as written": "the loops of the source",
}
_GUARDED = ", if "  # in what the front end says of a statement: a condition on data follows


def statistics(scheduled: Scheduled, program: Program, fallback: str) -> dict[str, object]:
    """Counts and bytes of one compilation, as JSON data."""
    arena = program.arena
    return {
        "statements": len(scheduled.original.statements),
        "kernels": len(program.kernels),
        "launches": len(program.steps),
        "serial_fallbacks": int(bool(fallback)),
        "schedule": "; ".join(scheduled.notes),
        "arena_bytes": int(arena.value) if isinstance(arena, Literal) else None,
    }


@exclusively
def explain(scheduled: Scheduled, machine: Machine, fallback: str, program: Program) -> str:
    """Statements, what is not known before data are, dependences, schedule, memory."""
    scop = scheduled.original
    lines = [f"{scop.name}({', '.join(scop.parameters)})", "  tensors"]
    lines += [f"    {tensor_text(tensor)}" for tensor in scop.tensors]
    guards = guards_of([scop])
    if guards:
        lines += ["  compiled for sizes with", *(f"    {guard.text}" for guard in guards)]
    lines += ["  statements"]
    lines += [f"    {statement_line(s)}" for s in scop.statements]
    lines += _data_dependent(scop)
    lines += ["  dependences", *(f"    {line}" for line in dependence_lines(scop) or ["none"])]
    lines += ["  schedule, checked against every dependence"]
    if fallback:
        lines += [f"    serial, because: {fallback}"]
    lines += [f"    {_in_words(note)}" for note in scheduled.notes]
    lines += schedule_lines(scheduled)
    lines += cost_lines(scheduled, machine)
    lines += [f"  {line}" for line in memory_lines(program)]
    return "\n".join(lines) + "\n"


def _in_words(note: str) -> str:
    """``matrix: S0, S1`` with what that strategy does."""
    strategy = note.partition(": ")[0]
    return f"{note}  ({STRATEGIES[strategy]})" if strategy in STRATEGIES else note


def _data_dependent(scop: Scop) -> list[str]:
    """Accesses of which some subscripts are data: each may touch any element that has the others.
    Statements under a condition on data: in the dependences they do what they may do."""
    found = [
        f"    {s.name}: {verb} {_element(s, access)}"
        for s in scop.statements
        for verb, accesses in (("may read", s.reads), ("may write", s.writes))
        for access in accesses
        if access.may
    ]
    if found:
        why = "any element that the other subscripts allow; checked at run time"
        found = [f"  depends on data: {why}", *found]
    guarded = [
        f"    {s.name}: only if {guard}"
        for s in scop.statements
        if s.origin is not None and (guard := s.origin.source.partition(_GUARDED)[2])
    ]
    if guarded:
        found += ["  runs everywhere, changes elements where data say so", *guarded]
    return found


def _element(s: Statement, access: Access) -> str:
    """``A[p[i], j]``, the operands of ``s`` in its subscripts written out."""

    def operand(node: Expr) -> Expr | None:
        if isinstance(node, Load) and isinstance(node.source, int):
            return Var(_element(s, s.reads[node.source]), node.dtype)
        return None

    indices = access.body_indices if access.may else access.indices
    shown = ", ".join(python_text(rewrite(index, operand)) for index in indices)
    return f"{access.tensor}[{shown}]" if indices else access.tensor
