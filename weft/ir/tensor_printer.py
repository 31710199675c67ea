"""Tensor expressions as text, one operation to a line.

program matmul(a: float32[m, k], b: float32[k, n]) -> (c)
  c[i < m, j < n] = add[r < k](a[i, r] * b[r, j])
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from weft.ir.scalar_expr import Expr, Literal
from weft.ir.scalar_printer import scalar_text
from weft.ir.tensor_expr import (
    Axis,
    Compute,
    Itself,
    Operation,
    Program,
    Reduce,
    Reshape,
    Scatter,
    Size,
    Tensor,
    as_size,
    operations,
)


def program_text(program: Program) -> str:
    """``program`` as readable, deterministic text; equal names are told apart by a number."""
    names = _Names(program)
    inputs = ", ".join(names.declared(t) for t in program.inputs)
    outputs = ", ".join(names.tensor(t) for t in program.outputs)
    lines = [f"program {program.name}({inputs}) -> ({outputs})"]
    lines += [f"  {names.operation(operation)}" for operation in operations(program)]
    for output, given in program.in_place:
        pair = names.tensor(program.outputs[output]), names.tensor(program.inputs[given])
        lines.append(f"  {pair[0]} may share storage with {pair[1]}")
    return "\n".join(lines) + "\n"


class _Names:
    """A name of its own for every tensor of a program."""

    def __init__(self, program: Program) -> None:
        self.operations: dict[Operation, str] = {}
        self.placeholders: dict[Tensor, str] = {}
        self.used: set[str] = set()
        self.current = ""
        for tensor in program.inputs:
            self.placeholders.setdefault(tensor, self._unique(tensor.name))
        for operation in operations(program):
            self.operations[operation] = self._unique(operation.name)

    def _unique(self, name: str) -> str:
        found, number = name, 2
        while found in self.used:
            found, number = f"{name}#{number}", number + 1
        self.used.add(found)
        return found

    def tensor(self, source: Hashable) -> str:
        match source:
            case Itself(index):
                return f"{self.current}.{index}"
            case Tensor(name, _, _, None):
                return self.placeholders.get(source, name)
            case Tensor(_, _, _, Compute(_, _, values) as operation, index) if len(values) > 1:
                return f"{self.operations[operation]}.{index}"
            case Tensor(_, _, _, operation) if operation is not None:
                return self.operations[operation]
        return str(source)

    def declared(self, tensor: Tensor) -> str:
        return f"{self.tensor(tensor)}: {tensor.dtype}[{_sizes(tensor.shape)}]"

    def expr(self, expr: Expr) -> str:
        return scalar_text(expr, self.tensor, self._reduce)

    def operation(self, operation: Operation) -> str:
        name = self.current = self.operations[operation]
        match operation:
            case Compute(_, axes, values, scan):
                mark = f" scan {scan}" if scan else ""
                values_text = ", ".join(self.expr(v) for v in values)
                if len(values) > 1 or scan:
                    name = ", ".join(f"{name}.{c}" for c in range(len(values)))
                return f"{name}[{self._axes(axes)}]{mark} = {values_text}"
            case Reshape(_, source):
                return f"{name} = reshape {self.tensor(source)}"
            case Scatter(_, base, axes, indices, value, combine, condition):
                where = f" if {self.expr(condition)}" if condition is not None else ""
                place = ", ".join(self.expr(i) for i in indices)
                how = f"{combine.name}=" if combine is not None else "="
                return (
                    f"{name} = {self.tensor(base)}, then for [{self._axes(axes)}]{where}: "
                    f"[{place}] {how} {self.expr(value)}"
                )

    def _axes(self, axes: Sequence[Axis]) -> str:
        return ", ".join(self._axis(axis) for axis in axes)

    def _axis(self, axis: Axis) -> str:
        upper = scalar_text(axis.upper)
        if isinstance(axis.lower, Literal) and axis.lower.value == 0:
            return f"{axis.name} < {upper}"
        return f"{scalar_text(axis.lower)} <= {axis.name} < {upper}"

    def _reduce(self, node: Expr) -> str:
        assert isinstance(node, Reduce)
        where = f" if {self.expr(node.condition)}" if node.condition is not None else ""
        values = ", ".join(self.expr(v) for v in node.values)
        component = f".{node.index}" if len(node.values) > 1 else ""
        return f"{node.monoid.name}[{self._axes(node.axes)}{where}]({values}){component}"


def _sizes(shape: Sequence[Size]) -> str:
    return ", ".join(scalar_text(as_size(size)) for size in shape)
