"""Layouts: where in memory the elements of a tensor lie, as a relation, and programs under them.

    [n, c, h, w] -> [n, h, w, c]                  order (0, 2, 3, 1)
    [n, c, h, w] -> [n, c div 16, h, w, c mod 16]  order (0, 1, 2, 3), dim 1 in blocks of 16

A program under layouts computes the same elements: what defines a tensor runs its loops in the
order in which it is stored, what reads it takes each element from where it is.

    Y[n, c, h, w] = f(X[n, c, h, w])       →       Y[n, h, w, c] = f(X[n, h, w, c])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.ir.errors import InternalError
from weft.ir.scalar_expr import Expr, Load, literal, rewrite, substitute
from weft.ir.scalar_simplify import simplify
from weft.ir.tensor_expr import (
    Compute,
    Operation,
    Program,
    Reshape,
    Scatter,
    Size,
    Tensor,
    constant_size,
    operations,
)


@dataclass(frozen=True, slots=True)
class Layout:
    """Dims in ``order``; if ``block``, dim ``split`` has its number there, in blocks of so many,
    and its place in the block comes last. ``block`` divides the size of ``split``."""

    order: tuple[int, ...]
    split: int = 0
    block: int = 0

    def __str__(self) -> str:
        """``[0, 1, 2, 3] -> [0, 2, 3, 1]``, dims by number."""
        names = [str(d) for d in range(len(self.order))]
        after = [names[d] for d in self.order]
        if self.block:
            after = [f"{n} div {self.block}" if n == names[self.split] else n for n in after]
            after.append(f"{self.split} mod {self.block}")
        return f"[{', '.join(names)}] -> [{', '.join(after)}]"

    def indices(self, logical: Sequence[Expr]) -> tuple[Expr, ...]:
        """Where the element at ``logical`` indices is."""
        if not self.block:
            return tuple(logical[d] for d in self.order)
        within = logical[self.split]
        whole = {self.split: simplify(within // self.block)}
        return (*(whole.get(d, logical[d]) for d in self.order), simplify(within % self.block))

    def shape(self, sizes: Sequence[Size]) -> tuple[Size, ...]:
        """The sizes of memory for a tensor of ``sizes``."""
        if not self.block:
            return tuple(sizes[d] for d in self.order)
        size = constant_size(sizes[self.split])
        if size is None or size % self.block:
            raise InternalError("WEFT-E0322", f"{size} are no blocks of {self.block}")
        whole = {self.split: size // self.block}
        return (*(whole.get(d, sizes[d]) for d in self.order), self.block)


Layouts = Mapping[Tensor | Operation, Layout]
"""Of placeholders, and of the results of operations; those that it does not have stay."""


def relaid(program: Program, layouts: Layouts) -> Program:
    """``program`` on tensors that lie by ``layouts``, linear in its size.

    Views and scatters, what views read and what reads itself have no layouts.
    """
    tensors: dict[Tensor, Tensor] = {}
    done: dict[Operation, Operation] = {}

    def layout(tensor: Tensor) -> Layout | None:
        return layouts.get(tensor if tensor.operation is None else tensor.operation)

    def of(tensor: Tensor) -> Tensor:
        if tensor not in tensors:
            own = layout(tensor)
            shape = tensor.shape if own is None else own.shape(tensor.shape)
            operation = None if tensor.operation is None else done[tensor.operation]
            tensors[tensor] = replace(tensor, shape=shape, operation=operation)
        return tensors[tensor]

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Load) and isinstance(node.source, Tensor):
            own = layout(node.source)
            indices = node.indices if own is None else own.indices(node.indices)
            return Load(of(node.source), indices, node.dtype)
        return None

    inputs = tuple(of(t) for t in program.inputs)
    for operation in operations(program):
        done[operation] = _relaid(operation, layouts.get(operation), of, change)
    return replace(program, inputs=inputs, outputs=tuple(of(t) for t in program.outputs))


def _relaid(
    operation: Operation,
    layout: Layout | None,
    of: Callable[[Tensor], Tensor],
    change: Callable[[Expr], Expr | None],
) -> Operation:
    match operation:
        case Reshape(name, source):
            return Reshape(name, of(source))
        case Compute():
            new = replace(operation, values=tuple(rewrite(v, change) for v in operation.values))
            return new if layout is None else _in_order(new, layout)
        case Scatter():
            condition = operation.condition
            return replace(
                operation,
                base=of(operation.base),
                indices=tuple(rewrite(i, change) for i in operation.indices),
                value=rewrite(operation.value, change),
                condition=None if condition is None else rewrite(condition, change),
            )


def _in_order(operation: Compute, layout: Layout) -> Compute:
    """``operation`` with the loops that its results are stored by."""
    axes = [operation.axes[d] for d in layout.order]
    if not layout.block:
        return replace(operation, axes=tuple(axes))
    old = operation.axes[layout.split]
    outer = replace(old, name=f"{old.name}_block", upper=simplify(old.extent // layout.block))
    inner = replace(old, name=f"{old.name}_in_block", upper=literal(layout.block))
    at = {old.name: outer * layout.block + inner}
    axes = [outer if axis == old else axis for axis in axes]
    values = tuple(simplify(substitute(v, at)) for v in operation.values)
    return replace(operation, axes=(*axes, inner), values=values)
