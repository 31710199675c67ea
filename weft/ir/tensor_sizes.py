"""Tensor programs on other sizes: the same operations, their sizes and constants replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from weft.ir.scalar_expr import Expr, Load, rewrite
from weft.ir.tensor_expr import (
    Axis,
    Compute,
    Operation,
    Program,
    Reduce,
    Reshape,
    Scatter,
    Size,
    Tensor,
    operations,
)

Shape = tuple[Size, ...]


@dataclass(slots=True)
class Resizing:
    """One program with each expression's leaves, literals and variables, as ``leaf`` has them (None
    keeps one), and each shape as ``shape`` has it."""

    leaf: Callable[[Expr], Expr | None]
    shape: Callable[[Sequence[Size]], Shape]
    tensors: dict[Tensor, Tensor] = field(default_factory=dict)
    operations: dict[Operation, Operation] = field(default_factory=dict)

    def program(self, old: Program) -> Program:
        inputs = tuple(map(self.tensor, old.inputs))
        for operation in operations(old):
            self.operations[operation] = self.operation(operation)
        return replace(old, inputs=inputs, outputs=tuple(map(self.tensor, old.outputs)))

    def tensor(self, old: Tensor) -> Tensor:
        if old not in self.tensors:
            operation = None if old.operation is None else self.operations[old.operation]
            self.tensors[old] = replace(old, shape=self.shape(old.shape), operation=operation)
        return self.tensors[old]

    def operation(self, old: Operation) -> Operation:
        match old:
            case Compute(_, axes, values):
                return replace(old, axes=self.axes(axes), values=tuple(map(self.expr, values)))
            case Scatter():
                return replace(
                    old,
                    base=self.tensor(old.base),
                    axes=self.axes(old.axes),
                    indices=tuple(map(self.expr, old.indices)),
                    value=self.expr(old.value),
                    condition=None if old.condition is None else self.expr(old.condition),
                )
            case Reshape(_, source):
                return replace(old, source=self.tensor(source))

    def axes(self, old: Sequence[Axis]) -> tuple[Axis, ...]:
        return tuple(self.axis(axis) for axis in old)

    def axis(self, old: Axis) -> Axis:
        return Axis(old.name, old.dtype, self.expr(old.lower), self.expr(old.upper))

    def expr(self, old: Expr) -> Expr:
        def change(node: Expr) -> Expr | None:
            match node:
                case Axis():
                    return self.axis(node)
                case Reduce():
                    return replace(node, axes=self.axes(node.axes))
                case Load(Tensor() as source, indices, dtype):
                    return Load(self.tensor(source), indices, dtype)
            return None if node.children else self.leaf(node)

        return rewrite(old, change)
