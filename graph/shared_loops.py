"""Which loops can the statements of a cluster run under together?

Only statements that cannot move into their readers count: reductions, recurrences, and what is
computed from them; call them *tied*. A loop of one is a loop of the next where every load runs
along it exactly. A loop that some load leaves (it sweeps, shifts or fixes that dimension) is lost.
What is left in the end are the loops that a fused nest has on the outside.

A dimension carries a sequence of loops, since reshapes merge and split dimensions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from weft.graph.access_pattern import How, Read, Step, elements, extent
from weft.ir.tensor_expr import (
    Operation,
    Program,
    Reshape,
    Scatter,
    Size,
    Tensor,
    as_size,
    constant_size,
)

Label = tuple[int, ...]  # the loops along a dimension, outermost first; empty: none that counts


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a loop is not shared: a load of ``tensor`` does not run along its dimension ``dim``."""

    tensor: str
    dim: int
    how: How


@dataclass(frozen=True, slots=True)
class Operand:
    """What a contraction reads from elsewhere: its bytes, and the ``loops`` that move it."""

    bytes: int
    loops: frozenset[int]


@dataclass(frozen=True, slots=True)
class Rows:
    """The loops of a nest in two: ``around``, turns of those that move all operands, and the
    ``count`` of rows in each turn, all of which read the same ``held`` bytes of operands."""

    around: int
    count: int
    held: int


@dataclass(frozen=True, slots=True)
class Nest:
    """What a cluster's tied statements share.

    ``dims`` has the loops of each tied value by name, ``extents`` how often each loop runs,
    ``shared`` the loops common to all, ``needed`` those of contractions, whose ``operands`` come
    from elsewhere, ``losses`` what went.
    """

    dims: Mapping[str, tuple[Label, ...]] = field(default_factory=dict)
    extents: Mapping[int, int] = field(default_factory=dict)
    shared: frozenset[int] | None = None  # None: nothing is tied yet
    needed: frozenset[int] = frozenset()
    losses: tuple[Loss, ...] = ()
    operands: tuple[Operand, ...] = ()

    @property
    def rows(self) -> Rows | None:
        """The rows along which contractions could run in tiles; None where one operand moves along
        some of them, another along others."""
        shared = self.shared or frozenset()
        around = shared.intersection(*(o.loops for o in self.operands))
        rows = shared - around
        if any(not rows.isdisjoint(o.loops) and not rows <= o.loops for o in self.operands):
            return None
        turns = self._turns(around)
        held = sum(
            o.bytes // self._turns(around & o.loops) for o in self.operands if not shared <= o.loops
        )
        return Rows(turns, self._turns(rows), held)

    def _turns(self, loops: Iterable[int]) -> int:
        """At least one, so that bytes can be shared out among them even where nothing runs."""
        return prod(max(1, self.extents[loop]) for loop in loops)

    @property
    def parallelism(self) -> int:
        return self._turns(self.shared or ())

    @property
    def keeps_contractions(self) -> bool:
        return self.shared is None or self.needed <= self.shared


def extended(
    nests: Sequence[Nest],
    program: Program,
    steps: Sequence[Step],
    values: Sequence[str],
    results: Sequence[str],
) -> Nest:
    """The nest of one cluster made of ``nests`` and a node whose ``program`` reads from them.

    ``values`` and ``results`` name the node's inputs and outputs.
    """
    state = _State()
    for nest in nests:
        state.adopt(nest)
    for tensor, name in zip(program.inputs, values, strict=True):
        if name in state.named:
            state.tensors[tensor] = state.named[name]
    for step in steps:
        if isinstance(step.operation, Reshape):
            state.reshape(step.operation, step.result_shape)
        else:
            state.step(step)
    for tensor, name in zip(program.outputs, results, strict=True):
        if _key(tensor) in state.tensors:
            state.named[name] = state.tensors[_key(tensor)]
    return state.nest()


def _key(tensor: Tensor) -> Tensor | Operation:
    """Results of one operation have the same loops."""
    return tensor if tensor.operation is None else tensor.operation


class _State:
    """Union-find over loops: equal loops are joined, split ones have parts, lost ones are dead."""

    def __init__(self) -> None:
        self.named: dict[str, tuple[Label, ...]] = {}
        self.tensors: dict[Tensor | Operation, tuple[Label, ...]] = {}
        self.instead: dict[int, Label] = {}  # joined to one loop, or split into several
        self.extents: dict[int, int] = {}
        self.dead: set[int] = set()
        self.nests: list[frozenset[int]] = []  # the loops of each tied statement
        self.needed: list[int] = []
        self.losses: list[Loss] = []
        self.operands: list[tuple[int, Label]] = []

    def adopt(self, nest: Nest) -> None:
        if nest.shared is None:
            return
        own = {loop: self.fresh(nest.extents[loop]) for loop in sorted(nest.shared)}
        for name, labels in nest.dims.items():
            self.named[name] = tuple(
                tuple(own[loop] for loop in label) if all(loop in own for loop in label) else ()
                for label in labels
            )
        self.nests.append(frozenset(own.values()))
        self.needed += [own[loop] for loop in sorted(nest.needed & nest.shared)]
        self.operands += [
            (operand.bytes, tuple(own[loop] for loop in sorted(operand.loops & nest.shared)))
            for operand in nest.operands
        ]

    def fresh(self, extent: int) -> int:
        self.extents[len(self.extents)] = extent
        return len(self.extents) - 1

    def resolved(self, label: Iterable[int]) -> Label:
        """The loops that the loops of ``label`` have become."""
        found: list[int] = []
        stack = list(label)[::-1]
        while stack:
            loop = stack.pop()
            if loop in self.instead:
                stack.extend(reversed(self.instead[loop]))
            else:
                found.append(loop)
        return tuple(found)

    def join(self, left: Label, right: Label) -> None:
        left, right = self.resolved(left), self.resolved(right)
        same = len(left) == len(right)
        for a, b in zip(left, right, strict=False):
            same = same and self.extents[a] == self.extents[b]
        if not same:
            self.dead |= {*left, *right}
            return
        for a, b in zip(left, right, strict=True):
            a, b = self.resolved((a,))[0], self.resolved((b,))[0]
            if a != b:
                self.instead[b] = (a,)
                if b in self.dead:
                    self.dead.add(a)

    def lose(self, label: Label, loss: Loss) -> None:
        if label:
            self.dead.update(label)
            self.losses.append(loss)

    def step(self, step: Step) -> None:
        bound: dict[str, Label] = {}
        tied = [read for read in step.reads if _key(read.tensor) in self.tensors]
        for read in tied:
            self.bind(read, step.parallel, bound)
        if not tied and step.is_map:
            return
        if not tied or step.contraction:
            for axis in step.loops:
                size = extent(axis.extent)
                if axis.name in step.parallel and axis.name not in bound and size != 1:
                    bound[axis.name] = (self.fresh(size),)
        loops = [loop for label in bound.values() for loop in label]
        if step.contraction:
            self.needed += loops
            self.operands += [_operand(read, bound) for read in step.reads if read not in tied]
        self.nests.append(frozenset(loops))
        labels = tuple(bound.get(axis.name, ()) for axis in step.loops)
        scattered = isinstance(step.operation, Scatter)
        rank = len(step.result_shape)
        self.tensors[step.operation] = ((),) * rank if scattered else labels

    def bind(self, read: Read, parallel: Sequence[str], bound: dict[str, Label]) -> None:
        """The loops of what is read, as loops of the reader; those that it leaves are lost."""
        labels = self.tensors[_key(read.tensor)]
        for dim, (label, index) in enumerate(zip(labels, read.indices, strict=True)):
            label = self.resolved(label)
            if index.how is not How.ALONG or index.axis not in parallel:
                self.lose(label, Loss(read.tensor.name, dim, index.how))
            elif index.axis in bound:
                self.join(bound[index.axis], label)
            elif label:
                bound[index.axis] = label

    def reshape(self, operation: Reshape, shape: Sequence[Size]) -> None:
        source = operation.source
        if _key(source) not in self.tensors:
            return
        labels = self.tensors[_key(source)]
        result: list[Label] = [()] * len(shape)
        for before, after in dimension_groups(source.shape, shape):
            parts = [self.resolved(labels[d]) for d in before]
            if len(after) == 1:
                result[after[0]] = () if () in parts else tuple(loop for p in parts for loop in p)
            elif len(before) == 1 and len(parts[0]) == 1:
                pieces = tuple(self.fresh(extent(shape[d])) for d in after)
                self.instead[parts[0][0]] = pieces
                for d, piece in zip(after, pieces, strict=True):
                    result[d] = (piece,)
            kept = {loop for d in after for loop in result[d]}
            for d, part in zip(before, parts, strict=True):
                gone = tuple(loop for loop in self.resolved(part) if loop not in kept)
                self.lose(gone, Loss(source.name, d, How.SHIFTED))
        self.tensors[operation] = tuple(result)

    def nest(self) -> Nest:
        dead = set(self.resolved(self.dead))
        sets = [frozenset(self.resolved(loops)) - dead for loops in self.nests]
        return Nest(
            {name: tuple(map(self.resolved, labels)) for name, labels in self.named.items()},
            self.extents,
            frozenset.intersection(*sets) if sets else None,
            frozenset(self.resolved(self.needed)),
            tuple(self.losses),
            tuple(Operand(n, frozenset(self.resolved(loops)) - dead) for n, loops in self.operands),
        )


def _operand(read: Read, bound: Mapping[str, Label]) -> tuple[int, Label]:
    """Bytes of what is read, and the loops that run along it."""
    along = [bound.get(i.axis, ()) for i in read.indices if i.how is How.ALONG]
    size = elements(read.tensor.shape) * read.tensor.dtype.itemsize
    return size, tuple(loop for label in along for loop in label)


Groups = list[tuple[list[int], list[int]]]


def dimension_groups(source: Sequence[Size], result: Sequence[Size]) -> Groups:
    """Dimensions of two row-major shapes of one tensor that correspond, leaving out sizes of 1."""
    before = [d for d, size in enumerate(source) if size != 1]
    after = [d for d, size in enumerate(result) if size != 1]
    groups: Groups = []
    while before and after and as_size(source[before[0]]) == as_size(result[after[0]]):
        groups.append(([before.pop(0)], [after.pop(0)]))
    tail: Groups = []
    while before and after and as_size(source[before[-1]]) == as_size(result[after[-1]]):
        tail.append(([before.pop()], [after.pop()]))
    groups += _middle(source, result, before, after)
    return groups + tail[::-1]


def _middle(
    source: Sequence[Size], result: Sequence[Size], before: list[int], after: list[int]
) -> Groups:
    """The least groups with equal products, where all sizes are positive integers; else one."""
    sizes = [constant_size(source[d]) for d in before], [constant_size(result[d]) for d in after]
    if not (before or after):
        return []
    if not all(all(s is not None and s > 0 for s in side) for side in sizes):
        return [(before, after)]
    groups: Groups = []
    left, right = 1, 1
    current: tuple[list[int], list[int]] = ([], [])
    while before or after:
        if (left <= right and before) or not after:
            left *= extent(source[before[0]])
            current[0].append(before.pop(0))
        else:
            right *= extent(result[after[0]])
            current[1].append(after.pop(0))
        if left == right and all(current):
            groups.append(current)
            current, left, right = ([], []), 1, 1
    return groups + ([current] if any(current) else [])
