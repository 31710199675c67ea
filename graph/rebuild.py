"""Tensor programs on other inputs: the one way in which graph passes edit what a node computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from weft.ir.scalar_expr import Expr, Load, rewrite
from weft.ir.tensor_expr import (
    Compute,
    Operation,
    Program,
    Reshape,
    Scatter,
    Tensor,
    operations,
)

Naming = Callable[[str], str]  # the name of an operation, from the one that it had
Change = Callable[[Operation], Operation]  # what computes the same results instead


def rebuild(
    program: Program,
    inputs: Sequence[Tensor],
    naming: Naming | None = None,
    change: Change | None = None,
) -> tuple[dict[Operation, Operation], tuple[Tensor, ...]]:
    """``program`` with its placeholders replaced by ``inputs``: new operations by old, and outputs.

    ``inputs`` have the shapes and dtypes of the placeholders and may be results of operations.
    ``change`` gets each new operation, on what its producers have become.
    """
    name = naming or (lambda old: old)
    changed = change or (lambda operation: operation)
    tensors: dict[Tensor, Tensor] = dict(zip(program.inputs, inputs, strict=True))
    done: dict[Operation, Operation] = {}

    def of(tensor: Tensor) -> Tensor:
        if tensor not in tensors:
            assert tensor.operation is not None, f"{tensor.name} is no input of {program.name}"
            operation = done[tensor.operation]
            tensors[tensor] = replace(
                tensor, name=_result_name(tensor, operation), operation=operation
            )
        return tensors[tensor]

    for operation in operations(program):
        done[operation] = changed(rebuilt(operation, of, name(operation.name)))
    return done, tuple(of(t) for t in program.outputs)


def _result_name(tensor: Tensor, operation: Operation) -> str:
    many = isinstance(operation, Compute) and len(operation.values) > 1
    return f"{operation.name}_{tensor.index}" if many else operation.name


def rebuilt(operation: Operation, of: Callable[[Tensor], Tensor], name: str) -> Operation:
    def change(node: Expr) -> Expr | None:
        if isinstance(node, Load) and isinstance(node.source, Tensor):
            return Load(of(node.source), node.indices, node.dtype)
        return None

    def new(expr: Expr) -> Expr:
        return rewrite(expr, change)

    match operation:
        case Reshape(_, source):
            return Reshape(name, of(source))
        case Compute():
            return replace(operation, name=name, values=tuple(map(new, operation.values)))
        case Scatter():
            condition = operation.condition
            return replace(
                operation,
                name=name,
                base=of(operation.base),
                indices=tuple(map(new, operation.indices)),
                value=new(operation.value),
                condition=None if condition is None else new(condition),
            )


# ---- Names of values that are new to a graph.


def fresh_name(name: str, taken: set[str]) -> str:
    """``name``, or ``name_2`` … where it is taken; the result is added to ``taken``."""
    candidate, n = name, 1
    while candidate in taken:
        n += 1
        candidate = f"{name}_{n}"
    taken.add(candidate)
    return candidate
