"""Trees of operations on an accelerator's memories, which leave the value of an expression.

    Tree ::= Held(number, memory)        a value in memory: a sum, or an operand that was loaded
           | Constant(value, memory)     loaded, like an operand; of a matrix, its diagonal
           | Node(compute, fields, on: Tree | None, operands: Tree…)        in place of ``on``

``instruction_selection`` finds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from weft.accel.capabilities import Compute


@dataclass(frozen=True, slots=True)
class Held:
    number: int
    memory: str


@dataclass(frozen=True, slots=True)
class Constant:
    """``diagonal``: the axes of an element along whose diagonal it is, with 0 elsewhere."""

    value: float
    memory: str
    diagonal: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Node:
    compute: Compute
    fields: Mapping[str, int]
    on: Tree | None
    operands: tuple[Tree, ...] = ()
    apart: bool = False

    @property
    def moves(self) -> bool:
        """Whether its result has a place of its own: it depends on operands alone or, ``apart``, on
        nothing."""
        return self.apart or (self.on is None and bool(self.operands))

    @property
    def cycles(self) -> int:
        """Estimated cycles of one iteration of this operation."""
        return iteration_cycles(self.compute)


Tree = Held | Constant | Node


def nodes(tree: Tree) -> Iterator[Node]:
    """The operations of ``tree`` in execution order."""
    if isinstance(tree, Node):
        for operand in tree.operands:
            yield from nodes(operand)
        if tree.on is not None:
            yield from nodes(tree.on)
        yield tree


def leaves(tree: Tree) -> Iterator[Held | Constant]:
    """The leaves of ``tree`` in the order of their use."""
    if isinstance(tree, Node):
        for operand in tree.operands:
            yield from leaves(operand)
        if tree.on is not None:
            yield from leaves(tree.on)
    else:
        yield tree


def iteration_cycles(compute: Compute) -> int:
    """Cycles of one iteration."""
    fields = {loop.field: 1 - loop.offset for loop in compute.loops}
    if compute.words is None:
        many = {compute.loops[0].field: 65 - compute.loops[0].offset} if compute.loops else {}
        more = compute.operation.takes({**fields, **many}).cycles
        return max(1, (more - compute.operation.takes(fields).cycles) // 64)
    begin, end = compute.words.begin, compute.words.end
    one, two = (compute.operation.takes({**fields, begin: 0, end: n}).cycles for n in (1, 2))
    return max(1, two - one)
