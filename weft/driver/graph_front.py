"""An operator graph as far as affine statements: simplified, in clusters, each lowered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from weft.codegen.objects.native_library import compiled_floats
from weft.driver.assemble import Assembly, Ports, assemble, bind, held, launches
from weft.driver.cluster_code import role
from weft.driver.loop_front import regrouped
from weft.driver.lowered import Codes, Front, Source, Unit
from weft.driver.options import Options
from weft.driver.passes import Passes
from weft.driver.targets import target_for
from weft.driver.user_passes import with_user_passes
from weft.graph.canonical import canonical_text
from weft.graph.cluster_program import ClusterProgram, cluster_program
from weft.graph.differences import differences
from weft.graph.eliminate_dead import eliminate_dead, own_outputs
from weft.graph.fold_constants import FoldBudget, fold_constants
from weft.graph.fusion_rules import Limits
from weft.graph.in_place import updates
from weft.graph.inline_scalars import inline_scalars
from weft.graph.integer_sums import integer_sums
from weft.graph.layouts import layouts
from weft.graph.online import online
from weft.graph.partition import Cluster, partition
from weft.graph.ruled_out import ruled_out
from weft.graph.simplify import simplify
from weft.graph.winograd import Effort, winograd
from weft.ir import dtypes
from weft.ir.graph_printer import print_graph
from weft.ir.graph_verifier import verify_graph
from weft.ir.machine import Machine
from weft.ir.operator_graph import Graph
from weft.ir.plan import Choose, Value, by_default
from weft.ir.quasi_affine import as_constraints
from weft.ir.scalar_condition import conjunction
from weft.ir.scalar_expr import Expr, variable_list
from weft.ir.scop import Scop
from weft.ir.scop_printer import scop_text
from weft.ir.scop_verifier import verify as verify_scop
from weft.ir.tensor_expr import as_size
from weft.ir.tensor_printer import program_text
from weft.ir.tensor_verifier import verify as verify_tensors
from weft.polyhedral.assume_sizes import assume_in_bounds
from weft.polyhedral.coalesce import coalesce
from weft.polyhedral.contributing import contributing
from weft.polyhedral.from_tensor_expr import lower
from weft.polyhedral.keep_order import keep_order
from weft.polyhedral.proof.legality import check_bounds
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.unread import unread
from weft.polyhedral.update_in_place import update_in_place

Pairs = Sequence[tuple[int, int]]
"""(output, input), by number."""

Schedules = Mapping[str, Scheduled]
"""Name of a cluster -> the schedule that the user gives it; Weft schedules all others."""


def graph_identity(graph: Graph, schedules: Schedules) -> str:
    """All of ``graph`` but its constants' data: what it computes, and the names users see."""
    programs = [canonical_text(node.program) for node in graph.nodes]
    chosen = [repr((name, given.scop, given.tree)) for name, given in sorted(schedules.items())]
    return "\n".join([print_graph(graph), *programs, *chosen])


def graph_front(given: Graph, passes: Passes, machine: Machine, schedules: Schedules) -> Front:
    """``given`` simplified and cut into clusters, which become affine statements one by one."""
    graph = optimised(given, passes, machine)
    choose = passes.decisions.choose
    limits = replace(fusion_limits(machine), sweeps=target_for(passes.options).gpu is not None)
    parts = passes.run("partition", lambda: partition(graph, limits, choose))
    shared = updates(graph)
    source = Source(
        name=given.name,
        inputs=tuple(v.name for v in given.inputs),
        outputs=tuple(v.name for v in given.outputs),
        copied=tuple(pair for pair in given.in_place if pair not in shared),
        constants=graph.constants,
        graph=graph,
        partition=parts,
    )
    units = _units(graph, parts.clusters, shared, passes)
    return Front(source, units, schedules, partial(_assembled, graph, parts.clusters, shared))


def cluster_scops(
    graph: Graph, options: Options | None = None, plan: Mapping[str, Value] | None = None
) -> dict[str, Scop]:
    """The affine statements of each cluster of ``graph``, by name: what schedules are made for.
    ``plan``: decisions about the graph."""
    return {name: scop for name, (scop, _) in counted_clusters(graph, options, plan).items()}


def counted_clusters(
    graph: Graph, options: Options | None = None, plan: Mapping[str, Value] | None = None
) -> dict[str, tuple[Scop, int]]:
    """``cluster_scops``, each with how many clusters are like it."""
    passes = Passes(options or Options(), graph.name, plan)
    machine = target_for(passes.options).machine
    front = graph_front(with_user_passes(graph, passes), passes, machine, {})
    distinct: dict[str, list[Unit]] = {}
    for unit in front.units:
        if unit is not None:
            distinct.setdefault(unit.name, []).append(unit)
    # ``compile`` makes code of the first, too.
    return {name: (units[0].scop(), len(units)) for name, units in distinct.items()}


def fusion_limits(machine: Machine) -> Limits:
    """What fits on ``machine``."""
    return Limits(l1=machine.caches[0].size, l2=machine.l2)


def optimised(graph: Graph, passes: Passes, machine: Machine) -> Graph:
    """``graph`` simplified: constants folded, copies and dead code gone, values laid out."""
    verify_graph(graph)
    for stage, action in graph_stages(passes.options, machine, passes.decisions.choose):
        step = partial(action, graph)
        graph = passes.run(stage, step, show=print_graph, verify=verify_graph)
    return graph


def graph_stages(
    options: Options, machine: Machine, choose: Choose = by_default
) -> tuple[tuple[str, Callable[[Graph], Graph]], ...]:
    """Weft's own passes over the operator graph, in order; ``choose`` decides what they leave open.
    What estimates of processors speak for is not for GPUs: tensor cores multiply for less than
    fewer multiplications save, also in the half of a square that a mask leaves out, and nobody's
    rows stay in a cache."""
    effort, processor = Effort(options.memory, machine.moves), target_for(options).gpu is None
    cheaper = options.winograd == "on" and not options.strict and not options.quick and processor
    blocks = options.online == "on" and not options.strict and processor
    deep = [x.extents[d] for x in machine.extensions if x.dtype == dtypes.int32 for d in x.summed]
    integers = bool(deep) and not options.strict
    return (
        *([("integers", partial(integer_sums, depth=min(deep)))] if integers else []),
        ("fold", lambda graph: _folded(graph, options)),
        ("scalars", inline_scalars),
        ("simplify", simplify),
        ("differences", differences),
        ("dead", eliminate_dead),
        *([("winograd", partial(winograd, effort=effort, choose=choose))] if cheaper else []),
        *([("online", partial(online, machine=machine, choose=choose))] if blocks else []),
        *([("ruled out", ruled_out)] if not options.strict and processor else []),
        ("outputs", own_outputs),
        ("layouts", partial(layouts, machine=machine, choose=choose)),
    )


def _folded(graph: Graph, options: Options) -> Graph:
    """What constants determine, computed as compiled code would."""
    with compiled_floats(strict=options.strict):
        return fold_constants(graph, FoldBudget(bytes=options.fold_bytes))


def _units(
    graph: Graph, clusters: Sequence[Cluster], shared: Pairs, passes: Passes
) -> Iterator[Unit | None]:
    """Each cluster in turn, None for a view; equal ones have one name."""
    replaced = {graph.outputs[output].name: graph.inputs[k].name for output, k in shared}
    names: dict[object, str] = {}
    known = set(graph.constants)
    sizes = (size for value in graph.inputs for size in value.shape)
    symbols = {name for size in sizes for name in variable_list(as_size(size))}
    for cluster in clusters:
        if all(value.name in known for value in cluster.inputs):
            known |= {value.name for value in cluster.outputs}
        if cluster.is_view:
            yield None
            continue
        verified = partial(_verified_program, cluster, symbols)
        program = passes.run("cluster", verified, show=lambda c: program_text(c.program))
        constant = frozenset(k for k, value in enumerate(cluster.inputs) if value.name in known)
        shapes = tuple(v.shape for v in (*cluster.inputs, *cluster.outputs))
        called = [value.name for value in cluster.inputs]
        updated = tuple(
            (number, called.index(replaced[value.name]))
            for number, value in enumerate(cluster.outputs)
            if value.name in replaced
        )
        key = (canonical_text(program.program), constant, updated, repr(shapes))
        name = names.setdefault(key, f"kernel{len(names)}")
        scop = partial(cluster_scop, program, constant, name, passes, graph.assumptions, updated)
        yield Unit(name, scop)


def _verified_program(cluster: Cluster, symbols: Iterable[str]) -> ClusterProgram:
    program = cluster_program(cluster)
    verify_tensors(program.program, symbols)
    return program


def cluster_scop(
    cluster: ClusterProgram,
    constant: frozenset[int],
    name: str,
    passes: Passes,
    assumptions: Sequence[Expr] = (),
    updated: Pairs = (),
) -> Scop:
    """``cluster`` as affine statements; ``constant``: numbers of inputs whose data is known, or
    follows from such; ``assumptions`` on sizes; ``updated``: outputs in the memory of inputs."""

    def lowering() -> Scop:
        scop = lower(cluster.program, name, sources=cluster.sources)
        scop = with_assumptions(with_constants(scop, constant), assumptions)
        inputs, outputs = role(scop, "input"), role(scop, "output")
        return update_in_place(scop, [(outputs[o].name, inputs[k].name) for o, k in updated])

    lowered = passes.run("scop", lowering, show=scop_text, verify=verify_scop)
    assumed = passes.run("assume", lambda: assume_in_bounds(lowered), show=scop_text)
    needed = passes.run("needed", lambda: unread(contributing(assumed)), show=scop_text)
    scop = passes.run("coalesce", lambda: coalesce(needed), show=scop_text, verify=verify_scop)
    if passes.options.strict:
        scop = passes.run("keep_order", lambda: keep_order(scop), show=scop_text)
    scop = regrouped(scop, passes)
    passes.run("bounds", lambda: check_bounds(scop))
    return scop


def with_constants(scop: Scop, constant: frozenset[int]) -> Scop:
    """``scop`` with the inputs of these numbers marked as constants."""
    inputs = [t.name for t in scop.tensors if t.role == "input"]
    known = {inputs[k] for k in constant}
    tensors = (replace(t, role="constant") if t.name in known else t for t in scop.tensors)
    return replace(scop, tensors=tuple(tensors))


def with_assumptions(scop: Scop, assumptions: Sequence[Expr]) -> Scop:
    """``scop`` in the context of those ``assumptions`` that are affine in its parameters."""
    stated = (c for condition in assumptions for c in as_constraints(conjunction(condition)))
    known = [c for c in stated if {*variable_list(c.expr)} <= set(scop.parameters)]
    return replace(scop, context=tuple(dict.fromkeys((*scop.context, *known))))


def _assembled(graph: Graph, clusters: Sequence[Cluster], shared: Pairs, codes: Codes) -> Assembly:
    steps, storage = bind(graph, clusters, codes)
    derived = {n: e for code in codes if code for n, e in code.scheduled.scop.derived}
    inputs, outputs = (tuple(v.name for v in values) for values in (graph.inputs, graph.outputs))
    ports = Ports(inputs, outputs, frozenset(graph.constants))
    assembly = assemble(ports, steps, storage, derived, "main")
    return replace(assembly, main=replace(assembly.main, in_place=tuple(shared)))


def cluster_front(scop: Scop, constants: Mapping[str, np.ndarray]) -> Front:
    """A cluster's statements, ``scop``, as a program of its own: what it reads are its inputs, or
    ``constants``, by tensor; what it gives are its outputs."""
    inputs = tuple(t.name for t in role(scop, "input") if t.name not in constants)
    outputs = tuple(t.name for t in role(scop, "output"))
    ports = Ports(inputs, outputs, frozenset(constants))

    def assembled(codes: Codes) -> Assembly:
        (code,) = (code for code in codes if code is not None)
        found = code.scheduled.scop
        storage = {t.name: held(t) for t in found.tensors if t.scope == "global"}
        return assemble(ports, launches(code, {}), storage, dict(found.derived), "main")

    source = Source(scop.name, inputs, outputs, constants=constants)
    return Front(source, [Unit(scop.name, lambda: scop)], {}, assembled)
