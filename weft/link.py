"""From cluster-local names to the whole program's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.assemble import Step, Storage
from weft.cluster_code import ClusterCode
from weft.frontend.tensor_expr import as_size
from weft.graph.operator_graph import Graph, Value
from weft.graph.partition import Cluster


def bind(
    graph: Graph, clusters: Sequence[Cluster], codes: Sequence[ClusterCode | None]
) -> tuple[list[Step], dict[str, Storage]]:
    """The launches of all clusters on buffers of the whole program, and what the buffers hold.

    A view has no code and no buffer: whoever reads it reads what it views.
    """
    alias: dict[str, str] = {}
    storage = {v.name: _storage(v) for v in _values(graph, clusters)}
    steps: list[Step] = []
    for cluster, code in zip(clusters, codes, strict=True):
        if code is None:
            viewed = cluster.inputs[0].name
            alias[cluster.outputs[0].name] = alias.get(viewed, viewed)
            continue
        names = _names(cluster, code, alias)
        for tensor in code.scheduled.scop.tensors:
            if tensor.scope == "global":
                storage.setdefault(names[tensor.name], Storage(tensor.dtype, tensor.shape))
        steps += _steps(code, names)
    return steps, storage


def _names(cluster: Cluster, code: ClusterCode, alias: Mapping[str, str]) -> dict[str, str]:
    """Scop tensor -> buffer of the program."""
    names = {t.name: f"{cluster.name}/{t.name}" for t in code.scheduled.scop.tensors}
    for tensor, value in zip(code.inputs, cluster.inputs, strict=True):
        names[tensor.name] = alias.get(value.name, value.name)
    for tensor, value in zip(code.outputs, cluster.outputs, strict=True):
        names[tensor.name] = value.name
    return names


def _steps(code: ClusterCode, names: Mapping[str, str]) -> list[Step]:
    return [
        Step(
            k.kernel,
            tuple(names[t] for t in k.tensors),
            frozenset(names[t] for t in k.reads),
            frozenset(names[t] for t in k.writes),
            frozenset(names[t] for t in k.again),
        )
        for k in code.kernels
    ]


def _values(graph: Graph, clusters: Sequence[Cluster]) -> list[Value]:
    inside = [v for c in clusters for v in (*c.inputs, *c.outputs)]
    return [*graph.inputs, *graph.outputs, *inside]


def _storage(value: Value) -> Storage:
    return Storage(value.dtype, tuple(map(as_size, value.shape)))
