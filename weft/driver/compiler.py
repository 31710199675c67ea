"""The compiler, top to bottom. Every stage is named; every stage between two IRs is verified.

operator graph        fold, simplify, cheaper algebra, acyclic clusters    graph/
tensor expressions    one program for each cluster                         frontend/
affine statements     Scop, coalesced                                      polyhedral/
schedule tree         fused, tiled, vectorised, parallel; proved legal     polyhedral/
loop IR               one kernel for each nest                             codegen/
host program          launches over one planned arena                      codegen/
LLVM, object code     one entry point                                      codegen/
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache as memoise
from functools import partial

import numpy as np

from weft.codegen.llvm.target import host_target
from weft.codegen.objects.native_library import compiled_floats
from weft.codegen.target import Target
from weft.driver.assemble import Assembly, assemble, bind
from weft.driver.cluster_code import ClusterCode, cluster_code, cluster_scop
from weft.driver.compiled_cache import cache_key, find, store
from weft.driver.explain import explanation, statistics
from weft.driver.guards import guards_of
from weft.driver.object_code import ObjectCode
from weft.driver.options import Options
from weft.driver.passes import Passes
from weft.driver.program_code import Lowered, program_code
from weft.driver.targets import target_for, thread_count
from weft.driver.user_passes import with_user_passes
from weft.graph.canonical import canonical_text
from weft.graph.cluster_program import ClusterProgram, cluster_program
from weft.graph.differences import differences
from weft.graph.eliminate_dead import eliminate_dead, own_outputs
from weft.graph.fold_constants import FoldBudget, fold_constants
from weft.graph.fusion_rules import Limits
from weft.graph.inline_scalars import inline_scalars
from weft.graph.layouts import layouts
from weft.graph.online import online
from weft.graph.partition import Cluster, partition
from weft.graph.ruled_out import ruled_out
from weft.graph.simplify import simplify
from weft.graph.winograd import Effort, winograd
from weft.ir.errors import CompileError
from weft.ir.graph_printer import print_graph
from weft.ir.graph_verifier import verify_graph
from weft.ir.isl_context import exclusively
from weft.ir.loop_ir import Kernel
from weft.ir.machine import Machine
from weft.ir.operator_graph import Graph, Value
from weft.ir.program import Program as HostProgram
from weft.ir.program_printer import print_program
from weft.ir.program_verifier import verify_program
from weft.ir.scop import Scop
from weft.ir.size_arithmetic import evaluate
from weft.ir.tensor_printer import program_text
from weft.ir.tensor_verifier import verify as verify_tensors
from weft.polyhedral.transform.scheduled import Scheduled
from weft.runtime.cache import open_cache
from weft.runtime.compiled import ArraySpec, Compiled, InPlace
from weft.runtime.executable import Executable

Schedules = Mapping[str, Scheduled]
"""Name of a cluster -> the schedule that the user gives it; Weft schedules all others."""


def compile_graph(
    graph: Graph, options: Options | None = None, schedules: Schedules | None = None
) -> Executable:
    """``graph`` as machine code for ``options.target``, from the cache if it is there.

    Raises ``CompileError``; WEFT-E0015 for a schedule of something that ``graph`` is not.
    """
    given = schedules or {}
    chosen = options or Options()
    target = target_for(chosen)
    passes = Passes(chosen, graph.name)
    graph = with_user_passes(graph, passes)  # before the key, which is of what they give
    cached = chosen.cache and not chosen.watched
    cache = open_cache(chosen.cache_dir, chosen.cache_bytes) if cached else None
    identity = _identity(graph, given, chosen)
    key = cache_key(identity, graph.constants.items(), target, chosen) if cache else b""
    found = find(cache, key, target.llvm)
    if found is not None:
        return Executable(replace(found, from_cache=True), threads=chosen.threads)
    compiled = _compiled(graph, target, passes, given)
    store(cache, key, compiled)
    return Executable(compiled, threads=chosen.threads)


def _identity(graph: Graph, schedules: Schedules, options: Options) -> str:
    """All of ``graph`` but its constants' data: what it computes, the names that users see, and for
    how many threads it is scheduled."""
    programs = [canonical_text(node.program) for node in graph.nodes]
    chosen = [repr((name, given.scop, given.tree)) for name, given in sorted(schedules.items())]
    threads = f"{thread_count(options)} threads"
    return "\n".join([print_graph(graph), *programs, *chosen, threads])


def _compiled(graph: Graph, target: Target, passes: Passes, schedules: Schedules) -> Compiled:
    """Every stage, in order; kernels become object code while others are still on their way."""
    with ObjectCode(target.llvm, passes.options) as code:
        lowered = _lowered(graph, passes, target.machine, schedules, ready=code.emitted)
        return machine_code(graph, lowered, code)


def machine_code(graph: Graph, lowered: Lowered, code: ObjectCode) -> Compiled:
    """``lowered``, which computes ``graph``, with its constants packed, as object code."""
    explain = memoise(lowered.passes.run("explain", lambda: explanation(lowered)))
    if lowered.passes.options.cache:  # which keeps it; compilers are at work
        lowered.passes.run("explain", explain)
    constants = dict(lowered.constants)
    if lowered.assembly.prepare is not None:
        constants |= _prepare(lowered.assembly.prepare, constants, code, lowered.passes)
    compiled = program_code(lowered.assembly.main, constants, code, lowered.passes)
    return replace(
        compiled,
        name=graph.name,
        inputs=_renamed(compiled.inputs, graph.inputs),
        outputs=_renamed(compiled.outputs, graph.outputs),
        in_place=tuple(InPlace(o, i) for o, i in graph.in_place),  # copied at the end of a call
        guards=guards_of([code.scheduled.scop for code in lowered.codes if code]),
        stats=statistics(lowered),
        seconds=dict(lowered.passes.seconds),
        texts=lowered.passes.texts,
        explain=explain,
    )


def _renamed(specs: Sequence[ArraySpec], values: Sequence[Value]) -> tuple[ArraySpec, ...]:
    """``specs`` under the names that callers know."""
    return tuple(replace(s, name=v.name) for s, v in zip(specs, values, strict=True))


def lower_graph(
    graph: Graph,
    options: Options | None = None,
    machine: Machine | None = None,
    schedules: Schedules | None = None,
) -> Lowered:
    """``graph`` down to a host program of kernels in loop IR, for ``options.target`` unless for
    ``machine``."""
    chosen = options or Options()
    passes = Passes(chosen, graph.name)
    graph = with_user_passes(graph, passes)
    return _lowered(graph, passes, machine or target_for(chosen).machine, schedules or {})


@exclusively
def _lowered(
    graph: Graph,
    passes: Passes,
    machine: Machine,
    schedules: Schedules,
    ready: Callable[[Kernel], object] | None = None,
) -> Lowered:
    """``ready`` is called with each kernel as soon as there is one."""
    graph = optimised(graph, passes, machine)
    parts = passes.run("partition", lambda: partition(graph, fusion_limits(machine)))
    codes = _cluster_codes(graph, parts.clusters, machine, passes, schedules, ready)
    assembly = passes.run(
        "program", lambda: _assemble(graph, parts.clusters, codes), show=_print_assembly
    )
    verify_program(assembly.main)
    return Lowered(graph, parts, codes, assembly, graph.constants, machine, passes)


def fusion_limits(machine: Machine) -> Limits:
    """What fits on ``machine``."""
    return Limits(l2=machine.l2)


def optimised(graph: Graph, passes: Passes, machine: Machine) -> Graph:
    """``graph`` simplified: constants folded, copies and dead code gone, values laid out."""
    verify_graph(graph)
    for stage, action in graph_stages(passes.options, machine):
        step = partial(action, graph)
        graph = passes.run(stage, step, show=print_graph, verify=verify_graph)
    return graph


def graph_stages(
    options: Options, machine: Machine
) -> tuple[tuple[str, Callable[[Graph], Graph]], ...]:
    """Weft's own passes over the operator graph, in order."""
    effort = Effort(options.memory)
    cheaper = options.winograd == "on" and not options.strict
    blocks = options.online == "on" and not options.strict
    return (
        ("fold", lambda graph: _folded(graph, options)),
        ("scalars", inline_scalars),
        ("simplify", simplify),
        ("differences", differences),
        ("dead", eliminate_dead),
        *([("winograd", partial(winograd, effort=effort))] if cheaper else []),
        *([("online", partial(online, machine=machine))] if blocks else []),
        *([] if options.strict else [("ruled out", ruled_out)]),
        ("outputs", own_outputs),
        ("layouts", partial(layouts, machine=machine)),
    )


def _folded(graph: Graph, options: Options) -> Graph:
    """What constants determine, computed as compiled code would."""
    with compiled_floats(strict=options.strict):
        return fold_constants(graph, FoldBudget(bytes=options.fold_bytes))


# ---- clusters -----------------------------------------------------------------------------------


def cluster_scops(graph: Graph, options: Options | None = None) -> dict[str, Scop]:
    """The affine statements of each cluster of ``graph``, by name: what schedules are made for."""
    passes = Passes(options or Options(), graph.name)
    graph = with_user_passes(graph, passes)
    graph = optimised(graph, passes, target_for(passes.options).machine)
    limits = fusion_limits(target_for(passes.options).machine)
    clusters = passes.run("partition", lambda: partition(graph, limits)).clusters
    distinct = {cell.name: cell for cell in _cells(graph, clusters, passes) if cell}
    return {
        name: cluster_scop(cell.program, cell.constant, name, passes)
        for name, cell in distinct.items()
    }


@dataclass(frozen=True, slots=True)
class _Cell:
    """A cluster as the compiler sees it; equal ones have one name."""

    name: str
    program: ClusterProgram
    constant: frozenset[int]  # numbers of the inputs whose data is known, or follows from such


def _cells(graph: Graph, clusters: Sequence[Cluster], passes: Passes) -> Iterator[_Cell | None]:
    """Each cluster in turn, None for a view."""
    names: dict[object, str] = {}
    known = set(graph.constants)
    for cluster in clusters:
        if all(value.name in known for value in cluster.inputs):
            known |= {value.name for value in cluster.outputs}
        if cluster.is_view:
            yield None
            continue
        program = passes.run(
            "cluster", partial(_verified_program, cluster), show=lambda c: program_text(c.program)
        )
        constant = frozenset(k for k, value in enumerate(cluster.inputs) if value.name in known)
        symbols = tuple(v.shape for v in (*cluster.inputs, *cluster.outputs))
        key = (canonical_text(program.program), constant, repr(symbols))
        yield _Cell(names.setdefault(key, f"kernel{len(names)}"), program, constant)


def _cluster_codes(
    graph: Graph,
    clusters: Sequence[Cluster],
    machine: Machine,
    passes: Passes,
    schedules: Schedules,
    ready: Callable[[Kernel], object] | None,
) -> tuple[ClusterCode | None, ...]:
    """The code of each cluster; clusters that compute the same share one."""
    done: dict[str, ClusterCode] = {}
    codes: list[ClusterCode | None] = []
    for cell in _cells(graph, clusters, passes):
        if cell is not None and cell.name not in done:
            scop = cluster_scop(cell.program, cell.constant, cell.name, passes)
            done[cell.name] = cluster_code(scop, machine, passes, schedules.get(cell.name))
            if ready is not None:
                for made in done[cell.name].kernels:
                    passes.run("llvm", partial(ready, made.kernel))
        codes.append(None if cell is None else done[cell.name])
    for name in schedules:
        if name not in done:
            raise no_such_cluster(name, list(done))
    return tuple(codes)


def no_such_cluster(name: str, names: Sequence[str]) -> CompileError:
    """The error for a schedule of something that the program does not have."""
    return CompileError(
        "WEFT-E0015", f"there is no cluster {name!r}", hint=f"clusters: {', '.join(names)}"
    )


def _verified_program(cluster: Cluster) -> ClusterProgram:
    program = cluster_program(cluster)
    verify_tensors(program.program)
    return program


def _assemble(
    graph: Graph, clusters: Sequence[Cluster], codes: Sequence[ClusterCode | None]
) -> Assembly:
    steps, storage = bind(graph, clusters, codes)
    derived = {n: e for code in codes if code for n, e in code.scheduled.scop.derived}
    return assemble(graph, steps, storage, derived, "main")


def _print_assembly(assembly: Assembly) -> str:
    parts = [assembly.prepare, assembly.main]
    return "\n\n".join(print_program(p) for p in parts if p is not None)


# ---- machine code -------------------------------------------------------------------------------


def _prepare(
    program: HostProgram, constants: Mapping[str, np.ndarray], code: ObjectCode, passes: Passes
) -> dict[str, np.ndarray]:
    """Constants computed from constants, packed weights say, by running their kernels now: those
    that were made for the target, where data lie is theirs, in code for the processor here.

    What padding the kernels leave out is 0: artifacts are the same each time.
    """
    with ObjectCode(host_target(), passes.options) as here:
        chosen = code if code.target == here.target else here
        compiled = program_code(program, constants, chosen, passes)
    zeros = {
        spec.name: np.zeros([evaluate(n, {}) for n in spec.shape], spec.dtype.numpy)
        for spec in compiled.outputs
    }
    return passes.run("prepare", lambda: Executable(compiled).run({}, out=zeros))
