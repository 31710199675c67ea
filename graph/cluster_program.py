"""One tensor program for a whole cluster: its nodes' programs, each on the results of others."""

from __future__ import annotations

from dataclasses import dataclass

from weft.graph.partition import Cluster
from weft.graph.rebuild import Naming, rebuild
from weft.ir.build import compute
from weft.ir.operator_graph import Node
from weft.ir.tensor_axes import renamed_axes
from weft.ir.tensor_expr import Operation, Program, Reshape, Tensor


@dataclass(frozen=True, slots=True)
class ClusterProgram:
    """``program.inputs[i]`` stands for ``cluster.inputs[i]``, outputs likewise.

    ``sources`` says in the user's terms where each operation comes from.
    """

    program: Program
    sources: dict[Operation, str]


def cluster_program(cluster: Cluster) -> ClusterProgram:
    """The program of ``cluster``, linear in the size of its nodes' programs.

    Placeholders have the names of their values, operations unique names made of their own and, for
    results, of the value's. An output that would be an input, or an input in another shape, is a
    copy: outputs have memory of their own.
    """
    tensors = {v.name: Tensor(v.name, v.shape, v.dtype) for v in cluster.inputs}
    names = _Names({v.name for v in cluster.inputs})
    sources: dict[Operation, str] = {}
    for node in cluster.nodes:
        given = [tensors[v.name] for v in node.inputs]
        made, results = rebuild(node.program, given, names.of(node))
        sources |= dict.fromkeys(made.values(), node.origin or node.name)
        tensors |= zip((v.name for v in node.outputs), results, strict=True)
    outputs = []
    for value in cluster.outputs:
        tensor = tensors[value.name]
        if not _has_memory(tensor):
            tensor = _copy(tensor, names.unique(value.name))
            assert tensor.operation is not None
            sources[tensor.operation] = value.name
        outputs.append(tensor)
    inputs = tuple(tensors[v.name] for v in cluster.inputs)
    # One node may have an axis that is called as a size of another node is.
    program, renamed = renamed_axes(Program(cluster.name, inputs, tuple(outputs)))
    sources = {renamed.get(operation, operation): text for operation, text in sources.items()}
    return ClusterProgram(program, sources)


def _has_memory(tensor: Tensor) -> bool:
    """Whether some operation of the cluster computes the elements of ``tensor``."""
    while isinstance(tensor.operation, Reshape):
        tensor = tensor.operation.source
    return tensor.operation is not None


def _copy(tensor: Tensor, name: str) -> Tensor:
    return compute(tensor.shape, lambda *i: tensor[i], name=name)


class _Names:
    """Unique names, the same each time."""

    def __init__(self, taken: set[str]) -> None:
        self.count = dict.fromkeys(taken, 1)

    def unique(self, name: str) -> str:
        result = name
        while result in self.count:
            self.count[name] += 1
            result = f"{name}.{self.count[name]}"
        self.count[result] = 1
        return result

    def of(self, node: Node) -> Naming:
        return lambda operation: self.unique(f"{node.outputs[0].name}.{operation}")
