"""Facts that layouts are chosen by: which loops and reductions move which dims of an operation's
reads.

    y[n, k, h, w] = Σ_{c, r} x[n, c, h + r, w] * weights[k, c, r]

Channels are dims along which contiguous vectors need neither shifts nor edges: k, which moves the
weights only, and c, which is summed over. What is a channel in one operation is one in all that
move along with it; access relations show that, whatever the operators are called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from weft.graph.access_pattern import Step, extent, steps_of
from weft.ir.dtypes import DType
from weft.ir.operator_graph import Graph, Node
from weft.ir.scalar_expr import Expr, Load, variable_names, walk
from weft.ir.tensor_expr import (
    Compute,
    Itself,
    Operation,
    Reduce,
    Tensor,
    constant_size,
)

Key = tuple[int, Operation]  # number of a node, and an operation of its program


@dataclass(frozen=True, slots=True)
class Read:
    """A load of the result of ``source``; None: of an input or constant of the graph.

    ``constant``: its data is known when compiling. For each index: ``loops`` that it moves with,
    and whether it is ``summed``, moves with the loops of a sum.
    """

    shape: tuple[int, ...]
    indices: tuple[Expr, ...]
    source: Key | None
    constant: bool
    loops: tuple[frozenset[str], ...]
    summed: tuple[bool, ...]

    def moves(self, loop: str) -> bool:
        return any(loop in names for names in self.loops)


@dataclass(frozen=True, slots=True)
class Item:
    """One operation; open sizes count as typical ones. ``steps``: of its sum, 1 without one;
    ``contraction`` as in ``access_pattern``; ``free``: its result may lie in any layout."""

    key: Key
    shape: tuple[int, ...]
    dtype: DType
    loops: tuple[str, ...]
    reads: tuple[Read, ...]
    steps: int
    contraction: bool
    free: bool


def items_of(graph: Graph) -> dict[Key, Item]:
    """The operations of ``graph`` that may gain, in order: no views and scatters, none without
    elements, none that constants alone decide."""
    state = _Items({v.name for v in graph.outputs}, set(graph.constants))
    for number, node in enumerate(graph.nodes):
        state.visit(number, node)
    return {k: replace(i, free=i.free and k not in state.fixed) for k, i in state.items.items()}


class _Items:
    def __init__(self, final: set[str], constant: set[str]) -> None:
        self.final = final
        self.constant = constant
        self.made: dict[str, Key] = {}  # value name -> what computes it
        self.items: dict[Key, Item] = {}
        self.fixed: set[Key] = set()  # results that are outputs, or read by what is no item

    def visit(self, number: int, node: Node) -> None:
        if all(v.name in self.constant for v in node.inputs):
            self.constant |= {v.name for v in node.outputs}
            return
        given = {t: v.name for t, v in zip(node.program.inputs, node.inputs, strict=True)}
        for step in steps_of(node.program):
            operation = step.operation
            if isinstance(operation, Compute) and _has_elements(step, operation):
                self.items[number, operation] = self._item(number, step, operation, given)
            else:
                sources = {self._source(number, t, given) for t in operation.reads}
                self.fixed |= {key for key in sources if key is not None}
        for value, tensor in zip(node.outputs, node.program.outputs, strict=True):
            key = self._source(number, tensor, given)
            if key is not None:
                self.made[value.name] = key
                self.fixed |= {key} if value.name in self.final else set()

    def _source(self, number: int, tensor: Tensor, given: Mapping[Tensor, str]) -> Key | None:
        if tensor.operation is not None:
            return number, tensor.operation
        return self.made.get(given[tensor])

    def _item(
        self, number: int, step: Step, operation: Compute, given: Mapping[Tensor, str]
    ) -> Item:
        nodes = list({id(n): n for value in operation.values for n in walk(value)}.values())
        loops = {a.name for a in operation.axes}
        folds = {a for n in nodes if isinstance(n, Reduce) for a in n.axes}
        wide = {a.name for a in folds if constant_size(a.extent) != 1}
        loads = [n for n in nodes if isinstance(n, Load)]
        reads = [
            self._read(number, n.source, n.indices, given, loops, wide)
            for n in loads
            if isinstance(n.source, Tensor)
        ]
        own = any(isinstance(n.source, Itself) for n in loads)
        domain = prod(extent(a.extent) for a in operation.axes)
        return Item(
            (number, operation),
            tuple(map(extent, step.result_shape)),
            operation.values[0].dtype,
            tuple(a.name for a in operation.axes),
            tuple(reads),
            max(1, step.points // max(domain, 1)),
            step.contraction,
            not own and not operation.scan,
        )

    def _read(
        self,
        number: int,
        tensor: Tensor,
        indices: Sequence[Expr],
        given: Mapping[Tensor, str],
        loops: set[str],
        folds: set[str],
    ) -> Read:
        names = [variable_names(i) for i in indices]
        return Read(
            tuple(map(extent, tensor.shape)),
            tuple(indices),
            self._source(number, tensor, given),
            given.get(tensor, "") in self.constant,
            tuple(frozenset(found & loops) for found in names),
            tuple(bool(found & folds) for found in names),
        )


def _has_elements(step: Step, operation: Compute) -> bool:
    """Whether no size is known not to be positive."""
    folds = [a for v in operation.values for n in walk(v) if isinstance(n, Reduce) for a in n.axes]
    sizes = [*step.result_shape, *(a.extent for a in folds)]
    sizes += [size for tensor in operation.reads for size in tensor.shape]
    return all(extent(size) > 0 for size in sizes)


def channels(items: Mapping[Key, Item]) -> dict[Key, int]:
    """By item, the dim that is its channels, where that is one and not the last already."""
    classes = _Classes()
    seeds: list[tuple[Key, int]] = []
    for key, item in items.items():
        place = {loop: (key, d) for d, loop in enumerate(item.loops)}
        for read in item.reads:
            for d, moving in enumerate(read.loops):
                if len(moving) == 1 and read.source is not None:
                    classes.join((read.source, d), place[min(moving)])
        if item.contraction:
            seeds += _seeds(item, place)
    roots = {classes.find(s) for s in seeds}
    found: dict[Key, int] = {}
    for key, item in items.items():
        dims = [d for d, n in enumerate(item.shape) if n > 1 and classes.find((key, d)) in roots]
        if item.free and len(dims) == 1 and any(n > 1 for n in item.shape[dims[0] + 1 :]):
            found[key] = dims[0]
    return found


def _seeds(item: Item, place: Mapping[str, tuple[Key, int]]) -> Iterator[tuple[Key, int]]:
    """What ``item`` sums up of variables, and its loops along which constants alone move."""
    varied = [read for read in item.reads if not read.constant]
    for read in item.reads:
        for d, (moving, summed) in enumerate(zip(read.loops, read.summed, strict=True)):
            if read.constant:
                yield from (place[x] for x in sorted(moving) if not any(r.moves(x) for r in varied))
            elif summed and not moving and read.source is not None:
                yield read.source, d


class _Classes:
    """Union-find over dims of items."""

    def __init__(self) -> None:
        self.parent: dict[tuple[Key, int], tuple[Key, int]] = {}

    def find(self, dim: tuple[Key, int]) -> tuple[Key, int]:
        root = dim
        while root in self.parent:
            root = self.parent[root]
        while dim != root:
            self.parent[dim], dim = root, self.parent[dim]
        return root

    def join(self, one: tuple[Key, int], other: tuple[Key, int]) -> None:
        one, other = self.find(one), self.find(other)
        if one != other:
            self.parent[one] = other
