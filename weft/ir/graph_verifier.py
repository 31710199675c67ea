"""What every operator graph promises, checked: run on entering and leaving each graph pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.ir.dtypes import as_dtype
from weft.ir.errors import InternalError
from weft.ir.graph_printer import value_text
from weft.ir.operator_graph import Graph, Node, Value
from weft.ir.tensor_expr import Size, Tensor, as_size, operations


def verify_graph(graph: Graph) -> None:
    """Raise ``InternalError`` where ``graph`` is ill-formed.

    E0300 a name is defined twice, E0301 a value is used before or without a definition,
    E0302 a use disagrees with the definition about shape or dtype, E0303 a node disagrees with its
    program, E0304 a constant is not as its value says, E0305 an in-place pair is impossible.
    """
    defined: dict[str, Value] = {}
    for value in graph.inputs:
        _define(defined, value, f"input {value.name}")
    for name, data in graph.constants.items():
        _define(defined, Value(name, data.shape, as_dtype(data.dtype)), f"constant {name}")
        if data.flags.writeable:
            raise InternalError("WEFT-E0304", f"constant {name} is writable", where=graph.name)
    for node in graph.nodes:
        for value in node.inputs:
            _use(defined, value, _place(node))
        _check_program(node)
        for value in node.outputs:
            _define(defined, value, _place(node))
    for value in graph.outputs:
        _use(defined, value, "the outputs")
    _check_in_place(graph)


def same_shape(left: Sequence[Size], right: Sequence[Size]) -> bool:
    """Whether two shapes are equal, size by size."""
    return len(left) == len(right) and all(
        as_size(a) == as_size(b) for a, b in zip(left, right, strict=True)
    )


def _place(node: Node) -> str:
    return node.origin or f"node {node.name}"


def _define(defined: dict[str, Value], value: Value, where: str) -> None:
    if value.name in defined:
        raise InternalError("WEFT-E0300", f"{value.name} is defined twice", where=where)
    defined[value.name] = value


def _use(defined: Mapping[str, Value], value: Value, where: str) -> None:
    found = defined.get(value.name)
    if found is None:
        raise InternalError(
            "WEFT-E0301",
            f"{value.name} is used, but not defined before",
            where=where,
            why="nodes are in topological order, so that this is a cycle or a missing definition",
        )
    if found.dtype != value.dtype or not same_shape(found.shape, value.shape):
        raise InternalError(
            "WEFT-E0302", f"{value_text(found)} is used as {value_text(value)}", where=where
        )


def _check_program(node: Node) -> None:
    program = node.program
    sides = (("input", node.inputs, program.inputs), ("output", node.outputs, program.outputs))
    for what, values, tensors in sides:
        if len(values) != len(tensors):
            raise InternalError(
                "WEFT-E0303",
                f"{node.op} has {len(values)} {what}s, its program {len(tensors)}",
                where=_place(node),
            )
        for value, tensor in zip(values, tensors, strict=True):
            if value.dtype != tensor.dtype or not same_shape(value.shape, tensor.shape):
                raise InternalError(
                    "WEFT-E0303",
                    f"{what} {value_text(value)} is {tensor!r} in the program of {node.op}",
                    where=_place(node),
                )
    placeholders: set[Tensor] = set(program.inputs)
    for operation in operations(program):
        for tensor in operation.reads:
            if tensor.operation is None and tensor not in placeholders:
                raise InternalError(
                    "WEFT-E0303",
                    f"the program of {node.op} reads {tensor.name}, which is none of its inputs",
                    where=_place(node),
                )


def _check_in_place(graph: Graph) -> None:
    for output, given in graph.in_place:
        if not (0 <= output < len(graph.outputs) and 0 <= given < len(graph.inputs)):
            raise InternalError(
                "WEFT-E0305", f"in-place pair ({output}, {given})", where=graph.name
            )
        result, source = graph.outputs[output], graph.inputs[given]
        if result.dtype != source.dtype or not same_shape(result.shape, source.shape):
            raise InternalError(
                "WEFT-E0305",
                f"{value_text(result)} cannot share storage with {value_text(source)}",
                where=graph.name,
            )
