"""One cluster on small sizes, interpreted after every pass from its tensor program to its code."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from weft.driver.compiler import lower_graph
from weft.driver.graph_front import with_constants
from weft.graph.cluster_program import ClusterProgram, cluster_program
from weft.graph.partition import Cluster
from weft.ir.errors import ExecutionError, WeftWarning
from weft.ir.operator_graph import Graph, Node
from weft.ir.scalar_expr import Var, variable_list
from weft.ir.scop_interpreter import bind_parameters
from weft.ir.tensor_axes import symbols_in
from weft.ir.tensor_expr import as_size, operations
from weft.ir.tensor_printer import program_text
from weft.polyhedral.assume_sizes import assume_in_bounds
from weft.polyhedral.coalesce import coalesce
from weft.polyhedral.contributing import contributing
from weft.polyhedral.from_tensor_expr import lower
from weft.polyhedral.unread import unread
from weft.verify.ladder import Ladder, Setting
from weft.verify.oracle import Arrays, read_only, run_graph, tried
from weft.verify.shrink import points, shrink, symbol_values
from weft.verify.verify_program import check_program
from weft.verify.verify_scop import ScopCheck

MAX_POINTS = 50_000  # scalar evaluations that the slow interpreters are given
NAME = "small"  # of the Scop


def check_cluster(cluster: Cluster, graph: Graph, setting: Setting) -> None:
    """Raise ``InternalError`` (WEFT-E0920) for the first pass after which results diverge.

    ``cluster`` is one of ``graph``. Warns where there is no small instance of it.
    """
    where = ", ".join(dict.fromkeys(node.origin or node.name for node in cluster.nodes))
    small = _small(cluster, graph)
    whole = cluster_program(small)
    untold = _untold(small)
    if untold:
        _warn(where, f"none of its inputs says what the size {untold[0]} is")
        return
    symbols = symbol_values(_alone(small, graph.constants))
    total = points(whole.program, symbols)
    if total > MAX_POINTS:
        _warn(where, f"its smallest instance has {total:,} points")
        return
    one = _one_node(small, whole, graph.constants, where)
    try:
        one, inputs, wanted = tried(one, run_graph)
    except ExecutionError as error:
        _warn(where, f"no data was found that it accepts ({error.what})")
        return
    ladder = Ladder(where, setting, wanted, partial(program_text, whole.program))
    data = {**dict(zip((v.name for v in one.inputs), inputs, strict=True)), **one.constants}
    known = frozenset(k for k, v in enumerate(small.inputs) if v.name in one.constants)
    _check_statements(whole, [data[v.name] for v in small.inputs], known, ladder)
    check_program(lambda: lower_graph(one, setting.quiet, setting.machine), inputs, ladder)


def _check_statements(
    cluster: ClusterProgram, inputs: Arrays, constant: frozenset[int], ladder: Ladder
) -> None:
    """``inputs``: data for the program's inputs, those numbered ``constant`` known."""
    scop = ladder.make(
        "from_tensor_expr", lambda: lower(cluster.program, NAME, sources=cluster.sources)
    )
    names = [t.name for t in scop.tensors if t.role == "input"]
    data = dict(zip(names, inputs, strict=True))
    results = [t.name for t in scop.tensors if t.role == "output"]
    check = ScopCheck(ladder, data, bind_parameters(scop, data), results)
    check.rewritten("from_tensor_expr", lambda: scop)
    assumed = check.rewritten("assume", lambda: assume_in_bounds(scop))
    needed = check.rewritten("needed", lambda: unread(contributing(assumed)))
    marked = with_constants(needed, constant)
    check.lowered(check.rewritten("coalesce", lambda: coalesce(marked)))


def _warn(where: str, why: str) -> None:
    text = f"{where}: checked by the static checkers only, not by interpretation: {why}"
    warnings.warn(text, WeftWarning, stacklevel=4)


# ---- the small instance -------------------------------------------------------------------------


def _alone(cluster: Cluster, constants: Mapping[str, np.ndarray]) -> Graph:
    """``cluster`` as a graph of its own."""
    known = {v.name: constants[v.name] for v in cluster.inputs if v.name in constants}
    inputs = tuple(v for v in cluster.inputs if v.name not in known)
    return Graph(cluster.name, inputs, cluster.outputs, cluster.nodes, known)


def _untold(cluster: Cluster) -> list[str]:
    """The size symbols of ``cluster`` that are not plain sizes of its inputs."""
    told = {size.name for v in cluster.inputs for size in v.shape if isinstance(size, Var)}
    values = (v for node in cluster.nodes for v in (*node.inputs, *node.outputs))
    names = [name for v in values for size in v.shape for name in variable_list(as_size(size))]
    for node in cluster.nodes:
        names += [n for operation in operations(node.program) for n in symbols_in(operation)]
    return [name for name in dict.fromkeys(names) if name not in told]


def _small(cluster: Cluster, graph: Graph) -> Cluster:
    small = shrink(_alone(cluster, graph.constants))
    values = {v.name: v for node in small.nodes for v in (*node.inputs, *node.outputs)}
    inputs = tuple(values[v.name] for v in cluster.inputs)
    return replace(cluster, nodes=small.nodes, inputs=inputs, outputs=small.outputs)


def _one_node(
    small: Cluster, whole: ClusterProgram, constants: Mapping[str, np.ndarray], where: str
) -> Graph:
    """All operators of ``small`` in one, so that no partition takes them apart again."""
    node = Node(small.name, "cluster", small.inputs, small.outputs, {}, whole.program, where)
    cropped = {
        v.name: read_only(constants[v.name][tuple(slice(0, int(str(n))) for n in v.shape)])
        for v in small.inputs
        if v.name in constants
    }
    return _alone(replace(small, nodes=(node,)), cropped)
