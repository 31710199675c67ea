"""``WEFT_VERIFY=full``: interpret every IR on a small instance; name the first pass that diverges.

    operator graph      after each pass, as a whole                 graph interpreter
    each cluster        its operators alone, on small sizes         ``verify_cluster``
    or loop kernel      as written, on small sizes                  ``verify_kernel``
      affine statements as lowered, coalesced, scheduled; where the
                        schedule is wrong, after each move          ``verify_scop``
      loop IR           as built, and after each pass               ``verify_scop``
      host program      of the cluster or kernel, interpreted       ``verify_program``
      machine code      of the cluster or kernel, run               ``verify_program``
    the whole program   memory plan, machine code                   ``verify_program``

Small instances are scheduled anew, for a machine of short vectors, few registers and tiny caches,
so that tiles and their tails exist on them, and what is done for large arrays is done. At the end
the program itself runs against the graph interpreter, where that takes seconds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from weft.codegen.llvm.target import host_target, lacking
from weft.driver.compiler import compile_graph, compile_kernel, lower_graph
from weft.driver.graph_front import Schedules, graph_stages
from weft.driver.options import Options
from weft.driver.user_passes import user_stages
from weft.frontend.loops.lower import LoopKernel
from weft.graph.canonical import canonical_text
from weft.graph.cluster_program import cluster_program
from weft.graph.partition import Cluster, partition
from weft.ir.errors import ExecutionError, WeftWarning
from weft.ir.graph_interpreter import interpret_graph
from weft.ir.graph_printer import print_graph
from weft.ir.operator_graph import Graph
from weft.ir.plan import Value
from weft.ir.tensor_interpreter import interpret
from weft.ir.tensor_printer import program_text
from weft.polyhedral.transform.scheduled import Scheduled
from weft.runtime.executable import Executable
from weft.verify.ladder import Ladder, Setting
from weft.verify.oracle import Arrays, run_graph, tried
from weft.verify.shrink import points, shrink, symbol_values
from weft.verify.verify_cluster import check_cluster
from weft.verify.verify_kernel import verify_kernel
from weft.verify.verify_program import check_program, run

PROGRAM_POINTS = 100_000  # of a whole small program whose kernels are interpreted
REAL_POINTS = 50_000_000  # of a program that is run at its own sizes


def compile_and_verify(
    graph: Graph,
    options: Options,
    schedules: Schedules | None = None,
    plan: Mapping[str, Value] | None = None,
) -> Executable:
    """``compile_graph``, and all of the above where ``options.verify`` is "full".

    Small instances are scheduled anew; of ``schedules`` and ``plan``, the program itself shows the
    results.

    Raises ``InternalError`` (WEFT-E0920) naming the first pass after which results diverge, and
    ``CompileError`` (WEFT-E0340) where that is one of ``options.passes``.
    """
    if options.verify != "full":
        return compile_graph(graph, options, schedules, plan)
    verify_full(graph, options)
    executable = compile_graph(graph, options, schedules, plan)
    _check_real(graph, executable, options)
    return executable


def compile_and_verify_kernel(
    kernel: LoopKernel,
    options: Options,
    scheduled: Scheduled | None = None,
    plan: Mapping[str, Value] | None = None,
) -> Executable:
    """``compile_kernel``, and ``verify_kernel`` where ``options.verify`` is "full".

    Raises ``InternalError`` (WEFT-E0920) naming the first pass after which results diverge.
    """
    if options.verify == "full":
        verify_kernel(kernel, options, scheduled)
    return compile_kernel(kernel, options, scheduled, plan)


def verify_full(graph: Graph, options: Options) -> None:
    """Raise as ``compile_and_verify`` does for the first pass after which results diverge.

    What has no small instance, or none that accepts random data, is named in a warning.
    """
    setting = Setting(options)
    small = shrink(graph)
    try:
        small, inputs, wanted = tried(small, run_graph)
    except ExecutionError as error:
        _warn(graph, f"no data was found that it accepts ({error.what})")
        _check_clusters(graph, setting)
        return
    ladder = Ladder(graph.name, setting, wanted, partial(print_graph, small))
    _check_stages(small, inputs, ladder)
    _check_clusters(graph, setting)
    lower = partial(lower_graph, small, setting.quiet, setting.machine)
    check_program(lower, inputs, ladder, interpreted=_points(small) <= PROGRAM_POINTS)


def _warn(graph: Graph, why: str) -> None:
    warnings.warn(f"{graph.name}: not run as a whole: {why}", WeftWarning, stacklevel=4)


def _points(graph: Graph) -> int:
    symbols = symbol_values(graph)
    return sum(points(node.program, symbols) for node in graph.nodes)


# ---- the operator graph -------------------------------------------------------------------------


def _stages(setting: Setting) -> Iterator[tuple[str, Callable[[Graph], Graph]]]:
    yield from user_stages(setting.options)
    yield from graph_stages(setting.options, setting.machine)


def _check_user_stages(graph: Graph, inputs: Arrays, ladder: Ladder) -> Graph:
    """``graph`` after the passes of the options."""
    for name, stage in user_stages(ladder.setting.options):
        graph = stage(graph)
        text, run = partial(print_graph, graph), partial(interpret_graph, graph, inputs)
        ladder.step(name, text, run, users=True)
    return graph


def _check_stages(graph: Graph, inputs: Arrays, ladder: Ladder) -> None:
    graph = _check_user_stages(graph, inputs, ladder)
    for name, stage in graph_stages(ladder.setting.options, ladder.setting.machine):
        graph = ladder.make(name, partial(stage, graph))
        ladder.step(name, partial(print_graph, graph), partial(interpret_graph, graph, inputs))
    clusters = ladder.make("partition", lambda: partition(graph)).clusters
    nodes = tuple(node for cluster in clusters for node in cluster.nodes)
    ordered = replace(graph, nodes=nodes)
    ladder.step(
        "partition", partial(print_graph, ordered), partial(interpret_graph, ordered, inputs)
    )
    programs = ladder.make(
        "cluster_program", lambda: [cluster_program(c).program for c in clusters]
    )
    ladder.step(
        "cluster_program",
        lambda: "\n".join(map(program_text, programs)),
        lambda: _run_clusters(graph, clusters, inputs),
    )


def _run_clusters(graph: Graph, clusters: Sequence[Cluster], inputs: Arrays) -> Arrays:
    values: dict[str, np.ndarray] = dict(graph.constants)
    values |= {v.name: a for v, a in zip(graph.inputs, inputs, strict=True)}
    symbols = symbol_values(graph)
    for cluster in clusters:
        program = cluster_program(cluster).program
        results = interpret(program, [values[v.name] for v in cluster.inputs], symbols)
        values |= {v.name: a for v, a in zip(cluster.outputs, results, strict=True)}
    return [values[v.name] for v in graph.outputs]


# ---- clusters, and the program itself -----------------------------------------------------------


def _check_clusters(graph: Graph, setting: Setting) -> None:
    """Each cluster that ``graph`` is made of, equal ones once."""
    for _, stage in _stages(setting):
        graph = stage(graph)
    done: set[object] = set()
    for cluster in partition(graph).clusters:
        known = tuple(k for k, v in enumerate(cluster.inputs) if v.name in graph.constants)
        key = (canonical_text(cluster_program(cluster).program), known)
        if not cluster.is_view and key not in done:
            done.add(key)
            check_cluster(cluster, graph, setting)


def _check_real(graph: Graph, executable: Executable, options: Options) -> None:
    """Run ``executable`` at its own sizes, if they are not large and it runs here."""
    if _points(graph) > REAL_POINTS:
        return
    if missing := lacking(executable.compiled.target):
        _warn(graph, f"{host_target().cpu} lacks {', '.join(missing)}")
        return
    try:
        with_data, inputs, wanted = tried(graph, run_graph)
    except ExecutionError as error:
        _warn(graph, f"no data was found that it accepts ({error.what})")
        return
    if all(with_data.constants[name] is data for name, data in graph.constants.items()):
        ladder = Ladder(graph.name, Setting(options), wanted, partial(print_graph, graph))
        _check_user_stages(graph, inputs, ladder)  # which may tell small instances apart
        ladder.step("llvm", lambda: executable.source("llvm"), lambda: run(executable, inputs))
