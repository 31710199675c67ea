"""The compiler, top to bottom. Every stage is named; every stage between two IRs is verified.

operator graph        fold, simplify, cheaper algebra, acyclic clusters    ``graph_front``
tensor expressions    one program for each cluster                         ``graph_front``
Python loops          executed symbolically                                ``loop_front``
affine statements     Scop: in bounds, what is needed                      both
schedule tree         fused, tiled, vectorised, parallel; proved legal     ``cluster_code``
loop IR               one kernel for each nest                             ``cluster_code``
host program          launches over one planned arena                      ``assemble``
LLVM, object code     one entry point                                      ``program_code``

From the affine statements on, operator graphs and loop kernels take the same way.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache as memoise
from functools import partial

import numpy as np

from weft.codegen.llvm.target import LlvmTarget, host_target
from weft.driver.advice import records_state
from weft.driver.assemble import Assembly
from weft.driver.cluster_code import ClusterCode, cluster_code
from weft.driver.compiled_cache import cache_key, find, store
from weft.driver.explain import estimate, explanation, statistics, weighed
from weft.driver.garbage import uncollected
from weft.driver.gpu_code import gpu_code
from weft.driver.graph_front import Schedules, cluster_front, graph_front, graph_identity
from weft.driver.guards import guards_of, range_guards
from weft.driver.loop_front import loop_front, loop_identity
from weft.driver.lowered import Front, Lowered
from weft.driver.object_code import ObjectCode
from weft.driver.options import Options
from weft.driver.passes import Passes
from weft.driver.program_code import program_code
from weft.driver.targets import target_for, thread_count
from weft.driver.user_passes import with_user_passes
from weft.frontend.loops.lower import LoopKernel
from weft.ir.errors import CompileError, WeftWarning
from weft.ir.isl_context import exclusively
from weft.ir.loop_ir import Kernel
from weft.ir.machine import Machine
from weft.ir.operator_graph import Graph
from weft.ir.plan import Value
from weft.ir.program_printer import print_program
from weft.ir.program_verifier import verify_program
from weft.ir.scop import Scop
from weft.ir.size_arithmetic import evaluate
from weft.polyhedral.transform.scheduled import Scheduled
from weft.runtime.cache import open_cache
from weft.runtime.certificate import Unit, UnitKernel, certificate_of
from weft.runtime.compiled import ArraySpec, Compiled, Estimate, InPlace
from weft.runtime.executable import Executable


def compile_graph(
    graph: Graph,
    options: Options | None = None,
    schedules: Schedules | None = None,
    plan: Mapping[str, Value] | None = None,
) -> Executable:
    """``graph`` as machine code for ``options.target``, from the cache if it is there, by the
    decisions of ``plan``.

    Raises ``CompileError``; WEFT-E0015 for a schedule of something that ``graph`` is not, E0025 to
    E0028 for a plan that does not fit.
    """
    passes = Passes(options or Options(), graph.name, plan)
    given = schedules or {}
    graph = with_user_passes(graph, passes)  # before the key, which is of what they give
    return _executable(
        passes,
        graph_identity(graph, given),
        graph.constants,
        lambda machine: graph_front(graph, passes, machine, given),
    )


def compile_kernel(
    kernel: LoopKernel,
    options: Options,
    scheduled: Scheduled | None = None,
    plan: Mapping[str, Value] | None = None,
) -> Executable:
    """``kernel`` as machine code for ``options.target``, from the cache if it is there, by the
    decisions of ``plan``.

    Raises ``CompileError``; ``IllegalScheduleError`` where ``scheduled`` is not legal, WEFT-E0025
    to E0028 for a plan that does not fit.
    """
    passes = Passes(options, kernel.scop.name, plan)
    return _executable(
        passes,
        loop_identity(kernel, scheduled),
        {},
        lambda _: loop_front(kernel, passes, scheduled),
        anew=partial(_lowered_anew, kernel, options, scheduled, plan),
    )


def compile_cluster(
    scop: Scop,
    constants: Mapping[str, np.ndarray],
    options: Options,
    plan: Mapping[str, Value] | None = None,
) -> Executable:
    """A cluster's statements, ``scop``, as a program of its own, not from the cache: what is timed
    alone. ``constants`` by tensor; ``plan`` as that cluster alone would have it. Raises as
    ``compile_graph`` does."""
    passes, target = Passes(options, scop.name, plan), target_for(options)
    with ObjectCode(target.llvm, options, target.machine) as code:
        lowered = _lowered(lambda _: cluster_front(scop, constants), passes, target.machine)
        return Executable(_machine_code(lowered, code), threads=options.threads)


def lower_graph(
    graph: Graph,
    options: Options | None = None,
    machine: Machine | None = None,
    schedules: Schedules | None = None,
    plan: Mapping[str, Value] | None = None,
) -> Lowered:
    """``graph`` down to a host program of kernels in loop IR, for ``options.target`` unless for
    ``machine``."""
    passes = Passes(options or Options(), graph.name, plan)
    graph = with_user_passes(graph, passes)
    machine = machine or target_for(passes.options).machine
    return _lowered(lambda m: graph_front(graph, passes, m, schedules or {}), passes, machine)


def lower_loops(
    kernel: LoopKernel,
    options: Options,
    scheduled: Scheduled | None = None,
    machine: Machine | None = None,
    plan: Mapping[str, Value] | None = None,
) -> Lowered:
    """``kernel`` down to a host program of kernels in loop IR, for ``options.target`` unless for
    ``machine``."""
    passes = Passes(options, kernel.scop.name, plan)
    machine = machine or target_for(options).machine
    return _lowered(lambda _: loop_front(kernel, passes, scheduled), passes, machine)


@uncollected()
def _executable(
    passes: Passes,
    identity: str,
    constants: Mapping[str, np.ndarray],
    front: Callable[[Machine], Front],
    anew: Callable[[], Lowered] | None = None,
) -> Executable:
    """Every stage, in order, unless the cache has what they give for ``identity`` and the data of
    ``constants``. ``anew`` gives what was found in a cache that keeps no explanation, to explain
    it."""
    options, target = passes.options, target_for(passes.options)
    cached = options.cache and not options.watched and not options.seeds
    cache = open_cache(options.cache_dir, options.cache_bytes) if cached else None
    asked = f"{passes.decisions.asked}{records_state(options)}"
    kept = "" if options.texts else "\nwithout texts"
    whole = f"{identity}\n{thread_count(options)} threads\n{asked}{kept}"
    key = cache_key(whole, constants.items(), target, options) if cache else b""
    found = find(cache, key, target.llvm)
    if found is not None:
        found = replace(found, from_cache=True)
        return Executable(
            found if anew is None else _explained(found, anew), threads=options.threads
        )
    # Workers compile some kernels meanwhile.
    with ObjectCode(target.llvm, options, target.machine) as code:
        ready = code.emitted if target.gpu is None else None
        lowered = _lowered(front, passes, target.machine, ready=ready)
        keeps = options.texts and anew is None
        compiled = _machine_code(lowered, code, explained=cached and keeps)
    if anew is not None:
        store(cache, key, replace(compiled, explain=str))
        compiled = _explained(compiled, lambda: lowered)
    else:
        if cached and not options.texts:
            compiled = replace(compiled, explain=_not_kept, estimate=None)
        store(cache, key, compiled)
    return Executable(compiled, threads=options.threads)


@exclusively
def _lowered(
    begin: Callable[[Machine], Front],
    passes: Passes,
    machine: Machine,
    ready: Callable[[Kernel], object] | None = None,
) -> Lowered:
    """Affine statements → schedule → loop IR, unit by unit, → host program. ``ready`` is called
    with each kernel as soon as there is one."""
    front, gpu = begin(machine), target_for(passes.options).gpu
    done: dict[str, ClusterCode] = {}
    codes: list[ClusterCode | None] = []
    for unit in front.units:
        if unit is not None and unit.name not in done:
            given = front.schedules.get(unit.name)
            passes.decisions.unit = unit.name
            if gpu is not None:
                done[unit.name] = gpu_code(unit.scop(), unit.name, gpu, passes, given)
            else:
                done[unit.name] = cluster_code(unit.scop(), unit.name, machine, passes, given)
            if ready is not None:
                for made in done[unit.name].kernels:
                    passes.run("llvm", partial(ready, made.kernel))
        codes.append(None if unit is None else done[unit.name])
    for name in front.schedules:
        if name not in done:
            raise no_such_cluster(name, done)
    plan = passes.decisions.plan()
    assembly = passes.run("program", lambda: front.bind(codes), show=_assembly_text)
    verify_program(assembly.main)
    return Lowered(front.source, tuple(codes), assembly, plan, machine, passes)


def no_such_cluster(name: str, names: Iterable[str]) -> CompileError:
    """The error for a schedule of something that the program does not have."""
    return CompileError(
        "WEFT-E0015", f"there is no cluster {name!r}", hint=f"clusters: {', '.join(names)}"
    )


def _assembly_text(assembly: Assembly) -> str:
    parts = [assembly.prepare, assembly.main]
    return "\n\n".join(print_program(p) for p in parts if p is not None)


def _lowered_anew(
    kernel: LoopKernel,
    options: Options,
    scheduled: Scheduled | None,
    plan: Mapping[str, Value] | None,
) -> Lowered:
    """What was found in the cache, which keeps no explanations of loop kernels: few are asked for,
    and each would take a seventh of the time to compile."""
    quiet = replace(options, texts=False, logs=())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeftWarning)  # who compiled it has been told
        return lower_loops(kernel, quiet, scheduled, plan=plan)


def _not_kept() -> str:
    return "no explanation was kept, since options.texts is False\n"


def _explained(compiled: Compiled, anew: Callable[[], Lowered]) -> Compiled:
    """``compiled``, a loop kernel, which explains itself by what ``anew`` gives."""
    again = memoise(anew)
    return replace(
        compiled,
        explain=memoise(lambda: explanation(again())),
        weighed=lambda details, sizes: weighed(again(), details, sizes),
        estimate=lambda sizes: estimate(again(), sizes),
    )


# ---- machine code -------------------------------------------------------------------------------


def machine_code(lowered: Lowered, target: LlvmTarget) -> Compiled:
    """``lowered`` as object code, its constants packed."""
    with ObjectCode(target, lowered.passes.options, lowered.machine) as code:
        return _machine_code(lowered, code)


def _machine_code(lowered: Lowered, code: ObjectCode, *, explained: bool = False) -> Compiled:
    """``explained``: now, while compilers are at work, rather than when somebody asks."""
    source, passes = lowered.source, lowered.passes
    kept = replace(lowered, source=source.without_data())
    explain = memoise(lambda: explanation(kept))
    costs: Callable[[Mapping[str, int]], Estimate] | None = partial(estimate, kept)
    if explained:
        text, costs = passes.run("explain", explain), None
        explain = memoise(lambda: text)
    constants = {**source.constants, **_prepared(lowered, code)}
    compiled = program_code(lowered.program, constants, code, passes, lowered.sources)
    numbers = [range_guards(c.scheduled) for c in lowered.distinct] if source.numbers else []
    assumptions = source.graph.assumptions if source.graph else ()
    sizes = guards_of([c.scheduled.scop for c in lowered.codes if c], assumptions)
    compiled = replace(
        compiled,
        name=source.name,
        inputs=_renamed(compiled.inputs, source.inputs),
        outputs=_renamed(compiled.outputs, source.outputs),
        in_place=(*compiled.in_place, *(InPlace(o, i) for o, i in source.copied)),
        guards=(*(guard for guards in numbers for guard in guards), *sizes),
        stats=statistics(lowered),
        texts=passes.texts,
        explain=explain,
        estimate=costs,
        plan=lowered.plan,
    )
    certificate = passes.run("certificate", lambda: _certificate(lowered, compiled))
    return replace(compiled, certificate=certificate, seconds=dict(passes.seconds))


def _certificate(lowered: Lowered, compiled: Compiled) -> bytes:
    """What was proved, to be proved once more by whoever has the artifact."""
    units = (
        Unit(
            code.scheduled.original,
            code.scheduled.scop,
            code.scheduled.tree,
            tuple(UnitKernel(k.kernel.name, k.statements) for k in code.kernels),
        )
        for code in lowered.distinct
    )
    return certificate_of(compiled, lowered.program, tuple(units))


def _renamed(specs: Iterable[ArraySpec], names: Iterable[str]) -> tuple[ArraySpec, ...]:
    """``specs`` under the names that callers know."""
    return tuple(replace(s, name=name) for s, name in zip(specs, names, strict=True))


def _prepared(lowered: Lowered, code: ObjectCode) -> dict[str, np.ndarray]:
    """Constants computed from constants, packed weights say, by running their kernels now: those
    that were made for the target, where data lie is theirs, in code for the processor here.

    What padding the kernels leave out is 0: artifacts are the same each time.
    """
    if lowered.assembly.prepare is None:
        return {}
    passes, program = lowered.passes, lowered.assembly.prepare
    with ObjectCode(host_target(), passes.options) as here:
        chosen = code if code.target == here.target else here
        compiled = program_code(program, lowered.source.constants, chosen, passes, lowered.sources)
    zeros = {
        spec.name: np.zeros([evaluate(n, {}) for n in spec.shape], spec.dtype.numpy)
        for spec in compiled.outputs
    }
    return passes.run("prepare", lambda: Executable(compiled).run({}, out=zeros))
