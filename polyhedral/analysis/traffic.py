"""How many bytes a schedule moves into a memory of some size, before it runs.

One iteration of a loop touches a footprint: a box for every group of accesses to one tensor that
move together. The model is that of a memory that keeps what was used last:

* what one iteration of a loop touches stays until the next if all of it fits; then the loop as a
  whole brings in each element once;
* the outermost loop of which that is true decides; everything around it brings in its footprint
  anew each time;
* a line is moved whole, and one that is written is moved twice;
* what a register tile stores is in registers while its streams run.

See Wolf and Lam, "A data locality optimizing algorithm" (1991); Ferrante, Sarkar and Thrash, "On
estimating and enhancing cache effectiveness" (1991).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import Range
from weft.ir.scalar_expr import Literal
from weft.ir.scalar_simplify import simplify
from weft.ir.schedule_times import paths
from weft.ir.schedule_tree import (
    Band,
    Leaf,
    Loop,
    Mark,
    RegisterTile,
    Tree,
    children,
    statements_below,
)
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.ir.scop import Access, Scop, Statement, Tensor
from weft.polyhedral.analysis.counting import Counter
from weft.polyhedral.analysis.linear import box
from weft.polyhedral.analysis.nest_coordinates import NestCoordinates
from weft.polyhedral.analysis.polynomials import Polynomial, number, of_affine, symbol

Bytes = dict[str, Polynomial]  # by tensor


@dataclass(frozen=True, slots=True)
class _Group:
    """Accesses of one statement to one tensor that differ by constants: linear parts over the
    coordinates, one per stored dimension, and the least and greatest constant of each."""

    linear: tuple[Polynomial, ...]
    low: tuple[Fraction, ...]
    high: tuple[Fraction, ...]
    steps: tuple[tuple[tuple[str, Fraction], ...], ...]  # how far each coordinate moves each index

    passes: int  # 2: what is written comes and goes

    def joined(self, other: _Group) -> _Group:
        low, high = tuple(map(min, self.low, other.low)), tuple(map(max, self.high, other.high))
        return replace(self, low=low, high=high, passes=max(self.passes, other.passes))

    def moves_alone(self, axis: int) -> bool:
        """Whether one coordinate moves index ``axis``, and no other index, and in no window."""
        if len(self.steps[axis]) != 1 or self.low[axis] != self.high[axis]:
            return False
        [(name, _)] = self.steps[axis]
        return sum(name == other for steps in self.steps for other, _ in steps) == 1

    @property
    def independent(self) -> bool:
        """Whether no coordinate moves two indices."""
        names = [name for steps in self.steps for name, _ in steps]
        return len(set(names)) == len(names)


class Traffic:
    """Footprints of the subtrees of ``tree``, and what they come to for a memory of some size."""

    def __init__(self, scop: Scop, tree: Tree, counter: Counter, line: int = 64) -> None:
        self._tree, self._counter, self._line = tree, counter, line
        self._tensors = {t.name: t for t in scop.tensors}
        written = {w.tensor for s in scop.statements for w in s.writes}
        self._passes = {t.name: 2 if t.name in written else 1 for t in scop.tensors}
        self._shapes = {
            t.name: [of_affine(affine(size))[0] for size in t.shape[t.contracted :]]
            for t in scop.tensors
        }
        self._sizes = {t.name: self._size(t) for t in scop.tensors}
        above = paths(tree)
        self.nests = {
            s.name: NestCoordinates(s, [x for x in above[s.name] if isinstance(x, Loop)], counter)
            for s in scop.statements
        }
        self._results = {s.name: frozenset(w.tensor for w in s.writes) for s in scop.statements}
        self._groups = {s.name: self._grouped(s) for s in scop.statements}
        self._held = _held(tree)
        self._iterations: dict[tuple[tuple[str, ...], int], Polynomial] = {}
        self._footprints: dict[tuple[tuple[str, ...], int], tuple[Bytes, Bytes]] = {}

    # ---- footprints -----------------------------------------------------------------------------

    def footprint(self, names: tuple[str, ...], depth: int) -> Bytes:
        """What the statements ``names`` touch in one iteration of the first ``depth`` loops, summed
        over all of these iterations."""
        return self._both(names, depth)[0]

    def iterations(self, names: tuple[str, ...], depth: int) -> Polynomial:
        """How often the first ``depth`` loops around ``names`` run."""
        key = names, depth
        if key not in self._iterations:
            every = [self.nests[name].summed(depth) for name in names]
            self._iterations[key] = max(every, key=self._counter.nominal, default=number(0))
        return self._iterations[key]

    def mean(self, names: tuple[str, ...], depth: int) -> float:
        """Bytes that one iteration touches on average, at the sizes that decisions are for."""
        times = self._counter.nominal(self.iterations(names, depth))
        total = sum(map(self._counter.nominal, self.footprint(names, depth).values()))
        return total / times if times > 0 else 0.0

    def _both(self, names: tuple[str, ...], depth: int) -> tuple[Bytes, Bytes]:
        """The footprint, and what passes when all of it comes, and what is written goes again."""
        key = names, depth
        if key not in self._footprints:
            self._footprints[key] = self._footprint(names, depth)
        return self._footprints[key]

    def _footprint(self, names: tuple[str, ...], depth: int) -> tuple[Bytes, Bytes]:
        found: dict[tuple[str, object], tuple[Polynomial, int]] = {}
        for name in names:
            held = self._results[name] if depth > self._held.get(name, depth) else ()
            for tensor, groups in self._groups[name].items():
                for group in () if tensor in held else groups:
                    key = tensor, group.linear
                    total = self._touched(self.nests[name], self._tensors[tensor], group, depth)
                    old, passes = found.get(key, (Polynomial(), 1))
                    most = old if self._less(total, old) else total
                    found[key] = most, max(passes, group.passes)
        once: Bytes = {}
        moved: Bytes = {}
        for (tensor, _), (total, passes) in found.items():
            once[tensor] = once.get(tensor, Polynomial()) + total
            moved[tensor] = moved.get(tensor, Polynomial()) + total * passes
        times = self.iterations(names, depth)
        for tensor in once:
            whole = self._sizes[tensor] * times
            once[tensor] = self._least(once[tensor], whole)
            moved[tensor] = self._least(moved[tensor], whole * self._passes[tensor])
        return once, moved

    def _touched(
        self, nest: NestCoordinates, tensor: Tensor, group: _Group, depth: int
    ) -> Polynomial:
        """Bytes of ``group`` in one iteration of the first ``depth`` loops, summed over all."""
        line = max(1, self._line // tensor.dtype.itemsize)
        elements, summed = number(1), set[str]()
        last, shape = len(group.steps) - 1, self._shapes[tensor.name]
        for axis, steps in enumerate(group.steps):
            reach = number(1 + group.high[axis] - group.low[axis])
            for name, step in steps:
                reach = reach + nest.span(name, depth) * step - step
            reach = self._least(reach, shape[axis])
            if axis == last and not self._whole_lines(nest, group, depth, line):
                reach = reach + (line - 1)
            elif axis == last and self._less(reach, number(line)):
                reach = number(line)
            elif group.moves_alone(axis) and steps[0][0] not in nest.known(depth):
                summed.add(steps[0][0])  # counted one by one: a triangle, not its hull
                reach = number(1)
            elements = elements * reach
        if not group.independent:
            elements = self._least(elements, self._points(nest, group, depth) * line)
            summed.clear()
        return nest.summed(depth, elements, summed) * tensor.dtype.itemsize

    def _points(self, nest: NestCoordinates, group: _Group, depth: int) -> Polynomial:
        """How many different indices ``group`` has at most."""
        total = number(1)
        for name in sorted({name for steps in group.steps for name, _ in steps}):
            total = total * nest.span(name, depth)
        return total

    def _whole_lines(self, nest: NestCoordinates, group: _Group, depth: int, line: int) -> bool:
        """Whether the last index runs over lines from their begin: a tile that is no window."""
        if not group.moves_alone(len(group.steps) - 1):
            return False
        [(name, step)] = group.steps[-1]
        left = nest.known(depth).get(name)
        begins = left is None or left % line == 0
        return begins and step == 1 and abs(group.low[-1]) <= 1

    def _least(self, one: Polynomial, other: Polynomial) -> Polynomial:
        return other if self._less(other, one) else one

    def _less(self, one: Polynomial, other: Polynomial) -> bool:
        return self._counter.nominal(one) < self._counter.nominal(other)

    def _grouped(self, statement: Statement) -> dict[str, list[_Group]]:
        found: dict[str, dict[object, _Group]] = {}
        accesses = [(access, 2) for access in statement.writes]
        for access, passes in (*accesses, *((access, 1) for access in statement.reads)):
            tensor = self._tensors[access.tensor]
            if tensor.scope == "register":
                continue
            group = self._group(statement, access, tensor, passes)
            same = found.setdefault(access.tensor, {})
            old = same.get(group.linear)
            same[group.linear] = group if old is None else old.joined(group)
        return {tensor: list(groups.values()) for tensor, groups in found.items()}

    def _group(self, statement: Statement, access: Access, tensor: Tensor, passes: int) -> _Group:
        """A data-dependent access moves with every coordinate, as far as the tensor goes."""
        nest, ranges = self.nests[statement.name], _ranges(statement)
        if access.may:
            anywhere = sum(map(symbol, nest.names), Polynomial())
            forms = [anywhere for _ in self._shapes[tensor.name]]
        else:
            indices = (simplify(x, ranges) for x in access.indices[tensor.contracted :])
            forms = [nest.index(affine(index)) for index in indices]
        constants = tuple(form.constant() for form in forms)
        linear = tuple(form - c for form, c in zip(forms, constants, strict=True))
        steps = tuple(
            tuple((name, abs(form.slope(name))) for name in nest.names if form.slope(name))
            for form in linear
        )
        return _Group(linear, constants, constants, steps, passes)

    def _size(self, tensor: Tensor) -> Polynomial:
        """Bytes that ``tensor`` takes."""
        total = number(tensor.dtype.itemsize)
        for size in self._shapes[tensor.name]:
            total = total * size
        return total

    # ---- traffic --------------------------------------------------------------------------------

    def into(self, capacity: int) -> Bytes:
        """Bytes that a memory of ``capacity`` bytes exchanges with the next larger one."""
        return dict(sorted(self._moved(self._tree, 0, capacity).items()))

    def _moved(self, tree: Tree, depth: int, capacity: int) -> Bytes:
        names = statements_below(tree)
        if not names:
            return {}
        if isinstance(tree, Leaf) or self.mean(names, depth) <= capacity:
            return self._both(names, depth)[1]
        match tree:
            case Mark(RegisterTile(), child):
                tile, results = self._both(names, depth)[1], self._results[names[0]]
                streams = self._moved(child, depth, capacity)
                return {**streams, **{t: amount for t, amount in tile.items() if t in results}}
            case Mark(_, child):
                return self._moved(child, depth, capacity)
            case Band(loops, child):
                for inside in range(depth, depth + len(loops)):
                    if self.mean(names, inside + 1) <= capacity:
                        return self._both(names, inside)[1]
                return self._moved(child, depth + len(loops), capacity)
            case TreeSequence(parts):
                return _sum([self._moved(part, depth, capacity) for part in parts])
        return {}


def _ranges(statement: Statement) -> dict[str, Range]:
    """First and last value of the dims that have constants for bounds: an index i // 64 is 0 where
    i stays below."""
    return {
        dim: (int(low.value), int(high.value) - 1)
        for dim, (low, high) in box(statement).items()
        if isinstance(low, Literal) and isinstance(high, Literal)
    }


def _held(tree: Tree) -> dict[str, int]:
    """How many loops are around the register tile of each statement that has one."""
    found: dict[str, int] = {}
    stack = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, Mark) and isinstance(node.payload, RegisterTile):
            found |= dict.fromkeys(statements_below(node), depth)
        inside = depth + (len(node.loops) if isinstance(node, Band) else 0)
        stack.extend((child, inside) for child in children(node))
    return found


def _sum(parts: Sequence[Bytes]) -> Bytes:
    total: Bytes = {}
    for part in parts:
        for tensor, amount in part.items():
            total[tensor] = total.get(tensor, Polynomial()) + amount
    return total


__all__ = ["Bytes", "Traffic"]
