"""How a program reads its inputs and its own intermediate results, found from the expressions.

    Pattern ::= operations: Step…                       one per operation, in order
    Step    ::= operation, loops: Axis…, reads: Read…, points, work, …
    Read    ::= tensor, indices: Index…                 one per load, the same loads once
    Index   ::= Along(axis)                             exactly one loop of the operation
              | Fixed                                   the same whatever the loops do
              | Shifted                                 affine in the loops: an offset, a stride
              | Swept                                   runs over reduction axes alone
              | Window                                  mixes loops and reduction axes
              | Data                                    depends on data

These are facts about accesses; whether to fuse is decided in ``fusion_rules``, asked
by ``partition``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod

from weft.ir.scalar_expr import Apply, Expr, Load, Var, variable_names, walk
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
    constant_size,
    operations,
)

ASSUMED = 64  # what a symbolic size counts as, where a number is needed


class How(Enum):
    """How one index of a load relates to the loops of the operation that loads."""

    ALONG = "along"
    FIXED = "fixed"
    SHIFTED = "shifted"
    SWEPT = "swept"
    WINDOW = "window"
    DATA = "data"


@dataclass(frozen=True, slots=True)
class Index:
    how: How
    axis: str = ""  # of ALONG: the loop


@dataclass(frozen=True, slots=True)
class Read:
    tensor: Tensor
    indices: tuple[Index, ...]
    times: int = 1  # how often all the loops together perform it


@dataclass(frozen=True, slots=True)
class Step:
    """One operation. ``parallel`` are the loops that carry no dependence.

    ``points`` counts evaluations, reduction axes included; ``arithmetic`` the operators of the
    values; ``statements`` what lowering will make of it. ``contraction``: a sum of products of
    two tensors, each of which every loop of the other sweeps again: the pattern of GEMM and conv.
    """

    operation: Operation
    result_shape: tuple[Size, ...]
    reads: tuple[Read, ...]
    loops: tuple[Axis, ...] = ()
    parallel: tuple[str, ...] = ()
    points: int = 0
    arithmetic: int = 0
    statements: int = 0
    reduces: bool = False
    contraction: bool = False

    @property
    def is_map(self) -> bool:
        """Whether each result is computed on its own, so that it can move into its readers."""
        return isinstance(self.operation, Compute) and not self.reduces and not self.operation.scan


def steps_of(program: Program) -> tuple[Step, ...]:
    """The steps of ``program`` in order."""
    order = operations(program)
    shapes = {t.operation: t.shape for t in program.outputs}
    shapes |= {t.operation: t.shape for operation in order for t in operation.reads}
    return tuple(_step(operation, shapes[operation]) for operation in order)


def extent(size: Size, symbol: int = ASSUMED) -> int:
    """A size as a number, each symbol taken to be ``symbol``."""
    known = constant_size(size)
    if known is not None:
        return known
    assert isinstance(size, Expr)
    return int(symbol ** min(sum(isinstance(node, Var) for node in walk(size)), 5))


def elements(shape: Sequence[Size]) -> int:
    return prod(extent(size) for size in shape)


# ---- one operation ------------------------------------------------------------------------------


def _step(operation: Operation, shape: tuple[Size, ...]) -> Step:
    match operation:
        case Reshape(_, source):
            return Step(operation, shape, (Read(source, (), times=elements(shape)),))
        case Compute(_, axes, values):
            return _compute(operation, shape, axes, values)
        case Scatter(_, base, axes, indices, value, _, condition):
            values = (value, *indices, *(() if condition is None else (condition,)))
            found = _compute(operation, shape, axes, values)
            copied = Read(base, tuple(Index(How.SHIFTED) for _ in base.shape))
            return Step(
                operation,
                shape,
                (copied, *found.reads),
                axes,
                (),
                found.points + elements(base.shape),
                found.arithmetic,
                2,
            )


def _compute(
    operation: Operation,
    shape: tuple[Size, ...],
    axes: tuple[Axis, ...],
    values: tuple[Expr, ...],
) -> Step:
    nodes = list(_nodes(values))
    folds = [node for node in nodes if isinstance(node, Reduce)]
    loops = {axis.name: extent(axis.extent) for axis in axes}
    inner = {a.name: extent(a.extent) for fold in folds for a in fold.axes}
    domain = prod(loops.values())
    reads = _reads(nodes, loops, inner, domain)
    swept = max((prod(extent(a.extent) for a in fold.axes) for fold in folds), default=1)
    return Step(
        operation,
        shape,
        reads,
        axes,
        _parallel(operation, axes, nodes),
        domain * swept,
        sum(isinstance(n, Apply) and n.dtype.name != "int64" for n in nodes),
        len(values) + len({id(fold.values) for fold in folds}),
        bool(folds),
        any(_contracts(fold, loops) for fold in folds),
    )


def _nodes(values: Sequence[Expr]) -> Iterator[Expr]:
    seen: set[int] = set()
    for value in values:
        for node in walk(value):
            if id(node) not in seen:
                seen.add(id(node))
                yield node


def _reads(
    nodes: Sequence[Expr], loops: Mapping[str, int], inner: Mapping[str, int], domain: int
) -> tuple[Read, ...]:
    found: dict[Read, None] = {}
    for node in nodes:
        if isinstance(node, Load) and isinstance(node.source, Tensor):
            indices = tuple(_index(i, loops, inner) for i in node.indices)
            swept = {name for i in node.indices for name in variable_names(i) if name in inner}
            times = domain * prod(inner[name] for name in swept)
            found.setdefault(Read(node.source, indices, times=times))
    return tuple(found)


def _index(index: Expr, loops: Mapping[str, int], inner: Mapping[str, int]) -> Index:
    if isinstance(index, Var) and index.name in loops:
        return Index(How.ALONG, index.name)
    if any(isinstance(node, Load | Reduce) for node in walk(index)):
        return Index(How.DATA)
    names = variable_names(index)
    outer, under = any(n in loops for n in names), any(n in inner for n in names)
    if under:
        return Index(How.WINDOW if outer else How.SWEPT)
    return Index(How.SHIFTED if outer else How.FIXED)


def _parallel(
    operation: Operation, axes: tuple[Axis, ...], nodes: Sequence[Expr]
) -> tuple[str, ...]:
    """The loops along which no point needs another: those where self-reads stay at their point."""
    if not isinstance(operation, Compute):
        return ()
    own = [n for n in nodes if isinstance(n, Load) and isinstance(n.source, Itself)]
    return tuple(
        axis.name
        for d, axis in enumerate(axes)
        if all(isinstance(load.indices[d], Var) and load.indices[d] == axis for load in own)
    )


def _contracts(fold: Reduce, loops: Mapping[str, int]) -> bool:
    if fold.monoid.name != "add" or len(fold.values) != 1:
        return False
    for node in walk(fold.values[0]):
        if isinstance(node, Apply) and node.op == "mul":
            left, right = (_loops_read(side, loops) for side in node.args)
            if left is not None and right is not None:
                wide = {name for name, n in loops.items() if n > 1}
                if wide - left and wide - right:
                    return True
    return False


def _loops_read(value: Expr, loops: Mapping[str, int]) -> set[str] | None:
    """The loops in the indices of the loads under ``value``; None where it loads nothing."""
    loads = [n for n in walk(value) if isinstance(n, Load) and isinstance(n.source, Tensor)]
    if not loads:
        return None
    return {
        name for load in loads for i in load.indices for name in variable_names(i) if name in loops
    }
