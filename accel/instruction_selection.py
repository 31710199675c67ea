"""Instruction selection: an expression as a tree of operations (``instruction_tree``).

Each operation is a pattern: its target's new value, over the old one and its operands. Immediates
are tried from the constants of the expression; of narrow fields all values. The cheapest cover is
found by tree pattern matching (Aho, Ganapathi and Tjiang, TOPLAS 1989).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from weft.accel.capabilities import Compute
from weft.accel.identity_products import IdentityProduct
from weft.accel.immediates import after, immediates, with_immediates
from weft.accel.instruction_tree import Constant, Held, Node, Tree, leaves, nodes
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
    walk,
)
from weft.ir.scalar_interpreter import evaluate
from weft.ir.scalar_match import matches

MAX_NODES = 64  # of an expression
PARTS = 8  # most instructions that an immediate is split over


def _collide(first: Tree, then: Tree) -> bool:
    """Whether ``first``, which runs before, overwrites what ``then`` still reads, or ``then`` the
    result of ``first``."""
    own = {id(node) for node in nodes(then) if node.moves}
    place = _place(first)
    return (
        not _changed(first).isdisjoint(leaves(then))
        or (isinstance(place, Held) and place in _changed(then))
        or any(id(node) in own for node in nodes(first))
    )


def _changed(tree: Tree) -> set[Held]:
    """The values that ``tree`` overwrites."""
    found: set[Held] = set()
    for node in nodes(tree):
        if node.on is not None and isinstance(place := _place(node.on), Held):
            found.add(place)
    return found


def _place(tree: Tree) -> Tree:
    """The leaf whose place the result takes."""
    while isinstance(tree, Node) and tree.on is not None:
        tree = tree.on
    return tree


class InstructionSelector:
    """Selects trees for expressions over ``Load(number)``; ``held``: the memories that may hold
    each of them, converted to the memory's type in ``types``; ``loaded``: memories that constants
    may be loaded into, None: all; ``products``: those that may be used."""

    def __init__(
        self,
        computes: Iterable[Compute],
        held: Mapping[int, frozenset[str]],
        types: Mapping[str, DType] | None = None,
        loaded: frozenset[str] | None = None,
        products: Sequence[IdentityProduct] = (),
    ) -> None:
        self.patterns = [each for each in computes if is_elementwise(each)]
        self._held, self._types, self._loaded = held, types or {}, loaded
        self._products = products
        self._known: dict[tuple[Expr, str], Tree | None] = {}
        self._open: dict[tuple[Expr, str], int] = {}  # expressions in progress, with their depth
        self._cut = MAX_NODES * MAX_NODES  # the least depth at which one was requested again
        self._made: dict[tuple[str, frozenset[int]], list[tuple[dict[str, int], Expr]]] = {}

    def tree(self, expr: Expr, memory: str) -> Tree | None:
        """The cheapest tree that leaves ``expr`` in ``memory``, or None."""
        for form in (rewrite(expr, _normal), rewrite(expr, _clipped)):
            if sum(1 for _ in walk(form)) <= MAX_NODES:
                found = self._tree(form, memory)
                if found is not None:
                    return found
        return None

    def fill(self, value: float, memory: str) -> Tree | None:
        """Operations that leave ``value`` in ``memory`` without operands."""
        for pattern in self.patterns:
            match pattern.value:
                case Literal(value=int() | float() as start) if pattern.target.memory == memory:
                    first = Node(pattern, {}, None)
                    if start == value:
                        return first
                    for other, fields in self._changes(start, value, memory):
                        return Node(other, fields, first)
        return None

    def unchanged(self, tree: Tree, memory: str) -> Tree | None:
        """``tree`` followed by an operation that keeps the value."""
        for pattern in self.patterns:
            if pattern.target.memory == memory and not pattern.operands:
                for fields, value in with_immediates(pattern, {0}):
                    if isinstance(value, Load) and value.source == 0:
                        return Node(pattern, fields, tree)
        return None

    def _changes(
        self, start: float, end: float, memory: str
    ) -> Iterator[tuple[Compute, dict[str, int]]]:
        """Operations that turn ``start`` into ``end`` by one immediate."""
        for pattern in self.patterns:
            if pattern.target.memory != memory or pattern.operands or not immediates(pattern):
                continue
            for fields, value in with_immediates(pattern, [int(end), int(end - start)]):
                if evaluate(value, {}, lambda *_: np.asarray(start)) == end:
                    yield pattern, fields

    def _tree(self, expr: Expr, memory: str) -> Tree | None:
        key = expr, memory
        if key in self._open:
            self._cut = min(self._cut, self._open[key])
            return None
        if key not in self._known:
            depth = self._open[key] = len(self._open)
            above, self._cut = self._cut, depth
            found = list(self._trees(expr, memory))
            del self._open[key]
            best = min(found, key=_cycles) if found else None
            if best is None and self._cut < depth:  # it depends on a request in progress
                self._cut = min(self._cut, above)
                return None
            self._known[key], self._cut = best, above
        return self._known[key]

    def _trees(self, expr: Expr, memory: str) -> Iterator[Tree]:
        match expr:
            case Load(source=int() as number):
                if self._holds(number, memory, expr.dtype):
                    yield Held(number, memory)
            case Cast(Load(source=int() as number), dtype) if number and dtype.is_integer:
                if memory in self._types and self._holds(number, memory, dtype):
                    yield Held(number, memory)  # loads convert
            case Literal(value=int() | float() as value):
                if self._loaded is None or memory in self._loaded:
                    yield Constant(value, memory)
                elif isinstance(made := self.fill(value, memory), Node) and made.on is None:
                    yield replace(made, apart=True)
        inner = _inner(expr)
        if inner is not None and (found := self._tree(inner, memory)) is not None:
            yield found
        yield from self._nodes(expr, memory)
        yield from self._in_parts(expr, memory)

    def _holds(self, number: int, memory: str, dtype: DType) -> bool:
        same = self._types.get(memory, dtype) == dtype
        return same and memory in self._held.get(number, ())

    def _nodes(self, expr: Expr, memory: str) -> Iterator[Tree]:
        values = [e.value for e in walk(expr) if isinstance(e, Literal)]
        literals = [value for value in values if isinstance(value, int)]
        numbers = frozenset({0, *literals, *(-n for n in literals)})
        for pattern in self.patterns:
            if pattern.target.memory != memory:
                continue
            for fields, value in self._with(pattern, numbers):
                if isinstance(value, Load) and value.source == 0:
                    continue  # a no-op
                yield from self._applied(pattern, fields, value, {}, expr)
        for product in self._products:
            if product.compute.target.memory == memory:
                for number, value in product.values(numbers):
                    given = {product.identity: product.multiple(number)}
                    yield from self._applied(product.compute, {}, value, given, expr)

    def _applied(
        self,
        pattern: Compute,
        fields: Mapping[str, int],
        value: Expr,
        given: Mapping[int, Tree],
        expr: Expr,
    ) -> Iterator[Node]:
        """Nodes for ``expr`` by ``pattern``, which makes ``value`` with ``fields`` and with the
        operands that are ``given``."""
        for found in matches(value, expr):
            made = self._node(pattern, fields, found, given, None)
            if made is not None:
                yield made
        for filled, start in self._fills(pattern.target.memory) if pattern.operands else ():
            for found in matches(rewrite(value, partial(after, start=start)), expr):
                made = self._node(pattern, fields, found, given, filled)
                if made is not None:
                    yield made

    def _fills(self, memory: str) -> list[tuple[Node, Literal]]:
        """What operations leave in ``memory`` without operands."""
        return [
            (Node(pattern, {}, None, apart=True), pattern.value)
            for pattern in self.patterns
            if pattern.target.memory == memory and isinstance(pattern.value, Literal)
        ]

    def _with(self, pattern: Compute, numbers: frozenset[int]) -> list[tuple[dict[str, int], Expr]]:
        key = pattern.operation.name, numbers
        if key not in self._made:
            self._made[key] = list(with_immediates(pattern, numbers))
        return self._made[key]

    def _node(
        self,
        pattern: Compute,
        fields: Mapping[str, int],
        found: Mapping[int, Expr],
        given: Mapping[int, Tree],
        filled: Node | None,
    ) -> Node | None:
        """``filled``: the node that it continues, in place of a value."""
        on: Tree | None = filled
        if 0 in found:
            on = self._tree(found[0], pattern.target.memory)
            if on is None or isinstance(on, Constant):
                return None
        operands: list[Tree] = []
        for number, at in enumerate(pattern.operands, 1):
            operand = given.get(number)
            if operand is None and number in found:
                operand = self._tree(found[number], at.memory)
            if operand is None:
                return None
            operands.append(operand)
        later = [] if on is None else [on]
        for number in reversed(range(len(operands))):
            one: Tree | None = operands[number]
            if one is not None and any(_collide(one, other) for other in later):
                one = self._copied(one)
            if one is None or any(_collide(one, other) for other in later):
                return None
            operands[number] = one
            later.append(one)
        return Node(pattern, fields, on, tuple(operands))

    def _copied(self, tree: Tree) -> Tree | None:
        """``tree`` over a copy of its leaf: the leaf, added to zeros."""
        if isinstance(tree, Node):
            inner = None if tree.on is None else self._copied(tree.on)
            return None if inner is None else replace(tree, on=inner)
        zero = self.fill(0, tree.memory)
        for pattern in self.patterns:
            memories = {pattern.target.memory, *(each.memory for each in pattern.operands)}
            match pattern.value:
                case Apply("add", (Load(), Load())) if pattern.operands:
                    if (
                        isinstance(zero, Node)
                        and zero.on is None
                        and len(pattern.operands) == 1
                        and memories == {tree.memory}
                    ):
                        return Node(pattern, {}, replace(zero, apart=True), (tree,))
        return None

    def _in_parts(self, expr: Expr, memory: str) -> Iterator[Tree]:
        """A shift or a sum whose immediate is too large for one instruction."""
        match expr:
            case Apply("shr" | "shl" | "add" as op, (inner, Literal(value=int() as by))):
                part = self._part(by)
                if part:
                    first = Apply(op, (inner, literal(part, inner.dtype)))
                    tree = self._tree(Apply(op, (first, literal(by - part, inner.dtype))), memory)
                    if tree is not None:
                        yield tree

    def _part(self, by: int) -> int:
        """The largest part of ``by`` that fields hold; 0 if that is all of it or too little."""
        for pattern in self.patterns:
            for name in immediates(pattern):
                low, high = pattern.operation.limits_of(name)
                part = high if by > 0 else low
                if 0 < abs(part) < abs(by) <= PARTS * abs(part):
                    return part
        return 0


def is_elementwise(compute: Compute) -> bool:
    """Whether each element of its target becomes a function of the same element of its operand. An
    operation that visits its target twice would apply that twice."""
    step = compute.step
    if step.update is not None and step.update.dims:
        return False
    inside = {i.name for i in step.writes[0].indices if isinstance(i, Var)}
    if {d for d, n in compute.extents.items() if n > 1} - inside or compute.first is not None:
        return False
    if any(loop.dim not in compute.target.steps for loop in compute.loops):
        return False
    return all(read.indices == step.writes[0].indices for read in step.reads)


def is_copy(compute: Compute) -> bool:
    """Whether it copies one memory to another."""
    value = compute.value
    single = len(compute.operands) == 1 and is_elementwise(compute)
    return single and isinstance(value, Load) and value.source == 1


def _cycles(tree: Tree) -> int:
    """Estimated cycles per element; loads cost more than operations."""
    return sum(each.cycles for each in nodes(tree)) + sum(
        8 for each in leaves(tree) if isinstance(each, Constant) and each.diagonal is None
    )


def _normal(node: Expr) -> Expr | None:
    """As ``_clipped``, and without redundant casts to narrow types."""
    inner = _inner(node)
    return _clipped(node) if inner is None else inner


def _inner(node: Expr) -> Expr | None:
    match node:
        case Cast(Cast(inner, narrow), dtype) if inner.dtype == dtype and _fits(inner, narrow):
            return inner
    return None


def _clipped(node: Expr) -> Expr | None:
    """Differences as sums, products with powers of two as shifts."""
    match node:
        case Apply("add" | "sub" | "shr" | "shl", (left, Literal(value=0))):
            return left
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
    """Whether ``value`` was clipped to the range of ``dtype``."""
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
