"""How many bytes a schedule moves into a memory of some size, before it runs.

One iteration of a loop touches a footprint: a box for every group of accesses to one tensor that
move together. The model is that of a memory that keeps what was used last:

* what one iteration of a loop touches stays until the next if all of it fits; then the loop as a
  whole brings in each element once;
* the outermost loop of which that is true decides; everything around it brings in its footprint
  anew each time;
* a line is moved whole, and one that is written is moved twice.

See Wolf and Lam, "A data locality optimizing algorithm" (1991); Ferrante, Sarkar and Thrash, "On
estimating and enhancing cache effectiveness" (1991).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from weft.polyhedral.analysis.counting import Counter
from weft.polyhedral.analysis.nest_coordinates import NestCoordinates
from weft.polyhedral.analysis.polynomials import Polynomial, number, of_affine, symbol
from weft.polyhedral.analysis.quasi_affine import affine
from weft.polyhedral.named_isl import paths
from weft.polyhedral.schedule_tree import Band, Leaf, Loop, Mark, Tree, statements_below
from weft.polyhedral.schedule_tree import Sequence as TreeSequence
from weft.polyhedral.scop import Access, Scop, Statement, Tensor

Bytes = dict[str, Polynomial]  # by tensor


@dataclass(frozen=True, slots=True)
class _Group:
    """Accesses of one statement to one tensor that differ by constants: linear parts over the
    coordinates, one per stored dimension, and the least and greatest constant of each."""

    linear: tuple[Polynomial, ...]
    low: tuple[Fraction, ...]
    high: tuple[Fraction, ...]
    steps: tuple[tuple[tuple[str, Fraction], ...], ...]  # how far each coordinate moves each index

    def joined(self, other: _Group) -> _Group:
        low = tuple(map(min, self.low, other.low))
        return replace(self, low=low, high=tuple(map(max, self.high, other.high)))


class Traffic:
    """Footprints of the subtrees of ``tree``, and what they come to for a memory of some size."""

    def __init__(self, scop: Scop, tree: Tree, counter: Counter, line: int = 64) -> None:
        self._tree, self._counter, self._line = tree, counter, line
        self._tensors = {t.name: t for t in scop.tensors}
        self._written = {w.tensor for s in scop.statements for w in s.writes}
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
        self._groups = {s.name: self._grouped(s) for s in scop.statements}
        self._iterations: dict[tuple[tuple[str, ...], int], Polynomial] = {}
        self._footprints: dict[tuple[tuple[str, ...], int], Bytes] = {}

    # ---- footprints -----------------------------------------------------------------------------

    def footprint(self, names: tuple[str, ...], depth: int) -> Bytes:
        """What the statements ``names`` touch in one iteration of the first ``depth`` loops, summed
        over all of these iterations."""
        key = names, depth
        if key not in self._footprints:
            self._footprints[key] = self._footprint(names, depth)
        return self._footprints[key]

    def iterations(self, names: tuple[str, ...], depth: int) -> Polynomial:
        """How often the first ``depth`` loops around ``names`` run."""
        key = names, depth
        if key not in self._iterations:
            every = [self.nests[name].summed(depth) for name in names]
            self._iterations[key] = max(every, key=self._counter.nominal, default=number(0))
        return self._iterations[key]

    def mean(self, names: tuple[str, ...], depth: int) -> Fraction:
        """Bytes that one iteration touches on average, at the sizes that decisions are for."""
        times = self._counter.nominal(self.iterations(names, depth))
        total = sum(map(self._counter.nominal, self.footprint(names, depth).values()), Fraction())
        return total / times if times > 0 else Fraction()

    def _footprint(self, names: tuple[str, ...], depth: int) -> Bytes:
        found: dict[tuple[str, object], Polynomial] = {}
        for name in names:
            for tensor, groups in self._groups[name].items():
                for group in groups:
                    key = tensor, group.linear
                    total = self._touched(self.nests[name], self._tensors[tensor], group, depth)
                    if key not in found or self._more(total, found[key]):
                        found[key] = total
        result: Bytes = {}
        for (tensor, _), total in found.items():
            result[tensor] = result.get(tensor, Polynomial()) + total
        times = self.iterations(names, depth)
        for tensor, total in result.items():
            whole = self._sizes[tensor] * times
            result[tensor] = whole if self._more(total, whole) else total
        return result

    def _more(self, one: Polynomial, other: Polynomial) -> bool:
        return self._counter.nominal(one) > self._counter.nominal(other)

    def _touched(
        self, nest: NestCoordinates, tensor: Tensor, group: _Group, depth: int
    ) -> Polynomial:
        elements, per_line = number(1), max(1, self._line // tensor.dtype.itemsize)
        shape = self._shapes[tensor.name]
        for axis, (steps, low, high) in enumerate(
            zip(group.steps, group.low, group.high, strict=True)
        ):
            reach = number(1 + high - low)
            for name, step in steps:
                reach = reach + nest.span(name, depth) * step - step
            least = min(self._counter.nominal(reach), self._counter.nominal(shape[axis]))
            if least < self._counter.nominal(reach):
                reach = shape[axis]
            if axis == len(group.steps) - 1 and least < per_line:
                reach = number(per_line)
            elements = elements * reach
        return nest.summed(depth, elements) * tensor.dtype.itemsize

    def _grouped(self, statement: Statement) -> dict[str, list[_Group]]:
        found: dict[str, dict[object, _Group]] = {}
        for access in (*statement.writes, *statement.reads):
            tensor = self._tensors[access.tensor]
            if tensor.scope == "register":
                continue
            group = self._group(statement, access, tensor)
            same = found.setdefault(access.tensor, {})
            old = same.get(group.linear)
            same[group.linear] = group if old is None else old.joined(group)
        return {tensor: list(groups.values()) for tensor, groups in found.items()}

    def _group(self, statement: Statement, access: Access, tensor: Tensor) -> _Group:
        """A data-dependent access moves with every coordinate, as far as the tensor goes."""
        nest = self.nests[statement.name]
        if access.may:
            anywhere = sum(map(symbol, nest.names), Polynomial())
            forms = [anywhere for _ in self._shapes[tensor.name]]
        else:
            forms = [nest.index(affine(x)) for x in access.indices[tensor.contracted :]]
        constants = tuple(form.constant() for form in forms)
        linear = tuple(form - c for form, c in zip(forms, constants, strict=True))
        steps = tuple(
            tuple((name, abs(form.slope(name))) for name in nest.names if form.slope(name))
            for form in linear
        )
        return _Group(linear, constants, constants, steps)

    def _size(self, tensor: Tensor) -> Polynomial:
        """Bytes that ``tensor`` takes."""
        total = number(tensor.dtype.itemsize)
        for size in self._shapes[tensor.name]:
            total = total * size
        return total

    # ---- traffic --------------------------------------------------------------------------------

    def into(self, capacity: int) -> Bytes:
        """Bytes that a memory of ``capacity`` bytes exchanges with the next larger one."""
        moved = self._moved(self._tree, 0, capacity)
        return {
            tensor: total * (2 if tensor in self._written else 1)
            for tensor, total in sorted(moved.items())
        }

    def _moved(self, tree: Tree, depth: int, capacity: int) -> Bytes:
        names = statements_below(tree)
        if not names:
            return {}
        if isinstance(tree, Leaf) or self.mean(names, depth) <= capacity:
            return self.footprint(names, depth)
        match tree:
            case Mark(_, child):
                return self._moved(child, depth, capacity)
            case Band(loops, child):
                for inside in range(depth, depth + len(loops)):
                    if self.mean(names, inside + 1) <= capacity:
                        return self.footprint(names, inside)
                return self._moved(child, depth + len(loops), capacity)
            case TreeSequence(parts):
                return _sum([self._moved(part, depth, capacity) for part in parts])
        return {}


def _sum(parts: Sequence[Bytes]) -> Bytes:
    total: Bytes = {}
    for part in parts:
        for tensor, amount in part.items():
            total[tensor] = total.get(tensor, Polynomial()) + amount
    return total


__all__ = ["Bytes", "Traffic"]
