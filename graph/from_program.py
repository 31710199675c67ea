"""A tensor program as an operator graph, one node an operation, so that one path serves all."""

from __future__ import annotations

from dataclasses import replace

from weft.graph.rebuild import rebuilt
from weft.ir.operator_graph import Graph, Node, Value
from weft.ir.tensor_expr import NOWHERE, Operation, Program, Reshape, Tensor, operations


def from_program(program: Program) -> Graph:
    """The graph whose nodes are the operations of ``program``; unique value names, same order."""
    taken: dict[str, int] = {}
    values: dict[Tensor, Value] = {}
    for tensor in program.inputs:
        values[tensor] = Value(_unique(tensor.name, taken), tensor.shape, tensor.dtype)
    nodes: list[Node] = []
    results = _results(program)
    for operation in operations(program):
        outputs = results[operation]
        for tensor in outputs:
            values[tensor] = Value(_unique(tensor.name, taken), tensor.shape, tensor.dtype)
        nodes.append(_node(operation, outputs, values))
    return Graph(
        program.name,
        tuple(values[t] for t in program.inputs),
        tuple(values[t] for t in program.outputs),
        tuple(nodes),
        in_place=program.in_place,
    )


def _results(program: Program) -> dict[Operation, tuple[Tensor, ...]]:
    """The tensors of each operation that somebody reads or that are outputs, by result number."""
    found: dict[Operation, dict[int, Tensor]] = {}
    read = [t for operation in operations(program) for t in operation.reads]
    for tensor in (*program.outputs, *read):
        if tensor.operation is not None:
            found.setdefault(tensor.operation, {}).setdefault(tensor.index, tensor)
    return {op: tuple(by[k] for k in sorted(by)) for op, by in found.items()}


def _node(operation: Operation, outputs: tuple[Tensor, ...], values: dict[Tensor, Value]) -> Node:
    sources = operation.reads
    inputs = tuple(replace(t, name=values[t].name, operation=None, index=0) for t in sources)
    placeholder = dict(zip(sources, inputs, strict=True))
    new = rebuilt(operation, placeholder.__getitem__, operation.name)
    results = tuple(replace(t, operation=new) for t in outputs)
    kind = type(operation).__name__.lower()
    return Node(
        values[outputs[0]].name,
        kind,
        tuple(values[t] for t in sources),
        tuple(values[t] for t in outputs),
        {},
        Program(operation.name, inputs, results),
        origin=f"{kind} {operation.name!r}{_line(operation)}",
    )


def _line(operation: Operation) -> str:
    line = NOWHERE if isinstance(operation, Reshape) else operation.written
    return "" if line == NOWHERE else f", {line}"


def _unique(name: str, taken: dict[str, int]) -> str:
    count = taken.get(name, 0)
    taken[name] = count + 1
    return name if not count else _unique(f"{name}_{count}", taken)
