"""Axes renamed where a size symbol of the caller, or an axis around, has their name.

Definitions call their axes k, r, i0 …, and a model may call its sizes the same; in one expression
a name means one thing. Nothing happens, and nothing is copied, where no two names meet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import cast

from weft.ir.scalar_expr import Expr, Load, Var, rewrite, walk
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


def fresh_axes(program: Program, around: Iterable[str] = ()) -> Program:
    """``program`` with no axis named as a size symbol of its own or one of those ``around``; the
    same object where that holds already."""
    return renamed_axes(program, around)[0]


def renamed_axes(
    program: Program, around: Iterable[str] = ()
) -> tuple[Program, dict[Operation, Operation]]:
    """``fresh_axes``, and the operations that changed by what they were."""
    order = operations(program)
    symbols = _symbols(t.shape for t in program.inputs + program.outputs).union(around)
    symbols |= _symbols(t.shape for operation in order for t in operation.reads)
    if not symbols:
        return program, {}
    renaming = _Renaming(symbols)
    for operation in order:
        renaming.visit(operation)
    if not renaming.operations:
        return program, {}
    outputs = tuple(renaming.tensor(t) for t in program.outputs)
    return replace(program, outputs=outputs), renaming.operations


def named_apart(node: Reduce, around: Collection[str]) -> Reduce:
    """``node`` with no axis of its own named as one of ``around``; the same object where that holds
    already."""
    met = sorted({axis.name for axis in node.axes}.intersection(around))
    if not met:
        return node
    names = _fresh(met, {*around, *(axis.name for axis in _axes_in([node]))})
    return cast(Reduce, rewrite(node, _change(names)))


def _fresh(names: Iterable[str], taken: set[str]) -> dict[str, str]:
    """Other ones for ``names`` than those ``taken``, to which they are added."""
    found: dict[str, str] = {}
    for name in names:
        fresh = name + "_"
        while fresh in taken:
            fresh += "_"
        found[name] = fresh
        taken.add(fresh)
    return found


def _change(names: Mapping[str, str]) -> Callable[[Expr], Expr | None]:
    """What ``rewrite`` renames axes by."""

    def change(node: Expr) -> Expr | None:
        match node:
            case Axis():
                return _axis(node, change, names)
            case Reduce():
                return replace(node, axes=tuple(_axis(a, change, names) for a in node.axes))
        return None

    return change


def _axis(old: Axis, change: Callable[[Expr], Expr | None], names: Mapping[str, str]) -> Axis:
    lower, upper = (rewrite(bound, change) for bound in (old.lower, old.upper))
    return Axis(names.get(old.name, old.name), old.dtype, lower, upper)


def _symbols(shapes: Iterable[tuple[Size, ...]]) -> set[str]:
    return {
        node.name
        for shape in shapes
        for size in shape
        if isinstance(size, Expr)
        for node in walk(size)
        if isinstance(node, Var)
    }


class _Renaming:
    def __init__(self, symbols: set[str]) -> None:
        self.symbols = symbols
        self.operations: dict[Operation, Operation] = {}  # those that changed
        self.tensors: dict[Tensor, Tensor] = {}

    def tensor(self, old: Tensor) -> Tensor:
        """What ``old`` has become."""
        operation = None if old.operation is None else self.operations.get(old.operation)
        if operation is None:
            return old
        if old not in self.tensors:
            self.tensors[old] = replace(old, operation=operation)
        return self.tensors[old]

    def visit(self, operation: Operation) -> None:
        names = self._new_names(operation)
        if names or any(self.tensor(t) is not t for t in operation.reads):
            self.operations[operation] = self._rebuilt(operation, names)

    def _new_names(self, operation: Operation) -> dict[str, str]:
        own = {axis.name for axis in _axes(operation)}
        return _fresh(sorted(own & self.symbols), own | self.symbols)

    def _rebuilt(self, operation: Operation, names: Mapping[str, str]) -> Operation:
        renamed = _change(names)

        def axis(old: Axis) -> Axis:
            return _axis(old, change, names)

        def change(node: Expr) -> Expr | None:
            match node:
                case Load(Tensor() as source, indices, dtype):
                    return Load(self.tensor(source), indices, dtype)
            return renamed(node)

        def new(expr: Expr) -> Expr:
            return rewrite(expr, change)

        match operation:
            case Compute(_, axes, values):
                return replace(
                    operation, axes=tuple(map(axis, axes)), values=tuple(map(new, values))
                )
            case Scatter():
                return replace(
                    operation,
                    base=self.tensor(operation.base),
                    axes=tuple(map(axis, operation.axes)),
                    indices=tuple(map(new, operation.indices)),
                    value=new(operation.value),
                    condition=None if operation.condition is None else new(operation.condition),
                )
            case Reshape():
                return replace(operation, source=self.tensor(operation.source))


def symbols_in(operation: Operation) -> list[str]:
    """The size symbols that ``operation`` computes with or folds up to, each once."""
    axes = {axis.name for axis in _axes(operation)}
    found = _expressions(operation)
    found += [bound for axis in _axes_in(found) for bound in (axis.lower, axis.upper)]
    names = (n.name for e in found for n in walk(e) if isinstance(n, Var))
    return [name for name in dict.fromkeys(names) if name not in axes]


def _axes(operation: Operation) -> list[Axis]:
    """The axes of ``operation`` and of the reductions inside it."""
    own = () if isinstance(operation, Reshape) else operation.axes
    return [*own, *_axes_in(_expressions(operation))]


def _expressions(operation: Operation) -> list[Expr]:
    match operation:
        case Compute(values=values):
            return list(values)
        case Scatter(indices=indices, value=value, condition=None):
            return [*indices, value]
        case Scatter(indices=indices, value=value, condition=Expr() as condition):
            return [*indices, value, condition]
    return []


def _axes_in(expressions: Iterable[Expr]) -> list[Axis]:
    """The axes of the reductions in ``expressions``."""
    reductions = (n for e in expressions for n in walk(e) if isinstance(n, Reduce))
    return [axis for reduction in reductions for axis in reduction.axes]
