"""Instruction selection for expressions: an expression as operations of an accelerator, one after
the other, on what one of its memories holds.

    Tree ::= Held(number, memory)        what is there: a sum, or an operand that was loaded
           | Constant(value, memory)     loaded, like an operand
           | Node(compute, fields, on: Tree | None, operand: Tree | None)   in place, over ``on``

Each operation is a pattern: what it leaves in its target, over what was there and its operand.
Numbers in its fields are tried out of those that the expression has. In the manner of tree pattern
matching (Aho, Ganapathi and Tjiang, TOPLAS 1989), cheapest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import prod

import numpy as np

from weft.accel.abilities import Compute
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import (
    Apply,
    Cast,
    Expr,
    Literal,
    Load,
    Var,
    literal,
    rewrite,
    select,
    walk,
)
from weft.ir.scalar_interpreter import evaluate
from weft.ir.scalar_match import matches

MAX_NODES = 64  # of an expression
MAX_NUMBERS = 4096  # ways to fill the fields of an instruction that it computes with
PARTS = 8  # instructions that a number is spread over, at most


@dataclass(frozen=True, slots=True)
class Held:
    number: int
    memory: str


@dataclass(frozen=True, slots=True)
class Constant:
    value: float
    memory: str


@dataclass(frozen=True, slots=True)
class Node:
    compute: Compute
    fields: Mapping[str, int]
    on: Tree | None
    operand: Tree | None = None
    apart: bool = False

    @property
    def moves(self) -> bool:
        """Whether it leaves its result in another place than what it begins with: another memory
        than its operand's, or, ``apart``, one that nothing else is in."""
        return self.apart or (
            self.on is None
            and self.operand is not None
            and self.compute.operands[0].memory != self.compute.target.memory
        )

    @property
    def cycles(self) -> int:
        """Of one turn, this operation's alone, about."""
        return turn_cycles(self.compute)


Tree = Held | Constant | Node


def nodes(tree: Tree) -> Iterator[Node]:
    """The operations of ``tree``, in the order in which they are done."""
    if isinstance(tree, Node):
        if tree.operand is not None:
            yield from nodes(tree.operand)
        if tree.on is not None:
            yield from nodes(tree.on)
        yield tree


def leaves(tree: Tree) -> Iterator[Held | Constant]:
    """What ``tree`` begins with, in the order in which it is needed."""
    if isinstance(tree, Node):
        if tree.operand is not None:
            yield from leaves(tree.operand)
        if tree.on is not None:
            yield from leaves(tree.on)
    else:
        yield tree


def _collide(on: Tree, operand: Tree) -> bool:
    """Whether ``operand``, which is computed first, leaves something else where ``on`` still needs
    what was there, or ``on`` where the operand is."""
    own = {id(node) for node in nodes(on) if node.moves}
    place = _place(operand)
    return (
        not _changed(operand).isdisjoint(leaves(on))
        or (isinstance(place, Held) and place in _changed(on))
        or any(id(node) in own for node in nodes(operand))
    )


def _changed(tree: Tree) -> set[Held]:
    """What is no longer there after ``tree``."""
    found: set[Held] = set()
    for node in nodes(tree):
        if node.on is not None and isinstance(place := _place(node.on), Held):
            found.add(place)
    return found


def _place(tree: Tree) -> Tree:
    """What was where the result is."""
    while isinstance(tree, Node) and tree.on is not None:
        tree = tree.on
    return tree


class Cover:
    """Trees for expressions over ``Load(number)``; ``held``: where each of them may be."""

    def __init__(self, computes: Iterable[Compute], held: Mapping[int, frozenset[str]]) -> None:
        self._patterns = [
            each for each in computes if len(each.operands) <= 1 and _elementwise(each)
        ]
        self._held = held
        self._known: dict[tuple[Expr, str], Tree | None] = {}
        self._made: dict[tuple[str, frozenset[int]], list[tuple[dict[str, int], Expr]]] = {}

    def tree(self, expr: Expr, memory: str) -> Tree | None:
        """The cheapest tree that leaves ``expr`` in ``memory``, or None."""
        expr = rewrite(expr, _normal)
        if sum(1 for _ in walk(expr)) > MAX_NODES:
            return None
        return self._tree(expr, memory)

    def fill(self, value: float, memory: str) -> Tree | None:
        """Operations that leave ``value`` in ``memory`` out of nothing."""
        for pattern in self._patterns:
            match pattern.value:
                case Literal(value=int() | float() as start) if pattern.target.memory == memory:
                    first = Node(pattern, {}, None)
                    if start == value:
                        return first
                    for other, fields in self._changes(start, value, memory):
                        return Node(other, fields, first)
        return None

    def unchanged(self, tree: Tree, memory: str) -> Tree | None:
        """``tree`` with an operation last that changes nothing."""
        for pattern in self._patterns:
            if pattern.target.memory == memory and not pattern.operands:
                for fields, value in _with_numbers(pattern, {0}):
                    match value:
                        case Apply("add" | "shr" | "shl", (Load(source=0), Literal(value=0))):
                            return Node(pattern, fields, tree)
        return None

    def _changes(
        self, start: float, end: float, memory: str
    ) -> Iterator[tuple[Compute, dict[str, int]]]:
        """Operations that make ``end`` of ``start`` by one number."""
        for pattern in self._patterns:
            if pattern.target.memory != memory or pattern.operands or not _immediates(pattern):
                continue
            for fields, value in _with_numbers(pattern, [int(end), int(end - start)]):
                if evaluate(value, {}, lambda *_: np.asarray(start)) == end:
                    yield pattern, fields

    def _tree(self, expr: Expr, memory: str) -> Tree | None:
        key = expr, memory
        if key not in self._known:
            self._known[key] = None  # while it is looked for
            found = list(self._trees(expr, memory))
            self._known[key] = min(found, key=_cycles) if found else None
        return self._known[key]

    def _trees(self, expr: Expr, memory: str) -> Iterator[Tree]:
        match expr:
            case Load(source=int() as number):
                if memory in self._held.get(number, ()):
                    yield Held(number, memory)
            case Literal(value=int() | float() as value):
                yield Constant(value, memory)
                return
        yield from self._nodes(expr, memory)
        yield from self._in_parts(expr, memory)

    def _nodes(self, expr: Expr, memory: str) -> Iterator[Tree]:
        values = [e.value for e in walk(expr) if isinstance(e, Literal)]
        literals = [value for value in values if isinstance(value, int)]
        numbers = frozenset({*literals, *(-n for n in literals)})
        for pattern in self._patterns:
            if pattern.target.memory != memory:
                continue
            for fields, value in self._with(pattern, numbers):
                if isinstance(value, Load) and value.source == 0:
                    continue  # it changes nothing
                for found in matches(value, expr):
                    made = self._node(pattern, fields, found)
                    if made is not None:
                        yield made

    def _with(self, pattern: Compute, numbers: frozenset[int]) -> list[tuple[dict[str, int], Expr]]:
        key = pattern.operation.name, numbers
        if key not in self._made:
            self._made[key] = list(_with_numbers(pattern, numbers))
        return self._made[key]

    def _node(
        self, pattern: Compute, fields: Mapping[str, int], found: Mapping[int, Expr]
    ) -> Node | None:
        on = operand = None
        if 0 in found:
            on = self._tree(found[0], pattern.target.memory)
            if on is None or isinstance(on, Constant):
                return None
        if 1 in found:
            operand = self._tree(found[1], pattern.operands[0].memory)
            if operand is None:
                return None
        if on is not None and operand is not None and _collide(on, operand):
            operand = self._copied(operand)
            if operand is None or _collide(on, operand):
                return None
        return Node(pattern, fields, on, operand)

    def _copied(self, tree: Tree) -> Tree | None:
        """``tree`` over a copy of what it begins with: that, added to zeros."""
        if isinstance(tree, Node):
            inner = None if tree.on is None else self._copied(tree.on)
            return None if inner is None else replace(tree, on=inner)
        zero = self.fill(0, tree.memory)
        for pattern in self._patterns:
            memories = {pattern.target.memory, *(each.memory for each in pattern.operands)}
            match pattern.value:
                case Apply("add", (Load(), Load())) if pattern.operands:
                    if isinstance(zero, Node) and zero.on is None and memories == {tree.memory}:
                        return Node(pattern, {}, replace(zero, apart=True), tree)
        return None

    def _in_parts(self, expr: Expr, memory: str) -> Iterator[Tree]:
        """A shift or a sum whose number is too great for one instruction."""
        match expr:
            case Apply("shr" | "shl" | "add" as op, (inner, Literal(value=int() as by))):
                part = self._part(by)
                if part:
                    first = Apply(op, (inner, literal(part, inner.dtype)))
                    tree = self._tree(Apply(op, (first, literal(by - part, inner.dtype))), memory)
                    if tree is not None:
                        yield tree

    def _part(self, by: int) -> int:
        """The most of ``by`` that fields of numbers hold, 0 where that is all or too little."""
        for pattern in self._patterns:
            for name in _immediates(pattern):
                low, high = pattern.operation.limits.get(name) or _limits(pattern, name)
                part = high if by > 0 else low
                if 0 < abs(part) < abs(by) <= PARTS * abs(part):
                    return part
        return 0


def _elementwise(compute: Compute) -> bool:
    """Whether each element of its target becomes a function of the same one of its operand. What
    goes through its target twice would compute that again."""
    step = compute.step
    if step.update is not None and step.update.dims:
        return False
    inside = {i.name for i in step.writes[0].indices if isinstance(i, Var)}
    if {d for d, n in compute.extents.items() if n > 1} - inside or compute.first is not None:
        return False
    if any(turn.dim not in compute.target.steps for turn in compute.turns):
        return False
    return all(read.indices == step.writes[0].indices for read in step.reads)


def _limits(compute: Compute, name: str) -> tuple[int, int]:
    return next(f for f in compute.operation.encoding.fields if f.name == name).limits


def _cycles(tree: Tree) -> int:
    """Of one element, about: what is loaded takes longer than what is computed."""
    return sum(each.cycles for each in nodes(tree)) + sum(
        8 for each in leaves(tree) if isinstance(each, Constant)
    )


def turn_cycles(compute: Compute) -> int:
    """Cycles of one turn."""
    fields = {turn.field: 1 - turn.offset for turn in compute.turns}
    if compute.words is None:
        many = {compute.turns[0].field: 65 - compute.turns[0].offset} if compute.turns else {}
        more = compute.operation.takes({**fields, **many}).cycles
        return max(1, (more - compute.operation.takes(fields).cycles) // 64)
    begin, end = compute.words.begin, compute.words.end
    one, two = (compute.operation.takes({**fields, begin: 0, end: n}).cycles for n in (1, 2))
    return max(1, two - one)


def _immediates(compute: Compute) -> list[str]:
    """Fields whose numbers it computes with."""
    found = {e.name for e in walk(compute.value) if isinstance(e, Var)}
    return sorted(found)


def _with_numbers(
    compute: Compute, numbers: Iterable[int]
) -> Iterator[tuple[dict[str, int], Expr]]:
    """What it leaves, with each of the ``numbers`` in its field; with none if it has none."""
    names = _immediates(compute)
    if not names:
        yield {}, compute.value
        return
    fitting = [
        [number for number in sorted(numbers) if compute.operation.holds(name, number)]
        for name in names
    ]
    if prod(len(each) for each in fitting) > MAX_NUMBERS:
        return
    for chosen in product(*fitting):
        fields = dict(zip(names, chosen, strict=True))
        yield fields, rewrite(compute.value, partial(_put, fields=fields))


def _put(node: Expr, fields: Mapping[str, int]) -> Expr | None:
    """``node`` with numbers for its fields, folded."""
    match node:
        case Var(name):
            return literal(fields[name], node.dtype)
        case Cast(Literal(value=int() as value), dtype):
            return literal(value, dtype)
        case Apply("neg", (Literal(value=int() as value),)):
            return literal(-value, node.dtype)
        case Apply("ge", (Literal(value=left), Literal(value=right))):
            return literal(left >= right, node.dtype)
        case Apply("lt", (Literal(value=left), Literal(value=right))):
            return literal(left < right, node.dtype)
    if len(node.children) == 3 and isinstance(node.children[0], Literal):
        return select(*node.children)
    return None


def _normal(node: Expr) -> Expr | None:
    """Differences as sums, products with powers of two as shifts; values that fit into few bits do
    not have to go through them."""
    match node:
        case Cast(Cast(inner, narrow), dtype) if inner.dtype == dtype and _fits(inner, narrow):
            return inner
        case Apply("sub", (left, Literal(value=int() as value))):
            return left + literal(-value, left.dtype)
        case Apply("mul", (left, Literal(value=int() as value))) if _is_power(value):
            return left << literal(value.bit_length() - 1, left.dtype)
        case Apply("mul", (Literal(value=int() as value), right)) if _is_power(value):
            return right << literal(value.bit_length() - 1, right.dtype)
        case Apply("floordiv", (left, Literal(value=int() as value))) if _is_power(value):
            return left >> literal(value.bit_length() - 1, left.dtype)
    return None


def _fits(value: Expr, dtype: DType) -> bool:
    """Whether ``value`` was clipped to numbers of ``dtype``."""
    if not dtype.is_integer:
        return False
    low = high = False
    while isinstance(value, Apply) and value.op in ("min", "max"):
        numbers = [a for a in value.args if isinstance(a, Literal)]
        others = [a for a in value.args if not isinstance(a, Literal)]
        if len(numbers) != 1 or not dtype.lowest <= numbers[0].value <= dtype.highest:
            return False
        low, high = low or value.op == "max", high or value.op == "min"
        value = others[0]
    return low and high


def _is_power(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0
